"""Teams by hand: small cases in which docs/semantics.md says exactly what happens (rules 23 to 32)."""

import numpy as np
import pytest

from headway.cluster.nodes import of_groups
from headway.cluster.queues import Booking, Queue, QueueLimits, Queues
from headway.core.events import MIGRATE, NOTIFY, PROMISE, REASONS, START, STOP
from headway.errors import BadInput
from headway.network.fabric.model import Fabric
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.api import simulate
from headway.sim.run import Run, Setting, simulate_run
from headway.workloads.workload import workload


def run(
    queues: Queues,
    jobs: list[tuple[float, int, float, str]],
    gpus: int,
    policy: str = "best-effort",
    cost: float = 0.0,
    **columns,
) -> Run:
    """Simulate jobs (submit, GPUs, duration, queue) on one node."""
    submit, asked, duration, queue = zip(*jobs, strict=True)
    load = workload("by hand", submit, asked, duration, queue=queue, **columns)
    where, setting = of_groups("one", [(1, gpus)]), Setting(preemption_cost=cost, queues=queues)
    return simulate_run(load, where, find_policy(policy), find_placement("consolidated"), setting, keep_journal=True)


def times(done: Run, kind: int, job: int) -> list[float]:
    """When the journal has this of a job."""
    rows = done.entries[(done.entries["kind"] == kind) & (done.entries["job"] == job)]
    return [float(at) for at in rows["time"]]


def first_starts(done: Run) -> list[int]:
    """The jobs in the order of their first starts."""
    return [int(j) for j in dict.fromkeys(done.entries["job"][done.entries["kind"] == START])]


