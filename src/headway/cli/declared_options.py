"""Options of a command that are declared elsewhere, such as the fields of an experiment: `io/command_option.py` says how."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer

from headway.cli.manager_options import number_option
from headway.io.command_option import CommandOption, flag_of

Command = TypeVar("Command", bound=Callable[..., None])


def as_typer(option: CommandOption, **changed: Any) -> Any:
    """Return the option as the default of a command's parameter; `changed` replaces its default or its help."""
    default, help = changed.get("default", option.default), changed.get("help", option.help)
    if option.argument:
        return typer.Argument(default, metavar=option.metavar, help=help)
    flags = (flag_of(option), option.short) if option.short else (flag_of(option),)
    if option.allowed is not None:
        return number_option(option.allowed, default, *flags, help=help)
    if option.kind == list[str]:
        help = help.removesuffix(".") + "; repeatable."
    return typer.Option(default, *flags, help=help, metavar=option.metavar, envvar=option.variable)


def takes(
    options: Mapping[str, CommandOption], own: dict[str, str] | None = None, **defaults: Any
) -> Callable[[Command], Command]:
    """Let a command that has `**given` take these options. They come before its own parameters that are keywords only.

    `own` names the parameters of the command that stand in the place of an option; `defaults` replace those declared.
    """

    def extended(command: Command) -> Command:
        signature = inspect.signature(command)
        others = {name: value for name, value in signature.parameters.items() if value.kind is not value.VAR_KEYWORD}
        first = [others.pop(name) for name, value in [*others.items()] if value.kind is not value.KEYWORD_ONLY]
        declared = [
            others.pop(own[name]) if own and name in own else _parameter(option, defaults)
            for name, option in options.items()
        ]
        # Keyword only: then a parameter without a default may follow one with a default.
        every = [value.replace(kind=value.KEYWORD_ONLY) for value in (*first, *declared, *others.values())]
        command.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        return command

    return extended


def _parameter(option: CommandOption, defaults: Mapping[str, Any]) -> inspect.Parameter:
    default = defaults.get(option.name, option.default)
    kind: Any = option.kind | None if default is None else option.kind
    declared = as_typer(option, default=default)
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=kind)
