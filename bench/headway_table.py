"""The default policy beside others: writes the tables and pictures of docs/results/headway.md.

    HEADWAY_TRACES=... python -m bench.headway_table [--keep FILE] [main] [fresh] [equal] [costs] [loads] [reports] [moves]
    python -m bench.headway_table pictures          # draw the pictures again from the tables of the page, without any run

Every figure is what one `headway simulate` gives, or the mean of one per seed; finished runs are kept in FILE. Ratios are to best-effort,
which never stops a job, on the same jobs.
"""

import csv
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.bar_chart import COLOURS as BAR_COLOURS
from bench.bar_chart import bar_chart
from bench.engine import TRACES
from bench.line_chart import line_chart

from headway.workloads.workload import Workload, workload

FOLDER = Path(__file__).parents[1] / "docs" / "results"
PAGE = FOLDER / "headway.md"
BASE = "best-effort"
GEO = "GEO"
SPECS = {GEO: "tiresias-l?thresholds=800:3200:12800:51200:204800:819200:3276800:13107200"}
Options = dict[str, Any]
METHODS: dict[str, tuple[str, Options]] = {
    "fifo": ("fifo", {}),
    "backfill, limits 3 x the duration": ("backfill?requested=3", {}),
    "tiresias-l": ("tiresias-l", {}),
    GEO: (SPECS[GEO], {"min_runtime": "15m"}),
    "headway": ("headway", {}),
    "headway, half report": ("headway", {"progress_reports": 0.5}),
    "headway, all report": ("headway", {"progress_reports": 1.0}),
    "srtf (oracle)": ("srtf", {}),
    "srsf (oracle)": ("srsf", {}),
}
WORKLOADS = {
    "testbed mix, seeds 40-59": ("synthetic:tiresias-480", "15x4", range(40, 60)),
    "philly_82k": ("philly_82k.csv.gz", "52x8", None),
    "helios_venus_125k": ("helios_venus_125k.csv.gz", "75x8", None),
    "pai2020_60k": ("pai2020_60k.csv.gz", "66x8", None),
    "gavel_philly_per_vc": ("gavel_philly_per_vc.csv.gz", "80x8", None),
    **{
        f"Muri {i}": (f"muri_philly_4traces.csv.gz?trace={i}", f"{n}x8", None)
        for i, n in zip((1, 2, 3, 4), (18, 48, 7, 14), strict=True)
    },
}
TARGETS = dict(zip(WORKLOADS, (0.79, 0.12, 0.38, 0.88, 0.52, 0.48, 0.60, 0.93, 0.32), strict=True))
FRESH = {
    "testbed mix, seeds 60-79": ("synthetic:tiresias-480", "15x4", range(60, 80)),
    "synthetic:philly, seeds 0-4": ("synthetic:philly?jobs=5000", "30x8", range(5)),
    "synthetic:helios, seeds 0-4": ("synthetic:helios?jobs=5000", "30x8", range(5)),
    "rubick_llm_workload": ("rubick_llm_workload.csv.gz", "8x8", None),
    "pai2023_openb_pods": ("pai2023_openb_pods.csv.gz", "3x8", None),
    "acme_kalos_train_319": ("acme_kalos_train_319.csv.gz", "128x8", None),
}
EQUAL_JOBS = 4000
EQUAL_GPUS = 128  # of 16x8


def _equal(gpus: tuple[int, int], hours: tuple[float, float], load: float) -> Workload:
    """Return 4,000 jobs with Poisson arrivals, and uniform sizes and run times, at a load of 16x8.

    A job larger than half of the cluster counts as the whole cluster: one runs at a time.
    """
    draw = np.random.default_rng(0)
    size = draw.integers(gpus[0], gpus[1] + 1, EQUAL_JOBS)
    duration = 3600.0 * draw.uniform(*hours, EQUAL_JOBS)
    held = np.where(2 * size > EQUAL_GPUS, EQUAL_GPUS, size)
    gap = float(np.mean(held * duration)) / EQUAL_GPUS / load
    return workload("equal", np.cumsum(draw.exponential(gap, EQUAL_JOBS)), size, duration)


def _virtual_cluster(trace: str, name: str) -> Workload:
    """Return the jobs of one virtual cluster of a trace."""
    with gzip.open(TRACES / trace, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["vc"] == name]
    columns = [np.array([float(row[column]) for row in rows]) for column in ("submit_s", "num_gpus", "duration_s")]
    return workload(name, columns[0], columns[1].astype(int), columns[2])


