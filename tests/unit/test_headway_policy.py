"""headway, the default policy: stops that pay, a bound on starving, and reports that need not be true."""

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.core.engine import drive
from headway.core.events import START, STOP
from headway.core.tables.journal import journal
from headway.placement.registry import find_placement
from headway.policies.headway import FIRST_GPU_S, GROWTH, PATIENCE, POLICY, QUEUES, TURN_S, bound, queue
from headway.sim.api import simulate
from headway.sim.run import Setting, prepare
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import workload


def times(result, kind: int, job: int) -> list[float]:
    """When the journal says so."""
    entries = result.run.entries
    return entries["time"][(entries["kind"] == kind) & (entries["job"] == job)].tolist()


def run(rows, where: str, cost: str = "30s", **given):
    """Jobs of (submit, GPUs, duration)."""
    submit, gpus, duration = map(np.array, zip(*rows, strict=True))
    jobs = workload("by hand", submit_s=submit.astype(float), gpus=gpus, duration_s=duration.astype(float))
    return simulate(jobs, where, "headway", preemption_cost=cost, keep_journal=True, **given)


def test_a_job_is_stopped_once_the_other_has_waited_for_what_the_stop_costs():
    # The first is beyond its turn and in a later queue; stopping it costs 4 GPUs x 30 s, and half of that is the other's to wait.
    result = run([(0, 4, 5000), (2000, 1, 100)], "1x4")
    assert times(result, STOP, 0) == [2000 + POLICY.rent * 4 * 30]
    assert times(result, START, 1) == [2000 + POLICY.rent * 4 * 30 + 30]


def test_a_stop_that_costs_nothing_is_made_at_once():
    result = run([(0, 4, 5000), (2000, 1, 100)], "1x4", cost="none")
    assert times(result, STOP, 0) == [2000.0]


def test_nobody_is_stopped_within_a_quarter_of_an_hour_nor_for_one_of_the_same_queue():
    assert times(run([(0, 4, 5000), (300, 1, 100)], "1x4"), STOP, 0) == [TURN_S]
    assert times(run([(0, 1, 700), (10, 1, 50)], "1x1"), STOP, 0) == []


def test_a_job_that_waits_moves_to_the_front_by_its_bound():
    """One large job of the third queue against jobs of the first that leave no moment at which four GPUs are free."""
    short, begins = 700.0, 1000.0
    bound = PATIENCE * (begins + TURN_S) * (GROWTH**3 - 1.0)  # until it is before all that have just come
    count = int(bound * 1.1 / (short / 3.9))
    stream = [(begins + i * short / 3.9, 1, short) for i in range(count)]
    result = run([(0.0, 4, 2000.0), *stream], "1x4", cost="none", min_runtime="15m")
    assert times(result, STOP, 0)[0] == begins
    waited = times(result, START, 0)[1] - begins
    assert 0.9 * bound < waited <= bound + TURN_S  # nothing else lets it run


@pytest.mark.parametrize("days", [20, 30])
def test_the_bound_holds_under_an_overload_that_lasts(days: int):
    """Twice the work that the cluster can do comes for weeks: a job that is due waits for those that were due earlier, and for nobody else.

    It waited until the last of all the others had ended, however many came.
    """
    short, load, day = 700.0, 2.0, 86400.0
    begins, turn = 100.0, 300.0
    due = turn + PATIENCE * (turn + TURN_S) * (GROWTH**2 - 1.0)  # that of the large one, of the second queue
    count = int(days * day / (short / 4 / load))
    stream = [(begins + i * short / 4 / load, 1, short) for i in range(count)]
    result = run([(0.0, 4, 600.0), *stream], "1x4", cost="none", min_runtime="5m")
    # Those of the stream are served as they come, and due after a wait of their own: before it are those that came so much earlier.
    earlier = due - PATIENCE * TURN_S * (GROWTH - 1.0)
    stopped, again = times(result, STOP, 0), times(result, START, 0)[1]
    assert stopped == [turn]
    assert again == pytest.approx(earlier * load, abs=2 * short)
    assert again < 0.6 * days * load * day
    assert result.summary["preemptions"] < 20  # those that are due do not stop each other


def ends_with_claim(claim: float) -> np.ndarray:
    """When each job ends on one GPU if the first, of 6,000 s, claims so much (NaN: nothing), and others come all the time."""
    rows = [(0.0, 1, 6000.0), *[(500.0 * i, 1, 400.0) for i in range(1, 30)]]
    submit, gpus, duration = map(np.array, zip(*rows, strict=True))
    jobs = workload("by hand", submit_s=submit, gpus=gpus.astype(int), duration_s=duration)
    setting = Setting(preemption_cost=30.0, min_runtime=None)
    engine, world = prepare(jobs, cluster("1x1"), POLICY, find_placement("consolidated"), setting)
    engine.state.jobs["left"][0] = claim
    drive(engine, SimulatedWorld(engine, world, journal(engine.state, 1 << 12, True)))
    return engine.state.jobs["end"].copy()


def test_a_job_that_claims_too_little_gains_what_it_claims_and_no_more():
    silent, liar = ends_with_claim(np.nan), ends_with_claim(600.0)
    # It is let run for what it claims, in turns that follow from costs alone; then it is a job that reports nothing.
    assert (liar[1:] - silent[1:]).max() <= 600.0 + TURN_S
    assert liar[0] > liar[1:15].max()


def test_a_job_that_claims_too_much_is_held_to_be_that_long():
    assert ends_with_claim(60_000.0)[0] >= ends_with_claim(6000.0)[0]


def test_whatever_a_job_claims_it_is_in_no_queue_after_the_last():
    """A job that claims a billion times too much is where one is that claims what fills the last queue, and is due as early."""
    last = FIRST_GPU_S * GROWTH ** (QUEUES - 2)
    engine, _ = prepare(
        workload("by hand", submit_s=[0.0, 0.0], gpus=[1, 1], duration_s=[10.0, 10.0]),
        *(cluster("1x1"), POLICY, find_placement("consolidated"), Setting()),
    )
    most, too_much = engine.state.jobs
    most["left"], too_much["left"] = last, last * 1e9
    assert queue(most, 0.0) == queue(too_much, 0.0) == QUEUES - 1.0
    assert bound(most, 0.0) == bound(too_much, 0.0) < np.inf


def test_shares_and_errors_of_reports_are_checked():
    with pytest.raises(Exception, match="progress reports 2 is not a number from 0 to 1"):
        run([(0, 1, 10)], "1x1", progress_reports=2)
    with pytest.raises(Exception, match=r"progress error 0\.5 is not a number from 1 to 1e\+06"):
        run([(0, 1, 10)], "1x1", progress_reports=1, progress_error=0.5)
