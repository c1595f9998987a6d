"""Every shared trace under every policy: writes docs/results/traces.md.

    HEADWAY_TRACES=... python -m bench.traces_table [--keep FILE] [--workers N] [--page]

Each figure is what one `headway simulate ... --json` gives. Finished runs are kept in FILE: an interrupted table goes on from there.
`--page` writes the page from what is kept, and says in it which runs are missing.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDE = (
    "tiresias-l?thresholds=3600:36000:360000"  # the testbed's one threshold, 3,200 GPU-seconds, is low for jobs of days
)
EVENTS = (
    "headway",
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
SAMPLED = """\
Policies that decide every minute take too long on the whole of the three traces with more than 50,000 jobs. Here they run on one job in
ten, on a tenth of the nodes. Jobs too large for those are left out, which flatters all policies, so compare within this table only."""
# What the figures say: looked over again whenever they are measured anew.
READING = """\
- **headway**, the default, takes 0.02 to 0.90 of best-effort's average where jobs wait; [headway.md](headway.md)
  is about it. Its goodput is lower where its last jobs end later: the share is of the whole span.
- **Thresholds count most.** With bounds at 1, 10 and 100 GPU-hours in place of 3,200 GPU-seconds, and nothing else changed,
  tiresias-l takes a fifth of its average on `philly_82k`, a tenth on `pai2023_openb_pods`, and 0.40 to 0.87 of it on the others
  where jobs wait.
- **backfill keeps its promise to the first in line and pays for it**: on whole traces its average is 1.1 to 1.8 times that of
  best-effort, and 0.8 to 1.7 times with limits of three times the duration.
- las and 2d-las stop jobs of days (`muri_philly_4traces`, `gavel_philly_per_vc`) half a million to two million times even with
  minimum run times, and gandiva the former seven million times, where 0.565 of the GPU-time did work as against 0.786 under tiresias-l.
  gittins, which holds on to jobs that run, makes fewer preemptions there than srtf.
- tiresias-g decides as tiresias-l does, to the digit, on `muri_philly_4traces` and `gavel_philly_per_vc`. That
  jobs of the first queue never compete with each other there is a guess.
- On `acme_kalos_train_319` nobody waits, and all policies that take sizes as given are equal."""
Figures = dict[str, float]


@dataclass(frozen=True)
class Case:
    """A trace with a cluster that it loads to about 0.8, where its largest job allows that."""

    file: str
    cluster: str
    load: float
    sample: str = ""  # of the jobs, on as much of the cluster

    @property
    def name(self) -> str:
        """What its runs are kept under, and the head of its column."""
        return f"{self.sample} of {self.file}" if self.sample else self.file

    @property
    def policies(self) -> tuple[str, ...]:
        """Policies that decide every minute take too long on whole traces of more than 50,000 jobs."""
        return EVENTS if self in LARGEST else (*EVENTS, *TURNS)

    def command(self, folder: str, policy: str) -> list[str]:
        """The words after `headway`."""
        where = ["--cluster", self.cluster, "--skip-impossible", "--json"]
        shaped = ["--sample", self.sample] if self.sample else []
        return ["simulate", f"{folder}/{self.file}.csv.gz", "--policy", policy, *shaped, *where]


LARGEST = (
    Case("philly_82k", "60x8", 0.78),
    Case("helios_venus_125k", "82x8", 0.80),
    Case("pai2020_60k", "70x8", 0.80),
)
OTHERS = (
    Case("muri_philly_4traces", "80x8", 0.80),
    Case("gavel_philly_per_vc", "90x8", 0.81),
    Case("pai2023_openb_pods", "3x8", 0.70),
    Case("acme_kalos_train_319", "128x8", 0.21),
    Case("rubick_llm_workload", "8x8", 0.73),
)
SAMPLES = (
    Case("philly_82k", "6x8", 0.78, "10%"),
    Case("helios_venus_125k", "8x8", 0.80, "10%"),
    Case("pai2020_60k", "7x8", 0.80, "10%"),
)
CASES = (*LARGEST, *OTHERS, *SAMPLES)


def figures(command: list[str]) -> Figures:
    """Mean and p95 JCT of one run, and the CPU time it took: what the command gives, without starting it anew for every figure."""
    from time import process_time

    from typer.testing import CliRunner

    from headway.cli.main import app

    began = process_time()
    found = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    spent = process_time() - began
    figures = {name: found[name] for name in ("jobs", "left_out", "preemptions", "elastic", "goodput")}
    return figures | {"mean": found["jct_s"]["mean"], "p95": found["jct_s"]["p95"], "cpu_s": spent}


def kept(path: Path) -> dict[str, Figures]:
    """Runs that were finished before."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {row["run"]: row["found"] for row in map(json.loads, lines)}


def measure(folder: Path, known: dict[str, Figures], workers: int) -> Iterator[tuple[str, Figures]]:
    """The runs that are missing, as they end; the long ones begin last."""
    plan = {(case.name, policy): case for case in CASES for policy in case.policies}
    order = sorted(plan, key=lambda run: run[1] in TURNS)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        asked = {
            pool.submit(figures, plan[run].command(str(folder), run[1])): "/".join(run)
            for run in order
            if "/".join(run) not in known
        }
        for future in as_completed(asked):
            yield asked[future], future.result()


def table(found: dict[str, Figures], cases: tuple[Case, ...], cell: Callable[[Figures], str]) -> list[str]:
    """A row a policy, a column a trace."""
    lines = ["| policy | " + " | ".join(f"`{case.name}`" for case in cases) + " |", "|---" + "|---:" * len(cases) + "|"]
    first = [found[f"{case.name}/fifo"] for case in cases]
    lines.append("| jobs | " + " | ".join(f"{run['jobs']:,}" for run in first) + " |")
    if any(run["left_out"] for run in first):
        lines.append("| left out, too large | " + " | ".join(f"{run['left_out']:,}" for run in first) + " |")
    about = "about " if cases[0].sample else ""
    lines.append("| cluster, load | " + " | ".join(f"{case.cluster}, {about}{case.load:.2f}" for case in cases) + " |")
    for policy in cases[0].policies:
        runs = [found.get(f"{case.name}/{policy}") for case in cases]
        elastic = " (elastic)" if any(run and run["elastic"] for run in runs) else ""
        lines.append(f"| {policy}{elastic} | " + " | ".join(cell(run) if run else "not run" for run in runs) + " |")
    return lines


def hours(run: Figures) -> str:
    """Completion times."""
    return f"{run['mean'] / 3600:,.2f} / {run['p95'] / 3600:,.2f}"


def stops(run: Figures) -> str:
    """Preemptions, and the share of GPU-time that did work."""
    return f"{run['preemptions']:,}, {run['goodput']:.3f}"


def document(found: dict[str, Figures]) -> str:
    """The page."""
    example = " ".join(CASES[0].command("$HEADWAY_TRACES", "tiresias-l"))
    longest = max(found, key=lambda run: found[run]["cpu_s"])
    trace, policy = longest.split("/")
    runs = [(case.name, policy) for case in CASES for policy in case.policies]
    missing = [f"{policy} on `{name}`" for name, policy in runs if f"{name}/{policy}" not in found]
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
        *table(found, LARGEST, hours),
        "",
        *table(found, OTHERS, hours),
        "",
        SAMPLED,
        "",
        *table(found, SAMPLES, hours),
        "",
        "Preemptions, and goodput (the share of GPU-time that did work), in the same runs:",
        "",
        *table(found, LARGEST, stops),
        "",
        *table(found, OTHERS, stops),
        "",
        READING,
        "",
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
