"""The timeline of one job, from its rows of the journal: when it waited, started, ran and stopped, and where."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from headway.client.job import JobView
from headway.io.units import within
from headway.live.queries.answers import Mark, Phase, Story
from headway.live.queries.trend import first_after
from headway.live.rows import PREEMPT, STOPPING, WAITING, row_meaning
from headway.live.state.cluster import ClusterState
from headway.live.store.integrity.checksum import verified

MOST_ROWS = 5000
SQL = "SELECT * FROM events WHERE job = ? AND seq >= ? ORDER BY seq LIMIT ?"
Entry = tuple[float, str, int, dict[str, Any]]


def read_rows(file: sqlite3.Connection, job: JobView) -> list[Entry]:
    """Return the rows of a job, at most one more than MOST_ROWS. Rows before the job was submitted are skipped."""
    values = [job.job_id, first_after(file, job.submitted_at - 1.0), MOST_ROWS + 1]
    stored = (verified("events", row) for row in file.execute(SQL, values).fetchall())
    return [(at, kind, attempt, json.loads(data)) for _, at, kind, _, attempt, data in stored]


def story(state: ClusterState, now: float, job: JobView, rows: Sequence[Entry]) -> Story:
    """Return the life of a job from its rows, and the GPUs that it holds now."""
    phases, marks = tell(rows[:MOST_ROWS], job.submitted_at, state.cluster.nodes)
    return Story(job.job_id, now, phases, marks, _gpus(state, job.job_id), len(rows) <= MOST_ROWS)


def _gpus(state: ClusterState, number: int) -> tuple[str, ...]:
    job, names = state.jobs.get(number), []
    for gpu in job.seats if job else ():
        node = int(state.tables.seats["node"][gpu])
        names.append(f"{state.cluster.nodes[node]}:{gpu - int(state.tables.nodes['base'][node])}")
    return tuple(names)


def tell(rows: Iterable[Entry], submitted: float, nodes: Sequence[str]) -> tuple[tuple[Phase, ...], tuple[Mark, ...]]:
    """Return phases and marks from the rows of one job, in order of time."""
    phases: list[Phase] = []
    marks: list[Mark] = []
    kind, since, attempt = WAITING, submitted, 0
    where: dict[str, int] = {}
    links: tuple[str, ...] = ()
    why = saved = ""
    for time, name, number, data in rows:
        meaning = row_meaning(name, data)
        at = max(float(data.get("at", time)), since) if name in ("Started", "Stopped", "Ended") else time
        if message := _notice(data, time) if name == "Notify" else meaning.message:
            marks.append(Mark(at, "preempted" if meaning.stop_reason == PREEMPT else name.lower(), number, message))
        if name == "Progressed" and data.get("checkpointed") is not None and str(data["checkpointed"]) != saved:
            saved = str(data["checkpointed"])
            marks.append(Mark(time, "checkpoint", number, f"checkpoint at step {saved}"))
        segment = meaning.segment
        if name == "Asked" and kind == STOPPING:  # the stop has another reason from now on
            segment = STOPPING
        if segment is None:
            continue
        if kind and at > since:
            phases.append(Phase(kind, attempt, since, at, where, links, why))
        kind, since, attempt, why = segment, at, number, ""
        if name in ("Start", "Pack"):
            where, links, saved = _places(data, nodes), _links(data), ""
        elif segment == STOPPING:
            why = meaning.message
        elif name in ("Stopped", "Ended", "Submitted"):
            where, links = {}, ()
    if kind:
        phases.append(Phase(kind, attempt, since, None, where, links, why))
    return tuple(phases), tuple(marks)


def _notice(data: dict[str, Any], time: float) -> str:
    return notice_text(data.get("until"), data["team"][0] if "team" in data else "", time)


def notice_text(until: float | None, queue: str, now: float) -> str:
    """Return what a notice says, given at `now`; `until` None: it is withdrawn."""
    if until is None:
        return "notice withdrawn"
    return f"notice: its GPUs are taken back {within(until - now)}{f' for queue {queue}' if queue else ''}"


def _places(data: dict[str, Any], nodes: Sequence[str]) -> dict[str, int]:
    gpus_by_node: dict[str, int] = {}
    for node, gpus in data.get("places", ()):
        name = nodes[int(node)] if int(node) < len(nodes) else f"node {node}"
        gpus_by_node[name] = gpus_by_node.get(name, 0) + int(gpus)
    return gpus_by_node


def _links(data: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of links; a row has the leaf, and a bit per spine."""
    return tuple(f"leaf{leaf}-spine{bit}" for leaf, mask in data.get("links", ()) for bit in bits(int(mask)))


def bits(mask: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
