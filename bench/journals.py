"""Compare the decisions of two trees: `python -m bench.journals write FILE` in one, `compare FILE` in the other.

Run: python -m bench.journals write FILE                 run every case and write its figures as JSON
     python -m bench.journals compare FILE [--old SRC]   run every case and print each one that differs from FILE
     python -m bench.journals write FILE --log CASE      write the canonical log of one case as text
     python -m bench.journals compare FILE --log CASE    print the first instant at which the log of one case differs from FILE
     options: --sets equal,default,queues   --only TEXT (cases whose name contains TEXT)

HEADWAY_TRACES names the folder of the shared traces. PYTHONPATH chooses the tree: PYTHONPATH=OTHER/src:. python -m bench.journals ...
`--old SRC` is the source folder of the tree that wrote FILE: with it, `compare` also prints the first instant that differs.

There are three sets of cases, on the first 3,000 jobs of five traces and on a variant with non-preemptible jobs and time limits:

- equal: every policy without defragmentation, every placement, with free and with modelled preemption; and networks on a fabric.
- default: policies that defragment, with their default options.
- queues: policies under two small queues files. Only mean JCT and preemptions are kept.

A case of the first two sets has a hash of its canonical log. The log has the time, kind, job and places of each row whose kind is in KINDS,
under the names of KINDS; other kinds are left out. The order of rows within one instant does not matter, their times are exact. A Reserve
followed by a Resize to the same size, which is how old journals write a migration, counts as one Migrate. Places are GPUs per node, and
the links of an isolated job; which GPUs of a node a job gets is not compared.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from bench.shared_traces import first_jobs
from numpy.typing import NDArray

import headway
from headway.core.events import NAMES
from headway.errors import HeadwayError
from headway.policies.registry import find_policy

JOBS = 3000
TRACES = ("philly_82k", "helios_venus_125k", "pai2020_60k", "muri_philly_4traces?trace=1", "rubick_llm_workload")
MIXED = "philly_82k mixed"  # every fifth job is non-preemptible, every third one has a time limit
POLICIES = (
    *("headway", "fifo", "best-effort", "backfill", "backfill?requested=2", "sjf", "srtf", "srsf", "las", "2d-las"),
    *("tiresias-l", "gittins", "tiresias-g", "gandiva", "optimus"),
)
DEFRAGMENTING = ("headway", "srtf", "srsf", "las", "2d-las", "tiresias-l", "gittins", "tiresias-g")
NO_DEFRAGMENTATION = ("defragment_after=inf", "clears=inf")  # as policies spell it: new trees, old trees
PLACEMENTS = ("consolidated", "spread", "random", "profile")
COSTS = {
    "free": {"preemption_cost": "none", "slowdown": "none"},
    "model": {"preemption_cost": "model", "slowdown": "model"},
}
NETWORKS = {
    "ecmp": {"network": "ecmp", "fabric": "vclos-512"},
    "balanced": {"network": "balanced", "fabric": "vclos-512"},
    "source": {"network": "source", "fabric": "vclos-512"},
    "vclos": {"network": "isolated", "placement": "vclos", "fabric": "vclos-512"},
    "vclos-padded": {"network": "isolated", "placement": "vclos-padded", "fabric": "vclos-512"},
    "ocs-vclos": {"network": "isolated", "placement": "ocs-vclos", "fabric": "ocs-vclos-512"},
}
FABRIC_TRACE = "synthetic:vclos-large?jobs=200&cluster=64x8&load=0.9"
QUEUE_POLICIES = ("headway", "fifo", "best-effort", "backfill?requested=2", "srtf", "srsf", "2d-las", "tiresias-l")
# Guarantees are shares of the cluster's nodes. Jobs are in the leaf queues, in equal parts.
QUEUES: dict[str, dict[str, dict[str, Any]]] = {
    "flat": {
        "research": {"weight": 2, "guarantee": 0.4},
        "production": {"weight": 1, "guarantee": 0.3, "priority": 1},
        "guests": {"weight": 1},
    },
    "nested": {
        "research": {"weight": 2, "guarantee": 0.5},
        "vision": {"parent": "research", "guarantee": 0.25},
        "speech": {"parent": "research", "guarantee": 0.1},
        "guests": {"weight": 1, "limit": 0.6},
    },
}
NOTICE = "10m"
SETS = ("equal", "default", "queues")

KINDS = (
    *("Ended", "Stopped", "Started", "Crossed", "Submitted", "Held", "Released"),
    *("Stop", "Resize", "Promise", "Migrate", "Start", "Pack"),
)
RENAMED = {"Reserve": "Promise"}
# Kinds that exist in one of the two trees only, or that are about no job.
LEFT_OUT = ("Explained", "Claim", "Notify", "Deferred", "Ticked", "Rated", "Refitted", "Disconnected")
LOGS = 10  # differing cases for which `compare --old` makes both logs


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation: its set, its name in files, and how to run it."""

    set: str
    name: str  # begins with the set
    run: Callable[[bool], Any]  # whether to keep the journal -> result


