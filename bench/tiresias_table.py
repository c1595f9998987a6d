"""The tables of Tiresias (NSDI'19) and ours, side by side: writes the tables of docs/results/tiresias.md.

    HEADWAY_TRACES=... python -m bench.tiresias_table [testbed free runtimes sensitivity knobs large sampled muri]

Each table is run in one process through `headway.sim.api`; its rows name the command that gives the same figures one policy at a time. In
the page the tables stand between marks, so that one can be measured again without the others.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.io.files import write_atomically
from headway.report.seeds import interval, value_at
from headway.sim.api import simulate
from headway.sim.trace import with_seed
from headway.workloads.load import load
from headway.workloads.shaping import offered_load

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
PAGE = ROOT / "docs" / "results" / "tiresias.md"
LAS = "tiresias-l"
SEEDS = 20
Summaries = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Study:
    """What all rows of a table share."""

    trace: str
    cluster: str
    seeds: int | None = None  # None: a file, run once
    cost: str = "model"  # this and the next: the defaults of the command line
    min_runtime: str = "auto"
    first_seed: int = 0
    sample: str = ""  # a share of the jobs; those too large for the cluster are left out

    def command(self, *policies: str) -> str:
        """The command of one row."""
        trace = self.trace if self.seeds else f"$HEADWAY_TRACES/{self.trace}"
        words = ["headway compare", quoted(trace), "--cluster", self.cluster]
        words += ["--policies", quoted(",".join(dict.fromkeys(policies)))]
        words += ["--seeds", str(self.seeds)] if self.seeds else []
        words += ["--preemption-cost", self.cost] if self.cost != "model" else []
        words += ["--min-runtime", self.min_runtime] if self.min_runtime != "auto" else []
        words += ["--sample", self.sample, "--skip-impossible"] if self.sample else []
        return f"`{' '.join(words)}`"

    def run(self, policy: str) -> Summaries:
        """The summaries of a policy, one a seed."""
        found, began = [], time.process_time()
        for seed in range(self.first_seed, self.first_seed + (self.seeds or 1)):
            trace = with_seed(self.trace, seed) if self.seeds else str(TRACES / self.trace)
            shaped = {"sample": self.sample, "skip_impossible": True} if self.sample else {}
            paid = {"preemption_cost": self.cost, "min_runtime": self.min_runtime}
            found.append(simulate(trace, self.cluster, policy, seed=seed, **paid, **shaped).summary)
        print(
            f"{self.trace} {self.cluster} {policy} {self.cost} {self.min_runtime}: {time.process_time() - began:.1f} CPU s",
            flush=True,
        )
        return found


def quoted(word: str) -> str:
    """A word as a shell needs it."""
    return f'"{word}"' if re.search(r"[?&$]", word) else word


# ---- figures of a row


def named(policy: str, found: Summaries) -> str:
    """The first column: a policy that resizes jobs is marked, since its work is not that of jobs of the size they ask for."""
    return f"{policy} (elastic)" if found[0]["elastic"] else policy


def useful(found: Summaries) -> str:
    """Shares of GPU-time that were held, and that did work."""
    held, worked = (interval([summary[name] for summary in found]).mean for name in ("gpu_utilisation", "goodput"))
    return f"{held:.3f} / {worked:.3f}"


def against(found: Summaries, first: Summaries, figure: str, measure: str = "jct_s") -> str:
    """A figure against that of another policy, seed by seed, with its 95 % interval where there are seeds."""
    pairs = zip(found, first, strict=False)
    over = interval([a[measure][figure] / b[measure][figure] for a, b in pairs])
    return f"{over.mean:.2f}" + (f" ± {over.half:.2f}" if over.half is not None else "")


def seconds(found: Summaries, *path: str) -> str:
    """A time, as a mean over seeds with its interval."""
    over = interval([value_at(summary, path) for summary in found])
    return f"{over.mean:,.0f}" + (f" ± {over.half:,.0f}" if over.half is not None else "")


def table(head: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown: the first column is text, the last the command."""
    columns = head.split(" | ")
    ruler = ["---", *["---:"] * (len(columns) - 2), "---"]
    return [f"| {head} |", f"|{'|'.join(ruler)}|", *(f"| {' | '.join(row)} |" for row in rows)]


