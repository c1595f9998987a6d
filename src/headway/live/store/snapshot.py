"""Snapshots: the whole state in one row of the journal's file, so that a restart replays only the rows after it.

A snapshot is written in the same transaction as the last row that it covers. A restart does not use a snapshot that is damaged, or was made
by another version or under another policy: it replays more rows instead.
"""

import hashlib
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headway.cluster.nodes import Cluster, cluster_of
from headway.cluster.queues import Booking, Queues
from headway.core.operations import grow
from headway.core.tables.actions import Actions
from headway.core.tables.jobs import JOB
from headway.core.tables.options import ServiceHistory
from headway.core.tables.state import State
from headway.live.jobfile.spec import JobSpec
from headway.live.state.cluster import Array, ClusterState
from headway.live.state.engine import FIRST_ROOM
from headway.live.state.records import Job
from headway.live.state.retired import as_json, decode, encode
from headway.live.store.snapshot_table import StateSnapshot

VERSION = 3  # of what a snapshot holds


def setting(state: ClusterState) -> str:
    """Return everything that the engine's numbers depend on, as JSON. A snapshot is used only under the same setting."""
    columns = hashlib.sha256(str(JOB.descr).encode()).hexdigest()[:16]
    fields = {"version": VERSION, "columns": columns, "policy": state.policy, "placement": state.placement}
    fields["group"] = list(state.engine.policy.group)
    queues = _queues_setting(state.teams.queues) if state.teams.queues else ""
    more = {"min_runtimes": dict(state.min_runtimes), "links": list(state.cluster.links), "queues": queues}
    return as_json({**fields, **more})


def _queues_setting(queues: Queues) -> str:
    """Return the queues as JSON without their users and groups, on which the engine's numbers do not depend."""
    content = asdict(queues)
    for queue in content["queues"]:
        del queue["access"]
    return as_json(content)


def capture(state: ClusterState) -> Callable[[], StateSnapshot]:
    """Copy the tables, and return a function that makes the snapshot. With many jobs, that function takes long.

    So the engine's thread calls it without the lock. It reads the records of jobs, which no other thread changes.
    """
    jobs, under = list(state.by_row), setting(state)
    content = {
        "cluster": asdict(state.cluster),
        "finished": list(state.finished),
        "active": sorted(state.active),
        "drained": sorted(state.drained),
        "away": sorted(state.away),
        "low_disk": state.low_disk,
        "closing": state.closing,
        "dependants": {str(job): sorted(others) for job, others in state.dependants.items()},
        "arrays": {str(first): [a.limit, len(a.tasks), a.active, a.next, a.kept] for first, a in state.arrays.items()},
        "past_arrays": {str(first): count for first, count in state.past.arrays.items()},
        "past_counts": dict(state.past.counts),
        "past_preemptions": state.past.preemptions,
        "reserved": [asdict(booking) for booking in state.teams.reserved],
        "team_users": [[*pair, row] for pair, row in state.teams.users.items()],
        "demands": [[row, demand.label] for demand, row in state.demands.rows.items()],
        "groups": state.groups.labels,
    }
    tables = {name: table.copy() for name, table in _tables(state).items()}
    finals = np.frombuffer(bytes(state.past.finals), np.uint8)

    def make() -> StateSnapshot:
        file = io.BytesIO()
        np.savez(file, finals=finals, **tables)
        # One by one: while a thread encodes one long text, no other thread runs.
        specs, records = _records(jobs)
        text = f'{{"jobs":[{",".join(map(as_json, records))}],{as_json({**content, "specs": specs})[1:]}'.encode()
        return StateSnapshot(under, zlib.compress(len(text).to_bytes(8, "big") + text + file.getvalue(), 1))

    return make


def _records(jobs: Sequence[Job]) -> tuple[list[str], list[Any]]:
    """Return the specs of jobs, each once (tasks of an array share one), and the records of jobs."""
    specs: dict[int, int] = {}
    texts: list[str] = []
    records = []
    for job in jobs:
        at = specs.setdefault(id(job.spec), len(texts))
        if at == len(texts):
            texts.append(job.spec.model_dump_json(exclude_defaults=True))
        records.append([encode(job), [job.user, at, job.submitted, job.array_id, job.array_index]])
    return texts, records