@dataclass(frozen=True, slots=True)
class Log:
    """The canonical log of a run, in columns: one row per fact or action."""

    time: NDArray[np.float64]
    kind: NDArray[np.int64]  # index in KINDS
    job: NDArray[np.int64]
    entry: NDArray[np.int64]  # index of the journal entry whose places the row has
    run: Any


def cases() -> Iterator[Case]:
    """Yield every case of every set."""
    for trace in (*TRACES, MIXED):
        for placement in PLACEMENTS if trace != MIXED else PLACEMENTS[:1]:
            for cost, options in COSTS.items():
                how = options | {"placement": placement}
                for policy in POLICIES:
                    yield trace_case("equal", f"{trace} {policy} {placement} {cost}", trace, policy, how)
                for policy in DEFRAGMENTING:
                    yield trace_case("default", f"{trace} {policy} {placement} {cost}", trace, policy, how)
    for network, options in NETWORKS.items():
        for policy in POLICIES:
            if policy != "gandiva" or "vclos" not in network:  # isolated placements refuse to pack jobs
                yield fabric_case(network, policy, options)
    for trace in (*TRACES, MIXED):
        for queues in QUEUES:
            for policy in QUEUE_POLICIES:
                for placement in PLACEMENTS[:2]:
                    how = {"placement": placement, "skip_impossible": True}
                    name = f"{trace} {policy} {placement} {queues}"
                    yield trace_case("queues", name, trace, policy, how, queues)


def trace_case(which: str, name: str, trace: str, policy: str, how: dict[str, Any], queues: str = "") -> Case:
    """Return the case of a policy on a shared trace."""

    def run(keep_journal: bool) -> Any:
        jobs, cluster = workload(trace)
        spec = without_defragmentation(policy) if which == "equal" else policy
        if not queues:
            return headway.simulate(jobs, cluster, spec, keep_journal=keep_journal, **how)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "queues.yaml")
            path.write_text(queues_text(QUEUES[queues], int(cluster.partition("x")[0])))
            jobs = replace(jobs, queue=queue_column(QUEUES[queues], len(jobs)))
            return headway.simulate(jobs, cluster, spec, queues=path, keep_journal=keep_journal, **how)

    return Case(which, f"{which} {name}", run)


def fabric_case(network: str, policy: str, options: dict[str, str]) -> Case:
    """Return the case of a policy on a fabric."""

    def run(keep_journal: bool) -> Any:
        how = {"preemption_cost": "30s", "skip_impossible": True, "keep_journal": keep_journal, **options}
        return headway.simulate(FABRIC_TRACE, "64x8", without_defragmentation(policy), **how)

    return Case("equal", f"equal {FABRIC_TRACE.partition('?')[0]} {policy} {network}", run)


@cache
def workload(trace: str) -> tuple[Any, str]:
    """Return the first jobs of a trace and their cluster."""
    if trace != MIXED:
        return first_jobs(trace, JOBS)
    jobs, cluster = first_jobs(TRACES[0], JOBS)
    row = np.arange(len(jobs))
    limit = np.where(row % 3 == 0, 1.5 * jobs.duration_s, np.inf)
    return replace(jobs, preemptible=row % 5 != 0, limit_s=limit), cluster


