"""Stops and mean completion times of two trees: `python -m bench.stops write FILE` in the one, `compare FILE` in the other.

`compare` puts its table into docs/results/tiresias.md. All runs have `--min-runtime 0`, so that only the moments at which jobs are stopped,
and who is, differ. The traces are those in `$HEADWAY_TRACES`.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.engine import CLUSTER, TRACES, speed_target

from headway.sim.api import simulate
from headway.workloads.load import load
from headway.workloads.workload import Workload

BENCHMARK = "the benchmark's 10,000 Philly jobs"
WHERE = {
    "philly_82k.csv.gz": "52x8",
    "helios_venus_125k.csv.gz": "75x8",
    "pai2020_60k.csv.gz": "66x8",
    "gavel_philly_per_vc.csv.gz": "80x8",
    "muri_philly_4traces.csv.gz?trace=1": "18x8",
    "muri_philly_4traces.csv.gz?trace=3": "7x8",
    "rubick_llm_workload.csv.gz": "8x8",
}
POLICIES = ("tiresias-l", "srtf", "srsf")
Found = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Case:
    """One run, but for the tree that makes it."""

    trace: str
    cluster: str
    policy: str
    cost: str
    placement: str = "consolidated"
    most: int = 0  # larger jobs are left out
    least: int = 0  # smaller jobs run, and are not counted in the mean
    seed: int = 0  # above 0: every job comes later, by up to a minute drawn with it

    @property
    def name(self) -> str:
        """A row's first column."""
        placed = f", {self.placement}" if self.placement != "consolidated" else ""
        part = f", jobs up to {self.most} GPUs alone" if self.most else ""
        part += f", mean of jobs of {self.least} GPUs and more" if self.least else ""
        part += f", arrivals drawn with seed {self.seed}" if self.seed else ""
        return f"{self.trace} on {self.cluster}{placed}{part} / {self.policy} / {self.cost}"

    def run(self, jobs: Workload) -> dict[str, float]:
        """Stops, and the mean completion time."""
        began = time.process_time()
        jobs = jobs.take(np.flatnonzero(jobs.gpus <= self.most)) if self.most else jobs
        jobs = later(jobs, self.seed) if self.seed else jobs
        given = {"preemption_cost": self.cost, "min_runtime": "0", "placement": self.placement}
        result = simulate(jobs, self.cluster, self.policy, **given)
        spans = (result.run.jobs["end"] - result.run.jobs["submit"])[jobs.gpus >= self.least]
        spent = time.process_time() - began
        stops = result.summary["preemptions"] + result.summary.get(
            "moves", 0
        )  # the tree before does not count moves apart
        return {"stops": stops, "jct_s": float(spans.mean()), "cpu_s": round(spent, 1)}


def later(jobs: Workload, seed: int) -> Workload:
    """The same jobs, each later by up to a minute."""
    submit_s = jobs.submit_s + np.random.default_rng(seed).uniform(0.0, 60.0, len(jobs))
    return replace(jobs, submit_s=submit_s).take(np.argsort(submit_s, kind="stable"))


def cases() -> Iterator[Case]:
    """The rows of the table."""
    for policy in ("srtf", "srsf"):
        yield Case(BENCHMARK, CLUSTER, policy, "none")
    yield Case("synthetic:tiresias-480", "15x4", "las?quantum=600", "model")
    for cost in ("model", "none"):
        for trace, cluster in WHERE.items():
            for policy in POLICIES:
                yield Case(trace, cluster, policy, cost)
    for given in ({"placement": "spread"}, {"most": 4}, {"least": 8}):
        yield Case("philly_82k.csv.gz", "52x8", "srsf", "none", **given)
    for seed in range(1, 6):
        yield Case("helios_venus_125k.csv.gz", WHERE["helios_venus_125k.csv.gz"], "tiresias-l", "none", seed=seed)


def jobs_of(trace: str) -> Workload:
    """What a case runs on."""
    if trace == BENCHMARK:
        return speed_target(load(str(TRACES / "philly_82k.csv.gz")))
    return load(trace if trace.startswith("synthetic:") else str(TRACES / trace))


def measure(path: Path | None) -> Found:
    """Every case; with a file, those it holds are not run again, and each is added to it."""
    found: Found = json.loads(path.read_text()) if path and path.exists() else {}
    for case in cases():
        if case.name not in found:
            found[case.name] = case.run(jobs_of(case.trace))
            print(case.name, found[case.name], flush=True)
            if path:
                path.write_text(json.dumps(found, indent=0) + "\n")
    return found


def table(before: Found, after: Found) -> list[str]:
    """A row a case, both trees side by side."""
    head = "trace and cluster | policy | cost | stops before | after | mean JCT before, s | after | change"
    lines = [f"| {head} |", "|---|---|---|---:|---:|---:|---:|---:|"]
    for name, new in after.items():
        old: dict[str, Any] | None = before.get(name)
        stops = f"{old['stops']:,}" if old else "not run"
        mean = f"{old['jct_s']:,.1f}" if old else "not run"
        change = f"{100 * (new['jct_s'] / old['jct_s'] - 1):+.1f} %" if old else ""
        lines.append(
            f"| {name.replace(' / ', ' | ')} | {stops} | {new['stops']:,} | {mean} | {new['jct_s']:,.1f} | {change} |"
        )
    return lines


def main() -> None:
    """Write the figures of this tree, or set them beside those in a file."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("write", "compare"):
        sys.exit("usage: python -m bench.stops write FILE | compare FILE [FILE of this tree]")
    if sys.argv[1] == "write":
        measure(Path(sys.argv[2]))
        return
    from bench.tiresias_table import PAGE, put  # what writes the page is of this tree only

    before = json.loads(Path(sys.argv[2]).read_text())
    lines = table(before, measure(Path(sys.argv[3]) if len(sys.argv) == 4 else None))
    PAGE.write_text(put(PAGE.read_text("utf-8"), "stops", lines), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
