"""Health of the manager: times of decisions and writes, length of the queue, last errors."""

from collections import Counter
from dataclasses import dataclass

from headway import __version__
from headway.job_state import JobState
from headway.live.measures import MOST_QUEUES, NO_QUEUE, OTHER_QUEUES, Measures, Mishap, Timing, timing
from headway.live.queries.views import counts
from headway.live.state.cluster import ClusterState

WITH_PROCESSES = frozenset(int(state) for state in JobState if state.has_processes)


@dataclass(frozen=True, slots=True)
class Depth:
    """Jobs that have not ended; those that wait by queue, and the longest wait among them."""

    running: int
    waiting: int
    held: int
    waiting_by_queue: dict[str, int]
    longest_wait_s: float


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the journal is behind: rows that are not in it yet, and for how long."""

    writable: bool
    rows: int
    rows_behind: int
    behind_s: float


@dataclass(frozen=True, slots=True)
class ManagerHealth:
    """Times are of this manager since it started."""

    ok: bool
    trouble: str
    version: str
    policy: str
    up_s: float
    decisions: Timing
    rounds: Timing
    commits: Timing
    queue: Depth
    journal: Lag
    errors: int
    last_errors: tuple[Mishap, ...]


def health(state: ClusterState, measures: Measures, lag: Lag, trouble: str, up_s: float, now: float) -> ManagerHealth:
    """Return everything about the manager itself; `trouble` is why nothing is started."""
    failing = next((f"the {part} fails: the last errors say why" for part in sorted(measures.failing)), "")
    trouble = ((trouble or failing).strip().splitlines() or [""])[-1]
    return ManagerHealth(
        not trouble,
        trouble,
        __version__,
        state.policy,
        up_s,
        timing(state.engine.spent),
        timing(measures.rounds),
        timing(measures.commits),
        depth(state, now),
        lag,
        measures.errors,
        tuple(measures.mishaps),
    )


def depth(state: ClusterState, now: float) -> Depth:
    """Return how many jobs wait in which queue, and the longest wait."""
    codes, active = state.codes(), map(state.jobs.__getitem__, state.active)
    waiting = [job for job in active if codes[job.row] not in WITH_PROCESSES]
    by_queue: Counter[str] = Counter(job.spec.queue or NO_QUEUE for job in waiting)
    named = dict(by_queue.most_common(MOST_QUEUES))
    if len(by_queue) > MOST_QUEUES:
        named[OTHER_QUEUES] = sum(by_queue.values()) - sum(named.values())
    by_state = counts(state)
    running = sum(by_state[each.name] for each in JobState if each.has_processes)
    longest = max((now - job.submitted for job in waiting), default=0.0)
    return Depth(running, by_state["PENDING"], by_state["HELD"], named, max(0.0, longest))
