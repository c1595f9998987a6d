"""Write every table and picture of docs/results/vclos.md again: what stands between its `<!-- table NAME -->` marks, and the SVG files.

python -m bench.vclos_page                     all of them, about half an hour of CPU time
python -m bench.vclos_page authors failures    those named
python -m bench.vclos_page draw                none: only write them again from the numbers in docs/results/vclos.json
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench.bar_chart import bar_chart
from bench.exact import accuracy, accuracy_table, convergence, convergence_table
from bench.vclos_table import METHODS, heading, markdown, mean, measure, rows, trace_of

from headway.sim.results.stretch import SATURATED

Data = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "docs" / "results"
PAGE, DATA = FOLDER / "vclos.md", FOLDER / "vclos.json"
SEEDS = 3
# Cluster sizes with the mix that fills them, and loads: on 8,192 GPUs ECMP is saturated from about 0.61 on.
STUDIES = {
    "512": ("vclos-512", "vclos", (0.6, 0.85)),
    "2048": ("vclos-2048", "vclos-large", (0.6, 0.75, 0.85)),
    "8192": ("vclos-8192", "vclos-tpu", (0.4, 0.5, 0.6)),
}
POLICIES = ("fifo", "tiresias-l")
# The authors' public configurations for 8,192 GPUs: four GPUs on a server, one iteration per job, load 0.88.
AUTHORS = ("2048x4", "vclos-8192-by-4")
# Load and jobs: where ECMP carries the load, where it just does (by the length of the run), and the authors' load.
AUTHORS_SETTINGS = (
    (0.5, 5000), (0.54, 5000), (0.6, 2500), (0.6, 5000), (0.6, 10000), (0.88, 2500), (0.88, 5000), (0.88, 10000),
)  # fmt: skip
# Durations have a long tail: one trace says little.
AUTHORS_SEEDS = 5
AUTHORS_METHODS = ("ideal", "ecmp?exact=1", "vclos", "vclos-padded", "ocs-vclos")
FAILING = ("ecmp, leaf-aware", "source, leaf-aware", "spray?efficiency=0.95", "vclos", "vclos-padded", "ocs-vclos")
FAILURES = {
    "nothing fails": "",
    "a spine after 100 h": "spine0@100h",
    "four spines after 100 h": "+".join(f"spine{spine}@100h" for spine in range(4)),
}


def study(name: str, policy: str) -> Data:
    """One cluster size under one policy."""
    cluster, mix, loads = STUDIES[name]
    return {f"{load:g}": rows(cluster, mix, policy, load, SEEDS) for load in loads}


def study_table(found: Data) -> list[str]:
    """All loads of one size and policy."""
    lines = heading()
    for load, by_method in found.items():
        lines += markdown(float(load), {method: by_method[method] for method in METHODS})
    return lines


def authors() -> Data:
    """The authors' setting: gains over ECMP by load and by the length of the run, seed by seed."""
    cluster, fabric = AUTHORS
    every: Data = {}
    for load, jobs in AUTHORS_SETTINGS:
        found = every[f"{load:g}, {jobs}"] = {}
        for method in AUTHORS_METHODS:
            traces = {seed: trace_of("vclos-tpu", load, cluster, seed, jobs) for seed in range(AUTHORS_SEEDS)}
            runs = [measure(cluster, trace, "fifo", method, seed, fabric) for seed, trace in traces.items()]
            found[method] = mean(runs) | {"JCTs": [run["JCT"] for run in runs]}
            print(load, jobs, method, found[method], file=sys.stderr, flush=True)
    return every


def authors_table(every: Data) -> list[str]:
    """Gains seed by seed: their mean, least and most; in brackets where ECMP is saturated, and so they measure the length of the run."""
    head = ("stretch", "GPU-weighted", "effective load", "JWT s", "JCT s", "JCT against ecmp", "by seed", "JCT/ideal")
    lines = ["| load | jobs | network | " + " | ".join(head) + " |", "|---:|---:|---|" + "---:|" * len(head)]
    for setting, found in every.items():
        load, jobs = setting.split(", ")
        ideal, ecmp = found["ideal"]["JCT"], found["ecmp?exact=1"]
        for method, one in found.items():
            gains = [100 * (own / other - 1) for own, other in zip(one["JCTs"], ecmp["JCTs"], strict=True)]
            gain, seeds = f"{np.mean(gains):+.1f} %", f"{max(gains):+.0f} to {min(gains):+.0f}"
            if ecmp["effective"] >= SATURATED:
                gain = f"({gain})"
            over = f"{one['JCT'] / ideal:.3f}"
            if one["effective"] >= SATURATED:
                over = f"({over})"
            cells = [f"{one[key]:.{digits}f}" for key, digits in (("stretch", 3), ("weighted", 3), ("effective", 2))]
            cells += [f"{one['JWT']:,.0f}", f"{one['JCT']:,.0f}", *(("", "") if one is ecmp else (gain, seeds)), over]
            lines.append(f"| {load} | {int(jobs):,} | {method} | " + " | ".join(cells) + " |")
    return lines


