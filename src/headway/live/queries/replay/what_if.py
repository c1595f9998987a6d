"""Replays over HTTP: the jobs of the last hours under other policies."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from headway.cluster.nodes import cluster_of
from headway.errors import BadInput
from headway.live.queries.apart import ask_apart
from headway.live.queries.replay.replay import Replay, ran_jobs, replay
from headway.policies.registry import check_policy

if TYPE_CHECKING:
    from headway.live.manager.manager import Manager

MOST_JOBS = 20_000


def what_if(manager: "Manager", policies: list[str], last_s: float) -> Replay:
    """The manager's own policy comes first, to show how far the simulator can be trusted."""
    for policy in policies:
        check_policy(policy)  # a policy from outside would be code that a caller names
    since = manager.clock() - last_s
    jobs = manager.workload(since)
    if len(jobs) > MOST_JOBS:
        ran = f"{len(jobs):,} jobs ran in that time"
        raise BadInput(f"last_s: {ran}, and at most {MOST_JOBS:,} are replayed here: ask for less")
    if not any(job.averaged for job in jobs):
        raise BadInput("no job has ended in that time: there is nothing to replay")
    question = {
        "jobs": [asdict(job) for job in jobs],
        "cluster": asdict(manager.cluster),
        "policies": [manager.policy, *(one for one in policies if one != manager.policy)],
        "placement": manager.placement,
        "late": manager.late_rounds(since),
    }
    return TypeAdapter(Replay).validate_json(ask_apart(__name__, question))


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """The same in a process of its own."""
    jobs, cluster = ran_jobs(asked["jobs"]), cluster_of(asked["cluster"])
    return asdict(replay(jobs, cluster, asked["policies"], asked["placement"], late=asked["late"]))
