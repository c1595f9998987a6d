"""optimus: GPUs where they help most (Peng et al., EuroSys'18, section 4.1).

Each job's remaining work is predicted by fitting loss = 1 / (b0 x + b1) + b2 to what it reported. Every job gets one GPU, then the next GPU
goes to the job whose predicted completion time falls most, while any are left. Sizes change every ten minutes, by resizing jobs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.jobs import PENDING, RUNNING, STARTING, STOPPING
from headway.core.options import Options
from headway.core.protocols import Policy
from headway.core.state import State

INTERVAL_S = 600.0  # Optimus schedules every ten minutes, section 5.1
FEWEST_REPORTS_WORK_S = 60.0  # before that much work there is nothing to fit
FIRST_GUESS_S = 3600.0
CONVERGED = 1e-3  # a job is done when a further per cent of its work improves the loss by less

Reports = Callable[[int, float], tuple[NDArray[np.float64], NDArray[np.float64]]]


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By first start: those that run stay; allotments fit by construction."""
    return job.first, job.submit


def predict_left(x: NDArray[np.float64], loss: NDArray[np.float64]) -> float:
    """Work left by the fitted curve: a grid of floors b2, and for each the straight line through 1 / (loss - b2)."""
    best, slope, offset = np.inf, 0.0, 1.0
    for floor in np.linspace(0.0, 0.95 * loss.min(), 12):
        y = 1.0 / (loss - floor)
        b0, b1 = np.polyfit(x, y, 1)
        if b0 <= 0.0:
            continue
        error = float(np.sum((1.0 / np.maximum(b0 * x + b1, 1e-9) + floor - loss) ** 2))
        if error < best:
            best, slope, offset = error, b0, max(b1, 1e-9)
    if slope <= 0.0:
        return FIRST_GUESS_S
    # With z = slope x / offset the loss is 1 / (offset (1 + z)): converged where z / (1 + z)^2 / 100 = CONVERGED.
    c = 100 * CONVERGED
    z = (1 - 2 * c + (1 - 4 * c) ** 0.5) / (2 * c)
    return float(max(z * offset / slope - x[-1], 1.0))


def allot(state: State, now: float, reports: Reports, scaling: NDArray[np.float64]) -> dict[int, int]:
    """GPUs for every active job: one each, then by marginal gain. Between intervals, only new jobs get theirs."""
    jobs = state.jobs
    active = np.flatnonzero(np.isin(jobs["state"], (PENDING, STARTING, RUNNING, STOPPING)))
    if now % INTERVAL_S:
        return {int(j): 1 for j in active if jobs["attempt"][j] == 0}
    total = int(state.nodes["gpus"][state.nodes["closed"] == 0].sum())
    running = jobs["state"][active] == RUNNING
    done = jobs["done"][active] + running * (now - jobs["since"][active]) * jobs["rate"][active]
    order = active[np.argsort(jobs["first"][active], kind="stable")][:total]
    at = {int(j): k for k, j in enumerate(active)}
    left = {int(j): _left(int(j), float(done[at[int(j)]]), reports) for j in order}
    return dict.fromkeys((int(j) for j in active), 1) | _by_gain(order, left, jobs, total, scaling)


def _left(j: int, done: float, reports: Reports) -> float:
    return FIRST_GUESS_S if done < FEWEST_REPORTS_WORK_S else predict_left(*reports(j, done))


def _by_gain(
    order: NDArray[np.int64], left: dict[int, float], jobs: Any, total: int, scaling: NDArray[np.float64]
) -> dict[int, int]:
    """The next GPU to the job that it saves most time, until none are left or none helps."""
    from heapq import heapify, heappop, heappush

    def time(j: int, gpus: int) -> float:
        c, asked = scaling[jobs["model"][j]], int(jobs["asked"][j])
        speed = gpus / (1 + c * (gpus - 1)) / (asked / (1 + c * (asked - 1)))
        return left[j] / speed

    given = {int(j): 1 for j in order}
    gains = [(-(time(j, 1) - time(j, 2)), j) for j in given]
    heapify(gains)
    spare = total - len(given)
    while spare > 0 and gains:
        _, j = heappop(gains)
        given[j] += 1
        spare -= 1
        if given[j] < 2 * int(jobs["asked"][j]):  # models are tuned for a batch: not beyond twice what was asked for
            heappush(gains, (-(time(j, given[j]) - time(j, given[j] + 1)), j))
    return given


POLICY = Policy("optimus", key, quantum=INTERVAL_S, allot=allot)
