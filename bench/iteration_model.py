"""The iteration model against measured iterations: writes its part of docs/results/stack.md, and the picture.

    HEADWAY_TRACES=... python -m bench.iteration_model

Of every model on every kind of GPU seven of ten measurements are fitted (bench/iteration_fit.py) and the other three predicted: drawn at
random; and once more those on the most GPUs, which asks for jobs larger than any that was measured. "Compute alone" is a fit without
communication: what a scheduler assumes that knows none.
"""

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench.iteration_fit import Rows, fit, fit_parallel, parallel_features
from bench.line_chart import line_chart
from bench.shared_traces import FOLDER
from bench.tiresias_table import put

PAGE = Path(__file__).parents[1] / "docs" / "results" / "stack.md"
PICTURE = PAGE.parent / "stack-iteration.svg"
HELD_BACK = 0.3
LEAST_ROWS = 7  # of a group: fewer cannot be fitted and held back
PERCENTILES = (50, 75, 90, 95)
# A measurement: source, group (model, kind of GPU, plan), GPUs by server, work per GPU, seconds; degrees of parallelism where it has
# several.
Measured = tuple[str, str, tuple[int, ...], float, float, tuple[int, int, int] | None]


def _table(name: str) -> Iterator[dict[str, str]]:
    path = FOLDER / "profiles" / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from csv.DictReader(file)


def gavel() -> Iterator[Measured]:
    """Steps of all workers together, per second; unconsolidated: a server for each GPU, as we read it."""
    for row in _table("gavel_isolated_throughputs.csv"):
        speed, gpus = float(row["steps_per_s"]), int(row["num_gpus"])
        kind, _, apart = row["worker_type"].partition("_")
        model, _, batch = row["job_type"].partition(" (batch size ")
        if speed > 0 and batch:
            places = (1,) * gpus if apart else (gpus,)
            yield "Gavel", f"{model} on {kind}", places, float(batch.rstrip(")")), gpus / speed, None


def pollux() -> Iterator[Measured]:
    """Steps on T4s, four to a server."""
    for row in _table("pollux_placements.csv.gz"):
        yield (
            "Pollux",
            row["model"],
            tuple(map(int, row["placement"])),
            float(row["local_bsz"]),
            float(row["step_time"]),
            None,
        )


