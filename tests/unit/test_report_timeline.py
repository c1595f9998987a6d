"""The journal read in columns agrees with the counters that the engine keeps while it runs."""

import numpy as np
import pytest

from headway.errors import BadInput
from headway.sim.api import simulate
from headway.sim.results.timeline import Timeline, finish_time_fairness, holds, mean_in_bins, slow_down
from headway.workloads.workload import workload

TRACE = "synthetic:tiresias-480?jobs=80"


@pytest.fixture(scope="module", params=["fifo", "tiresias-l", "gandiva", "optimus"])
def run(request):
    """Runs without and with preemption, with packing, and with resizing."""
    return simulate(TRACE, "6x4", request.param, preemption_cost="model", skip_impossible=True, keep_journal=True).run


def test_utilisation_is_what_the_engine_counted(run):
    line = Timeline(run, 100)
    makespan = run.jobs["end"].max() - run.jobs["submit"].min()
    assert line.utilisation().mean() == pytest.approx(run.held_gpu_s / (makespan * run.cluster.total))


def test_waiting_adds_up_to_the_wait_of_all_jobs(run):
    line = Timeline(run, 100)
    width = line.edges_s[1] - line.edges_s[0]
    assert line.waiting().sum() * width == pytest.approx(run.jobs["pending"].sum())


def test_every_hold_begins_runs_and_ends_in_order(run):
    found = holds(run)
    assert (found.start_s <= found.running_s).all()
    assert (found.running_s <= found.end_s).all()
    assert (found.leaving_s <= found.end_s).all()
    assert (
        len(found)
        == len(run.jobs) + run.jobs["preemptions"].sum() + run.jobs["resizes"].sum() + run.jobs["migrations"].sum()
    )


def test_time_lost_to_preemption_is_what_the_world_charged(run):
    found = holds(run)
    lost = np.where(found.again, found.running_s - found.start_s, 0.0) + found.end_s - found.leaving_s
    assert lost.sum() == pytest.approx(run.preemption_cost_s)


def test_no_gpu_is_busy_twice_at_once(run):
    gpu, on, off = Timeline(run, 10).busy
    order = np.lexsort((on, gpu))
    gpu, on, off = gpu[order], on[order], off[order]
    same = gpu[1:] == gpu[:-1]
    assert (on[1:][same] >= off[:-1][same] - 1e-6).all()


def test_mean_in_bins_is_exact_inside_a_bin():
    mean = mean_in_bins(np.array([1.0, 4.0]), np.array([2, -2]), np.array([0.0, 2.0, 4.0, 6.0]))
    assert mean.tolist() == [1.0, 2.0, 0.0]


def test_a_job_that_does_not_fit_by_place_strands_gpus():
    """Two nodes of 4: two jobs of 3 leave 1 + 1 free; a job of 2 waits though 2 are free."""
    jobs = workload("two", [0, 0, 0], [3, 3, 2], [100, 100, 100])
    line = Timeline(simulate(jobs, "2x4", "best-effort", keep_journal=True).run, 20)
    assert line.stranded()[:10].tolist() == [2 / 8] * 10
    assert line.stranded()[10:].tolist() == [0.0] * 10
    assert line.scattered()[:10].tolist() == [2 / 8] * 10


def test_alone_on_the_cluster_all_is_fair():
    run = simulate(workload("one", [5], [2], [100]), "2x4", "fifo").run
    assert finish_time_fairness(run).tolist() == [1.0]
    assert slow_down(run).tolist() == [1.0]


def test_waiting_behind_another_is_unfair():
    """Both want the whole cluster: with half of it each would take 200 s; the second ends at 200 s, the first at 100 s."""
    run = simulate(workload("two", [0, 0], [4, 4], [100, 100]), "1x4", "fifo").run
    first, second = finish_time_fairness(run)
    assert first == pytest.approx(100 / 200)
    assert second == pytest.approx(200 / 150)  # for half of its life it was alone: 1.5 jobs on average


def test_a_run_without_a_journal_says_so():
    with pytest.raises(BadInput, match="keep_journal"):
        holds(simulate(workload("one", [0], [1], [10]), "1x1", "fifo").run)
