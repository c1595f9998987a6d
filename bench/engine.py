"""How fast the engine simulates: real Philly jobs, growth to a million synthetic ones, memory, and how soon `headway --help` answers.

Run: python -m bench.engine                     all of it; needs the shared traces (HEADWAY_TRACES)
     python -m bench.engine one TRACE CLUSTER   one run in this process, as JSON: the growth table calls it, for memory of that run alone

CPU seconds are of the simulation after warm-up, without reading or making the trace. What does not depend on the machine is the ratio to
a bare compiled loop over the same jobs, measured in the same run: first come, first served by counting GPUs, without places, preemption
or journal.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from headway.sim.api import simulate
from headway.workloads.load import load
from headway.workloads.workload import Workload

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
CLUSTER, CLUSTER_GPUS = "64x8", 512
GROWTH = (10_000, 100_000, 1_000_000)
# Philly jobs of the speed target: whole powers of two, neither failed at once nor running for ever.
SIZES, SHORTEST_S, LONGEST_S = (1, 2, 4, 8, 16), 31.6 * 60, 166 * 3600
# CPU seconds that the targets allow, and those of the public Tiresias simulator for the first.
TARGET_10K_S, TARGET_82K_S, PUBLIC_10K_S = 1.0, 10.0, 102.0
MEMORY_TARGET_MB, HELP_TARGET_S = 1000, 0.5


@njit
def bare_fifo(submit: Any, gpus: Any, duration: Any, total: int) -> float:
    """First come, first served by counting GPUs: the floor for any simulator of this workload. Returns the mean JCT."""
    ends = np.empty(total, np.float64)  # a heap of (end, GPUs) of running jobs
    held = np.empty(total, np.int64)
    n, free, now, waited = 0, total, 0.0, 0.0
    for j in range(len(submit)):
        now = max(now, submit[j])
        while n > 0 and (free < gpus[j] or ends[0] <= now):
            now = max(now, ends[0])
            free += held[0]
            n -= 1
            at, size, k = ends[n], held[n], 0
            while 2 * k + 1 < n:
                child = 2 * k + 1
                if child + 1 < n and ends[child + 1] < ends[child]:
                    child += 1
                if ends[child] >= at:
                    break
                ends[k], held[k] = ends[child], held[child]
                k = child
            ends[k], held[k] = at, size
        free -= gpus[j]
        k, n = n, n + 1
        while k > 0 and ends[(k - 1) // 2] > now + duration[j]:
            ends[k], held[k] = ends[(k - 1) // 2], held[(k - 1) // 2]
            k = (k - 1) // 2
        ends[k], held[k] = now + duration[j], gpus[j]
        waited += now + duration[j] - submit[j]
    return waited / len(submit)


def cpu_s(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The least CPU time of several calls after one that warms up, and the last result."""
    spans, found = [], work()
    for _ in range(repeats):
        begin = time.process_time()
        found = work()
        spans.append(time.process_time() - begin)
    return min(spans), found


def bare_s(jobs: Workload) -> float:
    """CPU seconds of the bare loop."""
    return cpu_s(lambda: bare_fifo(jobs.submit_s, jobs.gpus, jobs.duration_s, CLUSTER_GPUS), 5)[0]


def speed_target(jobs: Workload) -> Workload:
    """The first 10,000 jobs of the speed target."""
    chosen = np.isin(jobs.gpus, SIZES) & (jobs.duration_s > SHORTEST_S) & (jobs.duration_s < LONGEST_S)
    return jobs.take(np.flatnonzero(chosen)[:10_000])


def show(what: str, jobs: Workload, target_s: float, policies: tuple[str, ...], repeats: int = 3) -> dict[str, float]:
    """A line a policy: CPU seconds, the ratio to the bare loop, microseconds an event and a decision."""
    floor, found = bare_s(jobs), {}
    print(f"\n{what} on {CLUSTER}, consolidated; bare compiled FIFO loop {floor * 1e3:.2f} CPU ms")
    for policy in policies:
        spent, result = cpu_s(lambda policy=policy: simulate(jobs, CLUSTER, policy), repeats)
        found[policy] = spent
        events, decisions = result.run.events, result.run.decisions
        met = f"; target {target_s:g} s: {'met' if spent <= target_s else 'MISSED'}" if policy == "tiresias-l" else ""
        print(
            f"{policy:12} {spent:7.3f} CPU s, {spent / floor:7.1f} x bare, {events:,} events at {spent / events * 1e6:.2f} us, "
            f"{decisions:,} decisions at {spent / decisions * 1e6:.2f} us{met}",
            flush=True,
        )
    return found