def chronus() -> Iterator[Measured]:
    """Slow-downs against one server: the time of an iteration in units of that; evenly over the servers."""
    for row in _table("chronus_placement_slowdown.csv"):
        gpus, servers = int(row["num_gpus"]), int(row["num_nodes"])
        places = tuple(gpus // servers + (i < gpus % servers) for i in range(servers))
        yield "Chronus", row["model"], places, 1.0, 1 / float(row["relative_throughput"]), None


def elasticflow() -> Iterator[Measured]:
    """Iterations at a fixed batch on servers of 8 A100s or 4 T4s, filled one after the other."""
    for row in _table("elasticflow_throughputs.csv"):
        gpus, server = int(row["num_gpus"]), 8 if row["gpu"] == "A100" else 4
        places = tuple(min(server, gpus - first) for first in range(0, gpus, server))
        work = float(row["global_batch_size"]) / gpus
        speed = float(row["iterations_per_s"])  # 0: does not fit
        if speed > 0:
            yield "ElasticFlow", f"{row['model']} on {row['gpu']}", places, work, 1 / speed, None


def rubick() -> Iterator[Measured]:
    """Large models on A800s at a fixed batch; plans of three digits are pipeline x tensor x data parallelism.

    That is our reading: the first divides the layers of each model, and the time of the optimizer goes with 1 / (first x second).
    """
    for row in _table("rubick_llm_placements.csv"):
        places, plan = tuple(map(int, row["placement"])), row["exec_plan"]
        digits = tuple(map(int, plan)) if plan.isdigit() else None
        if float(row["iter_time_s"]) == 0 or (digits and int(np.prod(digits)) != sum(places)):
            continue  # does not fit, or a plan for other GPUs
        group = f"{row['model']}, {'pipeline x tensor x data' if digits else plan}"
        yield "Rubick", group, places, 1 / sum(places), float(row["iter_time_s"]), digits  # type: ignore[misc]


def _arrays(rows: list[Measured]) -> tuple[Rows, Any]:
    each, servers = [float(min(row[2])) for row in rows], [float(len(row[2])) for row in rows]
    columns = (each, servers, [float(sum(row[2])) for row in rows], [row[3] for row in rows], [row[4] for row in rows])
    found = Rows(*map(np.array, columns))
    digits = np.array([row[5] for row in rows], float).T if rows[0][5] else None
    return found, None if digits is None else parallel_features(*digits, found.each, found.servers)


def errors(rows: list[Measured], held: Any) -> tuple[Any, Any]:
    """Relative errors of the predictions for the rows held back: of the model, and of computation alone."""
    found, features = _arrays(rows)
    known, other = found.take(~held), found.take(held)
    plain = np.stack([np.ones(len(found)), found.work], axis=1)
    alone = plain[held] @ fit_parallel(plain[~held], known.seconds)
    parallel = features is not None
    predicted = features[held] @ fit_parallel(features[~held], known.seconds) if parallel else fit(known).seconds(other)
    return np.abs(predicted / other.seconds - 1), np.abs(alone / other.seconds - 1)


def _held(rows: list[Measured], how: str, seed: int) -> Any:
    """Which rows are predicted: at random, or those on the most GPUs."""
    size = np.array([sum(row[2]) for row in rows], float)
    drawn = np.random.default_rng(seed).random(len(rows))
    order = np.argsort(drawn if how == "at random" else -size - 1e-9 * drawn, kind="stable")
    held = np.zeros(len(rows), np.bool_)
    held[order[: max(1, round(HELD_BACK * len(rows)))]] = True
    return held


def main() -> None:
    """Fit, predict, print and draw."""
    groups: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for read in (gavel, pollux, chronus, elasticflow, rubick):
        for row in read():
            groups[row[:2]].append(row)
    usable = {name: rows for name, rows in groups.items() if len(rows) >= LEAST_ROWS}
    left = sum(len(rows) for rows in groups.values()) - sum(len(rows) for rows in usable.values())
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for number, (name, rows) in enumerate(usable.items()):
        for how in ("at random", "most GPUs"):
            mine, alone = errors(rows, _held(rows, how, number))
            found[name[0], how].append(mine)
            found[name[0], f"{how}, alone"].append(alone)
            figures = f"{len(mine):4} rows, median {np.median(mine):.3f}, worst {mine.max():.2f}"
            print(f"{name[0]:12} {name[1]:38} {how:10} {figures}", file=sys.stderr)
    write(usable, {name: np.concatenate(parts) for name, parts in found.items()}, left)


def write(groups: Any, found: dict[tuple[str, str], Any], left: int) -> None:
    """The table by source, and the distribution."""
    sources = list(dict.fromkeys(name[0] for name in groups))
    lines = [
        "| source | groups | held back | median error | p75 | p90 | p95 | compute alone: median | p90 | larger jobs: median | p90 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    curves = {}
    for source in [*sources, "all"]:
        of = sources if source == "all" else [source]
        drawn, alone, larger = (
            np.concatenate([found[one, how] for one in of]) for how in ("at random", "at random, alone", "most GPUs")
        )
        count = sum(name[0] in of for name in groups)
        cells = [f"{100 * np.percentile(drawn, part):.1f} %" for part in PERCENTILES]
        rest = [f"{100 * np.percentile(errors, part):.1f} %" for errors in (alone, larger) for part in (50, 90)]
        lines.append(f"| {source} | {count} | {len(drawn):,} | " + " | ".join([*cells, *rest]) + " |")
        curves[source] = [100 * float(np.percentile(drawn, part)) for part in range(0, 100, 5)]
    lines.append("")
    lines.append(f"{left:,} measurements are in groups of fewer than {LEAST_ROWS} and were not used.")
    top = 10 * np.ceil(max(curve[-1] for curve in curves.values()) / 10)
    title = "Error of the iteration model, %, by the part of the held-back measurements below it, %"
    PICTURE.write_text(
        line_chart(title, [f"{part}" if part % 20 == 0 else "" for part in range(0, 100, 5)], curves, top)
    )
    print("\n".join(lines))
    if PAGE.exists():
        PAGE.write_text(put(PAGE.read_text("utf-8"), "iteration", lines), "utf-8")


if __name__ == "__main__":
    main()
