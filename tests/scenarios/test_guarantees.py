"""Guarantees by hand: small cases, most of them found by drawing thousands, in which a team waited for what it is guaranteed."""

import numpy as np
import pytest

from headway.cluster.nodes import of_groups
from headway.cluster.queues import Queue, QueueLimits, Queues
from headway.core.events import MIGRATE, NOTIFY, PROMISE, START, STOP, STOPPED
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Run, Setting, simulate_run
from headway.workloads.workload import workload

Job = tuple[float, int, float, str]


def run(
    queues: Queues,
    jobs: list[Job],
    nodes: tuple[int, int],
    policy: str,
    users: str = "",
    firm: tuple[int, ...] = (),
    **given,
) -> Run:
    """Simulate jobs (submit, GPUs, duration, queue) on so many nodes of so many GPUs; those that are firm cannot be stopped."""
    submit, asked, duration, queue = zip(*jobs, strict=True)
    columns = {"user": list(users or "u" * len(jobs)), "preemptible": [j not in firm for j in range(len(jobs))]}
    load = workload("by hand", submit, asked, duration, queue=queue, **columns)
    setting, where = Setting(queues=queues, **given), of_groups("some", [nodes])
    return simulate_run(load, where, find_policy(policy), find_placement("consolidated"), setting, keep_journal=True)


def times(done: Run, kind: int, job: int) -> list[float]:
    """When the journal has this of a job."""
    rows = done.entries[(done.entries["kind"] == kind) & (done.entries["job"] == job)]
    return [float(at) for at in rows["time"]]


def migrations(done: Run) -> int:
    """Return how many jobs were migrated."""
    return int((done.entries["kind"] == MIGRATE).sum())


def on_nodes_of_four(*held: tuple[int, ...]) -> list[Job]:
    """Jobs of b that are left on each node once short ones that filled it have ended; they come one by one."""
    rows = [row for sizes in held for row in [*((gpus, 9000.0) for gpus in sizes), *[(1, 50.0)] * (4 - sum(sizes))]]
    return [(0.1 * i, gpus, duration, "b") for i, (gpus, duration) in enumerate(rows)]