@cache
def without_defragmentation(policy: str) -> str:
    """Return the spec of a policy that never defragments, in the spelling that this tree accepts."""
    for option in NO_DEFRAGMENTATION:
        spec = f"{policy}{'&' if '?' in policy else '?'}{option}"
        try:
            find_policy(spec)
        except HeadwayError:
            continue
        return spec
    return policy


def queues_text(queues: dict[str, dict[str, Any]], nodes: int) -> str:
    """Return a queues file in YAML for a cluster of 8-GPU nodes."""
    entries = {}
    for name, queue in queues.items():
        entry = {key: queue[key] for key in ("weight", "priority", "parent") if key in queue}
        if "guarantee" in queue:
            entry["guaranteed_gpus"] = 8 * int(queue["guarantee"] * nodes)
        if "limit" in queue:
            entry["limits"] = {"gpus": 8 * int(queue["limit"] * nodes)}
        entries[name] = entry
    return json.dumps({"notice": NOTICE, "queues": entries})  # JSON is YAML


def queue_column(queues: dict[str, dict[str, Any]], jobs: int) -> NDArray[np.str_]:
    """Return a leaf queue for each job, drawn with a fixed seed."""
    leaves = [name for name in queues if all(other.get("parent") != name for other in queues.values())]
    return np.array(leaves)[np.random.default_rng(1).integers(len(leaves), size=jobs)]


def canonical_log(run: Any) -> Log:
    """Return the rows of a kept journal under their canonical kinds."""
    names = [RENAMED.get(name, name) for name in NAMES]
    if strange := set(names) - {*KINDS, *LEFT_OUT}:
        raise SystemExit(f"unknown journal kinds {sorted(strange)}: add them to KINDS or LEFT_OUT of bench/journals.py")
    entries = run.journal.entries
    kind = np.array([KINDS.index(name) if name in KINDS else -1 for name in names])[entries["kind"]]
    row = np.flatnonzero(kind >= 0)
    kind, job, at = kind[row], entries["job"][row].astype(np.int64), entries["time"][row]
    if "Migrate" in names:
        return Log(at, kind, job, row, run)
    # A migration in an old journal: the row of the same job before a Resize is a promise of as many GPUs at the same time.
    by_job = np.argsort(job, kind="stable")
    before, after = by_job[:-1], by_job[1:]
    pair = (kind[before] == KINDS.index("Promise")) & (kind[after] == KINDS.index("Resize"))
    pair &= (job[before] == job[after]) & (at[before] == at[after])
    before, after = before[pair], after[pair]
    starts, ends = place_bounds(entries, "place_at", len(run.journal.places))
    sizes = np.array([run.journal.places["gpus"][starts[i] : ends[i]].sum() for i in row[before]])
    same = sizes == entries["gpus"][row[after]]
    kind[before[same]] = KINDS.index("Migrate")
    keep = np.ones(len(row), np.bool_)
    keep[after[same]] = False
    return Log(at[keep], kind[keep], job[keep], row[keep], run)


def place_bounds(entries: NDArray[Any], column: str, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the places of each journal entry begin and end."""
    starts = entries[column].astype(np.int64)
    return starts, np.append(starts[1:], end)


def mixed(numbers: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each number (splitmix64)."""
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed(log: Log) -> str:
    """Return the hash of a canonical log; it does not depend on the order of rows within an instant."""
    journal = log.run.journal
    places = np.zeros(len(log.entry), np.uint64)
    # Sums are linear in GPUs and in links: neither the order of places nor several places on one node matter.
    for column, table, where, amount in (
        ("place_at", journal.places, "node", "gpus"),
        ("link_at", journal.links, "leaf", "mask"),
    ):
        parts = mixed(table[where].astype(np.int64)) * table[amount].astype(np.uint64)
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(parts, dtype=np.uint64)])
        starts, ends = place_bounds(journal.entries, column, len(table))
        places = mixed(places) + total[ends[log.entry]] - total[starts[log.entry]]
    rows = mixed(mixed(mixed(log.kind) + log.job.astype(np.uint64)) + places)
    first = np.flatnonzero(np.append(True, log.time[1:] != log.time[:-1]))
    digest = hashlib.sha256(log.time[first].astype(np.float64).tobytes())
    digest.update(np.add.reduceat(rows, first).tobytes())
    return digest.hexdigest()[:16]