EQUAL: dict[str, tuple[str, Callable[[], Workload]]] = {
    "72 GPUs, 2 h, load 0.95": ("16x8", lambda: _equal((72, 72), (2, 2), 0.95)),
    "65 to 128 GPUs, 2 h, load 0.95": ("16x8", lambda: _equal((65, 128), (2, 2), 0.95)),
    "1 to 64 GPUs, 2 h, load 0.85": ("16x8", lambda: _equal((1, 64), (2, 2), 0.85)),
    "8 GPUs, 10 h, load 0.95": ("16x8", lambda: _equal((8, 8), (10, 10), 0.95)),
    "8 GPUs, 10 h, load 1.05": ("16x8", lambda: _equal((8, 8), (10, 10), 1.05)),
    "8 GPUs, 2.5 to 7.5 h, load 0.95": ("16x8", lambda: _equal((8, 8), (2.5, 7.5), 0.95)),
    "8 GPUs, 1.8 to 2 h, load 0.95": ("16x8", lambda: _equal((8, 8), (1.8, 2), 0.95)),
    "Venus, virtual cluster vcvGl": ("20x8", lambda: _virtual_cluster("helios_venus_125k.csv.gz", "vcvGl")),
    "Philly, virtual cluster 11cb48": ("16x8", lambda: _virtual_cluster("philly_82k.csv.gz", "11cb48")),
    "Philly, virtual cluster 2869ce": ("16x8", lambda: _virtual_cluster("philly_82k.csv.gz", "2869ce")),
    "Philly, virtual cluster 103959": ("8x8", lambda: _virtual_cluster("philly_82k.csv.gz", "103959")),
}
COSTS = ("10s", "30s", "62s", "120s", "300s", "600s")
LOADS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
ERRORS = (1.0, 2.0, 4.0, 16.0)
DRAWN = (GEO, "headway", "headway, all report", "srsf (oracle)")
FEW = ("tiresias-l", GEO, "headway", "headway, all report", "srsf (oracle)")


@dataclass
class Kept:
    """Runs that are finished, by their words."""

    path: Path | None
    runs: dict[str, list[float]]

    @classmethod
    def at(cls, path: Path | None) -> "Kept":
        """What the file holds."""
        return cls(path, json.loads(path.read_text()) if path and path.exists() else {})

    def figures(
        self, trace: str, where: str, seeds: Iterable[int] | None, policy: str, options: Options
    ) -> list[float]:
        """FIGURES of a run, or their means over seeds."""
        name = json.dumps([trace, where, None if seeds is None else list(seeds), policy, options])
        if name not in self.runs:
            joint = "&" if "?" in trace else "?"
            each = [trace if seeds is None else f"{trace}{joint}seed={seed}" for seed in (seeds or (0,))]
            self.runs[name] = np.mean([_run(one, where, policy, options) for one in each], axis=0).tolist()
            print(name, [round(value, 3) for value in self.runs[name]], file=sys.stderr, flush=True)
            if self.path:
                self.path.write_text(json.dumps(self.runs))
        return self.runs[name]


FIGURES = ("mean JCT", "median JCT", "p95 JCT", "p99 slow-down", "longest wait", "GPU-hours lost", "preemptions")


def _run(trace: str, where: str, policy: str, options: Options) -> list[float]:
    """One simulation: FIGURES, in seconds but for the last three."""
    from headway.sim.api import simulate

    source: Any = trace if trace.startswith("synthetic:") else str(TRACES / trace)
    result = simulate(EQUAL[trace][1]() if trace in EQUAL else source, where, policy, **options)
    summary, run = result.summary, result.run
    if summary["left_out"]:
        raise SystemExit(f"{trace}: {summary['left_out']} jobs were left out")
    jct = run.jobs["end"] - run.jobs["submit"]
    slow = jct / np.maximum(run.workload.duration_s, 600.0)
    useful = float(np.dot(run.workload.gpus.astype(float), run.workload.duration_s))
    spread = summary["jct_s"]
    times = [spread["mean"], spread["median"], spread["p95"], float(np.percentile(slow, 99)), summary["queue_s"]["max"]]
    return [*times, max(0.0, run.held_gpu_s - useful) / 3600.0, float(summary["preemptions"])]


def _methods(names: Iterable[str], **more: Any) -> dict[str, tuple[str, Options]]:
    return {name: (METHODS[name][0], METHODS[name][1] | more) for name in names}


