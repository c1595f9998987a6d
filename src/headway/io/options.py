"""Options declared once, as the annotated parameters of a function: `def make(quantum: Quantum = 60.0)`.

`Quantum` is `Annotated[float, Option(help, read, show)]`. The parameter gives the name and the default. Parsing, error messages and lists
of options follow from the signature.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from headway.errors import BadInput
from headway.io import specs, units


@dataclass(frozen=True, slots=True)
class Option:
    """How an option is explained, read and shown. `read(name, text)` returns the value or raises BadInput."""

    help: str
    read: Callable[[str, str], Any]
    show: Callable[[Any], str] = str  # the default as lists show it


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with the default that a function gives it."""

    option: Option
    default: Any

    @property
    def shown(self) -> str:
        """The default as lists show it."""
        return self.option.show(self.default)


def declared(make: Callable[..., Any]) -> dict[str, Declared]:
    """Return the options of a function by name, in the order of its parameters."""
    parameters = inspect.signature(make).parameters.values()
    return {each.name: Declared(_option(each.annotation), each.default) for each in parameters}


def _option(annotation: Any) -> Option:
    (option,) = (part for part in get_args(annotation) if isinstance(part, Option))
    return option


def call(make: Callable[..., Any], written: Mapping[str, str]) -> Any:
    """Call a function with options as they are written."""
    known = declared(make)
    return make(**{name: known[name].option.read(name, text) for name, text in written.items()})


def number(name: str, text: str) -> float:
    """Read a number above 0."""
    return specs.number({name: text}, name)


def number_or_0(name: str, text: str) -> float:
    """Read a number of at least 0."""
    return specs.number({name: text}, name, zero=True)


def number_or_inf(name: str, text: str) -> float:
    """Read a number above 0, or `inf`."""
    return math.inf if text == "inf" else number_or_word(name, text, "inf")


def number_or_word(name: str, text: str, word: str) -> float:
    """Read a number above 0. The error names the word that the option takes too."""
    try:
        return number(name, text)
    except BadInput as error:
        raise BadInput(f"{error}, or {word}") from None


def whole(least: int, most: int) -> Callable[[str, str], int]:
    """Return a reader of whole numbers from `least` to `most`."""
    return lambda name, text: specs.whole({name: text}, name, least, least, most)


def time_or_inf(name: str, text: str) -> float:
    """Read a time in seconds, such as 1h, or `inf`."""
    try:
        return math.inf if text == "inf" else units.seconds(text)
    except BadInput as error:
        raise BadInput(f"{name} is inf or a time; {error}") from None


def show_number(value: float) -> str:
    """Return a number without needless digits."""
    return f"{value:g}"


def show_time(value: float) -> str:
    """Return seconds in the largest unit that divides them, such as 1h, or `inf`."""
    if math.isinf(value):
        return "inf"
    unit = next(unit for unit in ("w", "d", "h", "m", "s") if value % units.SECONDS[unit] == 0 or unit == "s")
    return f"{value / units.SECONDS[unit]:g}{unit}"
