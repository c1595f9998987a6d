"""Write every table and picture of docs/results/vclos.md again: what stands between its `<!-- table NAME -->` marks, and the SVG files.

python -m bench.vclos_page                     all of them, about half an hour of CPU time
python -m bench.vclos_page authors exact       those named
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.bar_chart import bar_chart
from bench.exact import accuracy_table, convergence_table
from bench.vclos_table import METHODS, SATURATED, heading, markdown, mean, measure, rows, trace_of

FOLDER = Path(__file__).parents[1] / "docs" / "results"
PAGE, DATA = FOLDER / "vclos.md", FOLDER / "vclos.json"
SEEDS = 3
# Cluster sizes with the mix that fills them, and loads: of the last, the highest at which ECMP is not saturated is 0.6.
STUDIES = {
    "512": ("vclos-512", "vclos", (0.6, 0.85)),
    "2048": ("vclos-2048", "vclos-large", (0.6, 0.75, 0.85)),
    "8192": ("vclos-8192", "vclos-tpu", (0.5, 0.6, 0.75)),
}
POLICIES = ("fifo", "tiresias-l")
# The authors' public configurations for 8,192 GPUs: four GPUs on a server, one iteration per job, load 0.88.
AUTHORS = ("2048x4", "vclos-8192-by-4", 0.88)
AUTHORS_METHODS = ("ideal", "ecmp?exact=1", "vclos", "vclos-padded", "ocs-vclos")


def study(name: str, policy: str) -> tuple[list[str], dict[str, Any]]:
    """One cluster size under one policy."""
    cluster, mix, loads = STUDIES[name]
    lines, every = heading(), {}
    for load in loads:
        found = rows(cluster, mix, policy, load, SEEDS)
        every[f"{load:g}"] = found
        lines += markdown(load, found)
    return lines, every


def authors() -> tuple[list[str], dict[str, Any]]:
    """The authors' setting: gains over ECMP by the length of the run, and at loads that ECMP carries."""
    cluster, fabric, heavy = AUTHORS
    lines = [
        "| load | jobs | network | stretch | GPU-weighted | effective load | JWT s | JCT s | JCT against ecmp | JCT/ideal |"
    ]
    lines.append("|---:|---:|---|" + "---:|" * 7)
    every: dict[str, Any] = {}
    for load, jobs, seeds in ((0.5, 5000, 2), (0.6, 5000, 2), (heavy, 2500, 2), (heavy, 5000, 2), (heavy, 10000, 1)):
        found = {}
        for method in AUTHORS_METHODS:
            traces = {seed: trace_of("vclos-tpu", load, cluster, seed, jobs) for seed in range(seeds)}
            found[method] = mean(
                [measure(cluster, trace, "fifo", method, seed, fabric) for seed, trace in traces.items()]
            )
            print(load, jobs, method, found[method], file=sys.stderr, flush=True)
        every[f"{load:g}, {jobs}"] = found
        ideal, ecmp = found["ideal"]["JCT"], found["ecmp?exact=1"]
        for method, one in found.items():
            gain = f"{100 * (one['JCT'] / ecmp['JCT'] - 1):+.1f} %"
            over = f"{one['JCT'] / ideal:.3f}"
            if ecmp["effective"] >= SATURATED:
                gain, over = f"({gain})", f"({over})" if method.startswith("ecmp") else over
            cells = f"{one['stretch']:.3f} | {one['weighted']:.3f} | {one['effective']:.2f} | {one['JWT']:,.0f} | {one['JCT']:,.0f}"
            lines.append(f"| {load:g} | {jobs:,} | {method} | {cells} | {gain} | {over} |")
    return lines, every


def pictures(data: dict[str, Any]) -> None:
    """Stretch of all networks at one load per size, and JCT over ideal on 2,048 GPUs by load."""
    shared = [name for name in METHODS if name != "ideal"]
    stretch = {}
    for name, load in (("512", "0.85"), ("2048", "0.85"), ("8192", "0.6")):
        if f"{name}-fifo" in data:
            found = data[f"{name}-fifo"][load]
            label = f"{int(name):,} GPUs, load {load}"
            stretch[label] = [100 * (found[method]["weighted"] - 1) for method in shared]
    title = "GPU-weighted stretch of run times, % above a clean network (FIFO)"
    (FOLDER / "vclos-stretch.svg").write_text(bar_chart(title, shared, stretch, " %"))
    for policy in POLICIES:
        if f"2048-{policy}" in data:
            found = data[f"2048-{policy}"]
            loads = [load for load in found if found[load]["ecmp"]["effective"] < SATURATED]
            series = {
                f"load {load}": [100 * (found[load][method]["over ideal"] - 1) for method in shared] for load in loads
            }
            title = f"Average JCT, % above the network without contention (2,048 GPUs, vclos-large, {policy})"
            (FOLDER / f"vclos-jct-{policy}.svg").write_text(bar_chart(title, shared, _from_zero(series), " %"))


def _from_zero(series: dict[str, list[float]]) -> dict[str, list[float]]:
    """Bars begin at zero: what is better than the ideal network has none."""
    return {name: [max(value, 0.0) for value in values] for name, values in series.items()}


def put(name: str, lines: list[str]) -> None:
    """Replace what stands between the marks of a table."""
    begin, end = f"<!-- table {name} -->", f"<!-- end {name} -->"
    text = PAGE.read_text("utf-8")
    before, mark, rest = text.partition(begin)
    if not mark or end not in rest:
        raise SystemExit(f"{PAGE} has no marks {begin} and {end}")
    body = "\n".join(["", *lines, ""])
    PAGE.write_text(before + begin + body + rest[rest.index(end) :], "utf-8")


def main() -> None:
    """Write the tables named, or all."""
    make: dict[str, Callable[[], tuple[list[str], dict[str, Any]]]] = {
        f"{name}-{policy}": lambda name=name, policy=policy: study(name, policy)  # type: ignore[misc]
        for name in STUDIES
        for policy in POLICIES
    }
    make |= {"authors": authors, "convergence": convergence_table, "accuracy": accuracy_table}
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    for name in sys.argv[1:] or make:
        if name not in make:
            raise SystemExit(f"no table {name!r}: one of {', '.join(make)}")
        lines, data[name] = make[name]()
        put(name, lines)
        DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    pictures(data)


if __name__ == "__main__":
    main()
