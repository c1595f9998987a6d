"""Why a job waits: one cause of the closed list, the numbers behind it, who is ahead, what would change it, and where its wait went.

A job that can never start is refused when it is submitted, so that is no cause of a wait.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.events import REASONS
from headway.io.units import counted
from headway.job_state import JobState
from headway.live.ask.receipt import receipt, waiting_order
from headway.live.records import Job
from headway.live.state import ClusterState

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


def explain(state: ClusterState, job: Job, now: float) -> Explanation:
    """Everything known about the job's wait."""
    reason = "" if job.final else job.blocked_by or REASONS[int(state.why([job.row])[0])]
    ahead = jobs_ahead(state, job) if state.job_state(job) in (JobState.FUTURE, JobState.PENDING) else []
    numbers = _numbers(state, job, now, len(ahead))
    message, change = _words(state, job, reason, numbers, now)
    shown, named = state.shown_state(job).name, tuple(ahead[:MOST_AHEAD])
    receipt_us = receipt(state, job.row, now)
    wait_us = sum(receipt_us.values())
    return Explanation(job.id, shown, reason, message, numbers, named, tuple(change), wait_us, receipt_us)


def jobs_ahead(state: ClusterState, job: Job) -> list[int]:
    """The waiting jobs that the policy sorts before this one, in order."""
    jobs = state.tables.jobs[: len(state.jobs)]
    order = waiting_order(jobs)
    here = np.nonzero(order == job.row)[0]
    # One that was accepted this instant comes after all who wait, and after those that were accepted before it.
    accepted = np.nonzero(jobs["state"][: job.row] == JobState.FUTURE)[0]
    before = order[: int(here[0])] if len(here) else np.concatenate([order, accepted])
    return [int(row) + 1 for row in before]


def _numbers(state: ClusterState, job: Job, now: float, ahead: int) -> dict[str, float]:
    nodes: Any = state.tables.nodes
    open_nodes = nodes[nodes["closed"] == 0]
    return {
        "gpus_asked": job.spec.gpus,
        "gpus_free": int(open_nodes["free"].sum()),
        "gpus_stopping": int(open_nodes["stopping"].sum()),
        "gpus_open": int(open_nodes["gpus"].sum()),
        "gpus_total": state.cluster.total,
        "most_free_on_a_node": int(open_nodes["free"].max(initial=0)),
        "nodes_needed": int(state.tables.fewest[min(job.spec.gpus, state.cluster.total)]),
        "jobs_ahead": ahead,
        "queue_level": int(state.tables.jobs["level"][job.row]),
        "service_gpu_s": state.service_gpu_s(job, now),
        "preemptions": job.preemptions,
        "failures": job.failures,
    }


def _words(state: ClusterState, job: Job, reason: str, numbers: dict[str, float], now: float) -> tuple[str, list[str]]:
    """One sentence, and what would change it."""
    asked, free, ahead = (int(numbers[name]) for name in ("gpus_asked", "gpus_free", "jobs_ahead"))
    if job.final:
        return job.message or f"it has ended: {job.final.name}", []
    if state.job_state(job) in (JobState.STARTING, JobState.RUNNING):
        return "it is running", []
    if job.blockers:
        return _blocked(state, job, reason, now)
    if reason == "node_down":
        closed = [name for name, shut in zip(state.cluster.nodes, state.tables.nodes["closed"], strict=True) if shut]
        have, names = int(numbers["gpus_open"]), ", ".join(closed[:8])
        line = f"it asks for {asked} GPUs and the nodes that take jobs have {have}: {names} are drained"
        return line, [f"headway nodes resume {name}" for name in closed[:1]]
    if reason == "stopping":
        if state.job_state(job) == JobState.STOPPING:
            return "it is being stopped and waits again after that", ["it has saved its state"]
        return "the jobs that hold its GPUs are being stopped for it", ["they have saved their state"]
    if reason == "fragmentation":
        need, most = counted(int(numbers["nodes_needed"]), "node"), int(numbers["most_free_on_a_node"])
        change = ["a job on a partly used node ends", "placement consolidated?strict=no takes more nodes"]
        return f"{free} GPUs are free, but not {asked} on {need}: at most {most} on one", change
    if state.engine.options.blocks and ahead:
        line = f"nobody overtakes under this policy, and {counted(ahead, 'job')} {'is' if ahead == 1 else 'are'} ahead of it"
        return line, ["the jobs ahead start", "a policy that lets smaller jobs pass, such as best-effort or tiresias-l"]
    again = "it was preempted and " if reason == "preempted" else "it "
    change = ["a job with GPUs ends"]
    if not job.spec.may_preempt:
        change.append("checkpoint: would let it run earlier, because it could then be preempted")
    return f"{again}needs {asked} GPUs and {free} are free; {ahead} jobs are ahead of it", change


def _blocked(state: ClusterState, job: Job, reason: str, now: float) -> tuple[str, list[str]]:
    """The same for a job that is not offered to the engine."""
    if reason == "held":
        return "a person holds it", [f"headway release {job.id}"]
    if reason == "dependency":
        others = ", ".join(map(str, sorted(job.waits_for)[:MOST_AHEAD]))
        return f"it follows {others}, which must complete first", [f"job {others} completes"]
    if reason == "array_limit":
        limit = state.arrays[job.array_id or 0].limit
        change = ["a task of the array ends", "submit with a higher limit after %"]
        return f"its array runs at most {limit} tasks at once", change
    left_s = max(0.0, job.not_before - now)
    return f"it failed {job.failures} times and is tried again in {left_s:.1f} s", ["the back-off ends"]
