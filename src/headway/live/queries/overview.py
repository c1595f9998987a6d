"""The cluster and its queue at one time, read from the state at once, under the manager's lock."""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headway.core.events import REASONS
from headway.job_state import JobState
from headway.live.queries.answers import HIDDEN, Brief, GpuNode, Level, Overview, QueuePage
from headway.live.queries.explain.reserved import Sees
from headway.live.queries.receipt import waiting_order
from headway.live.queries.views import counts, job_name
from headway.live.state.cluster import ClusterState, service_gpu_s, shown
from headway.live.state.records import Job

FIRST_WAITING = 20
MOST_NAMES = 200  # users and queues to choose from
# Numbers, not members: making members of ten thousand states takes longer than all the rest.
ON_GPUS = frozenset(int(state) for state in JobState if state.has_processes)


class Now:
    """The jobs that have not ended and may be seen, with what the lists need of each."""

    def __init__(self, state: ClusterState, now: float, sees: Sees) -> None:
        self.state, self.now = state, now
        self.jobs = [job for job in state.active_jobs() if sees(job.id, job.user)]
        rows = np.array([job.row for job in self.jobs], np.int64)
        self.table = state.tables.jobs[rows]
        self.causes = state.why(rows).tolist()
        self.states: list[int] = self.table["state"].tolist()
        order = waiting_order(state.tables.jobs[: len(state.by_row)]).tolist()
        place = {row: position for position, row in enumerate(order, 1)}
        self.positions = [place.get(row) for row in rows.tolist()]

    def reason(self, i: int) -> str:
        """Why job `i` of the list waits; empty for one that does not."""
        job = self.jobs[i]
        return (job.blocked_by if job.blockers else "") or REASONS[self.causes[i]]

    def shown(self, i: int) -> str:
        """The state of job `i` as people call it."""
        return shown(JobState(self.states[i]), self.jobs[i]).name

    def service(self, i: int) -> float:
        """GPU-seconds that job `i` has attained."""
        return service_gpu_s(self.table[i], self.now)

    def brief(self, i: int) -> Brief:
        """Job `i` of the list, as it is shown."""
        job, row = self.jobs[i], self.table[i]
        return Brief(
            *(job.id, job_name(job.spec), job.user, self.shown(i), job.spec.gpus, job.spec.queue),
            *(int(row["level"]), self.service(i), self.reason(i), job.submitted, job.started),
            *(int(row["attempt"]), job.preemptions, self.positions[i], job.progress.as_dict()),
        )


@dataclass(frozen=True, slots=True)
class About:
    """What the state does not know of itself."""

    policy: str
    placement: str
    trouble: str
    last_event: int


def overview(state: ClusterState, now: float, sees: Sees, about: About) -> Overview:
    """Everything that the first page shows."""
    seen = Now(state, now, sees)
    with_gpus = [i for i, one in enumerate(seen.states) if one in ON_GPUS]
    waits = [i for i, one in enumerate(seen.states) if one not in ON_GPUS]
    last = len(seen.jobs) + 1
    first = heapq.nsmallest(FIRST_WAITING, waits, key=lambda i: seen.positions[i] or last)
    nodes = state.tables.nodes
    return Overview(
        now=now,
        last_event=about.last_event,
        policy=about.policy,
        placement=about.placement,
        cluster=state.cluster.name,
        trouble=about.trouble,
        gpus=state.cluster.total,
        gpus_busy=int(nodes["gpus"].sum() - nodes["free"].sum()),
        counts=counts(state),
        nodes=gpu_nodes(state, {job.id for job in seen.jobs}),
        jobs=tuple(seen.brief(i) for i in with_gpus),
        waiting=tuple(seen.brief(i) for i in first),
        reasons=dict(Counter(seen.reason(i) or "gpus" for i in waits).most_common()),
        longest_wait_s=max((now - seen.jobs[i].submitted for i in waits if seen.jobs[i].started is None), default=0.0),
    )


