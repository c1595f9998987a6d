"""What runs amount to: goodput, receipts, turns by cost, Gandiva's own cost, and who may pass a reservation."""

import csv

import numpy as np
import pytest

from headway.core.events import NAMES, REASONS
from headway.core.history import held
from headway.core.tables.jobs import job_table
from headway.errors import BadInput
from headway.job_state import JobState
from headway.policies import MODULES
from headway.sim.api import simulate
from headway.sim.experiment import Experiment, turns
from headway.sim.results.output import write_result
from headway.workloads.workload import workload

MIX = "synthetic:tiresias-480?jobs=120&seed=3"


def times(result, kind: str, job: int) -> list[float]:
    entries = result.run.entries
    return [float(row["time"]) for row in entries if NAMES[row["kind"]] == kind and row["job"] == job]


@pytest.mark.parametrize("policy", [*MODULES, "backfill?requested=3", "tiresias-l?promote=2"])
def test_every_second_of_every_wait_has_one_cause(policy):
    result = simulate(MIX, "8x4", policy)
    held_us, jobs = result.run.receipts_us[:, 0], result.jobs
    parts = result.run.receipts_us
    assert (parts >= 0).all()
    span_us = np.rint(jobs["end_s"] * 1e6).astype(np.int64) - np.rint(jobs["submit_s"] * 1e6).astype(np.int64)
    assert (parts.sum(axis=1) == span_us).all()
    # While it starts or runs a job does not wait: at least for its length at the size it asked for, if nothing speeds it up.
    if not result.run.policy.allot and not result.run.policy.packs:
        assert (held_us >= (result.run.workload.duration_s - 1e-3) * 1e6).all()
    receipts = result.receipts
    causes = [name for name in receipts if name not in ("job_id", "wait_us")]
    assert sum(receipts[name] for name in causes).tolist() == receipts["wait_us"].tolist()
    assert {name.removesuffix("_us") for name in causes} <= set(REASONS[1:])
    assert sum(result.summary["wait_s"].values()) == pytest.approx(receipts["wait_us"].mean() / 1e6)


