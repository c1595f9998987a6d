"""How fast runs with contention are, and how that grows: 5,000 jobs of up to 512 GPUs under ecmp, load 0.85.

python -m bench.contention
"""

import time

from headway.sim.api import simulate


def cpu_s(gpus: int, jobs: int, network: str) -> tuple[float, int]:
    """CPU seconds of one run and its events."""
    cluster = f"vclos-{gpus}"
    trace = f"synthetic:vclos-large?jobs={jobs}&load=0.85&cluster={cluster}"
    began = time.process_time()
    result = simulate(trace, cluster, "fifo", placement="consolidated?strict=no", network=network)
    return time.process_time() - began, int(result.summary["events"])


def main() -> None:
    """Growth with GPUs, then with jobs; the first run, which loads the kernels, is not counted."""
    print("python -m bench.contention")
    cpu_s(512, 100, "ecmp")
    print("| GPUs | jobs | events | CPU s, ideal | CPU s, ecmp |")
    print("|---:|---:|---:|---:|---:|")
    for gpus, jobs in ((512, 5000), (2048, 5000), (4096, 5000), (8192, 5000), (8192, 1250), (8192, 20000)):
        ideal, _ = cpu_s(gpus, jobs, "ideal")
        shared, events = cpu_s(gpus, jobs, "ecmp")
        print(f"| {gpus:,} | {jobs:,} | {events:,} | {ideal:.2f} | {shared:.2f} |", flush=True)


if __name__ == "__main__":
    main()
