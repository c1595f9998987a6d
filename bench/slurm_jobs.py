"""200 jobs on a real Slurm of 16 nodes with 8 GPUs, in scaled seconds: Headway against its own simulator, and against plain Slurm.

    python -m bench.slurm_jobs [--jobs 200] [--span 100] [--seed 1]

The same jobs are run three times on the same machine: by `headway` through Slurm (tiresias-l), and submitted to Slurm directly, first come
first served (sched/builtin) and with backfilling (sched/backfill, with time limits as tight as Slurm allows: whole minutes, rounded up).
The simulator is told what a start and a stop take on this Slurm, measured with eight jobs before. Needs root and Slurm (`make system`).
"""

import argparse
import getpass
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.slurm_cluster import SlurmCluster, missing

from headway.cluster.named import cluster
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager import Manager
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, simulate_run
from headway.workloads.workload import Workload, workload

NODES, GPUS = 16, 8
POLICY, MIN_RUNTIME_S = "tiresias-l?threshold=120", 5.0
# Quick to schedule, the same for all three: Slurm waits up to 3 s by default before it starts a batch job.
QUICK = "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1,bf_resolution=1,default_queue_depth=500\nMinJobAge=3600"
WORKER = """
import os, signal, sys, time
saved = sys.argv[1]
left = float(open(saved).read()) if os.path.exists(saved) else float(sys.argv[2])
begin = time.monotonic()
def stop(*given):
    if os.environ.get("RANK", "0") == "0":
        with open(saved + ".new", "w") as file:
            file.write(str(max(0.0, left - (time.monotonic() - begin))))
        os.rename(saved + ".new", saved)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
time.sleep(left)
"""


def jobs(count: int, span_s: float, seed: int) -> Workload:
    """Sizes and run times as training clusters have them: most jobs small and short, some large and long; more than fit at once."""
    chance = np.random.default_rng(seed)
    submit = np.sort(chance.uniform(0, span_s, count))
    gpus = chance.choice([1, 2, 4, 8, 16, 32], count, p=[0.35, 0.15, 0.2, 0.2, 0.07, 0.03])
    run_s = np.clip(np.exp(chance.normal(2.6, 1.0, count)), 4.0, 120.0)
    return workload("bench", submit, gpus, run_s)


def command(folder: Path, number: int, run_s: float) -> list[str]:
    return [sys.executable, "-I", "-S", str(folder / "worker.py"), str(folder / f"left.{number}"), f"{run_s:.3f}"]


def served(slurm: SlurmCluster, data: Path) -> Manager:
    os.environ["SLURM_CONF"] = str(slurm.conf)
    runs = SlurmExecutor(data, poll_s=0.5)
    found = runs.discover()
    manager = Manager(data, found.cluster, POLICY, min_runtimes={"": MIN_RUNTIME_S}, executor=runs)
    manager.start()
    return manager