def _tables(state: ClusterState) -> dict[str, Any]:
    """Return the used rows of the engine's tables by name; receipts by job and reason."""
    n, timers = len(state.by_row), int(state.tables.counts["timers"][0])
    used = {"jobs": n, "timers": timers}
    tables: dict[str, Any] = {}
    for name, table in state.tables._asdict().items():
        if isinstance(table, Actions):
            tables |= {f"{name}.{part}": value for part, value in table._asdict().items()}
        else:
            tables[name] = table[: used.get(name, len(table))]
    tables["receipts"] = state.tables.receipts[:, :n].T
    return tables | {f"history.{name}": table for name, table in state.engine.options.history._asdict().items()}


def cluster_in(snapshot: StateSnapshot) -> Cluster:
    """Return the cluster of a snapshot, without its network."""
    return cluster_of(_parts(snapshot)[0]["cluster"])


def submissions(snapshot: StateSnapshot) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the last job of a snapshot, and its jobs: number, user, job file, time of submission, array and index."""
    content, tables = _parts(snapshot)
    specs = content["specs"]
    jobs = [(encoded["id"], user, specs[at], *rest) for encoded, (user, at, *rest) in content["jobs"]]
    return max([len(tables["finals"]) - 1, *(job[0] for job in jobs)]), jobs


def load(state: ClusterState, snapshot: StateSnapshot) -> int:
    """Load a snapshot into an empty state of the same cluster; return the number of its last job."""
    content, tables = _parts(snapshot)
    specs = [JobSpec.model_validate_json(text) for text in content["specs"]]
    for encoded, (user, at, *rest) in content["jobs"]:
        state.by_row.append(decode(encoded, (user, specs[at], *rest)))
    state.jobs.update((job.id, job) for job in state.by_row)
    state.finished = dict.fromkeys(content["finished"])
    state.active = set(content["active"])
    state.drained, state.away = set(content["drained"]), set(content["away"])
    state.low_disk, state.closing = content["low_disk"], content["closing"]
    state.teams.users.update({(queue, user): row for queue, user, row in content["team_users"]})
    state.teams.reserved.extend(
        Booking(**{**fields, "nodes": tuple(fields["nodes"])}) for fields in content["reserved"]
    )
    for job in state.active:
        state.count_of(state.jobs[job].spec, state.jobs[job].user, 1)
    state.dependants = {int(job): set(others) for job, others in content["dependants"].items()}
    for first, (limit, tasks, active, following, kept) in content["arrays"].items():
        state.arrays[int(first)] = Array(limit, range(int(first), int(first) + tasks), active, following, kept)
    past = state.past
    past.finals = bytearray(tables["finals"].tobytes())
    past.arrays = {int(first): count for first, count in content["past_arrays"].items()}
    past.counts, past.preemptions = Counter(content["past_counts"]), content["past_preemptions"]
    _load_tables(state, tables)
    state.demands.load(content["demands"], tables["jobs"]["demand"])
    state.groups.load(content["groups"])
    return max([len(past.finals) - 1, *state.jobs])


def _load_tables(state: ClusterState, tables: Any) -> None:
    parts: dict[str, Any] = {}
    fresh = state.tables
    for name in State._fields:
        if name == "promises":
            pairs = zip(Actions._fields, fresh.promises, strict=True)
            parts[name] = Actions(*(_like(tables[f"{name}.{part}"], table) for part, table in pairs))
        else:
            parts[name] = _like(tables[name], getattr(fresh, name))
    parts["receipts"] = parts["receipts"].T
    samples = zip(ServiceHistory._fields, state.engine.options.history, strict=True)
    past = ServiceHistory(*(_like(tables[f"history.{part}"], table) for part, table in samples))
    state.engine.load(grow(State(**parts), max(FIRST_ROOM, 2 * len(state.by_row))), past)


def _like(loaded: Any, fresh: Any) -> Any:
    """Return a loaded table with the type of a fresh one: compiled code needs aligned rows, and files lose the alignment."""
    return loaded.view(fresh.dtype) if loaded.dtype == fresh.dtype else loaded


def _parts(snapshot: StateSnapshot) -> tuple[dict[str, Any], Any]:
    raw = zlib.decompress(snapshot.content)
    end = 8 + int.from_bytes(raw[:8], "big")
    return json.loads(raw[8:end]), np.load(io.BytesIO(raw[end:]), allow_pickle=False)
