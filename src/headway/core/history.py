"""The Gittins index of a job from the GPU-seconds of jobs that ended (Tiresias, section 3.2).

With samples S_1 <= ... <= S_N and a job that has attained a (m samples at most a), serving it D = S_i - a more gives
G = (i - m) / (sum of the samples between, less a each, + (N - i) * D). Write reach_i = S_1 + ... + S_i + (N - i) * S_i: then G is
the slope from the point (S_1 + ... + S_m + (N - m) * a, m) to the point (reach_i, i). The best D is the tangent to the upper hull of
the points ahead, so one pass from the right prepares every query.

The slides plot another curve: (N - i + 1) in place of (N - i), and the whole times the number of samples ahead.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.tables.options import ServiceHistory
from headway.job_state import JobState

FEWEST_SAMPLES = 30  # below this, attained service orders (docs/decisions/0004-gittins.md)
HOLD = 2.0
REFIT_PART = 100  # the curve is fitted again when the samples have grown by a hundredth


@jit
def add_sample(past: ServiceHistory, gpu_s: float) -> None:
    """Note the service of a job that ended, if this history grows: unsorted, after the samples of the curve."""
    if past.counts[0].grows:
        past.samples[past.counts[0].fitted + past.counts[0].new] = gpu_s
        past.counts[0].new += 1


@jit
def stale(past: ServiceHistory) -> bool:
    """Whether there are enough new samples to fit the curve again: a hundredth of those it has, at least one."""
    return past.counts[0].new > 0 and REFIT_PART * past.counts[0].new >= past.counts[0].fitted


@jit
def refresh(past: ServiceHistory, plotted: bool) -> None:
    """Sort in the new samples, and work out the sums and the hull again."""
    n = past.counts[0].fitted + past.counts[0].new
    for i in range(past.counts[0].fitted, n):
        sample, k = past.samples[i], i
        while k > 0 and past.samples[k - 1] > sample:
            past.samples[k] = past.samples[k - 1]
            k -= 1
        past.samples[k] = sample
    past.counts[0].fitted = n
    past.counts[0].new = 0
    past.curve[0].sum = 0.0
    for i in range(1, n + 1):
        past.curve[i].sum = past.curve[i - 1].sum + past.samples[i - 1]
        past.curve[i].reach = past.curve[i].sum + (n - i + plotted) * past.samples[i - 1]
    if n > 0:
        past.curve[n].hull = 0
    for i in range(n - 1, 0, -1):
        past.curve[i].hull = _tangent(past, past.curve[i].reach, i)


@jit
def _tangent(past: ServiceHistory, x: float, y: int) -> int:
    """The corner after y that is seen from (x, y) at the steepest slope."""
    c = y + 1
    while past.curve[c].hull > 0:
        h = past.curve[c].hull
        if (c - y) * (past.curve[h].reach - x) > (h - y) * (past.curve[c].reach - x):
            break
        c = h
    return c


@jit
def known(past: ServiceHistory) -> bool:
    """Whether there are enough samples to rely on."""
    return past.counts[0].fitted >= FEWEST_SAMPLES or not past.counts[0].grows


@jit
def held(job: Any, index: float) -> float:
    """The index that a job counts with: more while it runs and a stop would cost it time, so that only a clearly better job stops it."""
    return HOLD * index if job.state != JobState.PENDING and job.save + job.resume > 0.0 else index


@jit
def gittins(past: ServiceHistory, a: float, plotted: bool) -> float:
    """The index at attained service a; 0 where nothing is known of jobs that large."""
    n = past.counts[0].fitted
    m = np.searchsorted(past.samples[:n], a, side="right")
    if m == n or not known(past):
        return 0.0
    x = past.curve[m].sum + (n - m + plotted) * a
    c = _tangent(past, x, m)
    index = (c - m) / (past.curve[c].reach - x)
    return index * (n - m) if plotted else index


@jit
def gittins_within(past: ServiceHistory, a: float, horizon: float) -> float:
    """The index for one fixed service quantum, as the discretised policy uses it (its queue's upper bound)."""
    n = past.counts[0].fitted
    m = np.searchsorted(past.samples[:n], a, side="right")
    if m == n or not known(past):
        return 0.0
    e = np.searchsorted(past.samples[:n], a + horizon, side="right")
    return (e - m) / (past.curve[e].sum - past.curve[m].sum - (e - m) * a + (n - e) * horizon)


# ---- thresholds of queues


LOAD = 0.9  # the load that thresholds are fitted for


@jit
def fit_thresholds(past: ServiceHistory, thresholds: Any) -> None:
    """Fit the bounds of queues to the samples: the best of the first queue for all jobs, then of the next for what goes beyond it."""
    n, at, reached = past.counts[0].fitted, 0, 0.0
    if n < FEWEST_SAMPLES:
        return
    for queue in range(len(thresholds) - 1):
        best = _best_split(past, at, reached)
        bound = past.samples[best] if best >= 0 else 0.0
        reached = bound if bound > reached else 2.0 * reached + 1.0  # nothing tells the jobs beyond apart
        thresholds[queue] = reached
        at = int(np.searchsorted(past.samples[:n], reached, side="right"))


@jit
def _best_split(past: ServiceHistory, at: int, reached: float) -> int:
    """The sample, from `at` on, at which a first queue ends best for jobs that have `reached`; -1: none are left.

    Two queues, each first come, first served, the first before the second, at a load of LOAD (multi-level queues, Kleinrock 1976, section
    4.7): with B the service up to the bound, those who end in the first wait for l E[B^2] / (2 (1 - l E[B])), the others for
    l E[S^2] / (2 (1 - LOAD) (1 - l E[B])). The bound with the least mean wait is taken.
    """
    m = past.counts[0].fitted - at
    total, squares = 0.0, 0.0
    for i in range(at, at + m):
        rest = past.samples[i] - reached
        total, squares = total + rest, squares + rest * rest
    if m == 0 or total == 0.0:
        return -1
    rate, best, least = LOAD * m / total, -1, np.inf
    below, below_squares = 0.0, 0.0
    for i in range(at, at + m):
        rest, ended = past.samples[i] - reached, i - at + 1
        below, below_squares = below + rest, below_squares + rest * rest
        mean = (below + (m - ended) * rest) / m
        mean_square = (below_squares + (m - ended) * rest * rest) / m
        early = rate * mean_square / 2.0
        late = rate * squares / m / (2.0 * (1.0 - LOAD))
        wait = (ended * early + (m - ended) * late) / (m * (1.0 - rate * mean))
        if wait < least:
            best, least = i, wait
    return best