def log_lines(log: Log) -> Iterator[str]:
    """Yield the rows of a canonical log as text, sorted within each instant."""
    journal = log.run.journal
    place_at = place_bounds(journal.entries, "place_at", len(journal.places))
    link_at = place_bounds(journal.entries, "link_at", len(journal.links))
    instant: list[tuple[int, int, str]] = []
    last = None
    for at, kind, job, entry in zip(log.time, log.kind, log.job, log.entry, strict=True):
        if at != last:
            yield from lines_of_instant(last, instant)
            instant, last = [], at
        gpus: dict[int, int] = {}
        for place in journal.places[place_at[0][entry] : place_at[1][entry]]:
            gpus[int(place["node"])] = gpus.get(int(place["node"]), 0) + int(place["gpus"])
        words = [f"{node}:{count}" for node, count in sorted(gpus.items())]
        links = journal.links[link_at[0][entry] : link_at[1][entry]]
        words += sorted(f"link {int(link['leaf'])}:{int(link['mask']):x}" for link in links)
        instant.append((int(kind), int(job), " ".join(words)))
    yield from lines_of_instant(last, instant)


def lines_of_instant(at: Any, rows: list[tuple[int, int, str]]) -> Iterator[str]:
    """Yield the rows of one instant as text."""
    for kind, job, places in sorted(rows):
        yield f"{float(at)!r} {KINDS[kind]} {job} {places}".rstrip()


def figures(case: Case) -> dict[str, Any]:
    """Run a case and return its figures, or its error."""
    keep_journal = case.set != "queues"
    try:
        result = case.run(keep_journal)
    except Exception as error:  # a tree under construction may fail in any way; the other cases still run
        return {"error": f"{type(error).__name__}: {error}"}
    summary = {"jct_s": result.summary["jct_s"]["mean"], "preemptions": result.summary["preemptions"]}
    if keep_journal:
        log = canonical_log(result.run)
        migrations = int(np.count_nonzero(log.kind == KINDS.index("Migrate")))
        summary |= {"sha256": hashed(log), "rows": len(log.kind), "migrations": migrations}
    return summary


def differs(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether two sets of figures differ; the words of an error do not matter."""
    if "error" in old or "error" in new:
        return ("error" in old) != ("error" in new)
    return any(old[key] != new[key] for key in (("sha256",) if "sha256" in old else ("jct_s", "preemptions")))


def percent(old: float, new: float) -> str:
    """Return a change in percent."""
    return f"{100 * (new / old - 1):+.3f} %" if old else f"{old:g} -> {new:g}"


def describe(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return how the figures of a case changed."""
    if "error" in old or "error" in new:
        return f"{old.get('error', 'no error')} -> {new.get('error', 'no error')}"
    words = [f"mean JCT {old['jct_s']:.1f} -> {new['jct_s']:.1f} s ({percent(old['jct_s'], new['jct_s'])})"]
    for key in ("preemptions", "migrations"):
        if key in old:
            words.append(f"{key} {old[key]:,} -> {new[key]:,}")
    return ", ".join(words)


def write_log(case: Case, path: Path) -> None:
    """Run a case and write its canonical log."""
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in log_lines(canonical_log(case.run(True).run)))


def first_difference(old: Path, new: Path) -> str:
    """Return the first instant at which two logs differ, with the rows that only one of them has."""
    for a, b in zip_longest(instants(old), instants(new), fillvalue=("end", [])):
        if a != b:
            same_time = a[0] == b[0]
            at = a[0] if same_time else f"{a[0]} (old), {b[0]} (new)"
            lines = [f"    - {row}" for row in a[1] if not same_time or row not in b[1]]
            lines += [f"    + {row}" for row in b[1] if not same_time or row not in a[1]]
            return "\n".join([f"  first difference at {at}", *lines[:12]])
    return "  the logs are equal"


