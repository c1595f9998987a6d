"""The timeline of one job, from its rows of the journal: when it waited, started, ran and stopped, and where."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headway.live.queries.answers import Mark, Phase, Story
from headway.live.queries.explain.reserved import within
from headway.live.queries.trend import first_after
from headway.live.state.cluster import ClusterState
from headway.live.store.integrity.checksum import verified

if TYPE_CHECKING:
    from headway.client.job import JobView
    from headway.live.manager.manager import Manager

MOST_ROWS = 5000
WAITING, STARTING, RUNNING, STOPPING = "waiting", "starting", "running", "stopping"
BEGINS = {"Submitted": WAITING, "Start": STARTING, "Pack": STARTING, "Started": RUNNING, "Stop": STOPPING}
BEGINS |= {"Resize": STOPPING, "Migrate": STOPPING, "Stopped": WAITING, "Ended": ""}
# Rows that are worth a mark, and what to call them.
WORDS = {
    "Submitted": "submitted",
    "Start": "GPUs given",
    "Pack": "GPUs shared with another job",
    "Started": "runs",
    "Stopped": "its GPUs are free",
    "Held": "held back",
    "Released": "released",
    "Crossed": "moved in the order",
}
STOPS = {"preempt": "preempted", "cancel": "cancelled", "timeout": "time is up", "requeue": "requeued", "hold": "held"}
STOPS["migrate"] = "migrated"
SQL = "SELECT * FROM events WHERE job = ? AND seq >= ? ORDER BY seq LIMIT ?"
Entry = tuple[float, str, int, dict[str, Any]]


def story(manager: "Manager", job: "JobView") -> Story:
    """Read it. Rows before the job was submitted are skipped, so that a long journal is not read as a whole."""

    def ask(file: sqlite3.Connection) -> list[Any]:
        low = first_after(file, job.submitted_at - 1.0)
        return file.execute(SQL, [job.job_id, low, MOST_ROWS + 1]).fetchall()

    stored = (verified("events", row) for row in manager.read_journal(ask))
    rows = [(at, kind, attempt, json.loads(data)) for _, at, kind, _, attempt, data in stored]
    phases, marks = tell(rows[:MOST_ROWS], job.submitted_at, manager.cluster.nodes)
    gpus, now = manager.look(lambda state, now: (_gpus(state, job.job_id), now))
    return Story(job.job_id, now, phases, marks, gpus, len(rows) <= MOST_ROWS)


def _gpus(state: ClusterState, number: int) -> tuple[str, ...]:
    job, names = state.jobs.get(number), []
    for gpu in job.seats if job else ():
        node = int(state.tables.seats["node"][gpu])
        names.append(f"{state.cluster.nodes[node]}:{gpu - int(state.tables.nodes['base'][node])}")
    return tuple(names)


def tell(rows: Iterable[Entry], submitted: float, nodes: Sequence[str]) -> tuple[tuple[Phase, ...], tuple[Mark, ...]]:
    """Phases and marks from the rows of one job, in their order."""
    phases: list[Phase] = []
    marks: list[Mark] = []
    kind, since, attempt = WAITING, submitted, 0
    where: dict[str, int] = {}
    links: tuple[str, ...] = ()
    why = saved = ""
    for time, name, number, data in rows:
        at = max(float(data.get("at", time)), since) if name in ("Started", "Stopped", "Ended") else time
        if words := _words(name, data, time):
            marks.append(Mark(at, _kind(name, data, words), number, words))
        if name == "Progressed" and data.get("checkpointed") is not None and str(data["checkpointed"]) != saved:
            saved = str(data["checkpointed"])
            marks.append(Mark(time, "checkpoint", number, f"checkpoint at step {saved}"))
        if name not in BEGINS:
            continue
        if kind and at > since:
            phases.append(Phase(kind, attempt, since, at, where, links, why))
        kind, since, attempt, why = BEGINS[name], at, number, ""
        if name in ("Start", "Pack"):
            where, links, saved = _places(data, nodes), _links(data), ""
        elif name in ("Stop", "Resize", "Migrate"):
            why = STOPS.get(data.get("why", "migrate" if name == "Migrate" else "preempt"), "")
        elif name in ("Stopped", "Ended", "Submitted"):
            where, links = {}, ()
    if kind:
        phases.append(Phase(kind, attempt, since, None, where, links, why))
    return tuple(phases), tuple(marks)


def _words(name: str, data: dict[str, Any], time: float) -> str:
    """What a row means to people; empty for one that is not worth a mark."""
    if name in ("Stop", "Resize"):
        return STOPS.get(data.get("why", "preempt"), "stopped")
    if name == "Notify":
        return notice_text(data.get("until"), data["team"][0] if "team" in data else "", time)
    if name == "Migrate":
        return STOPS[data.get("why", "migrate")]
    if name == "Ended":
        return f"{data.get('state', 'ended')}{': ' + data['message'] if data.get('message') else ''}"
    return WORDS.get(name, "")


def notice_text(until: float | None, queue: str, now: float) -> str:
    """Return what a notice says, given at `now`; `until` None: it is withdrawn."""
    if until is None:
        return "notice withdrawn"
    return f"notice: its GPUs are taken back {within(until - now)}{f' for queue {queue}' if queue else ''}"


def _kind(name: str, data: dict[str, Any], words: str) -> str:
    return "preempted" if words == "preempted" else name.lower()


def _places(data: dict[str, Any], nodes: Sequence[str]) -> dict[str, int]:
    gpus_by_node: dict[str, int] = {}
    for node, gpus in data.get("places", ()):
        name = nodes[int(node)] if int(node) < len(nodes) else f"node {node}"
        gpus_by_node[name] = gpus_by_node.get(name, 0) + int(gpus)
    return gpus_by_node


def _links(data: dict[str, Any]) -> tuple[str, ...]:
    """Links by name: a row has the leaf, and a bit per spine."""
    return tuple(f"leaf{leaf}-spine{bit}" for leaf, mask in data.get("links", ()) for bit in bits(int(mask)))


def bits(mask: int) -> list[int]:
    """The bits that are set."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