def main_table(kept: Kept) -> list[str]:
    """Mean JCT over best-effort: a row a policy, a column a workload; then what was asked for."""
    lines = ["| policy | " + " | ".join(WORKLOADS) + " |", "|---|" + "---:|" * len(WORKLOADS)]
    base = {name: kept.figures(*work, BASE, {}) for name, work in WORKLOADS.items()}
    for method, (policy, options) in METHODS.items():
        row = [kept.figures(*work, policy, options)[0] / base[name][0] for name, work in WORKLOADS.items()]
        lines.append(f"| {method} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    lines.append("| *goal for headway* | " + " | ".join(f"*{TARGETS[name]:.2f}*" for name in WORKLOADS) + " |")
    lines.append("| best-effort, s | " + " | ".join(f"{base[name][0]:,.0f}" for name in WORKLOADS) + " |")
    return lines


def details_table(kept: Kept) -> list[str]:
    """Every figure of every run."""
    lines = ["| workload | policy | " + " | ".join(FIGURES) + " |", "|---|---|" + "---:|" * len(FIGURES)]
    for name, work in WORKLOADS.items():
        for method, (policy, options) in {BASE: (BASE, {}), **METHODS}.items():
            mean, median, p95, slow, longest, lost, stops = kept.figures(*work, policy, options)
            cells = f"{mean:,.0f} s | {median:,.0f} s | {p95:,.0f} s | {slow:,.1f} | {longest / 3600:,.1f} h | {lost:,.0f} | {stops:,.0f}"
            lines.append(f"| {name} | {method} | {cells} |")
    return lines


def fresh_table(kept: Kept) -> list[str]:
    """Mean JCT over best-effort on what no parameter was chosen by, and headway over the better of best-effort and GEO."""
    lines = [
        "| workload | cluster | " + " | ".join(FEW) + " | headway / the better of best-effort and GEO |",
        "|---|---|" + "---:|" * (len(FEW) + 1),
    ]
    for name, work in FRESH.items():
        base = kept.figures(*work, BASE, {})[0]
        ratios = {method: kept.figures(*work, *METHODS[method])[0] / base for method in FEW}
        worst = ratios["headway"] / min(1.0, ratios[GEO])
        lines.append(
            f"| {name} | {work[1]} | " + " | ".join(f"{value:.3f}" for value in ratios.values()) + f" | {worst:.3f} |"
        )
    return lines


def equal_table(kept: Kept) -> list[str]:
    """Mean JCT over best-effort if run times vary little or queues are short."""
    methods = (GEO, "headway", "headway, all report")
    lines = [
        "| workload | cluster | best-effort, s | "
        + " | ".join(methods)
        + " | headway / the better of best-effort and GEO |",
        "|---|---|" + "---:|" * (len(methods) + 2),
    ]
    for name, (where, _) in EQUAL.items():
        base = kept.figures(name, where, None, BASE, {})[0]
        ratios = [kept.figures(name, where, None, *METHODS[method])[0] / base for method in methods]
        cells = [f"{base:,.0f}", *(f"{value:.3f}" for value in (*ratios, ratios[1] / min(1.0, ratios[0])))]
        lines.append(f"| {name} | {where} | " + " | ".join(cells) + " |")
    return lines


def _lines(kept: Kept, values: Iterable[Any], option: str) -> list[str]:
    """Return the table of mean JCT over best-effort on the testbed mix as one option changes."""
    work = WORKLOADS["testbed mix, seeds 40-59"]
    values = list(values)
    base = [kept.figures(*work, BASE, {option: value})[0] for value in values]
    rows = {
        method: [
            kept.figures(*work, policy, options)[0] / low
            for value, low in zip(values, base, strict=True)
            for policy, options in [_methods([method], **{option: value})[method]]
        ]
        for method in FEW
    }
    lines = [f"| {option.replace('_', ' ')} | " + " | ".join(FEW) + " |", "|---|" + "---:|" * len(FEW)]
    for place, value in enumerate(values):
        lines.append(f"| {value} | " + " | ".join(f"{row[place]:.3f}" for row in rows.values()) + " |")
    return lines


def costs_table(kept: Kept) -> list[str]:
    """By what a preemption costs."""
    return _lines(kept, COSTS, "preemption_cost")


def loads_table(kept: Kept) -> list[str]:
    """By load."""
    return _lines(kept, LOADS, "load")


def reports_table(kept: Kept) -> list[str]:
    """All jobs report, wrong by up to a factor."""
    names = ("testbed mix, seeds 40-59", "pai2020_60k", "gavel_philly_per_vc", "Muri 1", "Muri 3")
    lines = ["| reports wrong by up to | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for error in (None, *ERRORS):
        options: Options = {} if error is None else {"progress_reports": 1.0, "progress_error": error}
        cells = [
            kept.figures(*WORKLOADS[name], "headway", options)[0] / kept.figures(*WORKLOADS[name], BASE, {})[0]
            for name in names
        ]
        said = "no reports" if error is None else "not at all" if error == 1.0 else f"a factor of {error:g}"
        lines.append(f"| {said} | " + " | ".join(f"{value:.3f}" for value in cells) + " |")
    return lines


def moves_table(kept: Kept) -> list[str]:
    """GEO and headway, with small jobs moved out of the way of large ones and without."""
    rows = {
        GEO: (METHODS[GEO][0], METHODS[GEO][1]),
        "GEO, `defragment_after=1h`": (METHODS[GEO][0] + "&defragment_after=1h", METHODS[GEO][1]),
        "headway, `defragment_after=inf`": ("headway?defragment_after=inf", {}),
        "headway": ("headway", {}),
    }
    lines = ["| policy | " + " | ".join(WORKLOADS) + " |", "|---|" + "---:|" * len(WORKLOADS)]
    for name, (policy, options) in rows.items():
        cells = [
            kept.figures(*work, policy, options)[0] / kept.figures(*work, BASE, {})[0] for work in WORKLOADS.values()
        ]
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in cells) + " |")
    return lines


