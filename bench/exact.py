"""Contention event by event against means: how many iterations are enough, and how far the means are off.

python -m bench.exact
"""

import sys
import time
from typing import Any

import numpy as np
from bench.vclos_table import AWARE, BLIND, COST, LEAST, trace_of

from headway.sim.api import simulate

ITERATIONS = (1, 3, 10, 30)
# Mix, GPUs and load; the first is the one that an independent audit of the model measured (+4.1 %, 3.5 to 4.7).
CONVERGING = (("vclos-large", 2048, 0.6), ("vclos-large", 2048, 0.85), ("vclos-tpu", 8192, 0.6))
COMPARED = (
    ("vclos", 512, (0.6, 0.75, 0.85)),
    ("vclos-large", 512, (0.6, 0.75)),
    ("vclos-large", 2048, (0.6, 0.75, 0.85)),
    ("vclos-large", 8192, (0.6, 0.85)),
    ("vclos-tpu", 2048, (0.5,)),
    ("vclos-tpu", 8192, (0.5, 0.6)),
)


def run(mix: str, gpus: int, load: float, network: str, placement: str = BLIND) -> dict[str, Any]:
    """Stretch of every job, means of stretch and JCT, and the CPU time."""
    cluster = f"vclos-{gpus}"
    began = time.process_time()
    result = simulate(
        trace_of(mix, load, cluster, 0, 5000),
        cluster,
        "fifo",
        placement=placement,
        network=network,
        preemption_cost=COST,
        min_runtime=LEAST,
    )
    cpu_s = time.process_time() - began
    table, work = result.run.jobs, result.run.workload
    stretch = table["total"] / table["gpus"] / work.duration_s
    weighted = float(np.average(stretch, weights=work.duration_s * work.gpus))
    jct = float((table["end"] - table["submit"]).mean())
    return {"each": stretch, "stretch": float(stretch.mean()), "weighted": weighted, "JCT": jct, "CPU s": cpu_s}


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "each"}


def convergence() -> dict[str, Any]:
    """Stretch by the number of iterations, beside the means."""
    every: dict[str, Any] = {}
    for mix, gpus, load in CONVERGING:
        run(mix, gpus, load, "ecmp?exact=1")  # loads the kernels
        for network in (*(f"ecmp?exact={count}" for count in ITERATIONS), "ecmp"):
            every[f"{mix} {gpus} {load:g} {network}"] = found = _kept(run(mix, gpus, load, network))
            print(mix, gpus, load, network, found, file=sys.stderr, flush=True)
    return every


def convergence_table(every: dict[str, Any]) -> list[str]:
    """A row per run."""
    lines = ["| mix | GPUs | load | network | stretch | GPU-weighted | CPU s |", "|---|---:|---:|---|---:|---:|---:|"]
    for setting, found in every.items():
        mix, gpus, load, network = setting.split()
        cells = f"{found['stretch']:.4f} | {found['weighted']:.4f} | {found['CPU s']:.2f}"
        lines.append(f"| {mix} | {int(gpus):,} | {load} | {network} | {cells} |")
    return lines


def accuracy() -> dict[str, Any]:
    """Means against exact=10 in the same setting, and the error job by job."""
    every: dict[str, Any] = {}
    for mix, gpus, load, placement in [
        (m, g, one, p) for m, g, all_of in COMPARED for one in all_of for p in (BLIND, AWARE)
    ]:
        exact, means = (run(mix, gpus, load, network, placement) for network in ("ecmp?exact=10", "ecmp"))
        met = (exact["each"] > 1 + 1e-9) | (means["each"] > 1 + 1e-9)
        off = np.abs(means["each"] - exact["each"])[met]
        every[f"{mix} {gpus} {load:g} {placement}"] = found = {
            "exact": _kept(exact),
            "means": _kept(means),
            "rms": float(np.sqrt((off**2).mean())),
            "worst": float(off.max()),
        }
        print(mix, gpus, load, placement, found, file=sys.stderr, flush=True)
    return every


def accuracy_table(every: dict[str, Any]) -> list[str]:
    """Added run time and JCT by both."""
    head = ("added, exact", "added, means", "means/exact", "JCT, means/exact", "a job's error, rms", "worst")
    lines = [
        "| mix | GPUs | load | placement | " + " | ".join(head) + " |",
        "|---|---:|---:|---|" + "---:|" * len(head),
    ]
    for setting, found in every.items():
        mix, gpus, load, placement = setting.split()
        exact, means = found["exact"], found["means"]
        name = "leaf-aware" if placement == AWARE else "by counts"
        cells = f"{100 * (exact['stretch'] - 1):.2f} % | {100 * (means['stretch'] - 1):.2f} %"
        cells += f" | {(means['stretch'] - 1) / (exact['stretch'] - 1):.2f} | {means['JCT'] / exact['JCT']:.3f}"
        lines.append(
            f"| {mix} | {int(gpus):,} | {load} | {name} | {cells} | {found['rms']:.3f} | {found['worst']:.2f} |"
        )
    return lines


def main() -> None:
    """Both tables to stdout."""
    print("python -m bench.exact")
    for lines in (convergence_table(convergence()), accuracy_table(accuracy())):
        print("\n".join(["", *lines]), flush=True)


if __name__ == "__main__":
    main()