@pytest.mark.parametrize("policy", ["best-effort", "headway", "tiresias-l"])
def test_another_node_is_cleared_where_those_of_the_first_find_no_place(policy):
    """The fewest GPUs are held on the third node, but no node has two free GPUs for the job there; jobs of the first find places."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=4), Queue("b", guaranteed_gpus=8)), notice_s=60.0)
    jobs = [*on_nodes_of_four((2, 1), (2, 1), (2,)), (100.0, 4, 50.0, "a")]
    done = run(queues, jobs, (3, 4), policy, preemption_cost=5.0)
    assert times(done, PROMISE, len(jobs) - 1) == [100.0]
    assert times(done, START, len(jobs) - 1) == [165.0]
    assert migrations(done) == 2


@pytest.mark.parametrize("policy", ["best-effort", "tiresias-l"])
def test_jobs_of_one_set_migrate_to_gpus_that_the_set_releases(policy):
    """Job 6 of two GPUs fits on node 3 only if job 10 migrates as well: the notice of job 10 stands (rule 30).

    Under headway the jobs of one GPU come first in the order, so they are placed first and leave no two GPUs on one node.
    There is one attempt only, and the search finds no set.
    """
    queues = Queues("q", (Queue("a", guaranteed_gpus=4), Queue("b", guaranteed_gpus=12)), notice_s=60.0)
    jobs = [*on_nodes_of_four((2, 1), (2, 1), (2, 1), (2, 1)), (100.0, 4, 50.0, "a")]
    done = run(queues, jobs, (4, 4), policy, preemption_cost=5.0)
    assert times(done, PROMISE, len(jobs) - 1) == [100.0]
    assert times(done, START, len(jobs) - 1) == [165.0]
    assert migrations(done) == 3


FIVE = [(0.0, 3, 900.0, "d"), (0.0, 2, 900.0, "d"), (10.0, 1, 5000.0, "d"), (20.0, 2, 100.0, "c")]


@pytest.mark.parametrize("notice", [5.0, 0.0])
def test_another_team_does_not_preempt_a_job_that_a_guarantee_covers_in_part(notice):
    """Job 0 uses three GPUs of the guarantee of four, and job 1 is borrowed in part (rule 26): job 3 does not preempt it (rule 27).

    Job 2 is not within the guarantee: its team uses five GPUs. Both wait until the first jobs end.
    """
    queues = Queues("q", (Queue("c"), Queue("d", guaranteed_gpus=4)), notice_s=notice)
    done = run(queues, FIVE, (1, 5), "srsf", firm=(0,), min_runtime=0.0)
    assert times(done, STOP, 1) == []
    assert times(done, START, 3) == times(done, START, 2) == [900.0]


def test_the_team_of_a_job_that_has_stopped_asks_at_once():
    """Jobs 2 and 5 stop for a larger one of their queue. That leaves two GPUs of the guarantee, but one alone is free."""
    queues = Queues("q", (Queue("a", per_user=QueueLimits(gpus=4)), Queue("b", guaranteed_gpus=6), Queue("c")))
    jobs = [(50.0, 3, 100.0, "a"), (50.0, 3, 100.0, "a"), (50.0, 2, 200.0, "b"), (50.0, 3, 200.0, "c")]
    jobs += [(50.0, 1, 200.0, "a"), (179.0, 3, 43.0, "b"), (194.0, 4, 50.0, "b")]
    done = run(queues, jobs, (1, 12), "tiresias-l?threshold=100", "vvvvuuu", preemption_cost=7.0, min_runtime=0.0)
    (stopped,) = times(done, STOPPED, 5)
    assert stopped == times(done, STOPPED, 2)[0] == times(done, START, 6)[0]
    assert times(done, START, 2)[1] == stopped + 7.0


def test_what_was_promised_is_kept_through_the_rounds_of_an_instant():
    """Job 4 has job 2 of its queue stopped, which takes no time. Another team took the place, and job 2 did not ask for its own."""
    top = (Queue("top", guaranteed_gpus=6), Queue("a", parent="top"))
    queues = Queues("q", (*top, Queue("c"), Queue("d", guaranteed_gpus=6, per_user=QueueLimits(gpus=4))), notice_s=5.0)
    jobs = [(0.0, 4, 200.0, "c"), (0.0, 2, 200.0, "a"), (34.0, 3, 100.0, "d"), (93.0, 3, 44.0, "d")]
    jobs += [(100.0, 4, 1.0, "d"), (147.0, 1, 50.0, "c"), (150.0, 3, 50.0, "d")]
    done = run(queues, jobs, (1, 12), "tiresias-l?threshold=100", "uvuuuuv", min_runtime=30.0)
    last = times(done, STOP, 2)[-1]
    assert times(done, START, 4) == [last]
    assert times(done, START, 2)[-1] == last + 1.0  # when job 4 has ended


def test_a_job_that_cannot_be_stopped_takes_no_guarantee_by_making_one_of_its_queue_stop():
    """Its queue is at its limit: job 4 had job 1 stopped, and one GPU of those that c is guaranteed was gone."""
    queues = Queues("q", (Queue("a"), Queue("b", limits=QueueLimits(gpus=4)), Queue("c", guaranteed_gpus=5)))
    jobs = [(0.0, 1, 200.0, "b"), (0.0, 2, 200.0, "b"), (0.0, 2, 200.0, "a"), (36.0, 4, 164.0, "a")]
    jobs += [(50.0, 1, 10.0, "b"), (170.0, 1, 50.0, "c"), (177.0, 1, 9.0, "b"), (185.0, 4, 10.0, "c")]
    done = run(queues, jobs, (1, 12), "srsf", firm=(0, 2, 3, 4), preemption_cost=7.0, min_runtime=0.0)
    assert times(done, START, 4) == [200.0]
    assert times(done, START, 7) == [192.0]


def test_a_job_within_the_guarantee_leaves_a_promise_of_its_own_queue_alone():
    """Job 5 was stopped for job 3. Job 9 of the same user arrives when it has saved: only one of them may run, and job 3 does (rule 26)."""
    queues = Queues(
        "q", (Queue("a", guaranteed_gpus=3, per_user=QueueLimits(running=1)), Queue("b"), Queue("c"), Queue("d"))
    )
    jobs = [(0.0, 3, 175.0, "d"), (10.0, 3, 50.0, "d"), (35.0, 1, 100.0, "c"), (50.0, 2, 100.0, "a")]
    jobs += [(50.0, 4, 100.0, "d"), (50.0, 4, 50.0, "a"), (100.0, 1, 22.0, "b"), (137.0, 2, 50.0, "d")]
    jobs += [(142.0, 3, 34.0, "c"), (161.0, 2, 1.0, "a")]
    done = run(
        *(queues, jobs, (1, 12), "tiresias-l?threshold=100", "vvuvvvuvvv"),
        **{"firm": (1,), "preemption_cost": 7.0, "min_runtime": 0.0},
    )
    assert 161.0 in times(done, START, 3)
    assert times(done, PROMISE, 3)[-1] == 154.0  # it was not withdrawn


@pytest.mark.parametrize("cost", [0.0, 3.0])
@pytest.mark.parametrize("limits", [QueueLimits(running=1), QueueLimits(gpus=1)])
def test_a_job_that_is_owed_nothing_starts_too_once_the_promise_that_filled_its_limit_is_withdrawn(limits, cost):
    """Job 1 is stopped for job 2 and promoted at once, so it comes first again; the promise of job 2 fills the limit of their queue."""
    queues = Queues("q", (Queue("a", limits=limits),))
    jobs = [(0.0, 1, 100.0, "a"), (1.0, 1, 100.0, "a"), (105.0, 1, 50.0, "a")]
    done = run(queues, jobs, (1, 2), "tiresias-l?threshold=10&promote=2", firm=(0, 2), preemption_cost=cost)
    assert np.isfinite(done.jobs["end"]).all()


def test_one_that_comes_before_a_job_with_a_promise_has_its_guarantee():
    """Job 5 was promised GPUs that its team is owed; the shorter job 6 came before it, counted as not owed, and both were passed."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=5), Queue("b", priority=1)))
    jobs = [(2.0, 1, 100.0, "b"), (10.0, 3, 100.0, "b"), (43.0, 2, 83.0, "b"), (56.0, 2, 50.0, "b")]
    jobs += [(74.0, 4, 50.0, "a"), (84.0, 1, 5.0, "a"), (91.0, 1, 1.0, "a")]
    done = run(queues, jobs, (1, 12), "srsf", preemption_cost=7.0, min_runtime=500.0)
    assert times(done, STOPPED, 2)[0] == 91.0
    assert times(done, START, 6) == [91.0]
    assert times(done, START, 5) == [91.0]


