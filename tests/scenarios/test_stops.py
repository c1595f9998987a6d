"""When jobs are stopped, and who: minimal cases that an audit found wrong, worked out by hand (docs/semantics.md)."""

import numpy as np
import pytest

from headway.core.events import NAMES
from headway.sim.api import simulate
from headway.workloads.workload import workload


def run(rows, cluster, policy, **given):
    """Rows are submit, GPUs, duration and, where there is one, the time limit."""
    submit, gpus, duration = zip(*(row[:3] for row in rows), strict=True)
    more = {}
    if any(len(row) > 3 for row in rows):
        more["limit_s"] = [row[3] if len(row) > 3 else np.inf for row in rows]
    jobs = workload("by hand", submit, gpus, duration, **more)
    return simulate(
        jobs, cluster, policy, **({"min_runtime": "0", "preemption_cost": "none"} | given), keep_journal=True
    )


def times(result, kind):
    """(time, job) of the entries of a kind."""
    return [(float(row["time"]), int(row["job"])) for row in result.run.entries if NAMES[row["kind"]] == kind]


def test_nobody_is_stopped_when_a_job_has_merely_stopped_or_started():
    result = run([(0, 1, 1000), (0, 1, 1000), (50, 1, 1000)], "1x2", "2d-las?quantum=60", preemption_cost="30s")
    ends = set(result.jobs["end_s"].tolist())
    stops = times(result, "Stop")
    assert stops[:3] == [(50.0, 1), (120.0, 0), (240.0, 2)]
    assert [at for at, _ in stops if at != 50 and at % 60 and at not in ends] == []


@pytest.mark.parametrize("placement", ["consolidated", "spread"])
def test_the_lowest_job_makes_room_and_nobody_else(placement):
    result = run([(0, 1, 100), (0, 1, 200), (10, 1, 5)], "2x1", "srtf", preemption_cost="30s", placement=placement)
    assert times(result, "Stop") == [(10.0, 1)]
    assert result.jobs["end_s"].tolist() == [100.0, 235.0, 45.0]


def test_no_job_starts_for_zero_seconds():
    result = run([(0, 2, 200), (0, 3, 37), (10, 2, 200), (10, 3, 20)], "2x4", "srtf")
    began: dict[int, float] = {}
    for row in result.run.entries:
        if NAMES[row["kind"]] == "Started":
            began[int(row["job"])] = row["time"]
        elif NAMES[row["kind"]] == "Stop":
            assert began[int(row["job"])] < row["time"]
    # Job 3 takes the place of job 0, the lowest; nobody else moves, and job 2 waits.
    assert times(result, "Stop") == [(10.0, 0)]


def test_later_jobs_are_stopped_rather_than_one_earlier_job():
    # Job 3 needs two GPUs of one node: jobs 1 and 2 together, or job 0 alone. The order counts more than the number of stops.
    rows = [(0, 2, 100), (0, 1, 200), (0, 1, 300), (10, 2, 5)]
    assert times(run(rows, "2x2", "srtf"), "Stop") == [(10.0, 1), (10.0, 2)]


def test_one_stop_where_the_lowest_alone_makes_room():
    rows = [(0, 1, 100), (0, 1, 200), (0, 2, 300), (10, 2, 5)]
    assert times(run(rows, "2x2", "srtf"), "Stop") == [(10.0, 2)]


def test_a_promise_that_was_overtaken_does_not_come_back():
    # At 10 job 1 is promised the GPU of job 0, at 20 job 2, which is shorter: it has it at 40.
    result = run([(0, 1, 1000), (10, 1, 100), (20, 1, 50)], "1x1", "srtf", preemption_cost="30s")
    assert times(result, "Promise")[:3] == [(10.0, 1), (20.0, 2), (20.0, 1)]
    assert times(result, "Start")[1:3] == [(40.0, 2), (90.0, 1)]


def test_a_reservation_counts_jobs_that_start_at_the_same_instant():
    # Job 1 can have all GPUs at 46, when the limit of job 0 is over: job 2, of which nobody knows how long it takes, must not pass it.
    result = run([(0, 4, 46, 46), (0, 8, 62), (0, 1, 101)], "1x8", "backfill")
    assert times(result, "Start") == [(0.0, 0), (46.0, 1), (108.0, 2)]


def test_a_job_that_cannot_be_preempted_is_not_moved_either():
    rows = [(0, 4, 2000), (5, 4, 2000)]
    jobs = workload("pair", *zip(*rows, strict=True), model=["ResNet50", "ResNet50"], preemptible=[True, False])
    result = simulate(jobs, "1x4", "gandiva", keep_journal=True)
    assert {job for kind in ("Stop", "Migrate") for _, job in times(result, kind)} <= {0}
    assert times(result, "Pack")


def test_small_jobs_make_way_for_one_that_waited_for_whole_nodes():
    # When job 0 ends, jobs 1 and 2 hold a GPU of each node. Job 3, which comes after them, waits for 10 s. Then job 2, which is
    # spared last (rule 8), migrates to the node of job 1.
    rows = [(0, 1, 5), (0, 1, 100), (0, 1, 100), (6, 2, 1000)]
    result = run(rows, "2x2", "srsf?defragment_after=10s", preemption_cost="4s")
    assert times(result, "Migrate") == [(16.0, 2)]
    assert times(result, "Stop") == []
    assert result.summary["migrations"] == 1
    # Saving takes 4 s; then both start where they were promised a place.
    assert sorted(times(result, "Start")[-2:]) == [(20.0, 2), (20.0, 3)]
    assert result.jobs["end_s"].tolist() == [5.0, 100.0, 104.0, 1020.0]
    assert times(run(rows, "2x2", "srsf?defragment_after=inf", preemption_cost="4s"), "Migrate") == []


def test_nobody_is_moved_where_one_of_them_would_find_no_place():
    # Job 3 needs a whole node, and with it taken there is room for one of the others only.
    rows = [(0, 1, 5), (0, 1, 100), (0, 2, 100), (0, 1, 100), (6, 3, 1000)]
    result = run(rows, "2x3", "srsf?defragment_after=10s", preemption_cost="4s")
    assert times(result, "Migrate") == times(result, "Stop") == []


def test_fewer_stops_cost_no_time_on_venus(traces):
    # 30,044.5 s is the mean before jobs were spared (`python -m bench.stops`).
    result = simulate(str(traces / "helios_venus_125k.csv.gz"), "75x8", "tiresias-l", preemption_cost="none")
    assert result.summary["jct_s"]["mean"] < 1.03 * 30_044.5
