"""Parsing of numbers written in the digits 0 to 9. Python itself also accepts 1_2 and the digits of other scripts."""

import math
import re
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

# Enough for any count; more digits are a typing error.
MOST_DIGITS = 18
# What compiled code can hold.
MOST_WHOLE = 2**63 - 1
# Above every quantity of a simulation: 10 million GPUs for 30,000 years are 1e19 GPU-seconds.
MOST_NUMBER = 1e20
# The number of a job, as a pattern; the API takes numbers up to 2^53.
JOB_NUMBER = "[1-9][0-9]{0,15}"
NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}")
_NUMBER = re.compile(NUMBER)


def plain_whole(text: str) -> int | None:
    """Return a whole number without a sign, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def plain_number(text: str) -> float | None:
    """Return a finite number, or None."""
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that an option takes, both ends included."""

    least: float
    most: float
    whole: bool = False

    def __contains__(self, value: Any) -> bool:
        number = isinstance(value, Integral if self.whole else Real) and not isinstance(value, bool)
        return number and bool(self.least <= value <= self.most)

    def read(self, text: str) -> float | None:
        """Return the number that a person wrote, or None if this range does not hold it."""
        if not (_WHOLE if self.whole else _NUMBER).fullmatch(text):
            return None
        value = int(text) if self.whole else float(text)
        return value if value in self else None

    def __str__(self) -> str:
        form = ",d" if self.whole else "g"
        return f"a {'whole ' if self.whole else ''}number from {self.least:{form}} to {self.most:{form}}"


# For counts such as jobs and lines; if a limit depends on something else, such as the cluster, it is checked there.
COUNT, FROM_ZERO = Range(1, 10**9, whole=True), Range(0, 10**9, whole=True)
PORT = Range(0, 65_535, whole=True)
