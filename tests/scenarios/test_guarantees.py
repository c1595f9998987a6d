"""Guarantees by hand: small cases, most of them found by drawing thousands, in which a team waited for what it is guaranteed."""

import pytest

from headway.cluster.nodes import of_groups
from headway.cluster.queues import Queue, Queues
from headway.core.events import CLAIM, RESIZE, START
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Run, Setting, simulate_run
from headway.workloads.workload import workload

Job = tuple[float, int, float, str]


def run(queues: Queues, jobs: list[Job], nodes: tuple[int, int], policy: str, users: str = "", **given) -> Run:
    """Simulate jobs (submit, GPUs, duration, queue) on so many nodes of so many GPUs."""
    submit, asked, duration, queue = zip(*jobs, strict=True)
    load = workload("by hand", submit, asked, duration, queue=queue, user=list(users or "u" * len(jobs)))
    setting, where = Setting(queues=queues, **given), of_groups("some", [nodes])
    return simulate_run(load, where, find_policy(policy), find_placement("consolidated"), setting, keep_journal=True)


def times(done: Run, kind: int, job: int) -> list[float]:
    """When the journal has this of a job."""
    rows = done.entries[(done.entries["kind"] == kind) & (done.entries["job"] == job)]
    return [float(at) for at in rows["time"]]


def moves(done: Run) -> int:
    return int((done.entries["kind"] == RESIZE).sum())


def on_nodes_of_four(*held: tuple[int, ...]) -> list[Job]:
    """Jobs of b that are left on each node once short ones that filled it have ended; they come one by one."""
    rows = [row for sizes in held for row in [*((gpus, 9000.0) for gpus in sizes), *[(1, 50.0)] * (4 - sum(sizes))]]
    return [(0.1 * i, gpus, duration, "b") for i, (gpus, duration) in enumerate(rows)]


@pytest.mark.parametrize("policy", ["best-effort", "headway", "tiresias-l"])
def test_another_node_is_cleared_where_those_of_the_first_find_no_place(policy):
    """The fewest GPUs are held on the third node, but nobody has two free for the job there; those of the first find places."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=4), Queue("b", guaranteed_gpus=8)), notice_s=60.0)
    jobs = [*on_nodes_of_four((2, 1), (2, 1), (2,)), (100.0, 4, 50.0, "a")]
    done = run(queues, jobs, (3, 4), policy, preemption_cost=5.0)
    assert times(done, CLAIM, len(jobs) - 1) == [100.0]
    assert times(done, START, len(jobs) - 1) == [165.0]
    assert moves(done) == 2


@pytest.mark.parametrize("policy", ["best-effort", "headway", "tiresias-l"])
def test_one_that_moves_has_still_smaller_ones_moved(policy):
    """Wherever the job of two GPUs goes, one of one GPU sits in its way."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=4), Queue("b", guaranteed_gpus=12)), notice_s=60.0)
    jobs = [*on_nodes_of_four((2, 1), (2, 1), (2, 1), (2, 1)), (100.0, 4, 50.0, "a")]
    done = run(queues, jobs, (4, 4), policy, preemption_cost=5.0)
    assert times(done, CLAIM, len(jobs) - 1) == [100.0]
    assert times(done, START, len(jobs) - 1) == [165.0]
    assert moves(done) == 3
