"""Lists of jobs in memory, chosen by a query. Columns are read at once, and only the jobs of an answer are made into views."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.client.job import JobQuery, JobView
from headway.core.events import REASONS
from headway.job_state import FINAL_STATES, JobState
from headway.live.queries.answers import Level, QueuePage
from headway.live.queries.lists.selection import Columns, select
from headway.live.queries.reservations import Sees
from headway.live.queries.views import STATES, job_name, job_views
from headway.live.state.cluster import ClusterState, service_gpu_s, shown
from headway.live.state.records import Job

MOST_NAMES = 200  # users and queues to choose from
# Numbers and a tuple, not members: making members of ten thousand states takes longer than all the rest.
ON_GPUS = frozenset(int(state) for state in JobState if state.has_processes)


class Listed:
    """Jobs in memory, with what lists need of each; what takes long is read when it is first needed."""

    def __init__(self, state: ClusterState, now: float, jobs: Sequence[Job]) -> None:
        self.state, self.now, self.jobs = state, now, jobs

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Return the rows of the jobs in the engine's table."""
        return np.array([job.row for job in self.jobs], np.int64)

    @cached_property
    def table(self) -> NDArray[Any]:
        """Return a copy of these rows."""
        return self.state.tables.jobs[self.rows]

    @cached_property
    def states(self) -> list[int]:
        """Return the states of the jobs for the engine."""
        states: list[int] = self.state.tables.jobs["state"][self.rows].tolist()
        return states

    @cached_property
    def positions(self) -> list[int | None]:
        """Return the place of each job among the waiting jobs in the policy's order; None: it does not wait."""
        order = self.state.waiting_rows().tolist()
        place = {row: position for position, row in enumerate(order, 1)}
        return [place.get(row) for row in self.rows.tolist()]

    @cached_property
    def causes(self) -> list[int]:
        """Return why each job waits, as the engine has it."""
        causes: list[int] = self.state.why(self.rows).tolist()
        return causes

    def reason(self, i: int) -> str:
        """Return why job `i` of the list waits; empty: it does not."""
        job = self.jobs[i]
        return (job.blocked_by if job.blockers else "") or REASONS[self.causes[i]]

    def shown(self, i: int) -> str:
        """Return the state of job `i` that users see."""
        job = self.jobs[i]
        return (job.final or shown(STATES[self.states[i]], job)).name

    @property
    def columns(self) -> Columns:
        """Return the columns that queries choose and sort by."""
        jobs, last = self.jobs, len(self.jobs) + 1
        return {
            "job_id": lambda i: jobs[i].id,
            "name": lambda i: job_name(jobs[i].spec),
            "names": lambda i: (jobs[i].id, job_name(jobs[i].spec), jobs[i].user),
            "user": lambda i: jobs[i].user,
            "state": self.shown,
            "gpus": lambda i: jobs[i].spec.gpus,
            "queue": lambda i: jobs[i].spec.queue,
            "array_id": lambda i: jobs[i].array_id,
            "submitted_at": lambda i: jobs[i].submitted,
            "ended_at": lambda i: jobs[i].ended if jobs[i].final else None,
            "order": lambda i: 0 if self.states[i] in ON_GPUS else self.positions[i] or last,
            "level": lambda i: int(self.table["level"][i]),
            "service": lambda i: service_gpu_s(self.table[i], self.now),
            "waited": lambda i: -jobs[i].submitted,
            "reason": self.reason,
        }

    def views(self, chosen: Sequence[int], ended: bool = False) -> list[JobView]:
        """Return views of some of the jobs, with their places in the queue; `ended`: as the history has them, without places."""
        positions = None if ended else [self.positions[i] for i in chosen]
        return job_views(self.state, [self.jobs[i] for i in chosen], self.now, positions, ended)


def in_queue(state: ClusterState, now: float, sees: Sees) -> Listed:
    """Return the jobs that have not ended and may be seen."""
    return Listed(state, now, [job for job in state.active_jobs() if sees(job.id, job.user)])


def find(state: ClusterState, now: float, query: JobQuery) -> list[JobView]:
    """Return the jobs in memory that a query chooses."""
    numbers: Iterable[int] = state.jobs
    if query.array_id is not None:
        numbers = (task for task in state.tasks_of(query.array_id) if task in state.jobs)
    elif query.states and not query.states & FINAL_STATES:
        numbers = state.active
    return chosen(Listed(state, now, [state.jobs[number] for number in sorted(numbers)]), query)


def chosen(listed: Listed, query: JobQuery, ended: bool = False) -> list[JobView]:
    """Return the part of a list that a query asks for; `ended`: as the history has it."""
    places = select(query, range(len(listed.jobs)), listed.columns)
    end = None if query.limit is None else query.offset + query.limit
    return listed.views(list(islice(places, query.offset, end)), ended)


def accounts(state: ClusterState, now: float, query: JobQuery, numbers: Iterable[int]) -> list[JobView]:
    """Return those of these jobs that a query chooses, as the history has them: with their first start, and the nodes of their last."""
    return chosen(Listed(state, now, [state.jobs[number] for number in sorted(numbers)]), query, ended=True)


def queue_page(state: ClusterState, now: float, sees: Sees, query: JobQuery) -> QueuePage:
    """Return part of the queue."""
    seen = in_queue(state, now, sees)
    on_gpus = (job_state in ON_GPUS for job_state in seen.states)
    bounds = seen.state.engine.options.thresholds.tolist()
    queue_levels = levels(bounds, zip(seen.table["level"].tolist(), on_gpus, strict=True))
    return page(now, range(len(seen.jobs)), seen.columns, query, seen.views, queue_levels)


def page(
    now: float,
    jobs: Sequence[int],
    columns: Columns,
    query: JobQuery,
    views: Callable[[Sequence[int]], Sequence[JobView]],
    queue_levels: tuple[Level, ...],
) -> QueuePage:
    """Return the part of a queue that a query asks for, of a live cluster or of a recorded run."""
    matching = list(select(query, jobs, columns))
    part = matching[query.offset :][: query.limit]
    users, queues = (sorted({columns[name](i) for i in jobs})[:MOST_NAMES] for name in ("user", "queue"))
    return QueuePage(
        now, len(jobs), len(matching), query.offset, tuple(views(part)), queue_levels, tuple(users), tuple(queues)
    )


def levels(bounds: Sequence[float], jobs: Iterable[tuple[int, bool]]) -> tuple[Level, ...]:
    """Return the priority queues of a policy; `jobs` are the level of each job, and whether it has GPUs."""
    running, waiting = Counter[int](), Counter[int]()
    for level, has_gpus in jobs:
        (running if has_gpus else waiting)[level] += 1
    low, result = 0.0, []
    for level, high in enumerate(bounds):
        result.append(Level(level, low, high if np.isfinite(high) else None, running[level], waiting[level]))
        low = high
    return tuple(result)
