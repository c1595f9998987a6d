"""Whole stacks beside each other: writes the tables and pictures of docs/results/stack.md.

    HEADWAY_TRACES=... python -m bench.stack [--keep FILE] [main] [ideal] [ablation] [patience] [speed]

Every figure is the mean JCT that `headway compare --stacks ...` gives, or the mean of one per seed; finished runs are kept in FILE.
Nobody is left out: a run that leaves out a job is an error. The table of the iteration model is written by `python -m
bench.iteration_model`.
"""

import itertools
import json
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.bar_chart import bar_chart
from bench.shared_traces import FOLDER as TRACES
from bench.tiresias_table import put

from headway.network.fabric.presets import testbed
from headway.sim.stacks import STACKS, Stack, parse_stacks

FOLDER = Path(__file__).parents[1] / "docs" / "results"
PAGE = FOLDER / "stack.md"
YARN, HEADWAY = STACKS["yarn"], STACKS["headway"]
REPORTS, ORACLE = parse_stacks("all report=headway,progress_reports:1,oracle=headway,policy:srsf")
# PCIe 3.0 x16 inside servers instead of NVLink: where the server and not the NIC is the bottleneck.
PCIE_GBPS = 128.0


@dataclass(frozen=True)
class Work:
    """A trace on a cluster."""

    trace: str
    cluster: str
    seeds: tuple[int, ...] = (0,)
    options: tuple[tuple[str, Any], ...] = ()


def _vclos(mix: str, cluster: str, load: float, jobs: int = 5000) -> Work:
    return Work(f"synthetic:{mix}?jobs={jobs}&load={load}&cluster={cluster}", cluster, (0, 1, 2))


TESTBED = Work("synthetic:tiresias-480", "tiresias-testbed", tuple(range(40, 60)))
FEW = replace(TESTBED, seeds=tuple(range(40, 48)))
WORKS = {
    "testbed mix, seeds 40-59": TESTBED,
    "Rubick's jobs": Work("rubick_llm_workload.csv.gz", "rubick-64"),
    "vclos-512, vclos, load 0.75": _vclos("vclos", "vclos-512", 0.75),
    "vclos-2048, vclos-large, load 0.6": _vclos("vclos-large", "vclos-2048", 0.6),
    "vclos-2048, vclos-large, load 0.75": _vclos("vclos-large", "vclos-2048", 0.75),
    "vclos-2048, vclos-tpu, load 0.5": _vclos("vclos-tpu", "vclos-2048", 0.5, 2000),
}
IDEAL = [
    (mix, cluster, load)
    for mix, cluster in (("vclos", "vclos-512"), ("vclos-large", "vclos-512"), ("vclos-large", "vclos-2048"))
    for load in (0.6, 0.75)
]
# What each ingredient is without it, and with it.
INGREDIENTS = {
    "policy": ("fifo", "headway"),
    "placement": ("consolidated", "joint"),
    "network": ("ecmp", "source"),
    "collective": ("baseline", "best"),
}