def test_receipts_name_the_cause_that_is_there(tmp_path):
    # 1x4: job 0 holds 3 GPUs, job 1 wants 4 and waits for them, job 2 wants 1 for longer than that and leaves it to job 1.
    jobs = workload("three", [0, 1, 2], [3, 4, 1], [100, 10, 60], limit_s=[100, 10, 60])
    result = simulate(jobs, "1x4", "backfill", keep_journal=True)
    assert result.jobs["start_s"].tolist() == [0, 100, 2]
    jobs = workload("three", [0, 1, 2], [3, 4, 1], [100, 10, 200], limit_s=[100, 10, 200])
    result = simulate(jobs, "1x4", "backfill", keep_journal=True)
    assert result.jobs["start_s"].tolist() == [0, 100, 110]
    receipts = result.receipts
    assert receipts["gpus_us"].tolist()[1] == 99_000_000
    assert receipts["backfill_reservation_us"].tolist() == [0, 0, 98_000_000]
    write_result(result, tmp_path)
    with open(tmp_path / "receipts.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["wait_us"]) for row in rows] == receipts["wait_us"].tolist()


def test_backfill_passes_only_what_does_not_delay_the_first_in_line():
    jobs = workload("easy", [0, 1, 2, 3], [3, 4, 1, 1], [100, 10, 50, 60], limit_s=[100, 100, 50, 500])
    assert simulate(jobs, "1x4", "backfill").jobs["start_s"].tolist() == [0, 100, 2, 110]
    assert simulate(jobs, "1x4", "best-effort").jobs["start_s"].tolist() == [0, 112, 2, 52]
    # Nobody knows when the first in line could start: a time limit of a day does not help.
    unknown = workload("easy", [0, 1, 4], [1, 4, 1], [1000, 100, 90_000], limit_s=[np.inf, 100, 90_000])
    assert simulate(unknown, "1x4", "backfill").jobs["start_s"].tolist() == [0, 1000, 1100]
    # One that would stay too long does not speak for the next of its size.
    jobs = workload("easy", [0, 1, 2, 3], [4, 8, 1, 1], [100, 50, 1000, 50], limit_s=[100, 50, 1000, 50])
    assert simulate(jobs, "1x8", "backfill").jobs["start_s"].tolist() == [0, 100, 150, 3]
    # Without limits nobody knows when the first in line could start: nobody takes its GPUs. With a cap all are alike.
    unknown = workload("easy", [0, 1, 2], [3, 4, 1], [100, 10, 50])
    assert simulate(unknown, "1x4", "backfill").jobs["start_s"].tolist() == [0, 100, 110]
    assert simulate(unknown, "1x4", "backfill?limit=1h").jobs["start_s"].tolist() == [0, 100, 110]
    assert simulate(unknown, "1x4", "backfill?requested=1.5").jobs["start_s"].tolist() == [0, 100, 2]


def test_goodput_counts_work_and_not_saving():
    jobs = workload("two", [0, 10], [1, 1], [100, 20])
    result = simulate(jobs, "1x1", "srtf", preemption_cost="30s", min_runtime="0")
    # Job 0 runs 10 s, saves 30 s, waits 20 s, runs 90 s: 150 s in all, of which 30 s are saving.
    assert result.jobs["end_s"].tolist() == [150, 60]
    assert result.summary["gpu_utilisation"] == pytest.approx(1.0)
    assert result.summary["goodput"] == pytest.approx(120 / 150)
    assert [result.summary[name] for name in ("preemptions", "migrations", "resizes", "zero_length_starts")] == [
        1,
        0,
        0,
        0,
    ]
    assert simulate(MIX, "8x4", "optimus").summary["elastic"] is True
    assert result.summary["elastic"] is False


def test_a_turn_is_four_times_what_a_stop_costs_or_what_the_queue_says():
    jobs = workload("two", [0, 10], [1, 1], [1000, 20], queue=["a", "a"])
    for given, stopped_at in (("auto", 120.0), ("0", 10.0), ("50", 50.0), ("0,a=70", 70.0), ("0,a=auto", 120.0)):
        result = simulate(jobs, "1x1", "srtf", preemption_cost="30s", min_runtime=given, keep_journal=True)
        assert times(result, "Stop", 0) == [stopped_at], given
    free = simulate(jobs, "1x1", "srtf", preemption_cost="none", keep_journal=True)
    assert times(free, "Stop", 0) == [10.0]  # nothing while preemption is free
    assert turns("auto, batch = 1h") == {"": None, "batch": 3600.0}
    for wrong in ("soon", "=5", "a=x", "5m,5m", "0,a=1h,a=2h"):
        with pytest.raises(BadInput, match="min-runtime"):
            Experiment(MIX, "8x4", min_runtime=wrong)
    assert (Experiment(MIX, "8x4").preemption_cost, Experiment(MIX, "8x4").min_runtime) == ("model", "auto")


def test_an_index_counts_twice_while_its_job_runs_where_stops_cost():
    jobs = job_table(1).view(np.recarray)
    for state, save, counted in (
        (JobState.PENDING, 30.0, 1.5),
        (JobState.RUNNING, 0.0, 1.5),  # free: the worked example of the slides comes out as drawn
        (JobState.RUNNING, 30.0, 3.0),
        (JobState.STARTING, 30.0, 3.0),
    ):
        jobs["state"], jobs["save"] = state, save
        assert held.py_func(jobs[0], 1.5) == counted


def test_gandiva_suspends_in_memory_and_pays_a_checkpoint_only_elsewhere():
    jobs = workload("two", [0, 0], [1, 1], [300, 300], model=["VGG19", "VGG19"])
    same = simulate(jobs, "1x1", "gandiva", preemption_cost="30s").summary
    stops = same["preemptions"] + same["migrations"]
    assert stops > 0
    assert same["preemption_cost_s"] == pytest.approx(stops * 1.0)  # half a second to suspend, half to resume
    assert simulate(jobs, "1x1", "gandiva", preemption_cost="none").summary["preemption_cost_s"] == 0.0
    mix = simulate(MIX, "8x4", "gandiva", preemption_cost="30s").summary
    assert mix["preemption_cost_s"] > (mix["preemptions"] + mix["migrations"]) * 1.0  # some resume on other nodes