def test_fifo_blocks_one_queue_only():
    """Job 3 of queue a waits for three GPUs. Two are free: queue b gets them, and no later job of a does (rule 7)."""
    queues = Queues(
        "q", tuple(Queue(name, guaranteed_gpus=gpus) for name, gpus in zip("abcd", (3, 6, 2, 1), strict=True))
    )
    jobs = [(0.0, 4, 69.0, "b"), (7.0, 2, 50.0, "c"), (10.0, 4, 50.0, "a"), (10.0, 3, 1.0, "a"), (36.0, 2, 1.0, "b")]
    done = run(queues, [*jobs, (36.5, 1, 1.0, "a")], (1, 12), "fifo", firm=(3,))
    assert times(done, START, 4) == [36.0]
    assert times(done, START, 5)[0] >= times(done, START, 3)[0]  # nobody passes in its own queue


def test_a_job_that_its_own_queue_is_owed_gpus_for_goes_before_those_that_a_team_above_is():
    queues = Queues(
        "q", (Queue("top", guaranteed_gpus=4), Queue("a", parent="top"), Queue("b", parent="top", guaranteed_gpus=2))
    )
    done = run(queues, [(0.0, 4, 100.0, "a"), (0.0, 4, 100.0, "b"), (0.0, 2, 100.0, "b")], (1, 4), "best-effort")
    assert times(done, START, 2) == [0.0]