class Kept:
    """Runs that are finished, by their words."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.runs: dict[str, dict[str, float]] = json.loads(path.read_text()) if path and path.exists() else {}

    def figures(self, work: Work, stack: Stack, **options: Any) -> dict[str, float]:
        """The figures of a stack on a workload, means over its seeds."""
        given = {**dict(work.options), **options}
        name = json.dumps(
            [work.trace, work.cluster, work.seeds, stack.full, {key: str(one) for key, one in given.items()}]
        )
        if name not in self.runs:
            each = [_run(work, stack, seed, given) for seed in work.seeds]
            self.runs[name] = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
            print(f"{name}: {self.runs[name]['jct']:,.0f} s", file=sys.stderr, flush=True)
            if self.path:
                self.path.write_text(json.dumps(self.runs))
        return self.runs[name]

    def jct(self, work: Work, stack: Stack, **options: Any) -> float:
        """The mean JCT."""
        return self.figures(work, stack, **options)["jct"]


def _run(work: Work, stack: Stack, seed: int, options: dict[str, Any]) -> dict[str, float]:
    from headway.sim.api import compare

    named = work.trace.startswith("synthetic:")
    trace = f"{work.trace}{'&' if '?' in work.trace else '?'}seed={seed}" if named else str(TRACES / work.trace)
    summary = compare(trace, work.cluster, stacks=[stack], **options)[0].summary
    if summary["left_out"]:
        raise SystemExit(f"{trace}: {summary['left_out']} jobs were left out")
    starts, stretch = summary.get("starts", {}), summary.get("run_stretch", {})
    kinds = {kind: float(starts.get(kind, math.nan)) for kind in ("starts", "isolated", "shared", "spread")}
    long = {"stretch": stretch.get("mean", 1.0), "weighted": stretch.get("gpu_weighted", 1.0)}
    return {"jct": summary["jct_s"]["mean"], "p95": summary["jct_s"]["p95"], **kinds, **long}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(head)
    return [
        f"| {' | '.join(names)} |",
        "|---|" + "---:|" * (len(names) - 1),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def main_table(kept: Kept) -> list[str]:
    """Mean JCT of yarn over that of every stack."""
    stacks = [*STACKS.values(), REPORTS, ORACLE]
    rows, series = [], {name: [] for name in ("tiresias", "headway", "all report", "oracle")}
    for name, work in WORKS.items():
        base = kept.jct(work, YARN)
        gains = {one.name: base / kept.jct(work, one) for one in stacks}
        rows.append([name, f"{base:,.0f} s", *(f"{gains[one.name]:.2f}x" for one in stacks[1:])])
        for shown, values in series.items():
            values.append(gains[shown])
    chart = bar_chart("Mean JCT: how many times shorter than with yarn", list(WORKS), series, "x")
    (FOLDER / "stack-jct.svg").write_text(chart)
    return _table(["workload", "yarn", *(one.name for one in stacks[1:])], rows)


def ideal_table(kept: Kept) -> list[str]:
    """Every stack over itself on a network without contention."""
    rows = []
    for mix, cluster, load in IDEAL:
        work = _vclos(mix, cluster, load)
        cells = [f"{cluster}, {mix}, load {load}"]
        for stack, ideal in ((HEADWAY, "headway"), (YARN, "fifo")):
            best = parse_stacks(f"ideal=policy:{ideal},collective:{stack.settings['collective']}")[0]
            clean, real = kept.jct(work, best), kept.jct(work, stack)
            cells += [f"{clean:,.0f} s", f"{real:,.0f} s", f"{real / clean:.4f}"]
        found = kept.figures(work, HEADWAY)
        for kind in ("isolated", "shared", "spread"):
            cells.append(f"{100 * found[kind] / found['starts']:.1f} %")
        rows.append(cells)
    kinds = ("starts isolated", "shared", "spread")
    return _table(
        ["cluster, mix, load", "headway, ideal", "headway", "ratio", "yarn, ideal", "yarn", "ratio", *kinds], rows
    )


def _combination(chosen: tuple[bool, ...]) -> Stack:
    settings = {word: values[on] for on, (word, values) in zip(chosen, INGREDIENTS.items(), strict=True)}
    return Stack("+".join(word for on, word in zip(chosen, INGREDIENTS, strict=True) if on) or "yarn", settings)


def shares(gain: dict[tuple[bool, ...], float]) -> list[float]:
    """Each ingredient's part of the whole gain: the mean over all orders in which they could be added (Shapley), of logarithms."""
    count, found = len(INGREDIENTS), [0.0] * len(INGREDIENTS)
    for order in itertools.permutations(range(count)):
        have = [False] * count
        for one in order:
            before = math.log(gain[tuple(have)])
            have[one] = True
            found[one] += (math.log(gain[tuple(have)]) - before) / math.factorial(count)
    return found