# ---- the testbed mix

# Paper, section 5 and its simulation of the same workload: average / median / p95 relative to LAS.
# YARN, Gittins: testbed average, median where printed; SRTF and second figures: its simulator.
PAPER_TESTBED = {
    "fifo": "5.5 (5.11) | 27 | 1.66 (1.50)",
    "srtf": "(0.74) |  | (0.55)",
    "tiresias-g": "1.06 (1.01) |  | 1.05 (1.13)",
    LAS: "1 | 1 | 1",
}
PAPER_QUEUE = {
    "fifo": "8146 / 7464 / 15327",
    "srtf": "593 / 32 / 3133",
    "tiresias-g": "1005 / 39 / 7933",
    LAS: "963 / 13 / 7755",
}
PAPER_MAKESPAN = {"fifo": "33,270", "srtf": "28,070", "tiresias-g": "27,510", LAS: "27,400"}
PAPER_STOPS = {"srtf": "316 / 18,057", "tiresias-g": "297 / 17,425", LAS: "221 / 13,724"}
BACKFILLS = ("backfill", "backfill?requested=3")
ORACLES, BY_MINUTES = ("srtf", "srsf"), ("las", "2d-las", "gittins", "gandiva")
TESTBED = (LAS, "fifo", "best-effort", *BACKFILLS, *ORACLES, "tiresias-g", *BY_MINUTES, "optimus")
MIX = Study("synthetic:tiresias-480", "15x4", SEEDS)


def testbed_rows(study: Study) -> list[str]:
    """JCT against LAS, queueing delays and makespan of every policy on the testbed mix."""
    found = {policy: study.run(policy) for policy in TESTBED}
    jct, waits = [], []
    for policy in TESTBED:
        mine, name = found[policy], named(policy, found[policy])
        ratios = [against(mine, found[LAS], figure) for figure in ("mean", "median", "p95")]
        mean, command = seconds(mine, "jct_s", "mean"), study.command(LAS, policy)
        jct.append([name, PAPER_TESTBED.get(policy, " |  | "), *ratios, mean, useful(mine), command])
        delays = " / ".join(seconds(mine, "queue_s", figure) for figure in ("mean", "median", "p95"))
        ends = [PAPER_MAKESPAN.get(policy, ""), seconds(mine, "makespan_s")]
        stops = [seconds(mine, "preemptions"), seconds(mine, "preemption_cost_s")]
        waits.append([name, PAPER_QUEUE.get(policy, ""), delays, *ends, PAPER_STOPS.get(policy, ""), *stops])
    head = (
        "policy | paper: average | median | p95 | ours: average | median | p95 | ours: average JCT, s"
        " | utilisation / goodput | command"
    )
    delays_head = (
        "policy | paper: queueing avg / median / p95, s | ours | paper: makespan, s | ours"
        " | paper: preemptions / their cost, s | ours: preemptions | ours: cost, s"
    )
    after = "The same runs: queueing delay, makespan, preemptions and what they cost."
    return [*table(head, jct), "", after, "", *table(delays_head, waits)]


def testbed() -> list[str]:
    """At the defaults: preemption costs what the paper measured, by model and workers, and jobs have their minimum run times."""
    return testbed_rows(MIX)


def free() -> list[str]:
    """Preemption is free."""
    return testbed_rows(replace(MIX, cost="none", min_runtime="0"))