def instants(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each instant of a log with its rows."""
    at, rows = "", list[str]()
    with path.open() as file:
        for line in file:
            now, _, row = line.rstrip("\n").partition(" ")
            if now != at and rows:
                yield at, rows
                rows = []
            at = now
            rows.append(row)
    if rows:
        yield at, rows


def difference_of_logs(case: Case, source: str) -> str:
    """Run a case in both trees and return the first instant that differs."""
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        command = [sys.executable, "-m", "bench.journals", "write", str(old), "--log", case.name]
        root = Path(__file__).parents[1]
        environment = os.environ | {"PYTHONPATH": f"{Path(source).resolve()}{os.pathsep}{root}"}
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
        if done.returncode:
            return f"  no log of the old tree: {done.stderr.strip().splitlines()[-1:]}"
        write_log(case, new)
        return first_difference(old, new)


def compare_all(chosen: list[Case], before: dict[str, Any], source: str | None) -> int:
    """Run cases, print those that differ, and return how many do."""
    changes: dict[str, list[float]] = {name: [] for name in SETS}
    differing: dict[str, int] = dict.fromkeys(SETS, 0)
    for case in chosen:
        old, new = before.get(case.name), figures(case)
        if old is None:
            print(f"{case.name}: not in the file", flush=True)
            differing[case.set] += 1
            continue
        changes[case.set].append(new["jct_s"] / old["jct_s"] - 1 if "jct_s" in old and "jct_s" in new else 0.0)
        if differs(old, new):
            differing[case.set] += 1
            print(f"{case.name}: {describe(old, new)}", flush=True)
            if source and sum(differing.values()) <= LOGS and not {"error"} & {*old, *new}:
                print(difference_of_logs(case, source), flush=True)
    for name in SETS:
        if changes[name]:
            jct = 100 * np.array(changes[name])
            print(
                f"{name}: {differing[name]} of {len(jct)} cases differ; mean JCT {jct.mean():+.3f} % on average, "
                f"{jct.min():+.3f} % to {jct.max():+.3f} %"
            )
    return sum(differing.values())


def write_all(chosen: list[Case], path: Path) -> None:
    """Run cases and write their figures."""
    results, slowest = {}, list[tuple[float, str]]()
    began = time.process_time()
    for case in chosen:
        start = time.process_time()
        results[case.name] = figures(case)
        slowest.append((time.process_time() - start, case.name))
    path.write_text(json.dumps(results, indent=0) + "\n")
    print(f"{len(results)} cases in {time.process_time() - began:.0f} CPU s; the slowest:")
    for seconds, name in sorted(slowest, reverse=True)[:5]:
        print(f"{seconds:7.1f} s  {name}")
    for name, row in results.items():
        if "error" in row:
            print(f"{name}: {row['error']}")


def main() -> None:
    """Write the figures or one log, or compare with a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--sets", default=",".join(SETS), help="sets of cases, comma-separated")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--log", metavar="CASE", help="the canonical log of one case instead of all figures")
    parser.add_argument("--old", metavar="SRC", help="source folder of the tree that wrote the file")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if case.set in arguments.sets.split(",") and arguments.only in case.name]
    if arguments.log is not None:
        chosen = [case for case in chosen if case.name == arguments.log]
    if not chosen:
        parser.error("no such case: names are the keys of a written file")
    if arguments.log is None and arguments.command == "write":
        write_all(chosen, arguments.file)
    elif arguments.log is None:
        sys.exit(compare_all(chosen, json.loads(arguments.file.read_text()), arguments.old) > 0)
    elif arguments.command == "write":
        write_log(chosen[0], arguments.file)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_log(chosen[0], Path(folder, "log"))
            print(first_difference(arguments.file, Path(folder, "log")))


if __name__ == "__main__":
    main()
