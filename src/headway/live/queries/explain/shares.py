"""Shares of queues: what each requests, is guaranteed, uses, borrows and lends, and what that means for a waiting job."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.cluster.queues import Queue, Queues
from headway.core.keys import usage_at
from headway.io.units import counted
from headway.live.queries.explain.borrowed import returning, returning_words, waits_for_notice
from headway.live.queries.explain.reserved import Sees, within
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue with those below it, at this moment; GPU-hours since it was first used."""

    name: str
    parent: str | None
    weight: float
    priority: int
    share: float  # of the cluster, by its weight
    guaranteed_gpus: int
    used_gpus: int
    borrowed_gpus: int  # of these, beyond its guarantee
    running: int  # jobs
    waiting: int  # jobs
    used_gpu_h: float
    borrowed_gpu_h: float
    limits: dict[str, int]
    per_user: dict[str, int]
    users: tuple[str, ...] | None  # who may submit; None: all users whom the queues above it admit
    groups: tuple[str, ...] | None
    account: str  # decayed GPU time over its weight, in one line; "": shares have no memory


def queue_views(state: ClusterState, now: float) -> list[QueueView]:
    """All queues, parents first; [] where there are none."""
    queues = state.teams.queues
    if queues is None:
        return []
    asked = queues.shares()
    return [_view(state, queues, queue, asked[queue.name], now) for queue in queues.as_tree()]


def _view(state: ClusterState, queues: Queues, queue: Queue, share: float, now: float) -> QueueView:
    row: Any = state.teams.table(queues.rows[queue.name])
    used, since = int(row["used"] + row["leaving"]), max(0.0, now - float(row["since"]))
    borrowed, access = max(0, used - queue.guaranteed_gpus), queue.access
    return QueueView(
        queue.name,
        queue.parent or None,
        queue.weight,
        queue.priority,
        share,
        queue.guaranteed_gpus,
        used,
        borrowed,
        int(row["running"] + row["stopping"]),
        state.teams.waiting(queue),
        (float(row["gpu_s"]) + since * used) / HOUR_S,
        (float(row["borrowed_gpu_s"]) + since * borrowed) / HOUR_S,
        queue.limits.given,
        queue.per_user.given,
        None if access is None else access.users,
        None if access is None else access.groups,
        account_line(row, queue.weight, queues.half_life_s, now),
    )


def account_line(team: Any, weight: float, half_life_s: float, now: float) -> str:
    """Return the account of a team's row in one line: its decayed GPU time, over its weight; "": shares have no memory."""
    if half_life_s == math.inf:
        return ""
    gpu_h = float(usage_at(team, now, half_life_s)) / HOUR_S
    return (
        f"{gpu_h:.1f} GPU-h with a half-life of {half_life_s / HOUR_S:g} h, {gpu_h / weight:.1f} over weight {weight:g}"
    )


def is_behind_notices(state: ClusterState, job: Job) -> bool:
    """Return whether the rest of its queues' guarantees is promised to other jobs and leaves too little for a job."""
    queue = state.teams.queue_of(job.spec)
    if queue is None or state.teams.queues is None or waits_for_notice(state, job):
        return False
    owing = owing_queue(state, queue, job.spec.gpus)
    unused = owing.guaranteed_gpus - _used(state, owing)
    return unused - _promised_in(state, owing) < job.spec.gpus <= unused


def _promised_in(state: ClusterState, above: Queue) -> int:
    """Return the GPUs under notice that are promised to jobs of a queue and the queues below it."""
    waiting = (job for job in state.active_jobs() if waits_for_notice(state, job))
    homes = ((state.teams.queue_of(job.spec), job.spec.gpus) for job in waiting)
    return sum(gpus for queue, gpus in homes if queue and above in _path(state, queue))


def same_queue(state: ClusterState, rows: NDArray[np.int64], job: Job) -> NDArray[np.bool_]:
    """Which of these jobs are in the queue of this one."""
    mine = state.teams.name_of(job.spec)
    return np.array([state.teams.name_of(state.at(int(row)).spec) == mine for row in rows], np.bool_)


def queue_numbers(state: ClusterState, job: Job) -> dict[str, float]:
    """What its queue uses and is guaranteed."""
    queue = state.teams.queue_of(job.spec)
    if queue is None or state.teams.queues is None:
        return {}
    row = state.teams.table(state.teams.queues.rows[queue.name])
    return {
        "queue_gpus_used": int(row["used"] + row["leaving"]),
        "queue_gpus_guaranteed": queue.guaranteed_gpus,
        "queue_jobs_running": int(row["running"]),
    }


