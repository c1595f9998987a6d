"""Errors that a user can act on: each says what is wrong, where, and what to do."""

import difflib
from collections.abc import Iterable


class HeadwayError(Exception):
    """An expected failure: one line for the user, never a traceback. The command line exits with `exit_code`."""

    exit_code = 1


class BadInput(HeadwayError):
    """Input that cannot be used: names the file, line and field where there is one, and the fix."""


def unknown(kind: str, given: str, known: Iterable[str]) -> BadInput:
    """An unknown name, with the closest one that exists: ``unknown("policy", "tiresis-l", [...])``."""
    names = sorted(known)
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(given.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[close[0]]!r}?" if close else f"one of: {', '.join(names)}"
    return BadInput(f"unknown {kind} {given!r}: {hint}")
