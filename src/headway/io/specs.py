"""Names of policies, placements and workloads with options: `NAME?option=value&option=value`."""

import re
from collections.abc import Iterable, Mapping

from headway.errors import BadInput, unknown
from headway.io.json_file import shown
from headway.io.numbers import MOST_NUMBER, MOST_WHOLE, Range, plain_number

# Names end up in tables, commands and on terminals: nothing that one of them could take for more than a name.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}")


def split(spec: str) -> tuple[str, dict[str, str]]:
    """The name and its options: ``split("philly?jobs=9&seed=1")`` is ``("philly", {"jobs": "9", "seed": "1"})``."""
    name, mark, query = spec.partition("?")
    if mark and not query:
        raise BadInput(f"{spec!r}: no option follows the '?': write NAME=VALUE after it, or leave it out")
    options: dict[str, str] = {}
    for part in query.split("&") if query else []:
        key, equals, value = part.partition("=")
        if not key or not equals or not value:
            raise BadInput(f"{spec!r}: option {part!r} is not NAME=VALUE")
        if key in options:
            raise BadInput(f"{spec!r}: option {key!r} is given twice")
        options[key] = value
    return name, options


def check(options: Mapping[str, str], known: Iterable[str], what: str) -> None:
    """Refuse an option that `what` does not have, naming the closest one."""
    names = tuple(known)
    for key in options:
        if not names:
            raise BadInput(f"{what} takes no options: leave out {key!r}")
        if key not in names:
            raise unknown(f"option of {what}", key, names)


def number(options: Mapping[str, str], key: str, zero: bool = False) -> float:
    """Return an option that is a number above 0; with `zero`, 0 is allowed too."""
    value = plain_number(options[key])
    if value is None or not (0 < value <= MOST_NUMBER or (zero and value == 0)):
        bounds = f"{'of at least' if zero else 'above'} 0 and at most {MOST_NUMBER:g}"
        raise BadInput(f"{key}={options[key]} must be a number {bounds}")
    return value


def check_name(what: str, name: str) -> None:
    """Refuse a name that says more than a name: brackets, quotes, control characters."""
    if not NAME.fullmatch(name):
        allowed = "at most 64 letters, digits, spaces and . _ : / + -"
        raise BadInput(f"{what} {ascii(name)[:80]}: a name is {allowed}, and begins with a letter or a digit")


def whole(options: Mapping[str, str], key: str, default: int, least: int, most: int = MOST_WHOLE) -> int:
    """Return a whole-number option from `least` to `most`."""
    text = options.get(key, str(default))
    allowed = Range(least, most, whole=True)
    value = allowed.read(text)
    if value is None:
        raise BadInput(f"{key}={shown(text)} must be {allowed}")
    return int(value)


# Name: (module, what it does, options with their defaults).
Table = Mapping[str, tuple[str, str, Mapping[str, str]]]


def check_named(kind: str, spec: str, table: Table) -> None:
    """Refuse a name or an option that a table (name: module, summary, options) does not have, naming the closest."""
    name, options = split(spec)
    if name not in table:
        raise unknown(kind, name, table)
    check(options, table[name][2], f"{kind} {name}")
