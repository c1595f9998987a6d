"""Why a job waits: one cause of the closed list, the numbers behind it, who is ahead, what would change it, and where its wait went."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.events import REASONS
from headway.core.tables.jobs import FUTURE, PENDING, RUNNING, STARTING, STOPPING
from headway.live.records import FINAL, Job
from headway.live.state import Book

MOST_AHEAD = 20  # jobs named; all are counted


@dataclass(frozen=True, slots=True)
class Explanation:
    """The receipt is in whole microseconds and sums to `wait_us` exactly."""

    job_id: int
    state: str
    reason: str
    message: str
    numbers: dict[str, float]
    ahead: tuple[int, ...]
    would_change: tuple[str, ...]
    wait_us: int
    receipt_us: dict[str, int]


def explain(book: Book, job: Job, now: float) -> Explanation:
    """Everything known about the job's wait."""
    state = book.state_name(job)
    reason = "" if job.final else job.gate or REASONS[int(book.receipts.cause[job.row])]
    ahead = jobs_ahead(book, job) if book.engine_state(job) in (FUTURE, PENDING) else []
    numbers = _numbers(book, job, now, len(ahead))
    message, change = _words(book, job, state, reason, numbers, now)
    return Explanation(
        job.id,
        state,
        reason,
        message,
        numbers,
        tuple(ahead[:MOST_AHEAD]),
        tuple(change),
        book.receipts.wait_us(job.row, job.submitted, now),
        book.receipts.of(job.row, now),
    )


def jobs_ahead(book: Book, job: Job) -> list[int]:
    """The waiting jobs that the policy sorts before this one, first first."""
    table = book.engine.state.jobs[: len(book.jobs)]
    rows = np.nonzero(table["state"] == PENDING)[0]
    order = rows[np.lexsort((rows, table["k2"][rows], table["k1"][rows]))]
    here = np.nonzero(order == job.row)[0]
    before = order[: int(here[0])] if len(here) else order  # accepted this instant: behind all who wait
    return [int(row) + 1 for row in before]


def _numbers(book: Book, job: Job, now: float, ahead: int) -> dict[str, float]:
    nodes: Any = book.engine.state.nodes
    open_nodes = nodes[nodes["closed"] == 0]
    row = book.engine.state.jobs[job.row]
    return {
        "gpus_asked": job.spec.gpus,
        "gpus_free": int(open_nodes["free"].sum()),
        "gpus_stopping": int(open_nodes["stopping"].sum()),
        "gpus_open": int(open_nodes["gpus"].sum()),
        "gpus_total": book.cluster.total,
        "most_free_on_a_node": int(open_nodes["free"].max(initial=0)),
        "nodes_needed": int(book.engine.state.fewest[min(job.spec.gpus, book.cluster.total)]),
        "jobs_ahead": ahead,
        "queue_level": int(row["level"]),
        "service_gpu_s": book.service_gpu_s(job, now),
        "preemptions": job.preemptions,
        "failures": job.failures,
    }


def _words(
    book: Book, job: Job, state: str, reason: str, numbers: dict[str, float], now: float
) -> tuple[str, list[str]]:
    """One sentence, and what would change it."""
    asked, free = int(numbers["gpus_asked"]), int(numbers["gpus_free"])
    if state in FINAL:
        return job.message or f"it has ended: {state}", []
    if book.engine_state(job) in (STARTING, RUNNING):
        return "it is running", []
    if reason == "held":
        return "a person holds it", [f"headway release {job.id}"]
    if reason == "dependency":
        others = ", ".join(map(str, sorted(job.waits_for)[:MOST_AHEAD]))
        return f"it follows {others}, which must complete first", [f"job {others} completes"]
    if reason == "array_limit":
        limit = book.arrays[job.array_id or 0].limit
        return f"its array runs at most {limit} tasks at once", [
            "a task of the array ends",
            "submit with a higher limit after %",
        ]
    if reason == "retry_backoff":
        return f"it failed {job.failures} times and is tried again in {max(0.0, job.not_before - now):.1f} s", [
            "the back-off ends"
        ]
    if reason == "impossible":
        return f"it asks for {asked} GPUs and the cluster has {book.cluster.total}", ["a larger cluster"]
    if reason == "node_down":
        closed = [
            name for name, shut in zip(book.cluster.nodes, book.engine.state.nodes["closed"], strict=True) if shut
        ]
        return (
            f"it asks for {asked} GPUs and the nodes that take jobs have {int(numbers['gpus_open'])}: {', '.join(closed[:8])} are drained",
            [f"headway nodes resume {closed[0]}"] if closed else [],
        )
    if reason == "stopping":
        if book.engine_state(job) == STOPPING:
            return "it is being stopped and waits again after that", ["it has saved its state"]
        return "the jobs that hold its GPUs are being stopped for it", ["they have saved their state"]
    if reason == "fragmentation":
        need = int(numbers["nodes_needed"])
        together = f"on {need} node{'s' if need > 1 else ''}"
        return (
            f"{free} GPUs are free, but not {asked} {together}: at most {int(numbers['most_free_on_a_node'])} on one",
            ["a job on a partly used node ends", "placement consolidated?strict=no takes more nodes"],
        )
    if book.engine.options.blocks and numbers["jobs_ahead"]:
        line = f"nobody overtakes under this policy, and {int(numbers['jobs_ahead'])} jobs are ahead of it"
        return line, ["the jobs ahead start", "a policy that lets smaller jobs pass, such as best-effort or tiresias-l"]
    again = "it was preempted and " if reason == "preempted" else ""
    change = ["a job with GPUs ends"]
    if not job.spec.may_preempt:
        change.append("checkpoint: would let it run earlier, because it could then be preempted")
    return f"{again}needs {asked} GPUs and {free} are free; {int(numbers['jobs_ahead'])} jobs are ahead of it", change