TABLES = {
    "main": main_table,
    "details": details_table,
    "fresh": fresh_table,
    "equal": equal_table,
    "costs": costs_table,
    "loads": loads_table,
    "reports": reports_table,
    "moves": moves_table,
}


def _cells(lines: list[str]) -> list[list[str]]:
    """Return the cells of a table in Markdown, its header first."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def draw_main(lines: list[str]) -> None:
    """Draw mean JCT by workload, from the table."""
    rows = {name: [100 * float(cell) for cell in cells] for name, *cells in _cells(lines)[1:] if name in DRAWN}
    title = "Mean JCT in % of best-effort (less is better)"
    chart = bar_chart(title, list(WORKLOADS), {name: rows[name] for name in DRAWN}, " %")
    (FOLDER / "headway-jct.svg").write_text(chart)


def _draw_lines(lines: list[str], file: str, title: str, x_title: str) -> None:
    """Draw mean JCT as one option changes, from the table."""
    (_, *names), *rows = _cells(lines)
    values = {name: [100 * float(row[place]) for row in rows] for place, name in enumerate(names, 1)}
    every = [value for row in values.values() for value in row]
    chart = line_chart(
        title,
        [re.sub(r"(?<=\d)s$", " s", row[0]) for row in rows],
        values,
        20 * np.ceil(max(every) / 20),
        low=20 * np.floor(min(every) / 20),
        x_title=x_title,
        unit=" %",
        colours=dict(zip(DRAWN, BAR_COLOURS, strict=True)),
        dashed=("srsf (oracle)",),
        reference=(100.0, BASE),
    )
    (FOLDER / file).write_text(chart)


def draw_costs(lines: list[str]) -> None:
    """Draw mean JCT by the cost of a preemption."""
    title = "Mean JCT in % of best-effort, by the cost of a preemption (less is better)"
    _draw_lines(lines, "headway-costs.svg", title, "save and resume time of a preemption")


def draw_loads(lines: list[str]) -> None:
    """Draw mean JCT by load."""
    _draw_lines(lines, "headway-loads.svg", "Mean JCT in % of best-effort, by load (less is better)", "offered load")


PICTURES = {"main": draw_main, "costs": draw_costs, "loads": draw_loads}


def _table_of(page: str, name: str) -> list[str]:
    """Return the lines of a table of the page."""
    return page.partition(f"<!-- table: {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0].splitlines()


def main() -> None:
    """Measure what is named, or all."""
    from bench.tiresias_table import put

    words = sys.argv[1:]
    path = Path(words.pop(words.index("--keep") + 1)) if "--keep" in words else None
    words = [word for word in words if word != "--keep"]
    kept = Kept.at(path)
    for name in () if words == ["pictures"] else words or TABLES:
        PAGE.write_text(put(PAGE.read_text("utf-8"), name, TABLES[name](kept)), "utf-8")
    for name, draw in PICTURES.items():
        draw(_table_of(PAGE.read_text("utf-8"), name))


if __name__ == "__main__":
    main()
