"""`headway advise`: a history whose truth is known, and the accounts of sacct as text."""

from dataclasses import replace

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, simulate_run
from headway.slurm.advising.advice import advise
from headway.slurm.advising.history import read_accounts
from headway.slurm.snapshot import SlurmJob
from headway.workloads.workload import workload

BEGAN = 1_700_000_000.0
PLACEMENT = "consolidated?strict=no"


def queue_of(policy: str, jobs: int = 300) -> list[SlurmJob]:
    """What a Slurm that orders by this policy would remember of a random workload, a quarter of it long."""
    random = np.random.default_rng(13)
    submit, gpus = np.sort(random.uniform(0, 40_000, jobs)), random.choice([1, 1, 2, 4, 8], jobs)
    run_s = np.where(random.random(jobs) < 0.25, random.uniform(5_000, 9_000, jobs), random.uniform(60, 900, jobs))
    limit_s = 1.5 * run_s
    load = workload("given", submit, gpus, run_s, preemptible=np.zeros(jobs, np.bool_), limit_s=limit_s)
    run = simulate_run(load, cluster("4x8"), find_policy(policy), find_placement(PLACEMENT), Setting())
    return [
        SlurmJob(
            k + 1,
            "COMPLETED",
            user="ada" if run_s[k] > 900 else "bob",
            gpus=int(gpus[k]),
            submitted=BEGAN + submit[k],
            started=BEGAN + run.jobs["end"][k] - run_s[k],
            ended=BEGAN + run.jobs["end"][k],
            limit_s=limit_s[k],
        )
        for k in range(jobs)
    ]


@pytest.mark.parametrize("own", ["backfill", "fifo"])
def test_a_queue_that_the_simulator_can_have_made_is_replayed_without_error(own: str) -> None:
    jobs = queue_of(own)
    found = advise(jobs, cluster("4x8"), ["tiresias-l"], PLACEMENT, BEGAN + 1e6, "test")
    assert (found.replayed_as, found.jobs) == (own, 300)
    assert abs(found.error) < 1e-6
    assert found.wait_error_s < 1e-3
    with_stops, without = found.changes
    assert (with_stops.preempts, without.preempts, without.preemptions) == (True, False, 0)
    assert with_stops.ratio > 1.2, "short jobs gain, and they are most"
    bob = next(group for group in with_stops.users if group.name == "bob")
    assert bob.then_s < bob.measured_s
    assert bob.better > bob.worse
    assert sum(group.jobs for group in with_stops.sizes) == 300


def test_what_is_left_out_is_said() -> None:
    jobs = [
        *queue_of("fifo", 40),
        SlurmJob(98, "PENDING", gpus=1, submitted=BEGAN),
        SlurmJob(99, "COMPLETED", submitted=BEGAN),
    ]
    jobs.append(SlurmJob(100, "RUNNING", gpus=1, submitted=BEGAN, started=BEGAN + 5, user="ada"))
    said = " ".join(advise(jobs, cluster("4x8"), ["las"], PLACEMENT, BEGAN + 1e6, "test").caveats)
    assert "left out: 1 job that asked for no GPU" in said
    assert "left out: 1 job that did not start" in said
    assert "not averaged, though the GPU time is taken: 1 job still running" in said
    late = [replace(job, started=job.started + 1e5, ended=job.ended + 1e5) for job in queue_of("fifo", 40)]
    assert "off by" in advise(late, cluster("4x8"), ["las"], PLACEMENT, BEGAN + 1e6, "test").caveats[0]
    with pytest.raises(BadInput, match="nothing to replay"):
        advise([], cluster("4x8"), ["las"], PLACEMENT, BEGAN, "test")


def test_accounts_as_text() -> None:
    line = (
        "12|a|b|ada|gpu|CANCELLED by 7|cpu=4,gres/gpu=2|cpu=4,gres/gpu:a100=2,gres/gpu=2|2026-01-01T00:00:00|2026-01-01T00:01:00"
        "|2026-01-01T00:02:00|Unknown|90|1|0:0\n"
    )
    (job,) = read_accounts(line + "12.batch|batch|||\n" + "\n")
    assert (job.id, job.name, job.user, job.state, job.gpus) == (12, "a|b", "ada", "CANCELLED", 2)
    assert (job.eligible - job.submitted, job.started - job.submitted, job.ended, job.limit_s) == (
        60.0,
        120.0,
        0.0,
        5400.0,
    )


def test_a_run_that_was_requeued_took_its_gpus() -> None:
    """Accounts have a line per run: the run is over, and its job waits in the next line. GPUs may be counted by type only."""
    line = "12|a|ada|gpu|{}|billing=1,gres/gpu:a100=2|{}|2026-01-01T00:00:00|2026-01-01T00:00:00|{}|{}|90|1|0:0\n"
    first = line.format("REQUEUED", "billing=1,gres/gpu:a100=2", "2026-01-01T00:02:00", "2026-01-01T00:03:00")
    run, waits = read_accounts(first + line.format("PENDING", "", "Unknown", "Unknown"))
    assert (run.gpus, run.waits, run.ended - run.started) == (2, False, 60.0)
    assert (waits.gpus, waits.waits, waits.started) == (2, True, 0.0)
    jobs = [*queue_of("fifo", 40), replace(run, submitted=BEGAN, eligible=BEGAN, started=BEGAN + 1, ended=BEGAN + 2)]
    said = " ".join(advise(jobs, cluster("4x8"), ["las"], PLACEMENT, BEGAN + 1e6, "test").caveats)
    assert "1 job still running, cancelled or requeued" in said
    assert "did not start" not in said
