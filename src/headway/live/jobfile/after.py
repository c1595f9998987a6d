"""Dependencies of a job: `12` or `ok:12` (it completed), `any:12` (it ended), `notok:12` (it did not complete), `singleton`.

Slurm's words for these (`afterok:12`) mean the same. A singleton waits for every earlier job of its user and name to end.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from headway.io.numbers import JOB_NUMBER

OK, ANY, NOTOK, SINGLETON = "ok", "any", "notok", "singleton"
WORDS: Final = {OK: "must complete", ANY: "must end", NOTOK: "must fail or be cancelled"}
_NEED = re.compile(rf"(?:(?:after)?(ok|any|notok):)?({JOB_NUMBER})")
HOW: Final = "write a job's number (it must complete), any:12, notok:12 or singleton"


@dataclass(frozen=True, slots=True)
class Need:
    """One job (or array) to wait for, and how it must end."""

    kind: str
    job: int


def read_need(value: Any) -> Any:
    """Return a dependency as the journal stores it: a number, `any:12`, `notok:12` or `singleton`; ValueError for other text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(HOW)
    text = str(value).strip().lower()
    if text == SINGLETON:
        return text
    match = _NEED.fullmatch(text)
    if not match:
        raise ValueError(f"{value!r}: {HOW}")
    number = int(match[2])
    return number if match[1] in (None, OK) else f"{match[1]}:{number}"


def as_need(stored: int | str) -> Need:
    """Return the meaning of a stored dependency other than `singleton`."""
    if isinstance(stored, int):
        return Need(OK, stored)
    kind, _, number = stored.partition(":")
    return Need(kind, int(number))
