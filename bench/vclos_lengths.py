"""How the gain of vclos over ECMP depends on the length of the run, with one input of the authors' setting changed at a time.

python -m bench.vclos_lengths
"""

from collections.abc import Iterator

import numpy as np
from bench.vclos_table import measure, trace_of

from headway.sim.models import communication

JOBS = (2500, 5000, 10000)
SEEDS = 3
CLUSTER, FABRIC = "2048x4", "vclos-8192-by-4"
AS_IS = communication.COUPLED["moe"][0], *communication.COUPLED["dense"]
# Load, the share of all-to-all jobs, and the least and the most of the others.
INPUTS = (
    (0.55, AS_IS),
    (0.6, AS_IS),
    (0.65, AS_IS),
    (0.88, AS_IS),
    (0.88, (0.348, 0.02, 0.02)),
    (0.88, (0.1, 0.02, 0.1)),
    (0.88, (0.02, 0.02, 0.02)),
)


def gains(load: float, jobs: int) -> Iterator[tuple[float, float, float]]:
    """For every seed: the gain of vclos over ecmp in average JCT in %, ECMP's GPU-weighted stretch, and its effective load."""
    for seed in range(SEEDS):
        trace = trace_of("vclos-tpu", load, CLUSTER, seed, jobs)
        own, other = (measure(CLUSTER, trace, "fifo", method, seed, FABRIC) for method in ("vclos", "ecmp?exact=1"))
        yield 100 * (own["JCT"] / other["JCT"] - 1), other["weighted"], other["effective"]


def main() -> None:
    """The table, as Markdown."""
    head = ("load", "share of all-to-all", "of others", "GPU-weighted stretch", "effective load")
    print("| " + " | ".join([*head, *(f"{jobs:,} jobs" for jobs in JOBS)]) + " |")
    print("|---:|---:|---:|---:|---:|" + "---:|" * len(JOBS))
    for load, (moe, least, most) in INPUTS:
        communication.COUPLED.update(moe=(moe, moe), dense=(least, most))
        found = [np.mean(list(gains(load, jobs)), axis=0) for jobs in JOBS]
        others = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        cells = [f"{gain:+.0f} %" for gain, _, _ in found]
        _, stretch, effective = found[-1]
        row = [f"{load:g}", f"{moe:g}", others, f"{stretch:.2f}", f"{effective:.2f}", *cells]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
