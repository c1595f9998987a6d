"""Why average JCT under tiresias-l is lower with vclos than on the ideal network, by leaving out the large jobs.

python -m bench.vclos_reasons
"""

import tempfile
from pathlib import Path
from statistics import fmean

from bench.vclos_table import COST, LEAST, METHODS

from headway.sim.api import simulate
from headway.workloads.synthetic import vclos

CLUSTER, GPUS, LOAD, SEEDS = "vclos-2048", 2048, 0.85, 3
ROWS = ("ideal", "vclos", "ocs-vclos")
# Only jobs of at most so many GPUs: one leaf, and all.
MOST = (32, 128, 512)
SMALL = 32


def trace_of(most: int, seed: int, folder: Path) -> str:
    """The jobs of `vclos-large` up to a size, at the same load."""
    work = vclos({"jobs": "5000", "seed": str(seed)}, large=True)
    kept = work.gpus <= most
    gpus, duration_s, submit_s = work.gpus[kept], work.duration_s[kept], work.submit_s[kept] - work.submit_s[kept][0]
    submit_s *= float((gpus * duration_s).sum()) / (LOAD * GPUS) / submit_s[-1]
    path = folder / f"{most}-{seed}.csv"
    rows = zip(submit_s, gpus, duration_s, strict=True)
    path.write_text("submit_s,gpus,duration_s\n" + "".join(f"{at:.3f},{size},{span:.3f}\n" for at, size, span in rows))
    return str(path)


def measure(trace: str, method: str, seed: int) -> list[float]:
    """Average JCT, waiting of jobs that fit a leaf and of larger ones, preemptions per job."""
    placement, network = METHODS[method]
    run = simulate(
        trace,
        CLUSTER,
        "tiresias-l",
        placement=placement,
        network=network,
        seed=seed,
        preemption_cost=COST,
        min_runtime=LEAST,
    ).run
    jobs = run.jobs
    small = jobs["asked"] <= SMALL
    larger = float(jobs["pending"][~small].mean()) if not small.all() else 0.0
    waits = float(jobs["pending"][small].mean()), larger
    return [float((jobs["end"] - jobs["submit"]).mean()), *waits, float(jobs["preemptions"].mean())]


def main() -> None:
    """The table, as Markdown."""
    print(
        "| jobs up to | network | JCT s | JCT/ideal | wait s, up to 32 GPUs | wait s, larger | preemptions per job |\n"
        "|---:|---|---:|---:|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for most in MOST:
            traces = {seed: trace_of(most, seed, Path(folder)) for seed in range(SEEDS)}
            ideal = 0.0
            for method in ROWS:
                runs = [measure(trace, method, seed) for seed, trace in traces.items()]
                jct, small, larger, stops = (fmean(column) for column in zip(*runs, strict=True))
                ideal = ideal or jct
                cells = f"{jct:,.0f} | {jct / ideal:.3f} | {small:,.0f} | {larger:,.0f} | {stops:.2f}"
                print(f"| {most} | {method} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
