"""Queues of teams at one moment: what each is guaranteed, uses, borrows and has used."""

from dataclasses import dataclass
from typing import Any

from headway.cluster.queues import Queue, Queues
from headway.live.state.cluster import ClusterState
from headway.live.state.teams import HOUR_S


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
    """Return all queues, parents first; []: there is no queues file."""
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
        state.teams.account(queue, now),
    )
