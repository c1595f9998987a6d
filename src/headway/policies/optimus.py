"""optimus: GPUs where they help most (Peng et al., EuroSys'18, section 4.1).

Each job's remaining work is predicted by fitting loss = 1 / (b0 x + b1) + b2 to what it reported. Every job gets one GPU, then the next GPU
goes to the job whose predicted completion time falls most, while any are left. Sizes change every ten minutes, by resizing jobs.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.order import pop, push
from headway.core.protocols import Policy
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import TIMER, State
from headway.job_state import JobState
from headway.policies import Quantum

INTERVAL_S: Final = 600.0  # Optimus schedules every ten minutes, section 5.1
FEWEST_REPORTS_WORK_S: Final = 60.0  # before that much work there is nothing to fit
FIRST_GUESS_S: Final = 3600.0
CONVERGED: Final = 1e-3  # a job is done when a further per cent of its work improves the loss by less
FLOORS: Final = 12  # how many floors b2 are tried, up to 0.95 of the least loss
WANT: Final = np.dtype([("want", "i4")])
COUNT: Final = np.dtype(
    [("listed", "i8"), ("submitted", "i8")]
)  # jobs in the list of active ones; jobs submitted so far

# Work and loss, one row per job, of the reports that these jobs have made by the time each has done so much.
Reports = Callable[[NDArray[np.int64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]


def key(job: Any, now: float, options: Options) -> tuple[float, float]:
    """By first start: those that run stay; allotments fit by construction."""
    return job.first, job.submit


class Allotment:
    """Sets the size that every active job should have (`want` of the scratch), and keeps what it needs for that between decisions.

    `sizes` rounds a number of GPUs down to one that the network has slices for.
    """

    def __init__(
        self, jobs: int, interval_s: float, reports: Reports, scaling: NDArray[np.float64], sizes: NDArray[np.int32]
    ) -> None:
        self.interval_s, self.reports, self.scaling, self.sizes = interval_s, reports, scaling, sizes
        # Submitted and not over: as of the last interval, in the order of first start and submission; then those submitted since.
        self.active = np.zeros(jobs, np.int64)
        self.count = np.zeros(1, COUNT)
        self.left = np.full(jobs, FIRST_GUESS_S)
        self.fitted = np.full(jobs, -np.inf)  # when `left` was predicted
        self.gains = np.zeros(len(sizes) + 1, TIMER)
        self.wants = np.zeros(jobs, WANT)  # the scratch forgets its own between decisions

    def __call__(self, state: State, scratch: Scratch, now: float) -> None:
        """Set one GPU for every active job, then more by marginal gain. Between intervals, only new jobs get theirs."""
        if now % self.interval_s:
            size_new(state.jobs, self.wants, self.active, self.count, self.sizes)
        else:
            total = int(state.nodes["gpus"][state.nodes["closed"] == 0].sum())
            list_active(state.jobs, self.wants, self.active, self.count, self.sizes)
            active = self.active[: int(self.count["listed"][0])]
            self._predict(state.jobs, active[:total], now)
            give_by_gain(state.jobs, self.wants, active, total, self.left, self.scaling, self.sizes, self.gains)
        active = self.active[: int(self.count["listed"][0])]
        scratch.jobs["want"][active] = self.wants["want"][active]

    def _predict(self, jobs: NDArray[Any], served: NDArray[np.int64], now: float) -> None:
        """Predict the work left of these jobs, once per moment: deciding again at the same time predicts nothing again."""
        old = served[self.fitted[served] < now]
        self.fitted[old] = now
        running = jobs["state"][old] == JobState.RUNNING
        done = jobs["done"][old] + running * (now - jobs["since"][old]) * jobs["rate"][old]
        long = done >= FEWEST_REPORTS_WORK_S
        if long.any():
            predict(*self.reports(old[long], done[long]), old[long], self.left)


@jit
def _list_new(jobs: Any, wants: Any, active: Any, count: Any, size: int) -> None:
    """Jobs are submitted in their order: those since the last decision go to the end of the list, with the smallest size."""
    while count[0].submitted < len(jobs) and jobs[count[0].submitted].state != JobState.FUTURE:
        wants[count[0].submitted].want = size
        active[count[0].listed] = count[0].submitted
        count[0].listed += 1
        count[0].submitted += 1


@jit
def size_new(jobs: Any, wants: Any, active: Any, count: Any, sizes: Any) -> None:
    """Between intervals, jobs that never ran start with one GPU; of those listed before, only the first could have been given more."""
    _list_new(jobs, wants, active, count, sizes[1])
    for i in range(min(len(sizes), count[0].listed)):
        if jobs[active[i]].attempt == 0:
            wants[active[i]].want = sizes[1]


@jit
def list_active(jobs: Any, wants: Any, active: Any, count: Any, sizes: Any) -> None:
    """Drop the jobs that are over and sort the rest by first start: an insertion sort of a list that is almost sorted."""
    _list_new(jobs, wants, active, count, sizes[1])
    n = 0
    for i in range(count[0].listed):
        j = active[i]
        if jobs[j].state >= JobState.COMPLETED:
            continue
        k = n
        while k > 0 and _later(jobs, active[k - 1], j):
            active[k] = active[k - 1]
            k -= 1
        active[k] = j
        n += 1
    count[0].listed = n


@jit
def _later(jobs: Any, a: int, b: int) -> bool:
    return jobs[a].first > jobs[b].first or (jobs[a].first == jobs[b].first and a > b)


@jit
def predict(x: Any, loss: Any, ids: Any, left: Any) -> None:
    """Work left of jobs `ids`, whose reports are the rows of x and loss."""
    for i in range(len(ids)):
        left[ids[i]] = predict_left(x[i], loss[i])


@jit
def predict_left(x: Any, loss: Any) -> float:
    """Work left by the fitted curve: a grid of floors b2, and for each the straight line through 1 / (loss - b2)."""
    n, middle, least, spread = len(x), 0.0, np.inf, 0.0
    for i in range(n):
        middle += x[i] / n
        least = min(least, loss[i])
    for i in range(n):
        spread += (x[i] - middle) ** 2
    best, slope, offset = np.inf, 0.0, 1.0
    for k in range(FLOORS):
        floor = 0.95 * least * k / (FLOORS - 1)
        total, moment = 0.0, 0.0
        for i in range(n):
            y = 1.0 / (loss[i] - floor)
            total += y
            moment += (x[i] - middle) * y
        b0 = moment / spread
        b1 = total / n - b0 * middle
        if b0 <= 0.0:
            continue
        error = 0.0
        for i in range(n):
            error += (1.0 / max(b0 * x[i] + b1, 1e-9) + floor - loss[i]) ** 2
        if error < best:
            best, slope, offset = error, b0, max(b1, 1e-9)
    if slope <= 0.0:
        return FIRST_GUESS_S
    # With z = slope x / offset the loss is 1 / (offset (1 + z)): converged where z / (1 + z)^2 / 100 = CONVERGED.
    c = 100 * CONVERGED
    z = (1 - 2 * c + (1 - 4 * c) ** 0.5) / (2 * c)
    return max(z * offset / slope - x[-1], 1.0)


@jit
def _saved(job: Any, want: int, left: float, c: float) -> float:
    """Seconds that one GPU more saves a job with so much work left."""
    asked = job.asked / (1 + c * (job.asked - 1))
    now, then = want / (1 + c * (want - 1)), (want + 1) / (1 + c * want)
    return left / (now / asked) - left / (then / asked)


@jit
def give_by_gain(
    jobs: Any, wants: Any, active: Any, total: int, left: Any, scaling: Any, sizes: Any, gains: Any
) -> None:
    """One GPU each; of the first `total` jobs, the next to the one that it saves most time, until none are left or none helps."""
    for j in active:
        wants[j].want = 1
    n = min(total, len(active))
    for i in range(n):
        j = active[i]
        push(gains, i, -_saved(jobs[j], wants[j].want, left[j], scaling[jobs[j].model]), j)
    spare = total - n
    while spare > 0 and n > 0:
        j = gains[0].what
        pop(gains, n)
        n -= 1
        wants[j].want += 1
        spare -= 1
        if wants[j].want < 2 * jobs[j].asked:  # models are tuned for a batch: not beyond twice what was asked for
            push(gains, n, -_saved(jobs[j], wants[j].want, left[j], scaling[jobs[j].model]), j)
            n += 1
    for j in active:
        wants[j].want = sizes[wants[j].want]


SUMMARY = "GPUs by marginal gain, from predictions of the loss curve; resizes jobs"


def make(quantum: Quantum = INTERVAL_S) -> Policy:
    """Return the policy."""
    return Policy("optimus", key, quantum=quantum, allot=Allotment)
