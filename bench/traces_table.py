"""Every shared trace under every policy: writes docs/results/traces.md.

    HEADWAY_TRACES=... python -m bench.traces_table [--keep FILE] [--workers N] [--page]

Each figure is what one `headway simulate ... --json` gives. Finished runs are kept in FILE: an interrupted table goes on from there.
`--page` writes the page from what is kept, and says in it which runs are missing.
"""

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDE = (
    "tiresias-l?thresholds=3600:36000:360000"  # the testbed's one threshold, 3,200 GPU-seconds, is low for jobs of days
)
EVENTS = (
    "fifo",
    "best-effort",
    "backfill",
    "backfill?requested=3",
    "sjf",
    "srtf",
    "srsf",
    "tiresias-l",
    WIDE,
    "tiresias-g",
)
TURNS = ("las", "2d-las", "gittins", "gandiva", "optimus")  # decide every minute, or every ten: the longest runs
INTRODUCTION = """\
Average / 95th percentile of JCT in hours, at the defaults: consolidated placement, preemption at the published costs, a minimum
run time by those costs, no slow-down. Clusters are chosen so that the offered load is about 0.8; where a trace's largest job needs
more GPUs than that, the load is what is left. Written by `python -m bench.traces_table` from the traces in `$HEADWAY_TRACES`; every
figure is one command, such as"""
ROWS = """\
sjf, srtf and srsf are oracles: they know how long jobs will run, and `backfill?requested=3` is told three times that. optimus is
elastic: it resizes jobs, so its work is not that of the jobs as they were submitted. No trace here says how long its jobs asked to
run, and without limits `backfill` lets nobody past the first in line on the nodes that this one waits for. tiresias-l has the
threshold of the paper's testbed, 3,200 GPU-seconds, above which it is first come, first served; the row below it has 1, 10 and 100
GPU-hours. What biases each trace is in [traces.md](../traces.md)."""
# What the figures say: looked over again whenever they are measured anew.
READING: tuple[str, ...] = ()
Figures = dict[str, float]


@dataclass(frozen=True)
class Case:
    """A trace with a cluster that it loads to about 0.8, where its largest job allows that."""

    file: str
    cluster: str
    load: float

    def command(self, folder: str, policy: str) -> list[str]:
        """The words after `headway`."""
        where = ["--cluster", self.cluster, "--skip-impossible", "--json"]
        return ["simulate", f"{folder}/{self.file}.csv.gz", "--policy", policy, *where]


CASES = (
    Case("philly_82k", "60x8", 0.78),
    Case("muri_philly_4traces", "80x8", 0.80),
    Case("gavel_philly_per_vc", "90x8", 0.81),
    Case("helios_venus_125k", "82x8", 0.80),
    Case("pai2020_60k", "70x8", 0.80),
    Case("pai2023_openb_pods", "3x8", 0.70),
    Case("acme_kalos_train_319", "128x8", 0.21),
    Case("rubick_llm_workload", "8x8", 0.73),
)


def figures(command: list[str]) -> Figures:
    """Mean and p95 JCT of one run, and the CPU time it took: what the command gives, without starting it anew for every figure."""
    from time import process_time

    from typer.testing import CliRunner

    from headway.cli.main import app

    began = process_time()
    found = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    spent = process_time() - began
    figures = {name: found[name] for name in ("jobs", "preemptions", "elastic", "goodput")}
    return figures | {"mean": found["jct_s"]["mean"], "p95": found["jct_s"]["p95"], "cpu_s": spent}


def kept(path: Path) -> dict[str, Figures]:
    """Runs that were finished before."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["run"]: row["found"] for row in map(json.loads, lines)}


def measure(folder: Path, known: dict[str, Figures], workers: int) -> Iterator[tuple[str, Figures]]:
    """The runs that are missing, as they end; the long ones begin last."""
    plan = {f"{case.file} {policy}": (case, policy) for policy in (*EVENTS, *TURNS) for case in CASES}
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        asked = {
            pool.submit(figures, case.command(str(folder), policy)): name
            for name, (case, policy) in plan.items()
            if name not in known
        }
        for future in as_completed(asked):
            yield asked[future], future.result()


def table(found: dict[str, Figures], cases: tuple[Case, ...]) -> list[str]:
    """A row a policy, a column a trace."""
    lines = ["| policy | " + " | ".join(f"`{case.file}`" for case in cases) + " |", "|---" + "|---:" * len(cases) + "|"]
    jobs = [found[f"{case.file} fifo"]["jobs"] for case in cases]
    lines.append("| jobs | " + " | ".join(f"{count:,}" for count in jobs) + " |")
    lines.append("| cluster, load | " + " | ".join(f"{case.cluster}, {case.load:.2f}" for case in cases) + " |")
    for policy in (*EVENTS, *TURNS):
        runs = [found.get(f"{case.file} {policy}") for case in cases]
        cells = (f"{run['mean'] / 3600:,.2f} / {run['p95'] / 3600:,.2f}" if run else "not run" for run in runs)
        elastic = " (elastic)" if any(run and run["elastic"] for run in runs) else ""
        lines.append(f"| {policy}{elastic} | " + " | ".join(cells) + " |")
    return lines


def stops(found: dict[str, Figures]) -> list[str]:
    """Preemptions of every policy that makes any, a row a policy."""
    lines = ["| policy | " + " | ".join(f"`{case.file}`" for case in CASES) + " |", "|---" + "|---:" * len(CASES) + "|"]
    for policy in (*EVENTS, *TURNS):
        runs = [found.get(f"{case.file} {policy}") for case in CASES]
        if any(run and run["preemptions"] for run in runs):
            cells = (f"{run['preemptions']:,}" if run else "not run" for run in runs)
            lines.append(f"| {policy} | " + " | ".join(cells) + " |")
    return lines


def document(found: dict[str, Figures]) -> str:
    """The page."""
    example = " ".join(CASES[0].command("$HEADWAY_TRACES", "tiresias-l"))
    longest = max(found, key=lambda run: found[run]["cpu_s"])
    trace, policy = longest.split(" ")
    missing = [
        f"{policy} on `{case.file}`" for policy in TURNS for case in CASES if f"{case.file} {policy}" not in found
    ]
    left = [f"Not run, for want of time: {', '.join(missing)}.", ""] if missing else []
    lines = [
        "# Every shared trace under every policy",
        "",
        INTRODUCTION,
        "",
        f"    headway {example}",
        "",
        ROWS,
        f"The longest of these runs is {policy} on `{trace}`, {found[longest]['cpu_s']:,.0f} CPU seconds; all together took"
        f" {sum(run['cpu_s'] for run in found.values()) / 60:,.0f} CPU minutes.",
        "",
        *left,
        *table(found, CASES[:4]),
        "",
        *table(found, CASES[4:]),
        "",
        "Preemptions in the same runs:",
        "",
        *stops(found),
        "",
        *READING,
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("traces_table.jsonl"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "traces.md")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--page", action="store_true", help="run nothing: write the page from what is kept")
    given = parser.parse_args()
    folder = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
    found = kept(given.keep)
    for name, figure in () if given.page else measure(folder, found, given.workers):
        found[name] = figure
        print(name, figure, flush=True)
        with given.keep.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": name, "found": figure}) + "\n")
    given.out.write_text(document(found), "utf-8")


if __name__ == "__main__":
    main()
