"""Errors that a user can act on: each says what is wrong, where, and what to do.

Programs decide by the class, the `code` and the `fields` of an error, never by its message.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


class HeadwayError(Exception):
    """An expected failure: one line for the user, never a traceback. The command line exits with `exit_code`.

    `code` names the kind of failure for programs, and `fields` has the values that the message is made of.
    """

    exit_code = 1
    code = "failed"

    def __init__(self, message: str = "", fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.fields: dict[str, Any] = dict(fields or {})


class BadInput(HeadwayError):
    """Input that cannot be used: names the file, line and field where there is one, and the fix."""

    code = "bad_input"


def wrong_field(field: str, problem: str) -> BadInput:
    """Return the error about one field of a request or a job file: its message begins with the name of the field."""
    return BadInput(f"{field}: {problem}", {"field": field})


class ImpossibleJobs(BadInput):
    """Jobs of a workload that can never start; `advice` says how to leave them out, without the option (empty: no job would be left)."""

    code = "impossible_jobs"

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem + (f"{advice} with --skip-impossible" if advice else ""))
        self.fields = {"problem": problem, "advice": advice}

    def with_option(self, option: str) -> str:
        """Return the message with another spelling of the option, such as that of a sweep file."""
        problem, advice = self.fields["problem"], self.fields["advice"]
        return f"{problem}{advice} with {option}" if advice else str(problem)


def unknown(kind: str, given: str, known: Iterable[str]) -> BadInput:
    """An unknown name, with the closest one that exists: ``unknown("policy", "tiresis-l", [...])``."""
    names = sorted(known)
    close = closest(given, names)
    hint = f"did you mean {close!r}?" if close else f"one of: {', '.join(names)}"
    return BadInput(f"unknown {kind} {given!r}: {hint}")


def closest(given: str, known: Iterable[str]) -> str:
    """Return the known name that is most like the given one; empty: none is."""
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(given.lower(), lower, n=1, cutoff=0.5)
    return lower[close[0]] if close else ""