@pytest.mark.parametrize("policy", ["headway", "srtf", "tiresias-l"])
def test_a_job_does_not_take_back_the_gpus_it_was_preempted_for(policy):
    """Job 0 is within the guarantee once it has saved, but its GPU is promised to job 1 of the same queue (rule 26)."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=1), Queue("b")))
    done = run(queues, [(0.0, 1, 5000.0, "a"), (10.0, 4, 100.0, "a")], 4, policy, cost=30.0)
    (stopped,) = times(done, STOP, 0)
    assert times(done, START, 1) == [stopped + 30.0]


def test_a_team_below_its_guarantee_is_served_first_then_priority_then_weight():
    queues = Queues(
        "q",
        (Queue("light"), Queue("heavy", weight=2.0), Queue("high", priority=1), Queue("sure", guaranteed_gpus=1)),
    )
    names = ("light", "light", "heavy", "heavy", "heavy", "high", "sure", "sure")
    done = run(queues, [(0.0, 1, 10.0 + i, name) for i, name in enumerate(names)], 1)
    # The guarantee, again once its GPU is free; then the priority; then teams that use nothing, in the order of submission.
    assert first_starts(done) == [6, 7, 5, 0, 1, 2, 3, 4]
    by_weight = run(queues, [(0.0, 1, 100.0, name) for name in ("light",) * 4 + ("heavy",) * 4], 6)
    at_once = [j for j in range(8) if times(by_weight, START, j)[0] == 0.0]
    assert at_once == [0, 1, 4, 5, 6, 7]  # two to four: as the weights say


def test_shares_go_down_the_hierarchy():
    queues = Queues(
        "q",
        (
            Queue("left"),
            Queue("right"),
            Queue("a", parent="left"),
            Queue("b", parent="left"),
            Queue("c", parent="right"),
        ),
    )
    names = ("a",) * 8 + ("b",) * 8 + ("c",) * 8
    done = run(queues, [(0.0, 1, 100.0, name) for name in names], 8)
    started = [names[j] for j in range(24) if times(done, START, j)[0] == 0.0]
    assert sorted(started) == ["a", "a", "b", "b", "c", "c", "c", "c"]


def test_a_job_that_cannot_be_stopped_uses_up_a_guarantee_that_is_smaller_than_it():
    """It used none of it, so the other job of its team did, and the GPUs that a third had lent could not be had back."""
    queues = Queues("q", (Queue("small", guaranteed_gpus=3), Queue("lender", guaranteed_gpus=2)))
    jobs = [(0.0, 4, 400.0, "small"), (0.0, 3, 400.0, "small"), (10.0, 2, 5.0, "lender")]
    done = run(queues, jobs, 7, preemptible=np.array([False, True, True]))
    assert times(done, STOP, 1) == [10.0]
    assert times(done, START, 2) == [10.0]


def test_what_is_asked_back_is_not_lent_again_and_comes_at_the_end_of_the_notice():
    queues = Queues("q", (Queue("lender", guaranteed_gpus=2), Queue("borrower")), notice_s=30.0)
    jobs = [
        (0.0, 1, 500.0, "borrower"),
        (0.0, 1, 15.0, "borrower"),
        (10.0, 2, 50.0, "lender"),
        (11.0, 1, 5.0, "borrower"),
    ]
    done = run(queues, jobs, 2, cost=7.0)
    assert times(done, PROMISE, 2) == [10.0]
    assert times(done, STOP, 0) == [40.0]
    assert times(done, START, 2) == [47.0]  # saved; the GPU that was free from 15 on was kept for it
    assert times(done, START, 3) == [97.0]
    assert times(done, STOP, 1) == []


def test_a_notice_holds_in_turns_and_ends_them():
    queues = Queues("q", (Queue("lender", guaranteed_gpus=1), Queue("borrower")), notice_s=30.0)
    load = workload("by hand", [0.0, 10.0], [1, 1], [5000.0, 50.0], queue=["borrower", "lender"])
    where, setting = of_groups("one", [(1, 1)]), Setting(min_runtime=4000.0, queues=queues)
    done = simulate_run(load, where, find_policy("headway"), find_placement("consolidated"), setting, keep_journal=True)
    assert times(done, START, 1) == [40.0]


def test_a_job_of_another_team_is_stopped_only_for_a_team_that_uses_less():
    queues = Queues("q", (Queue("a"), Queue("b")))
    # srtf would stop the long jobs of b for any short one of a: here only while a uses no more than b afterwards.
    jobs = [(0.0, 1, 1000.0, "b")] * 4 + [(10.0, 1, 50.0, "a")] * 4
    done = run(queues, jobs, 4, policy="srtf")
    assert [len(times(done, STOP, j)) for j in range(4)].count(1) == 2
    assert sum(times(done, START, j)[0] == 10.0 for j in range(4, 8)) == 2


def test_a_limit_lets_the_policy_choose_among_the_jobs_of_the_team():
    queues = Queues("q", (Queue("a", limits=QueueLimits(gpus=2)), Queue("b")))
    done = run(queues, [(0.0, 2, 1000.0, "a"), (10.0, 1, 5.0, "a"), (10.0, 1, 7.0, "b")], 4, policy="srtf")
    assert times(done, STOP, 0) == [10.0]  # for the shorter job of its team, though GPUs are free
    assert times(done, START, 1) == [10.0]
    assert times(done, START, 2) == [10.0]
    waits = run(queues, [(0.0, 2, 1000.0, "a"), (10.0, 1, 5.0, "a")], 4, policy="fifo")
    assert times(waits, START, 1) == [1000.0]
    assert waits.receipts_us[1, REASONS.index("quota")] == 990_000_000


def test_a_job_that_cannot_be_stopped_borrows_only_what_nobody_is_guaranteed():
    queues = Queues("q", (Queue("a", guaranteed_gpus=2), Queue("b")))
    jobs = [(0.0, 1, 100.0, "b")] * 3 + [(10.0, 1, 20.0, "a")] * 2
    done = run(queues, jobs, 3, preemptible=[False] * 3 + [True] * 2)
    assert [times(done, START, j)[0] for j in range(3)] == [0.0, 100.0, 200.0]
    assert [times(done, START, j)[0] for j in (3, 4)] == [10.0, 10.0]
    assert done.receipts_us[1, REASONS.index("quota")] == 100_000_000


@pytest.mark.parametrize("policy", ["best-effort", "headway"])
def test_one_that_can_be_stopped_borrows_past_one_that_cannot(policy):
    queues = Queues("q", (Queue("a", guaranteed_gpus=2), Queue("b")))
    done = run(queues, [(0.0, 1, 100.0, "b")] * 4, 3, policy=policy, preemptible=[False, False, True, True])
    assert [times(done, START, j)[0] for j in range(4)] == [0.0, 100.0, 0.0, 0.0]


@pytest.mark.parametrize("policy", ["gandiva", "optimus"])
def test_policies_under_which_gpus_of_a_team_cannot_be_counted_are_refused(policy):
    with pytest.raises(BadInput, match="with queues"):
        run(Queues("q", (Queue("a"),)), [(0.0, 1, 5.0, "a")], 2, policy=policy)


def test_teams_are_charged_for_what_they_hold_and_borrow():
    queues = Queues("q", (Queue("top", guaranteed_gpus=1), Queue("a", parent="top", guaranteed_gpus=1), Queue("b")))
    done = run(queues, [(0.0, 2, 100.0, "a"), (0.0, 1, 50.0, "b")], 4)
    assert done.teams is not None
    used = dict(zip(("all", "top", "a", "b"), done.teams.table["gpu_s"], strict=True))
    assert used == {"all": 250.0, "top": 200.0, "b": 50.0, "a": 200.0}
    assert np.allclose(done.teams.table["borrowed_gpu_s"][1:], [100.0, 100.0, 50.0])


def booked(begin: float, end: float) -> Queues:
    """Two queues on two nodes of two GPUs; the first node is kept for a."""
    return Queues("q", (Queue("a"), Queue("b")), bookings=(Booking(("n000",), "a", begin, end, dated=False),))


def on_two_nodes(
    queues: Queues, jobs: list[tuple[float, int, float, str]], policy: str, turn: float = 0.0, **columns
) -> Run:
    submit, asked, duration, queue = zip(*jobs, strict=True)
    load = workload("by hand", submit, asked, duration, queue=queue, **columns)
    where, setting = of_groups("two", [(2, 2)]), Setting(preemption_cost=5.0, min_runtime=turn, queues=queues)
    return simulate_run(load, where, find_policy(policy), find_placement("consolidated"), setting, keep_journal=True)


def nodes_of(done: Run, job: int) -> list[int]:
    """The node of each start of a job."""
    starts = np.flatnonzero((done.entries["kind"] == START) & (done.entries["job"] == job))
    return [int(done.journal.places[done.entries["place_at"][i]]["node"]) for i in starts]


@pytest.mark.parametrize("policy", ["fifo", "best-effort", "headway", "tiresias-l", "las"])
def test_a_node_is_kept_for_a_queue_for_a_time(policy):
    jobs = [(0.0, 2, 400.0, "b"), (0.0, 2, 400.0, "b"), (120.0, 2, 30.0, "a"), (130.0, 1, 1.0, "b")]
    done = on_two_nodes(booked(100.0, 300.0), jobs, policy)
    on_first = next(j for j in (0, 1) if nodes_of(done, j)[0] == 0)
    assert times(done, STOP, on_first)[0] == 100.0  # it can be stopped, so it ran there until then
    assert nodes_of(done, 2)[0] == 0
    assert times(done, START, 2)[0] == 120.0
    again = next(at for at in times(done, START, on_first) if at > 100.0)
    assert again >= 300.0 or nodes_of(done, on_first)[1] == 1
    assert times(done, START, 3)[0] >= 300.0 or nodes_of(done, 3)[0] == 1
    if policy in ("fifo", "best-effort"):
        assert done.receipts_us[on_first, REASONS.index("advance_reservation")] > 0


def test_before_it_only_jobs_that_are_gone_in_time_start_there():
    limits = [np.inf, 50.0, np.inf]
    jobs = [(0.0, 2, 40.0, "b"), (0.0, 2, 40.0, "b"), (0.0, 2, 60.0, "b")]
    done = on_two_nodes(booked(100.0, 300.0), jobs, "best-effort", preemptible=[False] * 3, limit_s=limits)
    assert nodes_of(done, 0) == [1]  # nobody knows when it ends
    assert nodes_of(done, 1) == [0]
    assert nodes_of(done, 2) == [1]
    turns = on_two_nodes(booked(100.0, 300.0), [(0.0, 2, 500.0, "b"), (0.0, 2, 500.0, "b")], "headway", turn=150.0)
    assert sorted(nodes_of(turns, 0)[:1] + nodes_of(turns, 1)[:1]) == [0, 1]
    assert max(times(turns, START, 0)[0], times(turns, START, 1)[0]) == 300.0  # its turn would not end before


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_reservation_that_follows_another_one_is_kept_too(preemptible):
    """Node 0 is reserved for queue a until 100 s, then for queue b: a job of a that would stay longer starts on node 1."""
    bookings = (Booking(("n000",), "a", 0.0, 100.0, False), Booking(("n000",), "b", 100.0, 200.0, False))
    queues = Queues("q", (Queue("a"), Queue("b")), notice_s=20.0, bookings=bookings)
    load = workload("w", [90.0, 100.0], [4, 4], [1000.0, 10.0], queue=["a", "b"], preemptible=[preemptible, True])
    where, setting = of_groups("two", [(2, 4)]), Setting(preemption_cost=5.0, min_runtime=20.0, queues=queues)
    placement = find_placement("consolidated")
    done = simulate_run(load, where, find_policy("best-effort"), placement, setting, keep_journal=True)
    assert (times(done, START, 0), times(done, START, 1)) == ([90.0], [100.0])


def on_slices(queues: Queues, jobs: list[tuple[float, int, float, str]], cost: str) -> Run:
    """Simulate jobs (submit, GPUs, duration, queue) on slices of a fabric of four leaves."""
    fabric = Fabric("small", "leaf-spine", (0, 0, 1, 1, 2, 2, 3, 3), 2, spines=4)
    submit, asked, duration, queue = zip(*jobs, strict=True)
    load = workload("by hand", submit, asked, duration, queue=queue)
    about = {"placement": "vclos", "fabric": fabric, "queues": queues, "preemption_cost": cost, "keep_journal": True}
    return simulate(load, of_groups("nodes", [(8, 2)]), "best-effort", **about).run


def test_a_guarantee_on_slices_is_met_when_the_notice_is_over():
    """Links of a job under notice count as free soon, as its GPUs do (rule 29)."""
    queues = Queues("q", (Queue("a"), Queue("b", guaranteed_gpus=16)), notice_s=20.0)
    done = on_slices(queues, [(0.0, 16, 1000.0, "a"), (10.0, 16, 50.0, "b")], "5s")
    assert times(done, NOTIFY, 0) == [10.0]
    assert times(done, START, 1) == [35.0]


def test_two_guarantees_on_slices_do_not_take_the_same_links():
    """The simulation promised links under notice and withdrew the promise, for ever."""
    guaranteed = [Queue(name, guaranteed_gpus=8) for name in "bc"]
    queues = Queues("q", (Queue("a"), *guaranteed), notice_s=20.0)
    jobs = [(0.0, 6, 300.0, "a"), (0.0, 6, 300.0, "a"), (1.0, 8, 300.0, "c"), (2.0, 6, 300.0, "b")]
    done = on_slices(queues, jobs, "none")
    assert (times(done, START, 2), times(done, START, 3)) == ([21.0], [22.0])


def test_what_is_asked_back_is_not_promised_to_others_where_the_policy_preempts_either():
    queues = Queues("q", (Queue("lender", guaranteed_gpus=4), Queue("borrower")), notice_s=300.0)
    short = [(11.0, 1, 50.0, "borrower"), (20.0, 4, 5.0, "borrower")]
    done = run(queues, [(0.0, 1, 5000.0, "borrower")] * 3 + [(10.0, 4, 50.0, "lender"), *short], 4, policy="headway")
    assert times(done, PROMISE, 3) == [10.0]
    assert times(done, START, 3) == [310.0]
    assert times(done, START, 4) == [360.0]  # and not at 20 s, on the GPU that is kept for the lender


def on_nodes(queues: Queues, rows: list[tuple[float, int, float, str]], nodes: int, policy: str, **given) -> Run:
    """Simulate on several nodes of four GPUs."""
    submit, asked, duration, queue = zip(*rows, strict=True)
    load, where = workload("by hand", submit, asked, duration, queue=queue), of_groups("some", [(nodes, 4)])
    setting = Setting(queues=queues, **given)
    return simulate_run(load, where, find_policy(policy), find_placement("consolidated"), setting, keep_journal=True)


@pytest.mark.parametrize("policy", ["best-effort", "headway", "tiresias-l"])
def test_a_guarantee_is_not_hollow_because_it_lies_on_two_nodes(policy):
    """Each node has a job of the team itself and a borrower: stopping both borrowers alone makes no place for four GPUs."""
    queues = Queues("q", (Queue("a", guaranteed_gpus=8), Queue("b")), notice_s=60.0)
    rows = [(0.0, 3, 1.0, "a"), (0.5, 3, 1.0, "b"), (2.0, 2, 9000.0, "a"), (2.0, 2, 9000.0, "b")]
    rows += [(3.0, 2, 9000.0, "b"), (3.0, 2, 9000.0, "a"), (100.0, 4, 50.0, "a")]
    done = on_nodes(queues, rows, 2, policy, preemption_cost=5.0)
    apart = [{int(x["node"]) for x in places_of(done, START, j)} for j in (2, 5)]
    assert apart[0] != apart[1], "the case needs the jobs of the team on both nodes"
    assert times(done, PROMISE, 6) == [100.0]
    assert times(done, START, 6) == [165.0]
    # A job of the team itself migrates to the GPUs of one borrower (rule 29); it is not stopped.
    assert sum(len(times(done, MIGRATE, j)) for j in (2, 5)) == 1
    assert sum(len(times(done, STOP, j)) for j in (2, 5)) == 0
    assert sum(len(times(done, STOP, j)) for j in (3, 4)) == 2


def places_of(done: Run, kind: int, job: int) -> np.ndarray:
    """What the first such entry about a job gives it."""
    (rows,) = np.nonzero((done.entries["kind"] == kind) & (done.entries["job"] == job))
    ends = np.append(done.entries["place_at"][1:], len(done.journal.places))
    return done.journal.places[done.entries["place_at"][rows[0]] : ends[rows[0]]]


def test_smaller_jobs_make_way_with_teams_too():
    """Rules 8 and 14: once job 3 has waited for 10 s, job 2, which is spared last, migrates to the node of job 1."""
    queues = Queues("q", (Queue("a"), Queue("b")))
    rows = [(0.0, 1, 5.0, "a"), (0.0, 1, 100.0, "a"), (0.0, 1, 100.0, "a"), (6.0, 2, 1000.0, "b")]
    done = on_two_nodes(queues, rows, "srsf?defragment_after=10s")
    assert times(done, MIGRATE, 2) == [16.0]
    assert times(done, START, 3) == [21.0]
