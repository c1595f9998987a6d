"""The files that `--out` writes: jobs.csv, receipts.csv, journal.jsonl, summary.json and report.html, each written aside and renamed."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.classes import split_class
from headway.core.events import (
    DEFERRED,
    DISCONNECTED,
    EXPLAINED,
    MIGRATE,
    NAMES,
    NO_JOB,
    NOTIFY,
    PACK,
    PROMISE,
    RATED,
    REASONS,
    START,
)
from headway.errors import BadInput
from headway.io.files import writable, write_atomically, writing
from headway.sim.results.result import Result
from headway.sim.results.starts import Starts
from headway.sim.run import Run

FILES = ("jobs.csv", "receipts.csv", "journal.jsonl", "summary.json", "report.html")


def check_folder(folder: Path) -> None:
    """Refuse a folder that the files of a run cannot be written into; nothing is created."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: give a folder to write to")
    for name in FILES:
        writable(folder / name)


def write_result(result: Result, folder: Path) -> None:
    """Write the files of a run into a folder."""
    check_folder(folder)
    _write_columns(folder / "jobs.csv", result.jobs)
    _write_columns(folder / "receipts.csv", result.receipts)
    with writing(folder / "journal.jsonl") as file:
        for entry in journal_entries(result.run):
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
    write_atomically(folder / "summary.json", json.dumps(result.summary, indent=2) + "\n")
    result.report(folder / "report.html")


def _write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    with writing(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def journal_entries(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the entries of the journal. Start and Pack name the GPUs taken (node:GPU), Promise and Migrate the GPUs set aside."""
    nodes = zip(run.cluster.nodes, run.cluster.gpus, strict=True)
    names = [f"{node}:{gpu}" for node, count in nodes for gpu in range(count)]
    ids, ends = run.workload.job_id, np.append(run.entries["place_at"][1:], len(run.journal.places))
    link_ends, starts = np.append(run.entries["link_at"][1:], len(run.journal.links)), Starts(run)
    for row, end, link_end in zip(run.entries, ends, link_ends, strict=True):
        starts.follow(row)
        kind, gpus, at = int(row["kind"]), int(row["gpus"]), int(row["seat_at"])
        entry: dict[str, Any] = {
            "time_s": float(row["time"]),
            "kind": NAMES[kind],
            "job_id": str(ids[row["job"]]) if row["job"] != NO_JOB else None,
            "attempt": int(row["attempt"]),
            "level": int(row["level"]),
            "gpus": gpus,
        }
        if kind in (START, PACK):
            entry["on"] = [names[gpu] for gpu in sorted(run.seats[at : at + gpus] % len(names))]
            entry |= starts.told(row, run.seats[at : at + gpus], run.journal.links[row["link_at"] : link_end])
        elif kind in (PROMISE, MIGRATE):
            places = run.journal.places[row["place_at"] : end]
            entry["places"] = {run.cluster.nodes[place["node"]]: int(place["gpus"]) for place in places}
        elif kind == EXPLAINED:
            # The jobs of this size; those that want few nodes may wait for another reason than the others.
            kind_of_job, team, _ = split_class(int(row["gpus"]), run.class_sizes)
            size = kind_of_job // run.class_sizes.models
            entry |= {"gpus": size // 2, "few_nodes": bool(size % 2), "why": REASONS[int(row["level"])], "level": 0}
            if run.teams:
                entry["queue"] = run.teams.name_of(team)
        elif kind in (NOTIFY, DEFERRED):
            entry["until_s"] = float(row["until"]) if np.isfinite(row["until"]) else None
        elif kind == DISCONNECTED:
            entry |= {"gpus": 0, "leaf": gpus}
        elif kind == RATED:
            entry["rate"] = float(row["rate"])
        yield entry
