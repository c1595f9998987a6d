"""What people see: jobs, nodes, numbers. Columns are read whole, so that ten thousand jobs are quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headway.core.events import REASONS
from headway.core.tables.jobs import FUTURE, ON_HOLD, PENDING, RUNNING, STARTING, STATES, STOPPING
from headway.live.ask.receipt import MICROSECONDS
from headway.live.records import GATES, Job, JobView
from headway.live.state import Book
from headway.live.store.journal import Journal

if TYPE_CHECKING:
    from headway.live.world import LiveWorld


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as people see it."""

    name: str
    gpus: int
    free: int
    state: str  # open, draining (jobs are left on it) or drained
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that ran, with how long: what a replay needs."""

    job_id: int
    name: str
    user: str
    queue: str
    gpus: int
    submitted_at: float
    ended_at: float | None
    run_s: float
    state: str
    preemptible: bool
    gated_s: float  # waited behind gates, which no policy opens: held, dependency, array_limit, retry_backoff


def job_views(book: Book, ids: Sequence[int], now: float) -> list[JobView]:
    """Views of these jobs."""
    rows = np.array(ids, np.int64) - 1
    table = book.engine.state.jobs[rows]
    columns = {name: table[name].tolist() for name in ("state", "attempt", "level", "total", "since", "gpus")}
    causes = book.receipts.cause[rows].tolist()
    return [
        _view(book, book.jobs[job_id], now, causes[i], {name: column[i] for name, column in columns.items()})
        for i, job_id in enumerate(ids)
    ]


def _view(book: Book, job: Job, now: float, cause: int, row: dict[str, float]) -> JobView:
    state = job.final or STATES[int(row["state"])]
    if state in ("FUTURE", "HELD"):
        state = "HELD" if job.gate == "held" else "PENDING"
    running = max(0.0, now - row["since"]) * row["gpus"] if row["state"] == RUNNING and not job.final else 0.0
    waits_again = not job.final and int(row["state"]) not in (STARTING, RUNNING, STOPPING)
    command = job.spec.run or " ".join(job.spec.command)
    return JobView(
        job_id=job.id,
        name=job.spec.name or _name(command),
        user=job.user,
        state=state,
        gpus=job.spec.gpus,
        attempt=int(row["attempt"]) + waits_again,
        exit_code=job.exit_code if job.final else None,
        submitted_at=job.submitted,
        started_at=job.started,
        ended_at=job.ended,
        service_gpu_s=row["total"] + running,
        reason=job.gate or (REASONS[cause] if not job.final else ""),
        queue=job.spec.queue,
        level=int(row["level"]),
        command=command,
        nodes=tuple(book.cluster.nodes[node] for node, _ in job.places),
        progress=job.progress.as_dict(),
        preemptions=job.preemptions,
        array_id=job.array_id,
        array_index=job.array_index,
        message=job.message,
        first_started_at=job.first_started,
    )


def _name(command: str) -> str:
    """The name of a job that has none: its program."""
    return command.split()[0].rpartition("/")[2][:40] if command.split() else ""


def find(
    book: Book,
    now: float,
    user: str | None,
    state: str | Sequence[str] | None,
    name: str | None,
    after_id: int,
    limit: int,
) -> list[JobView]:
    """Jobs by ascending number that pass the filters."""
    wanted = {name.upper() for name in (state.split(",") if isinstance(state, str) else state)} if state else None
    found: list[int] = []
    unfinished = wanted is not None and not wanted & {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"}
    numbers = (
        sorted(i for i in book.active if i > after_id)
        if unfinished
        else range(max(0, after_id) + 1, len(book.jobs) + 1)
    )
    for job_id in numbers:
        if len(found) >= limit:
            break
        job = book.jobs[job_id]
        if user is not None and job.user != user:
            continue
        if name is not None and name not in job.spec.name:
            continue
        if wanted is not None and book.state_name(job) not in wanted:
            continue
        found.append(job_id)
    return job_views(book, found, now)


def node_views(book: Book) -> list[NodeView]:
    """All nodes, in order."""
    on: dict[int, list[int]] = {}
    for job_id in sorted(book.active):
        for node, _ in book.jobs[job_id].places:
            on.setdefault(node, []).append(job_id)
    table = book.engine.state.nodes
    found = []
    for node, name in enumerate(book.cluster.nodes):
        here = tuple(on.get(node, ()))
        state = "open" if not table["closed"][node] else "draining" if here else "drained"
        found.append(NodeView(name, int(table["gpus"][node]), int(table["free"][node]), state, here))
    return found


def past(book: Book, since: float, now: float) -> list[PastJob]:
    """Jobs submitted since then that ran at all."""
    found, gates = [], set(GATES.values())
    for job in book.jobs.values():
        if job.submitted >= since and job.first_started is not None:
            run_s = book.run_s(job, now)
            found.append(
                PastJob(
                    job.id,
                    job.spec.name,
                    job.user,
                    job.spec.queue,
                    job.spec.gpus,
                    job.submitted,
                    job.ended,
                    run_s,
                    book.state_name(job),
                    job.spec.may_preempt,
                    sum(us for cause, us in book.receipts.of(job.row, now).items() if cause in gates) / MICROSECONDS,
                )
            )
    return found


def metrics(book: Book, world: "LiveWorld", journal: Journal) -> dict[str, float]:
    """Counts and times since the manager started, by the names that Prometheus gets."""
    states = book.engine.state.jobs["state"][: len(book.jobs)]
    counts = np.bincount(states, minlength=len(STATES)).tolist()
    # The engine holds what waits behind a gate; people call only those HELD that a person holds.
    gated = sum(book.jobs[int(row) + 1].gate != "held" for row in np.nonzero(states == ON_HOLD)[0])
    counts[PENDING] += counts[FUTURE] + gated
    counts[ON_HOLD] -= gated
    found = {
        f'headway_jobs{{state="{name}"}}': float(counts[code]) for code, name in enumerate(STATES) if code != FUTURE
    }
    nodes = book.engine.state.nodes
    return found | {
        "headway_gpus_total": float(book.cluster.total),
        "headway_gpus_free": float(nodes["free"].sum()),
        "headway_gpus_open": float(nodes["gpus"][nodes["closed"] == 0].sum()),
        "headway_preemptions_total": float(sum(job.preemptions for job in book.jobs.values())),
        "headway_decisions_total": float(book.engine.decisions),
        "headway_decision_seconds_total": book.engine.decide_s,
        "headway_decision_seconds_max": book.engine.longest_decide_s,
        "headway_rounds_total": float(world.rounds),  # facts recorded, decided and noted
        "headway_round_seconds_total": world.busy_s,
        "headway_round_seconds_max": world.longest_s,
        "headway_journal_commits_total": float(journal.commits),
        "headway_journal_rows_total": float(world.last_seq),
        "headway_journal_writable": float(not world.trouble),
    }