def test_a_job_that_a_team_above_is_owed_gpus_for_is_not_hidden_behind_another_queue():
    """Of the queues below top the one that uses less has a job that does not fit; the other is owed the GPU that is free."""
    top = (Queue("top", guaranteed_gpus=2), Queue("a", parent="top"), Queue("b", parent="top"))
    queues = Queues("q", (*top, Queue("c"), Queue("d", guaranteed_gpus=2)), notice_s=100.0)
    jobs = [(0.0, 1, 900.0, "b"), (0.0, 2, 900.0, "d"), (20.0, 3, 9.0, "a"), (20.0, 1, 900.0, "b"), (20.0, 1, 9.0, "c")]
    done = run(queues, jobs, (1, 4), "best-effort")
    assert times(done, START, 3) == [20.0]


@pytest.mark.parametrize(("gpus", "first"), [(3, 2), (1, 3)], ids=["a larger one", "one of its size"])
def test_a_notice_goes_on_where_another_job_of_the_queue_comes_first(gpus, first):
    """Borrowers have notice from 10 s on. Job 3 comes before job 2 in the order: the notice is over at 70 s all the same."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=gpus), Queue("b", priority=1)), notice_s=60.0)
    jobs = [(0.0, 2, 9000.0, "b"), (0.0, 2, 9000.0, "b"), (10.0, 1, 5000.0, "a"), (40.0, gpus, 10.0, "a")]
    done = run(queues, jobs, (1, 4), "srsf", min_runtime=0.0)
    assert times(done, PROMISE, 2)[0] == 10.0
    assert times(done, START, first) == [70.0]


@pytest.mark.parametrize("policy", ["best-effort", "headway"])
def test_limits_keep_room_for_a_job_that_asks_and_nobody_borrows_what_it_asked_for(policy):
    """Small jobs of the same user would fill the limit again and again: they wait, and job 2 has its GPUs at the end of the notice."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=5, per_user=QueueLimits(running=1)), Queue("b")), notice_s=60.0)
    jobs = [(0.0, 4, 9000.0, "b"), (0.0, 3, 20000.0, "b"), (10.0, 4, 50.0, "a")]
    small = [(20.0 + 10 * i, 1, 30.0, "a") for i in range(20)]
    done = run(queues, [*jobs, *small], (1, 8), policy, users="vv" + "u" * 21, preemption_cost=5.0)
    assert times(done, PROMISE, 2) == [10.0]
    assert times(done, START, 2) == [75.0]
    assert min(times(done, START, j)[0] for j in range(3, 23)) == 125.0


@pytest.mark.parametrize("policy", ["best-effort", "headway"])
def test_a_promise_within_a_guarantee_keeps_its_room_in_a_limit(policy):
    """Job 3 has the higher priority, but the promise of job 2 is protected (rule 12) and fills the limit of one job (rule 31).

    The notice of the borrower is over at 70 s, and job 2 starts when it has saved. Job 3 starts when job 2 has ended.
    """
    above = Queue("top", guaranteed_gpus=5, limits=QueueLimits(running=1))
    below = (Queue("a", "top", guaranteed_gpus=4), Queue("high", "top", guaranteed_gpus=1, priority=1))
    jobs = [(0.0, 4, 300.0, "b"), (0.0, 3, 20000.0, "b"), (10.0, 4, 50.0, "a"), (20.0, 1, 500.0, "high")]
    queues = Queues("q", (above, *below, Queue("b")), notice_s=60.0)
    done = run(queues, [*jobs, (100.0, 4, 5000.0, "b")], (1, 8), policy, preemption_cost=5.0)
    (borrower,) = [j for j in (0, 1) if times(done, NOTIFY, j)]
    assert times(done, PROMISE, 2) == times(done, NOTIFY, borrower) == [10.0]
    assert times(done, STOP, borrower)[0] == 70.0
    assert times(done, START, 2) == [75.0]
    assert times(done, START, 3) == [125.0]
