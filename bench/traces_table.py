"""Every shared trace under every policy: writes docs/results/traces.md.

    HEADWAY_TRACES=... python bench/traces_table.py [--keep FILE] [--limit 300]

Each figure is what one `headway simulate ... --json` gives. Finished runs are kept in FILE: an interrupted table goes on from there.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FAST = ("fifo", "best-effort", "sjf", "srtf", "srsf", "tiresias-l", "tiresias-g")
# These decide every minute, or fit loss curves every ten: on months of a whole trace that is many decisions.
SLOW = ("las", "2d-las", "gittins", "gandiva", "optimus")
# A sample needs a cluster small enough that jobs come for much longer than they run: else none ever waits.
SAMPLE, SAMPLE_CLUSTER, SAMPLE_LOAD = 1000, "8x8", 0.9


@dataclass(frozen=True)
class Case:
    """A trace with a cluster that it loads to about 0.8, where its largest job allows that."""

    file: str
    cluster: str
    load: float
    whole: tuple[str, ...] = FAST
    sampled: bool = True


CASES = (
    Case("philly_82k", "60x8", 0.78),
    Case("muri_philly_4traces", "80x8", 0.80),
    Case("gavel_philly_per_vc", "90x8", 0.81),
    Case("helios_venus_125k", "82x8", 0.80),
    Case("pai2020_60k", "70x8", 0.80),
    Case("pai2023_openb_pods", "3x8", 0.70),
    Case("acme_kalos_train_319", "128x8", 0.21, (*FAST, *SLOW), sampled=False),
    Case("rubick_llm_workload", "8x8", 0.73, (*FAST, *SLOW), sampled=False),
)


def options(case: Case, *, sampled: bool) -> list[str]:
    """What stands behind `headway simulate TRACE`."""
    if sampled:
        shape = ["--sample", str(SAMPLE), "--load", str(SAMPLE_LOAD)]
        return ["--cluster", SAMPLE_CLUSTER, *shape, "--skip-impossible", "--json"]
    return ["--cluster", case.cluster, "--skip-impossible", "--json"]


def figures(trace: str, policy: str, arguments: list[str]) -> dict[str, float]:
    """Mean and p95 JCT of one run: what the command gives, without starting it anew for every figure."""
    from typer.testing import CliRunner

    from headway.cli.main import app

    done = CliRunner().invoke(app, ["simulate", trace, "--policy", policy, *arguments], catch_exceptions=False)
    found = json.loads(done.stdout)
    return {"mean": found["jct_s"]["mean"], "p95": found["jct_s"]["p95"], "jobs": found["jobs"]}


class Worker:
    """A process that runs one command after the other, and is replaced when one takes too long."""

    def __init__(self) -> None:
        self.pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"))

    def run(self, limit_s: float, *given: Any) -> dict[str, float] | None:
        """The figures; None if they take longer than the limit."""
        future = self.pool.submit(figures, *given)
        try:
            return future.result(limit_s)
        except TimeoutError:
            for process in list(self.pool._processes.values()):
                process.kill()
            self.pool.shutdown(wait=False)
            self.pool = self._new()
            return None


def kept(path: Path) -> dict[str, dict[str, float] | None]:
    """Runs that were finished before."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["run"]: row["found"] for row in map(json.loads, lines)}


def measure(folder: Path, keep: Path, limit_s: float) -> dict[str, dict[str, float] | None]:
    """All runs, the longest last."""
    plan = [(case, policy, True) for case in CASES if case.sampled for policy in (*FAST, *SLOW)]
    plan += [(case, policy, False) for case in reversed(CASES) for policy in case.whole]
    plan.sort(key=lambda run: run[1] == "optimus")
    found, worker = kept(keep), Worker()
    for case, policy, sampled in plan:
        name = f"{case.file} {policy} {'sample' if sampled else 'whole'}"
        if name in found:
            continue
        trace = str(folder / f"{case.file}.csv.gz")
        found[name] = worker.run(limit_s, trace, policy, options(case, sampled=sampled))
        print(name, found[name], flush=True)
        with keep.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": name, "found": found[name]}) + "\n")
    return found


