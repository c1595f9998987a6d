"""Faults on a real Slurm: a node dies under a job, slurmctld dies and comes back, Headway dies at random points."""

import multiprocessing
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import one, until
from tests.mortal import wait_for_word
from tests.slurm_cluster import SlurmCluster
from tests.slurm_manager import manager_on
from tests.slurm_served import POLICY, serve_on
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.live.manager.manager import Manager

# Saves after every step; says from where it went on. The first attempt stays half-way.
STEPS = """
import os, sys, time
from pathlib import Path
from headway import runtime
saved, total = Path(sys.argv[1]), int(sys.argv[2])
step, weight = map(float, saved.read_text().split()) if saved.exists() else (0, 1.0)
print("from", int(step), flush=True)
while step < total:
    time.sleep(0.05)
    if os.environ["HEADWAY_ATTEMPT"] == "1" and step == total // 2:
        continue
    step, weight = step + 1, weight * 1.01 + 0.5
    aside = saved.with_suffix(".aside")
    aside.write_text(f"{step} {weight!r}")
    aside.rename(saved)
    runtime.checkpointed(int(step))
    runtime.report(int(step), total=total)
"""


def test_a_job_whose_node_dies_goes_on_elsewhere_from_its_checkpoint(
    slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    manager, saved = serve(), tmp_path / "saved"
    job = one(manager, command=[sys.executable, "-c", STEPS, str(saved), "120"], resources={"accelerators": 4})
    node = until(manager, job, "RUNNING", true=lambda view: view.progress.get("step", 0) >= 10).nodes[0]
    slurm.kill_node(node)
    if not rounds(0, 1):  # Slurm itself takes half a minute to notice; a health check would tell it at once
        slurm.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=gone")
    again = until(manager, job, "RUNNING", true=lambda view: view.attempt == 2)
    assert again.nodes[0] != node
    assert [view.state for view in manager.nodes() if view.name == node] == ["drained"]
    slurm.start_node(node)
    assert until(manager, job).state == "COMPLETED"
    assert int(manager.log_files(job, 2)[0].read_text().split()[1]) >= 10
    weight = 1.0
    for _ in range(120):
        weight = weight * 1.01 + 0.5
    assert float(saved.read_text().split()[1]) == weight
    wait_for(lambda: all(view.state == "open" for view in manager.nodes()), "the node does not return")


def test_slurmctld_dies_and_comes_back(slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    runs = one(manager, run=f"echo run >> {tmp_path}/runs; {gate(tmp_path / 'go')}; echo over")
    until(manager, runs, "RUNNING")
    slurm.kill("slurmctld")
    waits = one(manager, run=f"echo waits >> {tmp_path}/waits")
    wait_for(lambda: "Slurm has not answered for" in manager.explain(waits).message, "explain does not say so")
    said = manager.explain(waits).message
    assert "nothing is started or stopped meanwhile" in said
    slurm.start_controller()
    (tmp_path / "go").touch()
    assert until(manager, runs).state == "COMPLETED"
    assert until(manager, waits).state == "COMPLETED"
    assert (tmp_path / "runs").read_text() == "run\n"
    assert (tmp_path / "waits").read_text() == "waits\n"
    assert "Slurm has not answered" not in manager.explain(waits).message


def served(given: tuple[Any, ...]) -> BaseProcess:
    """A manager in a process of its own, forked from a server that has everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["headway.live.manager.manager", "headway.live.executors.slurm", "headway.policies.tiresias_l"]
    )
    process = context.Process(target=serve_on, args=given, daemon=True)
    process.start()
    return process


@pytest.mark.skipif(shutil.which("flock") is None, reason="SKIPPED: needs flock (util-linux) to see a job run twice")
def test_headway_dies_at_random_points(slurm: SlurmCluster, tmp_path: Path, rounds: Callable[[int, int], int]) -> None:
    """Nothing acknowledged is lost, nothing runs twice, and nothing is left in Slurm."""
    chance, data, out = random.Random(22_05), tmp_path / "data", tmp_path / "out"
    out.mkdir()
    foreign = slurm.ask("sbatch", "--parsable", "--nodelist=n3", "--gres=gpu:2", "--wrap", "sleep 600")
    deaths = 0
    for life in range(rounds(8, 50)):
        odds = chance.choice([0.0, 0.1])
        victim = served((os.environ["SLURM_CONF"], str(data), str(out), life, odds, 2))
        acks, size = out / "acks", (out / "acks").stat().st_size if (out / "acks").exists() else 0
        wait_for_word(victim, acks, size)
        time.sleep(chance.uniform(0.0, 1.5))
        victim.kill()
        victim.join(PATIENCE_S)
        deaths += victim.exitcode != 0
    manager = manager_on(data, POLICY)
    try:
        wait_for(lambda: not manager._state.active, "not all jobs end")
    except AssertionError as stuck:
        raise AssertionError(
            f"{stuck}: {slurm.ask('squeue', '-o', '%i %T %r %N %n %b %k')}\n{slurm.ask('scontrol', '-d', 'show', 'node')}"
        ) from None
    acknowledged = [int(line) for line in (out / "acks").read_text().split()]
    states = {manager.job(job).state for job in acknowledged}  # type: ignore[union-attr]
    runs = {job: manager.job(job).attempt for job in acknowledged}  # type: ignore[union-attr]
    manager.stop()
    print(f"{deaths} deaths, {len(acknowledged)} jobs, {sum(runs.values())} attempts")
    assert len(acknowledged) == len(set(acknowledged))
    assert states == {"COMPLETED"}
    assert not (out / "doubled").exists(), (out / "doubled").read_text()
    for job in acknowledged:
        assert (out / f"done.{job}").exists(), f"job {job} did not run"
    wait_for(
        lambda: slurm.ask("squeue", "-h", "-o", "%i %T") == f"{foreign} RUNNING",
        "jobs are left, or a foreign one is not",
    )
    slurm.ask("scancel", foreign)