def runtimes() -> list[str]:
    """What a minimum run time between preemptions does where they cost: average JCT against LAS without one."""
    first = replace(MIX, min_runtime="0").run(LAS)
    rows = []
    for policy in (LAS, "tiresias-g", "gittins", "srtf", "las", "2d-las"):
        for least in ("0", "auto", "5m", "15m"):
            study = replace(MIX, min_runtime=least)
            found = study.run(policy)
            ratios = [against(found, first, figure) for figure in ("mean", "median", "p95")]
            stops = [seconds(found, "preemptions"), seconds(found, "preemption_cost_s"), useful(found)]
            rows.append([policy, least, *ratios, *stops, study.command(policy)])
    head = "policy | minimum run time | average | median | p95 | preemptions | their cost, s | utilisation / goodput | command"
    return table(head, rows)


# ---- sensitivity

PAPER_THRESHOLD = {1800: "1.03", 3600: "1", 7200: "1", 14400: "1"}  # GPU-seconds: 0.5, 1, 2, 4 h
PAPER_QUEUES = {2: "1", 3: "0.99", 4: "0.99"}
PAPER_KNOB = {"inf": "1", "8": ".952", "4": ".947", "2": ".943", "1": ".936"}
TRACE = Study("philly_82k.csv.gz", "52x8")


def swept(study: Study, specs: dict[str, str], first: str, *figures: str) -> list[list[str]]:
    """Rows of one sweep: each spec against the one named first."""
    found = {spec: study.run(spec) for spec in specs}
    return [
        [
            spec,
            paper,
            *(against(found[spec], found[first], figure) for figure in figures),
            seconds(found[spec], "preemptions"),
            study.command(first, spec),
        ]
        for spec, paper in specs.items()
    ]


def sensitivity() -> list[str]:
    """Threshold and number of queues: average JCT."""
    lines: list[str] = []
    quieter = replace(TRACE, cluster="87x8")
    for study, what in ((MIX, "the testbed mix"), (TRACE, "philly_82k on 52x8"), (quieter, "philly_82k on 87x8")):
        by_bound = {f"{LAS}?threshold={bound}": paper for bound, paper in PAPER_THRESHOLD.items()}
        by_count = {f"{LAS}?queues={count}": paper for count, paper in PAPER_QUEUES.items()}
        rows = swept(study, by_bound, f"{LAS}?threshold=3600", "mean", "p95")
        rows += swept(study, by_count, f"{LAS}?queues=2", "mean", "p95")
        head = "policy | paper: average | ours: average | p95 | preemptions | command"
        lines += ["", f"On {what}:", "", *table(head, rows)]
    return lines[1:]


def knobs() -> list[str]:
    """PROMOTEKNOB: p95."""
    specs = {f"{LAS}?promote={knob}": paper for knob, paper in PAPER_KNOB.items()}
    lines: list[str] = []
    for study, what in ((MIX, "At the defaults"), (replace(MIX, cost="none", min_runtime="0"), "Preemption free")):
        rows = swept(study, specs, f"{LAS}?promote=inf", "p95", "mean", "max")
        head = "policy | paper: p95 | ours: p95 | average | longest | preemptions | command"
        lines += ["", f"{what}:", "", *table(head, rows)]
    return lines[1:]


# ---- real traces

PAPER_LARGE = {
    "fifo": "2.41 / 30.85 / 1.25",
    "best-effort": "1.50 / 9.03 / 1.08",
    "srtf": "1.00 / 1.00 / 0.84",
    "gandiva": "2.00 / 2.59 / 2.08",
    "tiresias-g": "0.97 / 1.00 / 0.85",
    LAS: "1 / 1 / 1",
}
# Jobs of Philly run for days: bounds a thousand times apart, where the testbed needs one.
WIDE = f"{LAS}?thresholds=3600:36000:360000"
REAL = (LAS, WIDE, "fifo", "best-effort", *BACKFILLS, *ORACLES, "tiresias-g", *BY_MINUTES, "optimus")
# As published (next to idle), where FIFO is as much slower than LAS as in the paper, and busy.
LARGE_CLUSTERS = ("philly", "87x8", "52x8")
# Policies that decide every minute run on one job in ten, on a tenth of the nodes of 87x8 and 52x8.
SAMPLED = ("9x8", "5x8")
# Clusters that the four traces load to about 0.9.
MURI = {1: "18x8", 2: "48x8", 3: "7x8", 4: "14x8"}


