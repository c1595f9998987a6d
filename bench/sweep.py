"""How a sweep scales: the same cells on one worker and on two. Run: python -m bench.sweep [cells]

Wall time is what scaling is about, so run it on a quiet machine; the load before and the CPU time used are printed to judge it by.
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from headway.sim.experiment import Experiment
from headway.sim.sweep.run import cores, run_sweep

JOBS = 4000
ROUNDS = 5


def cells(count: int) -> list[Experiment]:
    """Cells of less than a tenth of a second each: what a sweep costs beside them shows."""
    trace = f"synthetic:philly?jobs={JOBS}"
    return [
        Experiment(trace, "24x8", policy, load=0.8, seed=seed)
        for seed in range(-(-count // 4))
        for policy in ("fifo", "best-effort", "srtf", "tiresias-l")
    ][:count]


def measure(grid: list[Experiment], workers: int) -> tuple[float, float]:
    """Wall and CPU seconds of a sweep, workers' start included; the engine is loaded before, as `headway sweep` does beside its checks."""
    with tempfile.TemporaryDirectory() as folder:
        cpu, began = used_s(), time.perf_counter()
        failures = run_sweep(grid, Path(folder), workers=workers)
        assert not failures, failures
        return time.perf_counter() - began, used_s() - cpu


def used_s() -> float:
    """CPU seconds of this process, of its children, and of theirs that ended: workers are children of the server they are forked from."""
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    children = [pid for found in Path("/proc/self/task").glob("*/children") for pid in found.read_text().split()]
    # In /proc/PID/stat, counted after the name in brackets: user, system, and the same of children that ended, in ticks.
    ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15] for pid in children]
    alive = sum(int(tick) for child in ticks for tick in child) / os.sysconf("SC_CLK_TCK")
    return sum(one.ru_utime + one.ru_stime for one in usage) + alive


def main() -> None:
    """Print both, and their ratio."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    grid = cells(count)
    print(f"python -m bench.sweep {count}")
    print(f"{cores()} cores; load average before: {os.getloadavg()[0]:.1f} (0 is quiet)")
    measure(grid[:2], 1)  # loads the engine, and compiles it if this is the first run
    # In turn, and the best of each: what else the machine does only ever adds.
    rounds = [(measure(grid, 1), measure(grid, 2)) for _ in range(ROUNDS)]
    (one, one_cpu), (two, two_cpu) = (min(found) for found in zip(*rounds, strict=True))
    print(f"1 worker:  {one:6.1f} s, {one_cpu:6.1f} s CPU, {one / count * 1000:.0f} ms a cell")
    print(f"2 workers: {two:6.1f} s, {two_cpu:6.1f} s CPU")
    print(
        f"scaling on two cores: {one / two:.2f}x, best of {ROUNDS} (CPU for the same cells: {two_cpu / one_cpu:.2f}x)"
    )


if __name__ == "__main__":
    main()
