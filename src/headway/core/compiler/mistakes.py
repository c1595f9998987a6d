"""Mistakes in policies and placements: one line with the place, instead of a traceback through compiled code."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from headway.errors import HeadwayError

# What a failed assertion of core says about the policy, by file.
BROKEN = {
    "order.py": "the order of jobs broke: does the policy's key return NaN for some job? It must return two numbers",
    "timers.py": "too many timers: the policy's change(job, now, options) must return a time after now, or infinity",
}
# Files of core that refuse what a policy or a placement did, in words of their own.
REFUSING = ("deciding/offers.py", "deciding/releasing.py", "tables/actions.py", "decide.py", "timers.py")


@contextmanager
def explained() -> Iterator[None]:
    """Turn what compiled code, or what it called back, raises in this block into one line."""
    try:
        yield
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where, inside = f"{at.filename}, line {at.lineno}", at.filename.replace("\\", "/").partition("headway/core/")[2]
        if isinstance(error, AssertionError) and inside in BROKEN:
            raise HeadwayError(BROKEN[inside]) from error
        if isinstance(error, ValueError) and inside in REFUSING:
            raise HeadwayError(str(error)) from error
        raise HeadwayError(f"the policy or placement failed: {type(error).__name__}: {error} ({where})") from error
