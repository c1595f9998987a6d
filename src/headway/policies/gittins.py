"""gittins: 2D-Gittins index from the GPU-time of jobs that ended (Tiresias, section 3.2.2). Never from the future.

If preemption costs time, a running job counts with twice its index: only a clearly better job preempts it. Indices of similar jobs cross
all the time, and every crossing would cost a preemption. The index is the one printed in the paper; `index=plotted` is the curve on its
slides (docs/decisions/0004-gittins.md).

Jobs without an index come last, by attained GPU-time rounded down to a power of two, then by first start. Without the rounding, equal jobs
would take turns, none would end, and there would never be an index.
"""

from math import floor, inf, log2
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from headway.core.history import gittins, held
from headway.core.protocols import Policy
from headway.core.tables.jobs import served
from headway.core.tables.options import Options
from headway.errors import unknown
from headway.io.options import Option
from headway.io.samples import read_samples
from headway.policies import DefragmentAfter, Quantum

INDICES = ("printed", "plotted")


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """Sort by index, highest first; then jobs without an index, by power of two of attained GPU-seconds and first start."""
    attained = served(job, now)
    index = held(job, gittins(options.history, attained, options.plotted))
    if index == 0.0:
        return float(floor(log2(max(1.0, attained)))), job.first
    return -index, 0.0


SUMMARY = "2D-Gittins index from the jobs that ended so far (fitted again for every hundredth more), or from a file"


def _read_index(name: str, text: str) -> str:
    if text not in INDICES:
        raise unknown(f"{name} of gittins", text, INDICES)
    return text


Index = Annotated[
    str,
    Option("the Gittins index as printed in the paper, or as plotted in its slides", _read_index),
]
Distribution = Annotated[
    NDArray[np.float64] | None,
    Option(
        "a file of GPU-seconds to work the index out from, one number per line",
        read_samples,
        lambda _: "the jobs that ended",
    ),
]


def make(
    index: Index = "printed",
    distribution: Distribution = None,
    quantum: Quantum = 60.0,
    defragment_after: DefragmentAfter = inf,
) -> Policy:
    """Return the policy."""
    return Policy(
        "gittins",
        key,
        dynamic_keys=True,
        learns=True,
        plotted=index == "plotted",
        samples=distribution,
        quantum=quantum,
        defragment_after=defragment_after,
    )
