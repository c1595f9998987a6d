"""The fields of an experiment as options of the command line; what they mean and how they are checked is in `sim.experiment`."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from headway.cli.manager_options import number_option
from headway.sim.experiment import flag_of, options

Command = TypeVar("Command", bound=Callable[..., None])


def option(name: str, **changed: Any) -> Any:
    """One field as the default of a command's parameter; `changed` replaces its default or its help."""
    field = options()[name]
    default, help = changed.get("default", field.default), changed.get("help", field.help)
    if name == "trace":
        return typer.Argument(default, metavar="TRACE", help=help)
    if field.allowed is not None:
        return number_option(field.allowed, default, flag_of(field), help=help)
    return typer.Option(default, flag_of(field), help=help)


def takes_experiment(own: dict[str, str] | None = None, **defaults: Any) -> Callable[[Command], Command]:
    """Let a command that has `**given` take every field of an experiment, before its own parameters.

    `own` names the parameters of the command that stand in the place of a field; `defaults` replace those of the experiment.
    """

    def extended(command: Command) -> Command:
        signature = inspect.signature(command)
        others = {one.name: one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD}
        first = [others.pop(own[name]) if own and name in own else _parameter(name, defaults) for name in options()]
        # By keyword only: then a parameter without a default may follow one that has it.
        both = [one.replace(kind=one.KEYWORD_ONLY) for one in (*first, *others.values())]
        command.__signature__ = signature.replace(parameters=both)  # type: ignore[attr-defined]
        return command

    return extended


def _parameter(name: str, defaults: dict[str, Any]) -> inspect.Parameter:
    field = options()[name]
    default = option(name, **({"default": defaults[name]} if name in defaults else {}))
    kind: Any = field.kind | None if defaults.get(name, field.default) is None else field.kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
