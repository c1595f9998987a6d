"""Mistakes in policies and placements: one line with the place, instead of a traceback through compiled code."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from headway.errors import HeadwayError

# What core itself raises over a mistake of a policy or placement: the exception, the file, and what to say (else the exception does).
KNOWN = (
    (
        AssertionError,
        "order.py",
        "the order of jobs broke: does the policy's key return NaN for some job? It must return two numbers",
    ),
    (
        AssertionError,
        "timers.py",
        "too many timers: the policy's change(job, now, options) must return a time after now, or infinity",
    ),
    (ValueError, "decide.py", ""),
    (ValueError, "tables/actions.py", ""),
)


@contextmanager
def explained() -> Iterator[None]:
    """Turn what compiled code, or what it called back, raises in this block into one line."""
    try:
        yield
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where, inside = f"{at.filename}, line {at.lineno}", at.filename.replace("\\", "/").partition("headway/core/")[2]
        for kind, file, said in KNOWN:
            if isinstance(error, kind) and inside == file:
                raise HeadwayError(said or str(error)) from error
        raise HeadwayError(f"the policy or placement failed: {type(error).__name__}: {error} ({where})") from error