def ablation_table(kept: Kept) -> list[str]:
    """All sixteen combinations on every workload, then each ingredient's part."""
    slow = replace(testbed(), name="testbed-pcie", server_gbps=PCIE_GBPS)
    works = {name.replace("seeds 40-59", "seeds 40-47"): FEW if one is TESTBED else one for name, one in WORKS.items()}
    works["testbed mix, PCIe inside servers"] = replace(FEW, options=(("fabric", slow),))
    every = list(itertools.product((False, True), repeat=len(INGREDIENTS)))
    gains = {}
    for name, work in works.items():
        base = kept.jct(work, _combination(every[0]))
        gains[name] = {chosen: base / kept.jct(work, _combination(chosen)) for chosen in every}
    rows = [
        [" + ".join(word for on, word in zip(chosen, INGREDIENTS, strict=True) if on) or "none (yarn)"]
        + [f"{gains[name][chosen]:.3f}x" for name in works]
        for chosen in every
    ]
    parts = {name: shares(gain) for name, gain in gains.items()}
    rows += [
        [f"**{word} alone is worth**", *(f"{math.exp(parts[name][i]):.3f}x" for name in works)]
        for i, word in enumerate(INGREDIENTS)
    ]
    part = {word: [100 * parts[name][i] / sum(parts[name]) for name in works] for i, word in enumerate(INGREDIENTS)}
    rows += [[f"*{word}, part of the gain*", *(f"{value:.1f} %" for value in part[word])] for word in INGREDIENTS]
    chart = bar_chart("Part of the speed-up that is due to each ingredient, %", list(works), part, " %")
    (FOLDER / "stack-ablation.svg").write_text(chart)
    return _table(["with", *works], rows)


def patience_table(kept: Kept) -> list[str]:
    """The mean JCT of yarn over that of headway as jobs wait longer for links and for nodes."""
    never = "1000000000"
    rows = []
    for links, nodes in ((0, 64), (1, 64), (4, 64), (16, 64), (256, 64), (1, 0), (1, 4), (1, 16), (1, never)):
        text = f"mine=headway,placement:joint?patience={links}&spread={nodes}"
        cells = ["never spread" if one == never else str(one) for one in (links, nodes)]
        for work in (TESTBED, WORKS["vclos-2048, vclos-large, load 0.75"], WORKS["Rubick's jobs"]):
            for reports in ("", ",progress_reports:1"):
                cells.append(f"{kept.jct(work, YARN) / kept.jct(work, parse_stacks(text + reports)[0]):.3f}x")
        rows.append(cells)
    names = [f"{name}{also}" for name in ("testbed mix", "vclos-2048", "Rubick") for also in ("", ", all report")]
    return _table(["patience (links)", "spread (nodes)", *names], rows)


def speed_table(kept: Kept) -> list[str]:
    """CPU seconds of the full stack on 2,048 GPUs and 10,000 jobs, after a first run."""
    from headway.sim.api import compare

    rows = []
    for mix, load in (("vclos-large", 0.75), ("vclos-large", 0.9), ("vclos-tpu", 0.75), ("vclos-tpu", 0.9)):
        trace = f"synthetic:{mix}?jobs=10000&load={load}&cluster=vclos-2048"
        for stack in (HEADWAY, REPORTS):
            compare(f"synthetic:{mix}?jobs=100", "vclos-2048", stacks=[stack])
            began = time.process_time()
            result = compare(trace, "vclos-2048", stacks=[stack])[0]
            took = time.process_time() - began
            rows.append([f"{mix}, load {load}, {stack.name}", f"{took:.1f}", f"{result.summary['events']:,}"])
    return _table(["10,000 jobs on vclos-2048", "CPU s", "events"], rows)


TABLES = {
    "main": main_table,
    "ideal": ideal_table,
    "ablation": ablation_table,
    "patience": patience_table,
    "speed": speed_table,
}


def main() -> None:
    """Measure what is named, or all."""
    words = sys.argv[1:]
    path = Path(words.pop(words.index("--keep") + 1)) if "--keep" in words else None
    kept = Kept(path)
    for name in [word for word in words if word != "--keep"] or TABLES:
        lines = TABLES[name](kept)
        print("\n".join(lines), flush=True)
        PAGE.write_text(put(PAGE.read_text("utf-8"), name, lines), "utf-8")


if __name__ == "__main__":
    main()
