"""Snapshots: the whole state in one row of the journal's file, so that a restart reads only what happened since.

A snapshot is written in the same transaction as the last fact that it knows. One that is damaged, or was made by another version or under
another policy, is not used: the journal itself has everything.
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
    """Return what must be equal for a snapshot to be used: everything that the engine's numbers depend on."""
    columns = hashlib.sha256(str(JOB.descr).encode()).hexdigest()[:16]
    fields = {"version": VERSION, "columns": columns, "policy": state.policy, "placement": state.placement}
    fields["group"] = list(state.engine.policy.group)
    queues = _queues_setting(state.teams.queues) if state.teams.queues else ""
    more = {"min_runtimes": dict(state.min_runtimes), "links": list(state.cluster.links), "queues": queues}
    return as_json({**fields, **more})


def _queues_setting(queues: Queues) -> str:
    """Return the queues as JSON, without the users and groups that they admit: the engine's numbers do not depend on these."""
    content = asdict(queues)
    for queue in content["queues"]:
        del queue["access"]
    return as_json(content)


def capture(state: ClusterState) -> Callable[[], StateSnapshot]:
    """Copy the state at once; return a function that makes the snapshot of the copy.

    That takes long where there are many jobs, so the engine's thread does it while others ask; nobody else changes the records of jobs.
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
        "reserved": [asdict(one) for one in state.teams.asked],
        "team_users": [[*pair, row] for pair, row in state.teams.users.items()],
        "demands": [[row, demand.label] for demand, row in state.demands.rows.items()],
        "groups": state.groups.labels,
    }
    tables = {name: table.copy() for name, table in _tables(state).items()}
    finals = np.frombuffer(bytes(state.past.finals), np.uint8)

    def make() -> StateSnapshot:
        file = io.BytesIO()
        np.savez(file, finals=finals, **tables)
        # One by one: a thread that makes one long text lets no other run.
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


def cluster_in(made: StateSnapshot) -> Cluster:
    """Return the cluster of a snapshot."""
    return cluster_of(_parts(made)[0]["cluster"])


def submissions(made: StateSnapshot) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the last job that a snapshot knows, and its jobs: number, user, job file, time of submission, array and index."""
    content, tables = _parts(made)
    specs = content["specs"]
    jobs = [(encoded["id"], user, specs[at], *rest) for encoded, (user, at, *rest) in content["jobs"]]
    return max([len(tables["finals"]) - 1, *(job[0] for job in jobs)]), jobs


def load(state: ClusterState, made: StateSnapshot) -> int:
    """Bring a fresh state of the same cluster to that of the snapshot; returns the number of the last job that it knows."""
    content, tables = _parts(made)
    specs = [JobSpec.model_validate_json(text) for text in content["specs"]]
    for encoded, (user, at, *rest) in content["jobs"]:
        state.by_row.append(decode(encoded, (user, specs[at], *rest)))
    state.jobs.update((job.id, job) for job in state.by_row)
    state.finished = dict.fromkeys(content["finished"])
    state.active = set(content["active"])
    state.drained, state.away = set(content["drained"]), set(content["away"])
    state.low_disk, state.closing = content["low_disk"], content["closing"]
    state.teams.users.update({(queue, user): row for queue, user, row in content["team_users"]})
    state.teams.asked.extend(Booking(**{**one, "nodes": tuple(one["nodes"])}) for one in content["reserved"])
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
    """Return a table from a file with the type of a fresh one: compiled code needs aligned rows, and files do not say so."""
    return loaded.view(fresh.dtype) if loaded.dtype == fresh.dtype else loaded


def _parts(made: StateSnapshot) -> tuple[dict[str, Any], Any]:
    raw = zlib.decompress(made.content)
    end = 8 + int.from_bytes(raw[:8], "big")
    return json.loads(raw[8:end]), np.load(io.BytesIO(raw[end:]), allow_pickle=False)
