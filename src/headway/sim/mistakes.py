"""Mistakes in policies and placements from outside: Python that is called back from compiled code and raises.

Compiled code calls policies by their address and has no way to pass an exception on: Python would print it, go on with whatever number
was there, and the run would end with figures that mean nothing. Here it is kept, and raised when the compiled code returns.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headway.core.errors import HeadwayError


@contextmanager
def told() -> Iterator[None]:
    """Raise what callbacks raised in this block: an interrupt as it is, a mistake in one line with its place."""
    kept: list[BaseException] = []
    before = sys.unraisablehook

    def keep(lost: Any) -> None:
        if "numba" not in str(lost.object) or lost.exc_value is None:
            before(lost)
        elif not kept:
            kept.append(lost.exc_value)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = before
    if kept and not isinstance(kept[0], Exception):
        raise kept[0]
    if kept:
        at = traceback.extract_tb(kept[0].__traceback__)[-1]
        raise HeadwayError(
            f"a policy or placement from outside failed: {type(kept[0]).__name__}: {kept[0]} ({at.filename}, line {at.lineno})"
        ) from kept[0]
