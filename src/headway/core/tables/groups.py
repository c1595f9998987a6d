"""Groups of jobs, such as one user's jobs, with the numbers that a policy learnt from their ended jobs.

The policy defines the groups (`Policy.group`) and the numbers (`Policy.ended`). Only `record` writes the rows.
"""

from typing import Any, Final

import numpy as np
from numba import typeof
from numpy.typing import NDArray

EVERY: Final = 0  # the row for all jobs; those without a group have it too
OWN: Final = 8  # numbers that a policy may keep of each group
GROUP: Final = np.dtype(
    [
        ("row", "i8"),  # its own number
        ("jobs", "i8"),  # that ended, counted by the engine before the policy is told of one
        ("own", "f8", (OWN,)),
    ]
)


def group_table(rows: int, before: NDArray[Any] | None = None) -> NDArray[Any]:
    """Rows of groups of which nothing is known, after those of a smaller table."""
    table = np.zeros(rows, GROUP)
    table["row"] = np.arange(rows)
    if before is not None:
        table[: len(before)] = before
    return table


GROUP_TYPE = typeof(group_table(1)[0])