def gpu_nodes(state: ClusterState, seen: set[int]) -> tuple[GpuNode, ...]:
    """Every node, with the jobs on each of its GPUs."""
    holders: list[list[int]] = [[] for _ in range(state.cluster.total)]
    for job in (state.jobs[number] for number in sorted(state.active)):
        for gpu in job.seats:
            holders[gpu].append(job.id if job.id in seen else HIDDEN)
    # GPUs of a shared cluster that others use have no job of ours, and are not free.
    nodes, result = state.tables.nodes, []
    for node, name in enumerate(state.cluster.nodes):
        base, size = int(nodes["base"][node]), int(nodes["gpus"][node])
        here = [tuple(each) for each in holders[base : base + size]]
        others = size - int(nodes["free"][node]) - sum(map(bool, here))
        for gpu in reversed(range(size)):
            if others > 0 and not here[gpu]:
                here[gpu], others = (HIDDEN,), others - 1
        word = "open" if not nodes["closed"][node] else "draining" if any(here) else "drained"
        result.append(GpuNode(name, word, tuple(here)))
    return tuple(result)


# ---- the queue

SORTS = ("order", "job_id", "name", "user", "state", "gpus", "queue", "level", "service", "waited", "reason")


@dataclass(frozen=True, slots=True)
class QueueWanted:
    """Which jobs of the queue, in which order, and which part of the list."""

    text: str = ""  # part of a name or a user, or a number
    user: str | None = None
    queue: str | None = None
    states: frozenset[str] = frozenset()
    sort: str = "order"
    descending: bool = False
    offset: int = 0
    limit: int = 100


def queue_page(state: ClusterState, now: float, sees: Sees, wanted: QueueWanted) -> QueuePage:
    """Part of the queue. Only the rows of the answer are made; what decides about them is read from columns."""
    seen = Now(state, now, sees)
    chosen = [i for i, job in enumerate(seen.jobs) if _passes(seen, i, job, wanted)]
    chosen.sort(key=_key(seen, wanted.sort), reverse=wanted.descending)
    part = chosen[wanted.offset : wanted.offset + wanted.limit]
    users, queues = {job.user for job in seen.jobs}, {job.spec.queue for job in seen.jobs}
    return QueuePage(
        now,
        len(seen.jobs),
        len(chosen),
        wanted.offset,
        tuple(seen.brief(i) for i in part),
        levels(seen),
        tuple(sorted(users)[:MOST_NAMES]),
        tuple(sorted(queues)[:MOST_NAMES]),
    )


def _passes(seen: Now, i: int, job: Job, wanted: QueueWanted) -> bool:
    text = wanted.text.lower()
    return (
        (wanted.user is None or job.user == wanted.user)
        and (wanted.queue is None or job.spec.queue == wanted.queue)
        and (not wanted.states or seen.shown(i) in wanted.states)
        and (not text or text in job_name(job.spec).lower() or text in job.user.lower() or text == str(job.id))
    )


def _key(seen: Now, sort: str) -> Callable[[int], tuple[float | str, int]]:
    """By what a column sorts; jobs that are equal in it come by number."""
    jobs, last = seen.jobs, len(seen.jobs) + 1
    # Jobs on GPUs come first, then those who wait for them, in the policy's order, then those who wait for something else.
    by: dict[str, Callable[[int], float | str]] = {
        "order": lambda i: 0 if seen.states[i] in ON_GPUS else seen.positions[i] or last,
        "job_id": lambda i: jobs[i].id,
        "name": lambda i: job_name(jobs[i].spec).lower(),
        "user": lambda i: jobs[i].user,
        "state": lambda i: seen.shown(i),
        "gpus": lambda i: jobs[i].spec.gpus,
        "queue": lambda i: jobs[i].spec.queue,
        "level": lambda i: int(seen.table["level"][i]),
        "service": seen.service,
        "waited": lambda i: -jobs[i].submitted,
        "reason": seen.reason,
    }
    value = by[sort]
    return lambda i: (value(i), jobs[i].id)


def levels(seen: Now) -> tuple[Level, ...]:
    """The priority queues of the policy, with how many of these jobs are in each."""
    bounds: Sequence[float] = seen.state.engine.options.thresholds.tolist()
    running, waiting = Counter[int](), Counter[int]()
    for one, level in zip(seen.states, seen.table["level"].tolist(), strict=True):
        (running if one in ON_GPUS else waiting)[level] += 1
    low, result = 0.0, []
    for level, high in enumerate(bounds):
        result.append(Level(level, low, high if np.isfinite(high) else None, running[level], waiting[level]))
        low = high
    return tuple(result)
