"""200 jobs on a real Slurm of 16 nodes with 8 GPUs, in scaled seconds: Headway against its own simulator, and against plain Slurm.

    python -m bench.slurm_jobs [--jobs 200] [--span 100] [--seed 1] [--policy headway] [--asked 1]

The same jobs are run three times on the same machine: by `headway serve` through Slurm, and submitted to Slurm directly, first come
first served (sched/builtin) and with backfilling (sched/backfill; time limits are `asked` times the run time, rounded up to minutes).
The simulator is told what a start and a stop take on this Slurm, measured with eight jobs before, for each of the three. Every answer has
the load of the machine (runnable processes, mean of the last minute) before and after. Needs root and Slurm (`make system`).

`--predict` asks only the simulator what the gain depends on, over ten seeds: how long a start takes, how fast jobs come, what they ask for.
"""

import argparse
import getpass
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.slurm_cluster import SlurmCluster, missing

from headway.cluster.named import cluster
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, simulate_run
from headway.workloads.workload import Workload, workload

NODES, GPUS = 16, 8
# Quick to schedule, the same for all three: Slurm waits up to 3 s by default before it starts a batch job.
QUICK = "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1,bf_resolution=1,default_queue_depth=500\nMinJobAge=3600"
# For --predict: seconds in which jobs come, time limits over run times, seconds that a start takes in plain Slurm and under Headway.
WHAT_IF = (
    *((100.0, 1.0, 0.6, 0.6), (100.0, 1.0, 0.6, 2.6)),
    *((60.0, 1.0, 0.6, 0.6), (150.0, 1.0, 0.6, 0.6), (200.0, 1.0, 0.6, 0.6)),
    *((100.0, 10.0, 0.6, 0.6), (100.0, 50.0, 0.6, 0.6)),
)
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