def failures() -> Data:
    """2,048 GPUs, a spine lost after 100 hours, and four of them."""
    every: Data = {}
    for method in FAILING:
        every[method] = {}
        for name, failed in FAILURES.items():
            traces = {seed: trace_of("vclos-large", 0.6, "vclos-2048", seed, 5000) for seed in range(SEEDS)}
            runs = [measure("vclos-2048", trace, "fifo", method, seed, failed=failed) for seed, trace in traces.items()]
            every[method][name] = mean(runs)
            print(method, name, every[method][name], file=sys.stderr, flush=True)
    return every


def failures_table(every: Data) -> list[str]:
    """Before and after, by network."""
    lines = ["| network | " + " | ".join(f"JCT s, {name} | stretch | jobs that moved" for name in FAILURES) + " |"]
    lines.append("|---|" + "---:|" * 3 * len(FAILURES))
    for method, found in every.items():
        cells = [f"{one['JCT']:,.0f} | {one['weighted']:.3f} | {one['again']:.0f}" for one in found.values()]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines


def pictures(data: dict[str, Any]) -> None:
    """Stretch of all networks at one load per size, and JCT over ideal by size, policy and load, where ECMP carries the load."""
    shared = [name for name in METHODS if name != "ideal"]
    stretch = {}
    for name, load in (("512", "0.85"), ("2048", "0.85"), ("8192", "0.6")):
        if f"{name}-fifo" in data:
            found = data[f"{name}-fifo"][load]
            label = f"{int(name):,} GPUs, load {load}"
            stretch[label] = [100 * (found[method]["weighted"] - 1) for method in shared]
    title = "GPU-weighted stretch of run times, % above a clean network (FIFO)"
    (FOLDER / "vclos-stretch.svg").write_text(bar_chart(title, shared, stretch, " %"))
    for name, (_, mix, _) in STUDIES.items():
        for policy in POLICIES:
            if f"{name}-{policy}" not in data:
                continue
            found = data[f"{name}-{policy}"]
            loads = [load for load in found if found[load]["ecmp"]["effective"] < SATURATED]
            series = {
                f"load {load}": [100 * (found[load][method]["over ideal"] - 1) for method in shared] for load in loads
            }
            title = f"Average JCT, % above the network without contention ({int(name):,} GPUs, {mix}, {policy})"
            (FOLDER / f"vclos-jct-{name}-{policy}.svg").write_text(bar_chart(title, shared, series, " %"))


def put(name: str, lines: list[str]) -> None:
    """Replace what stands between the marks of a table."""
    begin, end = f"<!-- table {name} -->", f"<!-- end {name} -->"
    text = PAGE.read_text("utf-8")
    before, mark, rest = text.partition(begin)
    if not mark or end not in rest:
        raise SystemExit(f"{PAGE} has no marks {begin} and {end}")
    body = "\n".join(["", *lines, ""])
    PAGE.write_text(before + begin + body + rest[rest.index(end) :], "utf-8")


TABLES: dict[str, tuple[Callable[[], Data], Callable[[Data], list[str]]]] = {
    "convergence": (convergence, convergence_table),
    "accuracy": (accuracy, accuracy_table),
    "authors": (authors, authors_table),
    "failures": (failures, failures_table),
    **{f"{name}-{policy}": (partial(study, name, policy), study_table) for name in STUDIES for policy in POLICIES},
}


def main() -> None:
    """Measure what is named, or all; then write every table and picture whose numbers are there."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    chosen = [] if sys.argv[1:] == ["draw"] else sys.argv[1:] or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            raise SystemExit(f"no table {name!r}: one of {', '.join(TABLES)}, or draw")
        data[name] = TABLES[name][0]()
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    for name in data:
        put(name, TABLES[name][1](data[name]))
    pictures(data)


if __name__ == "__main__":
    main()