def shown(found: dict[str, float] | None) -> str:
    """Mean / p95 in hours."""
    return "too long" if found is None else f"{found['mean'] / 3600:,.2f} / {found['p95'] / 3600:,.2f}"


def table(found: dict[str, dict[str, float] | None], policies: tuple[str, ...], *, sampled: bool) -> list[str]:
    """A row a policy, a column a trace."""
    kind = "sample" if sampled else "whole"
    cases = [case for case in CASES if any(f"{case.file} {policy} {kind}" in found for policy in policies)]
    lines = ["| policy | " + " | ".join(f"`{case.file}`" for case in cases) + " |", "|---" * (len(cases) + 1) + "|"]
    jobs = [next((r["jobs"] for p in policies if (r := found.get(f"{c.file} {p} {kind}"))), 0) for c in cases]
    lines.append("| jobs | " + " | ".join(f"{count:,}" for count in jobs) + " |")
    if not sampled:
        lines.append("| cluster, load | " + " | ".join(f"{case.cluster}, {case.load:.2f}" for case in cases) + " |")
    for policy in policies:
        runs = [f"{case.file} {policy} {kind}" for case in cases]
        lines.append(f"| {policy} | " + " | ".join(shown(found[run]) if run in found else "" for run in runs) + " |")
    return lines


def document(found: dict[str, dict[str, float] | None], limit_s: float) -> str:
    """The page."""
    small = [case.file for case in CASES if not case.sampled]
    whole = {name: value for name, value in found.items() if not any(name.startswith(file) for file in small)}
    short = {name: value for name, value in found.items() if any(name.startswith(file) for file in small)}
    lines = [
        "# Every shared trace under every policy",
        "",
        "Average / 95th percentile of JCT in hours; consolidated placement, preemption free, no slow-down. Clusters are chosen so that the",
        "offered load is about 0.8; where a trace's largest job needs more GPUs than that, the load is what is left. Written by",
        "`python bench/traces_table.py` from the traces in `$HEADWAY_TRACES`; every figure is one command, such as",
        "",
        "```",
        f"headway simulate $HEADWAY_TRACES/{CASES[0].file}.csv.gz --policy tiresias-l {' '.join(options(CASES[0], sampled=False))}",
        f"headway simulate $HEADWAY_TRACES/{CASES[0].file}.csv.gz --policy optimus {' '.join(options(CASES[0], sampled=True))}",
        "```",
        "",
        "sjf, srtf and srsf are oracles: they know how long jobs will run. What biases each trace is in [traces.md](../traces.md).",
        "",
        "## Whole traces, all policies",
        "",
        *table(short, (*FAST, *SLOW), sampled=False),
        "",
        "## Whole traces, the policies that act on events",
        "",
        f"{', '.join(SLOW)} act every minute, or fit loss curves every ten: that is many decisions over months of trace, so they",
        f"are run on samples, below. `too long`: over {limit_s:.0f} s of wall time on a shared machine. Empty: not run.",
        "",
        *table(whole, FAST, sampled=False),
        "",
        f"## Samples of {SAMPLE:,} jobs on {SAMPLE_CLUSTER} at load {SAMPLE_LOAD}, all policies",
        "",
        "The gaps between submissions are scaled to that load (`--sample`, `--load`, seed 0), larger jobs are left out.",
        "Compare policies within a column, not with the table above.",
        "",
        *table(whole, (*FAST, *SLOW), sampled=True),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("traces_table.jsonl"))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a run may take")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "traces.md")
    parser.add_argument("--draw", action="store_true", help="only write the page from the runs kept so far")
    given = parser.parse_args()
    folder = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
    found = kept(given.keep) if given.draw else measure(folder, given.keep, given.limit)
    given.out.write_text(document(found, given.limit), "utf-8")


if __name__ == "__main__":
    main()