def queue_words(
    state: ClusterState, job: Job, reason: str, message: str, change: list[str], now: float, sees: Sees
) -> tuple[str, list[str]]:
    """Return the message with the part of the job's queue in its wait, and what would change it."""
    queue = state.teams.queue_of(job.spec)
    booking = booked(state, job, now) if reason == "advance_reservation" else ""
    if queue is None:
        nodes = f", and {booking}" if booking else ""
        gone = f"Its queue {job.spec.queue!r} is not in the queues file, so nothing is guaranteed to it{nodes}"
        return f"{message}. {gone}", change
    if reason == "quota":
        return _quota_words(state, job, queue)
    if booking:
        return f"there would be room, but {booking}", ["that is over", "a time limit by which it would be gone before"]
    owing = owing_queue(state, queue, job.spec.gpus)
    used, guaranteed = _used(state, owing), owing.guaranteed_gpus
    if waits_for_notice(state, job):
        line = f"queue {owing.name} uses {used} of its {counted(guaranteed, 'guaranteed GPU')}"
        returned = returning_words(state, job, returning(state, job, sees), now)
        return f"{line}: {returned}", ["these jobs end or checkpoint earlier", "another job with GPUs ends"]
    if is_behind_notices(state, job):
        whose = f"of its {counted(guaranteed, 'guaranteed GPU')} queue {owing.name} uses {used}"
        line = f"{whose}, and the others are promised to jobs before it"
    elif used + job.spec.gpus <= guaranteed:
        line = f"queue {owing.name} uses {used} of its {counted(guaranteed, 'guaranteed GPU')}, so it is served first"
        if reason in ("gpus", "fragmentation"):
            line += (
                "; but stopping jobs that borrow GPUs and migrating smaller jobs makes no place for it yet: the rest of the "
                "guarantee lies on several nodes, beside jobs that keep their GPUs"
            )
    elif guaranteed:
        word = "above its share" if used > guaranteed else "at its share"
        owed = f"{guaranteed} {'is' if guaranteed == 1 else 'are'} guaranteed to it"
        line = f"queue {queue.name} is {word}: it uses {counted(used, 'GPU')}, and {owed}"
    else:
        line = f"queue {queue.name} uses {counted(used, 'GPU')}, and none is guaranteed to it"
    if account := _account(state, queue, now):
        line += f". Its account: {account}"
    return f"{message}. {line[0].upper()}{line[1:]}", change


def _account(state: ClusterState, queue: Queue, now: float) -> str:
    """Return the account of a queue in one line; "": shares have no memory."""
    assert state.teams.queues is not None
    row = state.teams.table(state.teams.queues.rows[queue.name])
    return account_line(row, queue.weight, state.teams.queues.half_life_s, now)


def _path(state: ClusterState, queue: Queue) -> list[Queue]:
    """A queue and those above it."""
    assert state.teams.queues is not None
    return state.teams.queues.path(queue.name)


def _used(state: ClusterState, queue: Queue) -> int:
    """GPUs that a queue and those below it hold."""
    assert state.teams.queues is not None
    row = state.teams.table(state.teams.queues.rows[queue.name])
    return int(row["used"] + row["leaving"])


def owing_queue(state: ClusterState, queue: Queue, gpus: int) -> Queue:
    """The queue, from this one up, that is guaranteed so many GPUs more than it uses; this one, where none is."""
    return next((one for one in _path(state, queue) if _used(state, one) + gpus <= one.guaranteed_gpus), queue)


def booked(state: ClusterState, job: Job, now: float) -> str:
    """Which nodes are kept for other queues, now or next: `n000 is kept for queue a, in 2 h until in 5 h`."""
    if state.teams.queues is None:
        return ""
    queue = state.teams.queue_of(job.spec)
    own = {one.name for one in state.teams.queues.path(queue.name)} if queue else set()
    for booking in sorted(state.teams.bookings, key=lambda one: one.begin):
        if booking.end > now and booking.queue not in own:
            names = f"{', '.join(booking.nodes[:8])} {'is' if len(booking.nodes) == 1 else 'are'}"
            return f"{names} kept for queue {booking.queue}, {within(booking.begin - now)} until {within(booking.end - now)}"
    return ""


def _quota_words(state: ClusterState, job: Job, queue: Queue) -> tuple[str, list[str]]:
    """Which limit keeps the job waiting."""
    broken = state.teams.broken_limit(job.spec, job.user)
    if broken is None and job.spec.may_preempt and any(_promised_in(state, above) for above in _path(state, queue)):
        line = "GPUs under notice are promised to jobs before it, and count against the limits of its queue: it comes after these jobs"
        return line, ["these jobs start", "a job with GPUs ends"]
    if broken is None and job.spec.may_preempt:
        line = f"jobs of its size before it in queue {queue.name} cannot be preempted, and may borrow no GPUs: it comes after them"
        return line, ["those jobs start", "a job with GPUs ends"]
    if broken is None:
        line = (
            f"it cannot be preempted, and queue {queue.name} already uses what is guaranteed to it: "
            "beyond that such a job gets only GPUs that are guaranteed to nobody"
        )
        return line, [f"a job of queue {queue.name} ends", "a checkpoint folder: it could then borrow GPUs"]
    where, who, limits, has = broken
    whose = f"user {who} in queue {where.name}" if who else f"queue {where.name}"
    if int(has["running"] + has["stopping"]) + 1 > limits.running:
        line = f"{whose} may run {counted(limits.running, 'job')} at once, and runs {int(has['running'] + has['stopping'])}"
    else:
        used = int(has["used"] + has["leaving"])
        line = f"{whose} may use {counted(limits.gpus, 'GPU')} and uses {used}: {job.spec.gpus} more would be too many"
    return line, [f"a job of {'this user' if who else 'this queue'} ends", "a higher limit in the queues file"]
