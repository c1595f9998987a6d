"""gittins: 2D-Gittins index from the GPU-time of jobs that ended (Tiresias, section 3.2.2). Never from the future.

A job that runs counts with twice its index where stopping it costs time, so that it is stopped only for one that is clearly better: indices
of jobs alike cross all the time, and every crossing would cost a stop. The index is the one printed in the paper; `index=plotted` is the
curve its slides draw (docs/decisions/0004-gittins.md).
"""

from typing import Any

from headway.core.history import gittins, held
from headway.core.protocols import Policy
from headway.core.tables.jobs import served
from headway.core.tables.options import Options


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By index, highest first; where nothing is known, by attained service, after the others."""
    attained = served(job, now)
    index = held(job, gittins(options.history, attained, options.plotted))
    return -index, attained if index == 0.0 else 0.0


POLICY = Policy("gittins", key, moving=True, learns=True, tidies=True, quantum=60.0)
