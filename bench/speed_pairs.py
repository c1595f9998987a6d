"""Compare the speed of two trees: `python -m bench.speed_pairs OLD/src NEW/src [--rounds 5] [--only TEXT]`.

Each measurement runs in a process of its own; the trees alternate. Printed are the least CPU seconds of each tree and their ratio, and the
peak memory of the process. CPU seconds are those of the simulation, after a small run has loaded the kernels; they exclude reading the
trace. One source folder alone is measured without a ratio. HEADWAY_TRACES names the folder of the shared traces.

Rounds are for short cases; the cases in LONG have at most two. A short case repeats its run ten times per process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FREE = {"preemption_cost": "none"}
POLICIES = ("fifo", "srtf", "srsf", "headway", "tiresias-l")
MILLION = "synthetic:philly?jobs=1000000&load=0.8&cluster=64x8"
LARGE = "synthetic:philly?jobs=100000&load=0.8&cluster=8192x8"
# name: (trace, cluster, policy, options); 10k is the speed target of bench.engine, full keeps the cluster full with jobs waiting
CASES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    **{f"10k {policy} default": ("10k", "64x8", policy, {}) for policy in POLICIES},
    **{f"10k {policy} free": ("10k", "64x8", policy, FREE) for policy in POLICIES},
    "82k tiresias-l default": ("82k", "52x8", "tiresias-l", {}),
    "100,000 jobs on 8192x8, headway": (LARGE, "8192x8", "headway", {}),
    "full 1024x8, headway": ("full", "1024x8", "headway", {}),
    "full 1024x8, tiresias-l": ("full", "1024x8", "tiresias-l", {}),
    "1,000,000 jobs on 64x8, headway": (MILLION, "64x8", "headway", {}),
    "1,000,000 jobs on 64x8, tiresias-l": (MILLION, "64x8", "tiresias-l", {}),
}
COMPILE = "first compile"
LONG = ("82k", "100,000", "full", "1,000,000", COMPILE)
REPEATS, LONG_ROUNDS = 10, 2


def is_long(case: str) -> bool:
    """Return whether a case takes several seconds."""
    return case.startswith(LONG)


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def full_cluster_jobs(gpus: int, first: int = 1500, later: int = 5000) -> Any:
    """Return `first` jobs that arrive within an hour and `later` jobs that arrive as fast as the cluster completes them.

    They are drawn as in bench.decisions, which imports more of the engine than two trees need have in common.
    """
    import numpy as np

    from headway.workloads.workload import workload

    draw = np.random.default_rng(1)
    sizes = draw.choice((1, 2, 4, 8, 16, 32, 64, 128), first + later, p=(0.3, 0.1, 0.1, 0.25, 0.1, 0.08, 0.05, 0.02))
    seconds = draw.lognormal(9.5, 1.5, first + later)
    gap = float(np.mean(sizes * seconds)) / gpus
    arrivals = 3600.0 + np.cumsum(draw.exponential(gap, later))
    submit = np.concatenate([np.sort(draw.uniform(0.0, 3600.0, first)), arrivals])
    return workload("full", submit, sizes, seconds)


def read_jobs(trace: str, cluster: str) -> Any:
    """Return the jobs of a case."""
    from bench.engine import speed_target
    from bench.shared_traces import FOLDER

    from headway.workloads.load import load

    if trace.startswith("synthetic:"):
        return load(trace)
    if trace == "full":
        nodes, gpus = map(int, cluster.split("x"))
        return full_cluster_jobs(nodes * gpus)
    jobs = load(str(FOLDER / "philly_82k.csv.gz"))
    return speed_target(jobs) if trace == "10k" else jobs


def measure(case: str) -> dict[str, float]:
    """Run a case in this process and return its least CPU seconds, peak memory and jobs."""
    if case == COMPILE:
        begin = time.process_time()
        import headway

        headway.simulate("synthetic:philly?jobs=200", "64x8", "tiresias-l")
        return {"cpu_s": time.process_time() - begin, "peak_mb": peak_mb(), "jobs": 200}
    import headway

    trace, cluster, policy, options = CASES[case]
    headway.simulate("synthetic:philly?jobs=200", "64x8", policy, **options)
    jobs = read_jobs(trace, cluster)
    spans = []
    for _ in range(1 if is_long(case) else REPEATS):
        begin = time.process_time()
        headway.simulate(jobs, cluster, policy, skip_impossible=True, **options)
        spans.append(time.process_time() - begin)
    return {"cpu_s": min(spans), "peak_mb": peak_mb(), "jobs": len(jobs)}


def measure_tree(source: Path, case: str) -> dict[str, float]:
    """Run a case with one tree in a new process and return its figures."""
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    with tempfile.TemporaryDirectory() as folder:
        if case == COMPILE:
            environment["NUMBA_CACHE_DIR"] = folder
        command = [sys.executable, "-m", "bench.speed_pairs", "--run", case]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{case} fails with {source}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(sources: list[Path], case: str, rounds: int) -> str:
    """Return a line with the least CPU seconds of a case in each tree, their ratio, and peak memory."""
    least: dict[Path, dict[str, Any]] = {}
    for number in range(rounds):
        for source in sources[:: 1 if number % 2 == 0 else -1]:
            figures = measure_tree(source, case)
            before = least.setdefault(source, figures)
            least[source] = {key: min(before[key], figures[key]) for key in figures}
    rows = [least[source] for source in sources]
    seconds = "".join(f"{row['cpu_s']:10.4f}" for row in rows)
    ratio = f"{rows[-1]['cpu_s'] / rows[0]['cpu_s']:8.3f}" if len(rows) > 1 else ""
    memory = "".join(f"{row['peak_mb']:8.0f}" for row in rows)
    per_job = "".join(f"{row['cpu_s'] / row['jobs'] * 1e6:10.1f}" for row in rows)
    return f"{case:36}{seconds}{ratio} {memory} {per_job}"


def main() -> None:
    """Print a line per case, or run one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="*", type=Path, help="source folders: the old one, then the new one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--run", metavar="CASE", help="run one case in this process and print JSON")
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(measure(arguments.run)))
        return
    if len(arguments.source) not in (1, 2):
        parser.error("give one or two source folders, such as ../base/src src")
    sources = [source.resolve() for source in arguments.source]
    columns = len(sources)
    print(" | ".join(map(str, sources)))
    ratio = f"{'ratio':>8}" if columns > 1 else ""
    print(f"{'case':36}{'CPU s':>{10 * columns}}{ratio} {'peak MB':>{8 * columns}} {'us per job':>{10 * columns}}")
    for case in (*CASES, COMPILE):
        if arguments.only in case:
            rounds = min(arguments.rounds, LONG_ROUNDS) if is_long(case) else arguments.rounds
            print(compare(sources, case, rounds), flush=True)


if __name__ == "__main__":
    main()