def real(study: Study, policies: Sequence[str], paper: dict[str, str]) -> list[list[str]]:
    """Rows of one real trace on one cluster."""
    found = {policy: study.run(policy) for policy in policies}
    rows = []
    for policy in policies:
        ratios = " / ".join(against(found[policy], found[LAS], figure) for figure in ("mean", "median", "p95"))
        waits = " / ".join(seconds(found[policy], "queue_s", figure) for figure in ("mean", "median", "p95"))
        mean, command = seconds(found[policy], "jct_s", "mean"), study.command(LAS, policy)
        stops = [seconds(found[policy], "preemptions"), useful(found[policy])]
        rows.append([named(policy, found[policy]), paper.get(policy, ""), ratios, mean, waits, *stops, command])
    return rows


REAL_HEAD = (
    "policy | paper: average / median / p95 | ours | ours: average JCT, s | queueing avg / median / p95, s"
    " | preemptions | utilisation / goodput | command"
)


def large() -> list[str]:
    """philly_82k on the whole Philly cluster, and on two that are busier, without what decides every minute."""
    lines: list[str] = []
    events = [policy for policy in REAL if policy not in (*BY_MINUTES, "optimus")]
    for where in LARGE_CLUSTERS:
        study = Study("philly_82k.csv.gz", where)
        rows = real(study, events, PAPER_LARGE)
        lines += ["", f"On `{where}`, {described(study)}:", "", *table(REAL_HEAD, rows)]
    return lines[1:]


def sampled() -> list[str]:
    """One job of philly_82k in ten under every policy."""
    lines: list[str] = []
    for where in SAMPLED:
        rows = real(Study("philly_82k.csv.gz", where, sample="10%"), REAL, PAPER_LARGE)
        lines += ["", f"On `{where}`:", "", *table(REAL_HEAD, rows)]
    return lines[1:]


def muri() -> list[str]:
    """Four virtual clusters of Philly, as the authors of Muri published them."""
    lines: list[str] = []
    for number, where in MURI.items():
        study = Study(f"muri_philly_4traces.csv.gz?trace={number}", where)
        rows = real(study, REAL, {})
        lines += ["", f"Trace {number} on `{where}`, {described(study)}:", "", *table(REAL_HEAD, rows)]
    return lines[1:]


def described(study: Study) -> str:
    """Jobs, GPUs and load of a study."""
    from headway.cluster.named import cluster

    jobs, gpus = load(str(TRACES / study.trace)), cluster(study.cluster).total
    return f"{len(jobs):,} jobs, {gpus:,} GPUs, offered load {offered_load(jobs, gpus):.2f}"


TABLES: dict[str, Callable[[], list[str]]] = {
    "testbed": testbed,
    "free": free,
    "runtimes": runtimes,
    "sensitivity": sensitivity,
    "knobs": knobs,
    "large": large,
    "sampled": sampled,
    "muri": muri,
}


def put(page: str, name: str, lines: Sequence[str]) -> str:
    """The page with one table in its place."""
    begin, end = f"<!-- table: {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"{PAGE.name} has no place for the table {name}: it needs the lines {begin} and {end}")
    return "\n".join([before + begin, *lines, end]) + rest.partition(end)[2]


def write(tables: Mapping[str, Callable[[], list[str]]], names: Sequence[str]) -> None:
    """Measure the named tables, or all, and put them into the page."""
    for name in names or tuple(tables):
        if name not in tables:
            raise SystemExit(f"no table {name!r}: one of {', '.join(tables)}")
        lines = tables[name]()
        write_atomically(PAGE, put(PAGE.read_text("utf-8"), name, lines))
        print("\n".join(lines), flush=True)


def main() -> None:
    """The tables named on the command line, or all."""
    write(TABLES, sys.argv[1:])


if __name__ == "__main__":
    main()