def jobs(count: int, span_s: float, seed: int, asked: float = 1.0) -> Workload:
    """Sizes and run times as training clusters have them: most jobs small and short, some large and long; more than fit at once."""
    chance = np.random.default_rng(seed)
    submit = np.sort(chance.uniform(0, span_s, count))
    gpus = chance.choice([1, 2, 4, 8, 16, 32], count, p=[0.35, 0.15, 0.2, 0.2, 0.07, 0.03])
    run_s = np.clip(np.exp(chance.normal(2.6, 1.0, count)), 4.0, 120.0)
    return workload("bench", submit, gpus, run_s, limit_s=60.0 * (run_s * asked // 60 + 1))


def command(folder: Path, number: int, run_s: float) -> list[str]:
    return [sys.executable, "-I", "-S", str(folder / "worker.py"), str(folder / f"left.{number}"), f"{run_s:.3f}"]


def served(slurm: SlurmCluster, data: Path, policy: str) -> Manager:
    os.environ["SLURM_CONF"] = str(slurm.conf)
    runs = SlurmExecutor(data, poll_s=0.5)
    found = runs.discover()
    manager = Manager(data, found.cluster, policy, executor=runs)
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


def by_headway(work: Workload, policy: str) -> dict[str, Any]:
    """Live, with what the simulator says of it."""
    slurm = SlurmCluster(NODES, GPUS, cpus=64, more=QUICK).start()
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    (folder / "worker.py").write_text(WORKER)
    manager = served(slurm, folder / "data", policy)
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
    told = simulated(work, policy, start_s, stop_s)
    in_run = [statistics.mean(each or [0.0]) for each in measured]
    free = simulated(work, policy, 0.0, 0.0)
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
        "predicted_with_these_s": simulated(work, policy, *in_run),
    }


def simulated(work: Workload, policy: str, start_s: float, stop_s: float) -> float:
    """The mean completion time that the simulator predicts. A first start takes GPUs as well, so it is added to what jobs run."""
    more = replace(work, duration_s=work.duration_s + start_s)
    setting = Setting(preemption_cost=start_s + stop_s, min_runtime=None)
    run = simulate_run(more, cluster(f"{NODES}x{GPUS}"), find_policy(policy), find_placement("consolidated"), setting)
    return float(np.mean(run.jobs["end"] - run.jobs["submit"]))


def by_slurm(work: Workload, scheduler: str) -> dict[str, Any]:
    """The same jobs, submitted to Slurm itself, with what the simulator says of it."""
    slurm = SlurmCluster(NODES, GPUS, cpus=64, more=f"SchedulerType=sched/{scheduler}\n{QUICK}").start()
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    (folder / "worker.py").write_text(WORKER)
    try:
        sent(slurm, folder, workload("first", [0.0], [4], [1.0], limit_s=[60.0]))
        alone = workload("alone", np.arange(8) * 0.5, [4] * 8, [5.0] * 8, limit_s=[60.0] * 8)
        start_s = statistics.mean(sent(slurm, folder, alone)) - 5.0
        jct_s = statistics.mean(sent(slurm, folder, work))
    finally:
        slurm.stop()
    told = simulated(work, {"builtin": "fifo"}.get(scheduler, scheduler), start_s, 0.0)
    return {"jct_s": jct_s, "predicted_s": told, "error": jct_s / told - 1.0, "start_s": start_s}


def sent(slurm: SlurmCluster, folder: Path, work: Workload) -> list[float]:
    """Submit each job at its time, and wait for all; their completion times."""
    began, submitted = time.monotonic(), list[float]()
    for k in range(len(work)):
        time.sleep(max(0.0, began + work.submit_s[k] - time.monotonic()))
        gpus, nodes = int(work.gpus[k]), max(1, int(work.gpus[k]) // GPUS)
        how = [f"--nodes={nodes}", f"--gres=gpu:{gpus // nodes}", f"--time={int(work.limit_s[k] // 60)}"]
        line = " ".join(command(folder, k, float(work.duration_s[k])))
        submitted.append(time.time())
        wrapped = ["--wrap", f"{line}; date +%s.%N >{folder}/end.{k}"]
        slurm.ask("sbatch", "--output=/dev/null", "--ntasks-per-node=1", *how, *wrapped)
    while slurm.ask("squeue", "-h", "-t", "PD,R,CG,CF"):
        time.sleep(0.5)
    return [float((folder / f"end.{k}").read_text()) - submitted[k] for k in range(len(work))]


def predict(count: int, policy: str) -> None:
    """Mean completion time under backfilling / under the policy: mean, least and most of ten seeds."""
    print(f"{'span':>5} {'asked':>5} {'start: Slurm':>12} {policy:>8}  backfill / {policy}")
    for span, asked, slurm_s, ours_s in WHAT_IF:
        ratios = []
        for seed in range(1, 11):
            work = jobs(count, span, seed, asked)
            ratios.append(simulated(work, "backfill", slurm_s, 0.0) / simulated(work, policy, ours_s, 0.25))
        least, most = min(ratios), max(ratios)
        print(
            f"{span:5g} {asked:5g} {slurm_s:12g} {ours_s:8g}  {statistics.mean(ratios):.2f} ({least:.2f} to {most:.2f})"
        )


def main() -> None:
    """Run all three, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--span", type=float, default=100.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default="headway")
    parser.add_argument("--asked", type=float, default=1.0, help="time limits, as a multiple of run times")
    parser.add_argument("--only", choices=("headway", "builtin", "backfill"))
    parser.add_argument("--predict", action="store_true", help="only the simulator: what the gain depends on")
    given = parser.parse_args()
    if given.predict:
        predict(given.jobs, given.policy)
        return
    if lacks := missing():
        raise SystemExit(f"needs {lacks}")
    work = jobs(given.jobs, given.span, given.seed, given.asked)
    found: dict[str, Any] = {"jobs": given.jobs, "gpu_s": float((work.gpus * work.duration_s).sum())}
    for name in ("headway", "builtin", "backfill"):
        if given.only in (None, name):
            before = os.getloadavg()[0]
            found[name] = by_headway(work, given.policy) if name == "headway" else by_slurm(work, name)
            found[name]["load"] = [before, os.getloadavg()[0]]
            print(name, json.dumps(found[name], indent=2), flush=True)
    if given.only is None:
        for name in ("builtin", "backfill"):
            print(f"plain Slurm ({name}) / Headway: {found[name]['jct_s'] / found['headway']['jct_s']:.2f}")


if __name__ == "__main__":
    main()
