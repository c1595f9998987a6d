"""A workload: the jobs of a trace, in columns, in the order that breaks ties (submit time, then order in the file)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput


@dataclass(frozen=True, slots=True)
class Workload:
    """Columns of equal length, sorted by `submit_s` (stable). Unknown text is "", and no column is ever None."""

    name: str
    job_id: NDArray[np.str_]
    submit_s: NDArray[np.float64]
    gpus: NDArray[np.int32]
    duration_s: NDArray[np.float64]
    user: NDArray[np.str_]
    queue: NDArray[np.str_]
    model: NDArray[np.str_]
    title: NDArray[np.str_]  # what its user calls it: only jobs of a live manager have one
    preemptible: NDArray[np.bool_]
    limit_s: NDArray[np.float64]  # the run time that was asked for; infinity: not known
    nodes: NDArray[np.int32]  # exact number of nodes, with equally many GPUs on each; 0: the placement chooses
    gpu_type: NDArray[np.str_]  # GPU type of its nodes; "": any
    features: NDArray[np.str_]  # features that its nodes must have, separated by ";"; `a|b` is one of them
    # What biases a study of this trace (caps, missing queueing time, rounded GPUs), one sentence each.
    caveats: tuple[str, ...] = ()
    # Rows that the reader left out, by reason: {"status Failed": 12}.
    skipped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, rows: NDArray[Any]) -> "Workload":
        """Return the jobs at `rows` (indices or a mask) in their order; this workload if a mask selects all jobs."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **columns)


TYPES: dict[str, Any] = {
    **{"job_id": np.str_, "submit_s": np.float64, "gpus": np.int32, "duration_s": np.float64},
    **{"user": np.str_, "queue": np.str_, "model": np.str_, "title": np.str_},
    **{"preemptible": np.bool_, "limit_s": np.float64},
    **{"nodes": np.int32, "gpu_type": np.str_, "features": np.str_},
}
COLUMNS = tuple(TYPES)
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("user", "queue", "model", "title", "gpu_type", "features"), ""),
    **{"nodes": 0, "preemptible": True, "limit_s": np.inf},
}
CONSTRAINTS = ("nodes", "gpu_type", "features")  # columns that few workloads have
SEPARATOR = ";"  # between features
Texts = Sequence[str] | NDArray[Any] | None


class OtherColumns(TypedDict, total=False):
    """Columns that a workload may lack: ids become row numbers, texts "", jobs are preemptible, without time limit, on any nodes."""

    job_id: Texts
    user: Texts
    queue: Texts
    model: Texts
    title: Texts
    preemptible: Sequence[bool] | NDArray[Any] | None
    limit_s: Sequence[float] | NDArray[Any] | None
    nodes: Sequence[int] | NDArray[Any] | None
    gpu_type: Texts
    features: Texts


def workload(
    name: str,
    submit_s: Sequence[float] | NDArray[Any],
    gpus: Sequence[int] | NDArray[Any],
    duration_s: Sequence[float] | NDArray[Any],
    *,
    caveats: tuple[str, ...] = (),
    skipped: dict[str, int] | None = None,
    **others: Unpack[OtherColumns],
) -> Workload:
    """Build a workload from columns in any order of time; missing columns are filled."""
    unknown = set(others) - OtherColumns.__optional_keys__
    if unknown:
        raise TypeError(f"a workload has no column {', '.join(sorted(unknown))}")
    submit = np.asarray(submit_s, np.float64)
    n = len(submit)
    if n == 0:
        raise BadInput(f"{name}: the trace is empty: it needs at least one job")
    is_sorted = bool((submit[:-1] <= submit[1:]).all())
    order = slice(None) if is_sorted else np.argsort(submit, kind="stable")
    given = {**others, "submit_s": submit, "gpus": gpus, "duration_s": duration_s}
    # A missing column repeats one value in memory.
    columns: dict[str, Any] = {
        name: np.broadcast_to(np.array(value, TYPES[name]), n) for name, value in DEFAULTS.items()
    }
    if given.get("job_id") is None:
        given["job_id"] = np.arange(n).astype(np.str_)
    for column, values in given.items():
        if values is not None:
            columns[column] = np.asarray(values, TYPES[column])[order]
    return Workload(name, **columns, caveats=caveats, skipped=skipped or {})
