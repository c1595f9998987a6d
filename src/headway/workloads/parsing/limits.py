"""What no job of any trace exceeds: larger values are mistakes, and the engine could not store them."""

import numpy as np
from numpy.typing import NDArray

# More than the processors of any machine; the job table holds 32-bit numbers.
MOST_GPUS = 10_000_000
# 30,000 years: dates as seconds since 1970 stay far below, and seconds stay exact to the millisecond.
MOST_S = 1e12


def plain(value: float) -> float | int:
    """A number as a person would write it: -1, not -1.0."""
    return int(value) if value % 1 == 0 else float(value)


def wrong_gpus(values: NDArray[np.float64]) -> tuple[int, str] | None:
    """The first row with a fraction of a GPU or too many GPUs, and what is wrong with it; absent values are not wrong."""
    known = np.nan_to_num(values)
    wrong = (known % 1 != 0) | (known > MOST_GPUS)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    what = f"is more than {MOST_GPUS:,} GPUs" if known[row] > MOST_GPUS else "is not a whole number of GPUs"
    return row, f"{plain(known[row])!r} {what}"