def submit(manager: Manager, folder: Path, number: int, gpus: int, run_s: float) -> int:
    nodes = max(1, gpus // GPUS)
    spec = {"command": command(folder, number, run_s), "num_nodes": nodes, "preemptible": True}
    spec["resources"] = {"accelerators": gpus // nodes, "cpus": 1}
    return manager.submit(job_spec(spec), getpass.getuser())[0]


def costs(manager: Manager, folder: Path) -> tuple[float, float]:
    """What a start and a stop take: seconds from the decision until ranks run, and until they are gone."""
    wait(
        manager, [submit(manager, folder, 9_999, 4, 1.0)], "COMPLETED"
    )  # Slurm takes its time with the first job of all
    ids = []
    for k in range(8):  # one every half second, as they come later
        ids.append(submit(manager, folder, 10_000 + k, 4, 300.0))
        time.sleep(0.5)
    wait(manager, ids, "RUNNING")
    for job in ids:
        manager.cancel(job)
    wait(manager, ids, "CANCELLED")
    starts, stops = spans(manager, 0)
    return statistics.mean(starts[1:]), statistics.mean(stops)


def spans(manager: Manager, after: int) -> tuple[list[float], list[float]]:
    """Seconds of every start and of every stop, from the decision until it was done."""
    began: dict[int, tuple[str, float]] = {}
    starts, stops, rows = list[float](), list[float](), manager.events(after)
    while rows:
        for row in rows:
            if row.kind in ("Start", "Stop"):
                began[row.job] = (row.kind, row.time)
            elif row.kind in ("Started", "Stopped", "Ended") and row.job in began:
                kind, at = began.pop(row.job)
                (starts if kind == "Start" else stops).append(row.time - at)
        rows = manager.events(rows[-1].seq)
    return starts, stops


def wait(manager: Manager, ids: list[int], state: str) -> None:
    while any(manager.job(job).state != state for job in ids):  # type: ignore[union-attr]
        time.sleep(0.05)


def by_headway(work: Workload) -> dict[str, Any]:
    """Live, with what the simulator says of it."""
    slurm = SlurmCluster(NODES, GPUS, cpus=64, more=QUICK).start()
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    (folder / "worker.py").write_text(WORKER)
    manager = served(slurm, folder / "data")
    try:
        start_s, stop_s = costs(manager, folder)
        calibrated = manager.events(0)[-1].seq
        began, ids = time.monotonic(), []
        for k in range(len(work)):
            time.sleep(max(0.0, began + work.submit_s[k] - time.monotonic()))
            ids.append(submit(manager, folder, k, int(work.gpus[k]), float(work.duration_s[k])))
        wait(manager, ids, "COMPLETED")
        views = [manager.job(job) for job in ids]
        jct = [(view.ended_at or 0.0) - view.submitted_at for view in views if view]
        stops = sum(view.preemptions for view in views if view)
        measured = spans(manager, calibrated)
    finally:
        manager.stop()
        slurm.stop()
    told = simulated(work, POLICY, start_s, stop_s)
    in_run = [statistics.mean(each) for each in measured]
    free = simulated(work, POLICY, 0.0, 0.0)
    return {
        "jct_s": float(np.mean(jct)),
        "predicted_s": told,
        "error": float(np.mean(jct)) / told - 1.0,
        "predicted_free_s": free,
        "start_s": start_s,
        "stop_s": stop_s,
        "preemptions": stops,
        "start_in_run_s": in_run[0],
        "stop_in_run_s": in_run[1],
        "predicted_with_these_s": simulated(work, POLICY, *in_run),
    }


def simulated(work: Workload, policy: str, start_s: float, stop_s: float) -> float:
    """The mean completion time that the simulator predicts. A first start takes GPUs as well, so it is added to what jobs run."""
    more = workload("bench", work.submit_s, work.gpus, work.duration_s + start_s)
    setting = Setting(preemption_cost=start_s + stop_s, min_runtime=MIN_RUNTIME_S)
    run = simulate_run(more, cluster(f"{NODES}x{GPUS}"), find_policy(policy), find_placement("consolidated"), setting)
    return float(np.mean(run.jobs["end"] - run.jobs["submit"]))


def by_slurm(work: Workload, scheduler: str) -> dict[str, Any]:
    """The same jobs, submitted to Slurm itself."""
    slurm = SlurmCluster(NODES, GPUS, cpus=64, more=f"SchedulerType=sched/{scheduler}\n{QUICK}").start()
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    (folder / "worker.py").write_text(WORKER)
    try:
        began, ids = time.monotonic(), []
        submitted = []
        for k in range(len(work)):
            time.sleep(max(0.0, began + work.submit_s[k] - time.monotonic()))
            gpus, run_s = int(work.gpus[k]), float(work.duration_s[k])
            nodes = max(1, gpus // GPUS)
            line = " ".join(command(folder, k, run_s))
            how = [
                f"--nodes={nodes}",
                f"--gres=gpu:{gpus // nodes}",
                f"--time={int(run_s // 60) + 1}",
                "--output=/dev/null",
            ]
            submitted.append(time.time())
            end = f"date +%s.%N >{folder}/end.{k}"
            ids.append(slurm.ask("sbatch", "--parsable", *how, "--ntasks-per-node=1", "--wrap", f"{line}; {end}"))
        while slurm.ask("squeue", "-h", "-t", "PD,R,CG,CF"):
            time.sleep(0.5)
        jct = [float((folder / f"end.{k}").read_text()) - submitted[k] for k in range(len(work))]
        return {"jct_s": float(np.mean(jct))}
    finally:
        slurm.stop()


def main() -> None:
    """Run all three, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--span", type=float, default=100.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("headway", "builtin", "backfill"))
    given = parser.parse_args()
    if lacks := missing():
        raise SystemExit(f"needs {lacks}")
    work = jobs(given.jobs, given.span, given.seed)
    found: dict[str, Any] = {"jobs": given.jobs, "gpu_s": float((work.gpus * work.duration_s).sum())}
    for name in ("headway", "builtin", "backfill"):
        if given.only in (None, name):
            found[name] = by_headway(work) if name == "headway" else by_slurm(work, name)
            print(name, json.dumps(found[name], indent=2), flush=True)
    if given.only is None:
        for name in ("builtin", "backfill"):
            print(f"plain Slurm ({name}) / Headway: {found[name]['jct_s'] / found['headway']['jct_s']:.2f}")


if __name__ == "__main__":
    main()
