"""An option of a command, declared once beside the value that it sets.

`CommandOption` annotates the fields of a plain dataclass, such as an experiment or the options of `serve`; `options_of` reads them. The
options of the command line, their checks, messages and defaults follow. The fields of a job file are declared in
`live/jobfile/options.py`. This module does not load pydantic, which a command would wait for.
"""

import os
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from headway.errors import BadInput
from headway.io.numbers import Range

# Takes the option and a value; returns the value to keep, or raises BadInput.
Check = Callable[["CommandOption", Any], Any]
KINDS = (bool, int, float, Path)
WORD = re.compile(r"[A-Za-z0-9_.:+-]+")  # of a GPU type or a feature, as in cluster files


def as_given(option: "CommandOption", value: Any) -> Any:
    """Return the value; a path as text, except for options that are paths, and a list as a tuple."""
    if isinstance(value, os.PathLike) and option.kind is not Path:
        return os.fsdecode(value)
    return tuple(value) if option.kind == list[str] else value


@dataclass(frozen=True, slots=True)
class CommandOption:
    """The declaration of an option: its help, its names and its check."""

    help: str
    check: Check = as_given
    flag: str = ""  # on the command line, if it is not the field's name; `on/--off` for a switch with both
    short: str = ""  # such as -n
    metavar: str | None = None
    variable: str | None = None  # of the environment, which may hold the value too
    allowed: Range | None = None  # of a number, which then needs no other check
    argument: bool = False  # the value stands alone, without a flag
    name: str = ""  # of the field
    kind: Any = str  # on the command line and in tables
    default: Any = ...  # of the field; `...`: it is required

    @property
    def word(self) -> str:
        """Return the name on the command line: `from`, not `start`."""
        return self.flag or self.name

    @property
    def words(self) -> str:
        """Return the name for messages, with spaces."""
        return self.name.replace("_", " ")

    def checked(self, value: Any) -> Any:
        """Return the value that the field stores, or raise BadInput."""
        if value is None and self.default is None:
            return value
        if self.allowed is None:
            return self.check(self, value)
        if value not in self.allowed:
            raise BadInput(f"{self.words} {value!r} is not {self.allowed}")
        return self.kind(value)  # also one of NumPy

    def written(self, value: Any) -> list[str]:
        """Return the words of a command line that give the option this value."""
        if self.argument:
            return [str(value)]
        if self.kind is bool:
            return [flag_of(self)] * value
        return [word for item in (value if self.kind == list[str] else [value]) for word in (flag_of(self), str(item))]


def flag_of(option: CommandOption) -> str:
    """Return the option as the command line has it."""
    return "--" + option.word.replace("_", "-")


def checked_word(option: CommandOption, value: Any) -> Any:
    """Return the name of a GPU type or a feature, or a tuple of such names; refuse text that jobs cannot ask for."""
    for word in [value] if isinstance(value, str) else value:
        if word and not WORD.fullmatch(word):
            raise BadInput(f"{flag_of(option)} {word!r}: use letters, digits, and any of _ . : + - without spaces")
    return as_given(option, value)


@cache
def options_of(model: Any) -> Mapping[str, Any]:
    """Return the options of a dataclass by field, each with the field's name, type and default."""
    by_name = {}
    for field in fields(model):
        annotated: Any = field.type
        default = ... if field.default is MISSING else field.default
        kind = _kind(annotated.__origin__)
        by_name[field.name] = replace(annotated.__metadata__[0], name=field.name, kind=kind, default=default)
    return by_name


def _kind(annotation: Any) -> Any:
    """Return the type of an option's value on the command line."""
    if get_origin(annotation) is tuple:
        return list[str]
    allowed = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return next((kind for kind in KINDS if {kind} == {*allowed} - {type(None)}), str)


def check_fields(value: Any) -> None:
    """Check every field of a frozen dataclass with options, and keep what the checks return."""
    model: Any = type(value)
    for name, option in options_of(model).items():
        object.__setattr__(value, name, option.checked(getattr(value, name)))
