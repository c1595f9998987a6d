"""The fabric study: 5,000 jobs of vClos's evaluation on its clusters, under every network, as a Markdown table.

python -m bench.vclos_table --gpus 512 --policy fifo --loads 0.6,0.75,0.85 --seeds 3
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from bench.fragmentation import fragmentation

from headway.placement.registry import find_placement
from headway.sim.api import simulate

# Networks that are shared, and the one without contention, place jobs by GPU counts alone: on the fewest nodes available.
BY_COUNT = "consolidated?strict=no"
METHODS = {
    "ideal": (BY_COUNT, "ideal"),
    "ecmp": (BY_COUNT, "ecmp"),
    "balanced": (BY_COUNT, "balanced"),
    "source": (BY_COUNT, "source"),
    "vclos": ("vclos", "isolated"),
    "vclos-padded": ("vclos-padded", "isolated"),
    "ocs-vclos": ("ocs-vclos", "isolated"),
}
COLUMNS = (
    "JRT",
    "JRT p95",
    "stretch sd",
    "JWT",
    "JWT p95",
    "JCT",
    "JCT p95",
    "JCT/ideal",
    "fragmentation",
    "moved",
    "CPU s",
)


def measure(gpus: int, policy: str, load: float, method: str, seed: int, jobs: int, mix: str) -> dict[str, float]:
    """One run. JWT is all the time a job waits, JRT the rest of its JCT (without preemption: before and after its start).

    Stretch is the time run over the time alone: its spread is the measure of stability.
    """
    placement, network = METHODS[method]
    cluster = f"vclos-{gpus}"
    find_placement(placement)  # compiled before the clock starts
    trace = f"synthetic:{mix}?jobs={jobs}&seed={seed}&load={load}&cluster={cluster}"
    began = time.process_time()
    result = simulate(trace, cluster, policy, placement=placement, network=network, seed=seed, keep_journal=True)
    cpu_s = time.process_time() - began
    run, table = result.run, result.run.jobs
    jct, jwt = table["end"] - table["submit"], table["pending"]
    jrt = jct - jwt
    ran_s = table["total"] / table["gpus"]
    return {
        "JRT": float(jrt.mean()),
        "JRT p95": float(np.percentile(jrt, 95)),
        "stretch sd": float(np.std(ran_s / run.workload.duration_s)),
        "JWT": float(jwt.mean()),
        "JWT p95": float(np.percentile(jwt, 95)),
        "JCT": float(jct.mean()),
        "JCT p95": float(np.percentile(jct, 95)),
        "fragmentation": fragmentation(run),
        "moved": float(run.circuits_moved),
        "undecided": float(run.undecided),
        "CPU s": cpu_s,
    }


def rows(gpus: int, policy: str, load: float, seeds: int, jobs: int, mix: str) -> dict[str, dict[str, float]]:
    """Means over the seeds, by method."""
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        runs = [measure(gpus, policy, load, method, seed, jobs, mix) for seed in range(seeds)]
        found[method] = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        print(f"{gpus} {policy} {load} {method}: {found[method]}", file=sys.stderr, flush=True)
    for mean in found.values():
        mean["JCT/ideal"] = mean["JCT"] / found["ideal"]["JCT"]
    return found


def markdown(load: float, found: dict[str, dict[str, float]]) -> list[str]:
    """One load as table rows: times in seconds."""
    lines = []
    for method, mean in found.items():
        cells = []
        for name in COLUMNS:
            digits = {"stretch sd": 3, "JCT/ideal": 3, "fragmentation": 3, "moved": 0, "CPU s": 1}.get(name, 0)
            cells.append(f"{mean[name]:,.{digits}f}")
        lines.append(f"| {load:g} | {method} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Write the table of one cluster size and policy to stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--loads", default="0.6,0.75,0.85")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--mix", default="vclos", help="vclos (sizes of Helios) or vclos-large (up to 512 GPUs)")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    given = parser.parse_args()
    shown = sys.argv[1 : sys.argv.index("--json")] if "--json" in sys.argv else sys.argv[1:]
    command = " ".join(["python -m bench.vclos_table", *shown])
    print(f"`{command}`\n")
    print("| load | network | " + " | ".join(COLUMNS) + " |")
    print("|---:|---|" + "---:|" * len(COLUMNS))
    every = {}
    for load in map(float, given.loads.split(",")):
        every[str(load)] = rows(given.gpus, given.policy, load, given.seeds, given.jobs, given.mix)
        print("\n".join(markdown(load, every[str(load)])), flush=True)
    if given.json:
        given.json.write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