def one(trace: str, where: str) -> None:
    """One run as JSON: CPU seconds to make the trace and to simulate it, and the memory of this process."""
    simulate("synthetic:philly?jobs=200", where)  # compiles or loads the kernels
    before = peak_mb()
    begin = time.process_time()
    jobs = load(trace)
    made = time.process_time()
    loaded = peak_mb()
    result = simulate(jobs, where)
    spent, floor = time.process_time() - made, bare_s(jobs)
    content = {"jobs": len(jobs), "made_s": made - begin, "cpu_s": spent, "bare_s": floor, "events": result.run.events}
    memory = {"empty_mb": before, "trace_mb": loaded, "peak_mb": peak_mb(), "table_mb": result.run.jobs.nbytes / 1e6}
    print(json.dumps(content | memory | {"utilisation": result.summary["gpu_utilisation"]}))


def peak_mb() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def growth() -> None:
    """From ten thousand jobs to a million at the same load on the same cluster, each in a process of its own."""
    print(
        f"\ngrowth, tiresias-l on {CLUSTER} at load 0.8: headway simulate 'synthetic:philly?jobs=N&load=0.8&cluster={CLUSTER}'"
    )
    first = None
    for jobs in GROWTH:
        trace = f"synthetic:philly?jobs={jobs}&load=0.8&cluster={CLUSTER}"
        command = [sys.executable, "-m", "bench.engine", "one", trace, CLUSTER]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        found = json.loads(done.stdout.splitlines()[-1])
        first = first or found
        times = (found["cpu_s"] / found["jobs"]) / (first["cpu_s"] / first["jobs"])
        over = "" if found["peak_mb"] < MEMORY_TARGET_MB else f": OVER the target of {MEMORY_TARGET_MB} MB"
        print(
            f"{jobs:>9,} jobs: {found['cpu_s']:6.2f} CPU s (made in {found['made_s']:.2f}), {found['cpu_s'] / found['bare_s']:.0f} x bare, "
            f"{found['cpu_s'] / found['events'] * 1e6:.2f} us an event, {times:.2f} x the time a job of {GROWTH[0]:,}; "
            f"{found['peak_mb']:,.0f} MB at most ({found['empty_mb']:,.0f} before, {found['trace_mb']:,.0f} with the trace made, "
            f"job table {found['table_mb']:,.0f}){over}",
            flush=True,
        )


def help_time() -> None:
    """Time of `headway --help`, beside a Python that does nothing; CPU seconds too, since wall time is also of whoever else is at work."""
    start = [sys.executable, "-c", "from headway.cli.main import main; main()", "--help"]
    (wall, cpu), (_, floor) = child_s(start), child_s([sys.executable, "-c", "pass"])
    print(
        f"\nheadway --help: {wall:.2f} s of wall time (target {HELP_TARGET_S} s), {cpu:.2f} CPU s, {cpu / floor:.0f} x an empty Python"
    )


def child_s(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command, the least of five each."""
    walls, spent = [], []
    for _ in range(5):
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - begin)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(walls), min(spent)


def main() -> None:
    """Print all tables."""
    print("python -m bench.engine")
    philly = TRACES / "philly_82k.csv.gz"
    if philly.is_file():
        jobs = load(str(philly))
        some = speed_target(jobs)
        policies = ("fifo", "best-effort", "srtf", "srsf", "tiresias-l")
        spent = show(f"{len(some):,} Philly jobs", some, TARGET_10K_S, policies)["tiresias-l"]
        print(
            f"the public Tiresias simulator takes {PUBLIC_10K_S:g} s for its LAS on these jobs: {PUBLIC_10K_S / spent:,.0f} times as long"
        )
        show(f"all {len(jobs):,} jobs of philly_82k", jobs, TARGET_82K_S, ("fifo", "tiresias-l"), repeats=1)
    else:
        print(f"no {philly.name} in {TRACES}: set HEADWAY_TRACES")
    growth()
    help_time()


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(*sys.argv[2:4])
    else:
        main()
