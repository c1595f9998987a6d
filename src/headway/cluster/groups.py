"""Groups of jobs that a policy learns about: which row of the table of groups a job has (core/tables/groups.py)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.tables.groups import EVERY

MOST_GROUPS: Final = 65_536  # jobs of further groups count among all jobs only
Label = tuple[str, ...]


def row_of(rows: dict[Label, int], label: Label) -> int:
    """The row of a group, which gets the next one if it has none; EVERY where nothing is known of the job, or there are too many groups."""
    if not any(label) or (label not in rows and len(rows) >= MOST_GROUPS):
        return EVERY
    return rows.setdefault(label, len(rows) + 1)


def groups_of(fields: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int32], int]:
    """The row of each job, and how many rows there are. Groups are numbered as they come."""
    rows: dict[Label, int] = {}
    if not fields:
        return np.zeros(len(columns["gpus"]), np.int32), EVERY + 1
    labels = zip(*(columns[field].astype(str).tolist() for field in fields), strict=True)
    return np.array([row_of(rows, label) for label in labels], np.int32), len(rows) + 1
