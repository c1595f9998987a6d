"""`headway sweep --on slurm` on a real Slurm of two nodes, started here: a job killed half-way, and what the same command does next."""

import csv
import signal
import subprocess
import sys

import pytest
from tests.slurm_cluster import started
from tests.waiting import PATIENCE_S, wait_for

HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
CELLS = 12
# A policy that waits at the gate: a Slurm job that comes to one of its cells is under way for as long as the file is there.
GATED = """
import os, time
class Gated:
    def __init__(self):
        while "SLURM_JOB_ID" in os.environ and os.path.exists("{gate}"):
            time.sleep(0.05)
    def key(self, job, now, options):
        return job.gpus, job.submit
"""


@pytest.fixture(scope="module")
def slurm():
    """The environment that reaches a Slurm of our own; its daemons end with the tests."""
    cluster = started(2, cpus=1)
    yield cluster.environment
    cluster.stop()


def ask(environment, *command):
    """What a command of Slurm answers."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout.strip()


def hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(folder, slurm):
    """Begins the sweep on Slurm; none outlives its test."""
    begun = []

    def start_one(*more):
        command = [*HEADWAY, "sweep", "grid.yaml", "--on", "slurm", "--workers", "3", *more]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # A shell in the background makes its commands deaf to interrupts, and they their children.
        begun.append(subprocess.Popen(command, cwd=folder, env=slurm, preexec_fn=hear_interrupts, **pipes))
        return begun[-1]

    yield start_one
    (folder / "gate").unlink(missing_ok=True)  # a job that was not cancelled ends
    for sweep in begun:
        sweep.kill()
        sweep.wait()


@pytest.fixture
def folder(tmp_path):
    """A dozen cells, one of which waits at a gate."""
    (tmp_path / "gated.py").write_text(GATED.format(gate=tmp_path / "gate"))
    trace = "synthetic:tiresias-480?jobs=20"
    (tmp_path / "grid.yaml").write_text(
        f"traces: {trace}\nclusters: 15x4\npolicies: [fifo, srtf, 'gated:Gated']\nseeds: {CELLS // 3}\n"
    )
    return tmp_path


def finished(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "grid.sweep" / "cells").glob("*.json")}


def third_job(slurm):
    """Return the number of the third job of the array once it runs; before that, an empty text."""
    running = ask(slurm, "squeue", "-h", "-r", "-t", "R", "-o", "%i").split()
    return next((number for number in running if number.endswith("_2")), "")


def test_a_job_killed_half_way_loses_its_own_cells_and_the_next_sweep_runs_them(folder, slurm, start):
    # Cells go to the jobs in turn, so all of the third policy are with the third job: it stops at the first of them.
    (folder / "gate").touch()
    running = start()
    wait_for(lambda: len(finished(folder)) >= 2 * CELLS // 3, "the jobs do not run")
    third = wait_for(lambda: third_job(slurm), "the third job does not run")  # another one may still be ending
    ask(slurm, "scancel", third)
    out, error = running.communicate(timeout=PATIENCE_S)
    before = finished(folder)
    assert running.returncode == 1, out + error
    assert f"{CELLS // 3} cells failed" in error
    assert f"Slurm job {third} ended before it (cancelled)" in error
    assert len(before) == 2 * CELLS // 3
    assert len(list(csv.DictReader((folder / "grid.sweep" / "results.csv").open()))) == 2 * CELLS // 3

    (folder / "gate").unlink()
    again = start()
    out, error = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, out + error
    after = finished(folder)
    assert len(after) == CELLS
    assert {name: after[name] for name in before} == before, "a finished cell was run again"
    rows = list(csv.DictReader((folder / "grid.sweep" / "results.csv").open()))
    assert len({(row["policy"], row["seed"]) for row in rows}) == len(rows) == CELLS


def test_a_sweep_that_is_interrupted_takes_its_jobs_along(folder, slurm, start):
    (folder / "gate").touch()
    running = start()
    wait_for(lambda: ask(slurm, "squeue", "-h", "-t", "R"), "no job runs")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not ask(slurm, "squeue", "-h"), "jobs outlive their sweep")


def test_what_slurm_refuses_is_one_line(start):
    refused = start("--slurm", "partition=none")
    error = refused.communicate(timeout=PATIENCE_S)[1]
    assert refused.returncode == 1
    assert "invalid partition" in error
    assert error.count("\n") == 1
