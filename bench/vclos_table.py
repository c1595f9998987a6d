"""The fabric study: jobs on the clusters of vClos's evaluation under every network, as numbers and as Markdown tables.

python -m bench.vclos_table --gpus 2048 --mix vclos-large --policy fifo --loads 0.6,0.75,0.85 --seeds 3

Every table of docs/results/vclos.md: python -m bench.vclos_page
"""

import argparse
import sys
import time
from typing import Any

import numpy as np
from bench.fragmentation import fragmentation

from headway.core.events import START
from headway.network.fabric.presets import GPUS_PER_LEAF
from headway.placement.registry import find_placement
from headway.sim.api import simulate
from headway.sim.results.stretch import SATURATED, stretch_of
from headway.sim.run import Run

# Placements by GPU counts alone, on the fewest nodes available; and by leaves too.
BLIND = "consolidated?strict=no"
AWARE = "leaf-aware"
# What a row is called: (placement, network).
METHODS = {
    "ideal": (BLIND, "ideal"),
    "ecmp": (BLIND, "ecmp"),
    "ecmp, leaf-aware": (AWARE, "ecmp"),
    "ecmp?qps=4, leaf-aware": (AWARE, "ecmp?qps=4"),
    "ecmp?interleave=yes, leaf-aware": (AWARE, "ecmp?interleave=yes"),
    "balanced, leaf-aware": (AWARE, "balanced"),
    "source, leaf-aware": (AWARE, "source"),
    "spray?efficiency=0.95": (BLIND, "spray?efficiency=0.95"),
    "vclos": ("vclos", "isolated"),
    "vclos-padded": ("vclos-padded", "isolated"),
    "ocs-vclos": ("ocs-vclos", "isolated"),
}
# Preemption: 62 s each (Tiresias's mean), after ten minutes at the earliest. Neither touches FIFO.
COST, LEAST = "62s", "10m"
# Columns of the tables: (heading, key, digits).
COLUMNS = (
    ("spans leaves %", "spans", 0),
    ("stretch", "stretch", 3),
    ("GPU-weighted", "weighted", 3),
    ("p95", "p95", 2),
    ("effective load", "effective", 2),
    ("JWT s", "JWT", 0),
    ("JCT s", "JCT", 0),
    ("JCT p95 s", "JCT p95", 0),
    ("JCT/ideal", "over ideal", 3),
    ("fragmentation", "fragmentation", 3),
    ("moved", "moved", 0),
)


def spans_leaves(run: Run) -> float:
    """The part of all starts that put a job on more than one leaf."""
    starts = run.entries[run.entries["kind"] == START]
    leaf = run.seats % run.cluster.total // GPUS_PER_LEAF
    each = [leaf[one["seat_at"] : one["seat_at"] + one["gpus"]] for one in starts]
    return float(np.mean([part.min() != part.max() for part in each]))


def measure(
    cluster: str, trace: str, policy: str, method: str, seed: int, fabric: str | None = None, failed: str = ""
) -> dict[str, float]:
    """One run. Stretch is time run / time alone; JWT is all the time that a job waits."""
    placement, network = METHODS.get(method, (BLIND, method))
    find_placement(placement)  # compiled before the clock starts
    if failed:
        network += f"{'&' if '?' in network else '?'}failed={failed}"
    if fabric and placement == "ocs-vclos":
        fabric = f"ocs-{fabric}"
    began = time.process_time()
    result = simulate(
        trace,
        cluster,
        policy,
        placement=placement,
        network=network,
        fabric=fabric,
        seed=seed,
        preemption_cost=COST,
        min_runtime=LEAST,
        keep_journal=True,
    )
    cpu_s = time.process_time() - began
    run = result.run
    return of_run(run) | {"CPU s": cpu_s}


def of_run(run: Run) -> dict[str, float]:
    """What a run amounts to."""
    table, found = run.jobs, stretch_of(run)
    jct = table["end"] - table["submit"]
    return {
        "spans": 100 * spans_leaves(run),
        "stretch": found["run_stretch"]["mean"],
        "weighted": found["run_stretch"]["gpu_weighted"],
        "p95": found["run_stretch"]["p95"],
        "effective": found["effective_load"],
        "JRT": float((table["total"] / table["gpus"]).mean()),
        "JWT": float(table["pending"].mean()),
        "JCT": float(jct.mean()),
        "JCT p95": float(np.percentile(jct, 95)),
        "fragmentation": fragmentation(run),
        "moved": float(run.circuits_moved),
        "again": float((table["attempt"] > 1).sum()),
        "undecided": float(run.undecided),
    }


def trace_of(mix: str, load: float, cluster: str, seed: int, jobs: int) -> str:
    """A synthetic trace at a load on a cluster."""
    return f"synthetic:{mix}?jobs={jobs}&seed={seed}&load={load:g}&cluster={cluster}"


def rows(cluster: str, mix: str, policy: str, load: float, seeds: int, jobs: int = 5000) -> dict[str, dict[str, float]]:
    """Means over the seeds, by method."""
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        runs = [
            measure(cluster, trace_of(mix, load, cluster, seed, jobs), policy, method, seed) for seed in range(seeds)
        ]
        found[method] = mean(runs)
        short = {name: round(value, 3) for name, value in found[method].items()}
        print(f"{cluster} {mix} {policy} {load:g} {method}: {short}", file=sys.stderr, flush=True)
    for one in found.values():
        one["over ideal"] = one["JCT"] / found["ideal"]["JCT"]
    return found


def mean(runs: list[dict[str, float]]) -> dict[str, float]:
    """The mean of every number."""
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def heading() -> list[str]:
    """The head of a table."""
    return [
        "| load | network | " + " | ".join(name for name, _, _ in COLUMNS) + " |",
        "|---:|---|" + "---:|" * len(COLUMNS),
    ]


def markdown(load: float, found: dict[str, dict[str, Any]]) -> list[str]:
    """One load as table rows. Waiting stands in brackets where the network is saturated: it grows with the length of the run."""
    lines = []
    for method, one in found.items():
        cells = [f"{one[key]:,.{digits}f}" for _, key, digits in COLUMNS]
        for at, (_, key, _) in enumerate(COLUMNS):
            if one["effective"] >= SATURATED and key in ("JWT", "JCT", "JCT p95", "over ideal"):
                cells[at] = f"({cells[at]})"
        lines.append(f"| {load:g} | {method} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Write the table of one cluster size and policy to stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--mix", default="vclos", help="vclos, vclos-large or vclos-tpu")
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--loads", default="0.6,0.75,0.85")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=5000)
    given = parser.parse_args()
    print("\n".join(heading()))
    for load in map(float, given.loads.split(",")):
        found = rows(f"vclos-{given.gpus}", given.mix, given.policy, load, given.seeds, given.jobs)
        print("\n".join(markdown(load, found)), flush=True)


if __name__ == "__main__":
    main()
