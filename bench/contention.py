"""How fast runs with contention are, and how that grows: 5,000 jobs under ecmp, FIFO, load 0.85 (of the largest mix 0.6).

python -m bench.contention
"""

import time

from headway.sim.api import simulate

RUNS = 3  # the best of them: the machine is shared
NETWORKS = ("ideal", "ecmp", "ecmp?exact=10")
SIZES = (
    ("vclos-large", 512, 5000, 0.85),
    ("vclos-large", 2048, 5000, 0.85),
    ("vclos-large", 4096, 5000, 0.85),
    ("vclos-large", 8192, 5000, 0.85),
    ("vclos-large", 8192, 20000, 0.85),
    ("vclos-tpu", 8192, 5000, 0.6),
    ("vclos-tpu", 8192, 5000, 0.85),
)


def cpu_s(mix: str, gpus: int, jobs: int, load: float, network: str) -> float:
    """CPU seconds of one run, from the name of the trace to the result."""
    cluster = f"vclos-{gpus}"
    trace = f"synthetic:{mix}?jobs={jobs}&load={load}&cluster={cluster}"
    began = time.process_time()
    simulate(
        trace,
        cluster,
        "fifo",
        placement="consolidated?strict=no",
        network=network,
        preemption_cost="none",
        min_runtime="0",
    )
    return time.process_time() - began


def main() -> None:
    """Growth with GPUs, then with jobs and their sizes; the first run, which loads the kernels, is not counted."""
    print("python -m bench.contention")
    for network in NETWORKS:
        cpu_s("vclos-large", 512, 100, 0.85, network)
    print("| mix | GPUs | jobs | load | " + " | ".join(f"CPU s, {network}" for network in NETWORKS) + " |")
    print("|---|---:|---:|---:|" + "---:|" * len(NETWORKS))
    for mix, gpus, jobs, load in SIZES:
        best = [min(cpu_s(mix, gpus, jobs, load, network) for _ in range(RUNS)) for network in NETWORKS]
        cells = [f"{one:.2f}" for one in best]
        print(f"| {mix} | {gpus:,} | {jobs:,} | {load} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
