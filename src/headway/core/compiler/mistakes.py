"""Mistakes in policies and placements: one line with the place, instead of a traceback through compiled code."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from headway.errors import HeadwayError


@contextmanager
def explained() -> Iterator[None]:
    """Turn what compiled code, or what it called back, raises in this block into one line."""
    try:
        yield
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{at.filename}, line {at.lineno}"
        if isinstance(error, AssertionError) and at.filename.replace("\\", "/").endswith("core/order.py"):
            raise HeadwayError(
                "the order of jobs broke: does the policy's key return NaN for some job? It must return two numbers"
            ) from error
        raise HeadwayError(f"the policy or placement failed: {type(error).__name__}: {error} ({where})") from error
