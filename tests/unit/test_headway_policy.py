"""headway, the default policy: stops that pay, a bound on starving, and reports that need not be true."""

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.core.compiler.store import cache_folder
from headway.core.engine import drive
from headway.core.events import START, STOP
from headway.core.protocols import change_function
from headway.core.tables.journal import journal
from headway.placement.registry import find_placement
from headway.policies.headway import (
    FIRST_GPU_S,
    GPU_PATIENCE_S,
    GROWTH,
    LEAST_JOBS,
    MIN_RUNTIME_S,
    MOST_PATIENCE_S,
    MOST_WAIT,
    QUEUES,
    bound,
    make,
    queue,
)
from headway.sim.api import simulate
from headway.sim.run import Setting, prepare
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import workload


def times(result, kind: int, job: int) -> list[float]:
    """When the journal says so."""
    entries = result.run.entries
    return entries["time"][(entries["kind"] == kind) & (entries["job"] == job)].tolist()


def run(rows, where: str, cost: str = "30s", policy: str = "headway", **given):
    """Jobs of (submit, GPUs, duration)."""
    submit, gpus, duration = map(np.array, zip(*rows, strict=True))
    jobs = workload("by hand", submit_s=submit.astype(float), gpus=gpus, duration_s=duration.astype(float))
    return simulate(jobs, where, policy, preemption_cost=cost, keep_journal=True, **given)


def test_a_job_preempts_once_it_has_waited_for_the_cost_and_the_size_of_the_preempted_job():
    # The first job is beyond its minimum run time and in a later queue; stopping it costs 4 GPUs x 30 s.
    result = run([(0, 4, 5000), (2000, 1, 100)], "1x4")
    at = 2000 + 4 * GPU_PATIENCE_S + make().rent * 4 * 30
    assert times(result, STOP, 0) == [at]
    assert times(result, START, 1) == [at + 30]


def test_a_free_preemption_of_a_large_job_takes_at_most_an_hour_of_waiting():
    assert times(run([(0, 4, 5000), (2000, 1, 100)], "1x4", cost="none"), STOP, 0) == [2000 + 4 * GPU_PATIENCE_S]
    assert times(run([(0, 512, 9000), (2000, 1, 100)], "64x8", cost="none"), STOP, 0) == [2000 + MOST_PATIENCE_S]


def test_no_job_is_preempted_within_its_minimum_run_time_nor_for_a_job_of_the_same_queue():
    assert times(run([(0, 4, 5000), (300, 1, 100)], "1x4"), STOP, 0) == [MIN_RUNTIME_S]
    assert times(run([(0, 1, 700), (10, 1, 50)], "1x1"), STOP, 0) == []


@pytest.mark.parametrize(("gpus", "hours"), [((5, 5), (2.0, 2.0)), ((5, 8), (2.0, 2.0)), ((1, 4), (1.0, 3.0))])
def test_jobs_with_run_times_that_vary_little_are_served_first_come_first_served(gpus, hours):
    """Least attained service finishes equal jobs all at the end: mean JCT was 1.8 to 3.4 times best-effort's."""
    draw = np.random.default_rng(1)
    size, duration = draw.integers(gpus[0], gpus[1] + 1, 600), 3600.0 * draw.uniform(*hours, 600)
    gap = np.mean(np.where(size > 4, 8, size) * duration) / 8 / 0.95
    rows = list(zip(np.cumsum(draw.exponential(gap, 600)), size, duration, strict=True))
    mean = {name: run(rows, "1x8", policy=name).summary["jct_s"]["mean"] for name in ("headway", "best-effort")}
    assert mean["headway"] <= 1.5 * mean["best-effort"]  # until LEAST_JOBS have ended the variation is unknown


def usual_then(gpus: int, duration: float, known: int, **given):
    """Run `known` jobs of 1,000 s in turn, then a job, and half an hour after its start another job of 1,000 s."""
    begins = known * 1000.0
    rows = [(i * 1000.0, 4, 1000.0) for i in range(known)] + [(begins, gpus, duration), (begins + 1800.0, 4, 1000.0)]
    return run(rows, "1x4", cost="none", **given)


def test_a_job_that_runs_for_much_longer_than_usual_is_preempted():
    assert times(usual_then(4, 1900.0, 130), STOP, 130) == []  # within twice the usual run time
    assert len(times(usual_then(4, 9000.0, 130), STOP, 130)) == 1
    assert len(times(usual_then(4, 9000.0, 130, progress_reports=1), STOP, 130)) == 1  # it reports so at its start


def test_with_few_ended_jobs_the_variation_is_unknown():
    assert len(times(usual_then(4, 1900.0, LEAST_JOBS // 2), STOP, LEAST_JOBS // 2)) == 1


def mixed_stream(begins: float, days: float, load: float) -> list[tuple[float, int, float]]:
    """Return jobs of one GPU whose run times of 50 and 1,350 s vary much, at a load of four GPUs."""
    gap = 700.0 / 4 / load
    return [(begins + i * gap, 1, (50.0, 1350.0)[i % 2]) for i in range(int(days * 86400.0 / gap))]


def test_a_job_that_waits_moves_to_the_front_by_its_bound():
    """One large job of the third queue against short jobs that leave no moment at which four GPUs are free."""
    stopped = 1000.0 + 4 * GPU_PATIENCE_S
    due = MOST_WAIT * (stopped + MIN_RUNTIME_S)
    rows = [(0.0, 4, 2000.0), *[(1000.0, 1, 1350.0)] * 3, *mixed_stream(1000.0, 1.1 * due / 86400.0, 0.98)]
    result = run(rows, "1x4", cost="none", min_runtime="15m")
    assert times(result, STOP, 0)[0] == stopped
    waited = times(result, START, 0)[1] - stopped
    assert due <= waited <= due + 2 * MIN_RUNTIME_S  # nothing else lets it run


def test_every_wait_is_bounded_under_an_overload_that_lasts():
    """Twice the work that the cluster can do arrives for six days: a preempted job runs again whenever it is due.

    The bound grew fourfold with each queue: the second wait of an 8-GPU job of one hour was at most 84 days.
    """
    turn = 300.0
    result = run([(0.0, 4, 1200.0), *mixed_stream(100.0, 6, 2.0)], "1x4", cost="none", min_runtime="5m")
    stops, starts = times(result, STOP, 0), times(result, START, 0)
    assert len(stops) >= 2
    waited = 0.0
    for run_s, stop, start in zip(np.arange(1, 10) * turn, stops, starts[1:], strict=False):
        waited += start - stop
        due = MOST_WAIT * (run_s + MIN_RUNTIME_S)
        assert due <= waited <= due + 6 * 3600.0  # jobs that were due earlier come first
    assert result.run.jobs["end"][0] < 5 * 86400.0


def ends_with_claim(claim: float) -> np.ndarray:
    """When each job ends on one GPU if the first, of 6,000 s, claims so much (NaN: nothing), and others come all the time."""
    rows = [(0.0, 1, 6000.0), *[(500.0 * i, 1, 400.0) for i in range(1, 30)]]
    submit, gpus, duration = map(np.array, zip(*rows, strict=True))
    jobs = workload("by hand", submit_s=submit, gpus=gpus.astype(int), duration_s=duration)
    setting = Setting(preemption_cost=30.0, min_runtime=None)
    engine, world = prepare(jobs, cluster("1x1"), make(), find_placement("consolidated"), setting)
    engine.state.jobs["left"][0] = claim
    drive(engine, SimulatedWorld(engine, world, journal(engine.state, 1 << 12, True)))
    return engine.state.jobs["end"].copy()


def test_a_job_that_claims_too_little_gains_what_it_claims_and_no_more():
    silent, liar = ends_with_claim(np.nan), ends_with_claim(600.0)
    # It is let run for what it claims, in turns that follow from costs alone; then it is a job that reports nothing.
    assert (liar[1:] - silent[1:]).max() <= 600.0 + MIN_RUNTIME_S
    assert liar[0] > liar[1:15].max()


def test_a_job_that_claims_too_much_is_held_to_be_that_long():
    assert ends_with_claim(60_000.0)[0] >= ends_with_claim(6000.0)[0]


def test_whatever_a_job_claims_it_is_in_no_queue_after_the_last():
    """A job that claims a billion times too much is where one is that claims what fills the last queue, and is due as early."""
    last = FIRST_GPU_S * GROWTH ** (QUEUES - 2)
    engine, _ = prepare(
        workload("by hand", submit_s=[0.0, 0.0], gpus=[1, 1], duration_s=[10.0, 10.0]),
        *(cluster("1x1"), make(), find_placement("consolidated"), Setting()),
    )
    most, too_much = engine.state.jobs
    most["left"], too_much["left"] = last, last * 1e9
    assert queue(most, 0.0) == queue(too_much, 0.0) == QUEUES - 1.0
    assert bound(most, 0.0, engine.options) == bound(too_much, 0.0, engine.options) < np.inf


def test_the_compiled_change_with_ended_is_stored_on_disk():
    """Compiling it took every process half a second."""
    change_function(make().change, make().ended)
    assert list(cache_folder("policies").glob("*follow*.whole"))


def test_shares_and_errors_of_reports_are_checked():
    with pytest.raises(Exception, match="progress reports 2 is not a number from 0 to 1"):
        run([(0, 1, 10)], "1x1", progress_reports=2)
    with pytest.raises(Exception, match=r"progress error 0\.5 is not a number from 1 to 1e\+06"):
        run([(0, 1, 10)], "1x1", progress_reports=1, progress_error=0.5)
