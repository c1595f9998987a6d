"""Why a job waits: one cause of the closed list, the numbers behind it, the jobs ahead, what would change it, and the wait receipt.

A job that can never start is refused when it is submitted, so that is no cause of a wait.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headway.cluster.demands import gpus_of
from headway.core.events import REASONS
from headway.io.units import counted
from headway.job_state import JobState
from headway.live.jobfile.after import WORDS
from headway.live.queries.explain.borrowed import returning, running_words
from headway.live.queries.explain.held_links import links_words, missing_words
from headway.live.queries.explain.reserved import (
    COMES_FIRST,
    Holder,
    Reserved,
    Sees,
    behind,
    bound,
    holding,
    joined,
    min_runtimes,
    named,
    places,
    reserved,
    whose,
    within,
)
from headway.live.queries.explain.shares import booked, is_behind_notices, queue_numbers, queue_words, same_queue
from headway.live.queries.receipt import receipt, waiting_order
from headway.live.state.cluster import ClusterState
from headway.live.state.demands import asked_by, meets, nodes_wanted, nodes_words, on_nodes
from headway.live.state.records import Job

MOST_AHEAD = 20  # jobs named; all are counted
OF_ROOM = ("gpus", "preempted", "fragmentation", "min_runtime")  # reasons of jobs that wait for GPUs which become free


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
    reservation: Reserved | None = None  # what is kept for it, or for the job before it that it must not delay
    min_runtimes: tuple[Holder, ...] = ()  # jobs that it may preempt once their minimum run times are over
    notices: tuple[Holder, ...] = ()  # jobs under notice that return GPUs promised to it


def sees_all(job_id: int, user: str) -> bool:
    """Whoever asks may know of every job."""
    return True


def explain(state: ClusterState, job: Job, now: float, sees: Sees = sees_all) -> Explanation:
    """Everything known about the job's wait; `sees` says which other jobs may be named."""
    reason = "" if job.final else job.blocked_by or REASONS[int(state.why([job.row])[0])]
    waits = state.job_state(job) in (JobState.FUTURE, JobState.PENDING)
    ahead = jobs_ahead(state, job) if waits else []
    numbers = _numbers(state, job, now, len(ahead))
    first = reserved(state, now, sees) if waits else None
    ahead_of_it = first if first and first.job.id != job.id and meets(state, job, first.kept.nodes) else None
    reservation = first.kept if first and (first.job.id == job.id or reason == "backfill_reservation") else None
    too_short = min_runtimes(state, job, now, sees) if reason == "min_runtime" else ()
    message, change = _words(state, job, reason, numbers, now)
    if waits and not job.blockers and asked_by(job.spec).gpus_per_node:
        message, change = nodes_words(state, job, reason, numbers, message, change)
    if state.teams and waits and not job.blockers:
        numbers |= queue_numbers(state, job)
        message, change = queue_words(state, job, reason, message, change, now, sees)
    if state.teams and not waits and state.job_state(job) in (JobState.STARTING, JobState.RUNNING):
        numbers |= queue_numbers(state, job)
        message = running_words(state, job, message, now)
    dear = reason == "min_runtime" and not too_short and not is_behind_notices(state, job)
    if dear:
        message += (
            ". Jobs that come after it could be stopped, but that costs more GPU-time than it has waited for so far"
        )
        change = ["a job with GPUs ends"]
    if reservation and reason == "gpus" and any(h.why == COMES_FIRST for h in reservation.holders) and _demotes(state):
        change.append("a job that comes before it has run so long that it comes after it")
    if reservation or too_short:
        firm = first is not None and first.firm
        message, change = _kept_words(state, job, reservation, firm, too_short, message, change, now)
    if ahead_of_it and reason in OF_ROOM and not job.blockers:
        change = behind(state, job, ahead_of_it, change, now)
    if dear:
        change.insert(0, "it has waited for what stopping them costs")
    seen = tuple(_seen(state, ahead, sees))
    receipt_us, shown = receipt(state, job.row, now), state.shown_state(job).name
    wait_us = sum(receipt_us.values())
    notices = returning(state, job, sees) if reason == "notice" else ()
    about = (job.id, shown, reason, message, numbers, seen, tuple(change), wait_us, receipt_us)
    return Explanation(*about, reservation, too_short, notices)


def _demotes(state: ClusterState) -> bool:
    """Whether jobs lose their place in the order by running."""
    return len(state.engine.options.thresholds) > 1 or state.engine.options.dynamic_keys


def _seen(state: ClusterState, numbers: Iterable[int], sees: Sees) -> Iterable[int]:
    """Those of the first few that may be named."""
    return (number for number in list(numbers)[:MOST_AHEAD] if sees(number, state.jobs[number].user))


def jobs_ahead(state: ClusterState, job: Job) -> list[int]:
    """The waiting jobs (of its queue, where there are queues) that the policy sorts before this one, in order."""
    jobs = state.tables.jobs[: len(state.jobs)]
    order = waiting_order(jobs)
    here = np.nonzero(order == job.row)[0]
    # One that was accepted this instant comes after all who wait, and after those that were accepted before it.
    accepted = np.nonzero(jobs["state"][: job.row] == JobState.FUTURE)[0]
    before = order[: int(here[0])] if len(here) else np.concatenate([order, accepted])
    if state.teams:  # who comes first in other queues depends on what they use
        before = before[same_queue(state, before, job)]
    return [state.at(int(row)).id for row in before]


def _numbers(state: ClusterState, job: Job, now: float, ahead: int) -> dict[str, float]:
    nodes, suits = state.tables.nodes, state.demands.suits(job.spec)
    open_nodes = nodes[(nodes["closed"] == 0) & suits]
    demand, per_node = int(state.tables.jobs["demand"][job.row]), asked_by(job.spec).gpus_per_node
    with_gpus = {"gpus_per_node": per_node, "nodes_with_gpus": int((open_nodes["free"] >= per_node).sum())}
    return {
        **({"nodes_that_suit": int(suits.sum())} if demand else {}),
        **(with_gpus if per_node else {}),
        "gpus_asked": job.spec.gpus,
        "gpus_free": int(open_nodes["free"].sum()),
        "gpus_stopping": int(open_nodes["stopping"].sum()),
        "gpus_open": int(open_nodes["gpus"].sum()),
        "gpus_total": int(nodes["gpus"][suits].sum()),
        "most_free_on_a_node": int(open_nodes["free"].max(initial=0)),
        "nodes_needed": int(state.tables.fewest[demand, min(job.spec.gpus, state.cluster.total)]),
        "jobs_ahead": ahead,
        "queue_level": int(state.tables.jobs["level"][job.row]),
        "service_gpu_s": state.service_gpu_s(job, now),
        "preemptions": job.preemptions,
        "failures": job.failures,
    }


def _words(state: ClusterState, job: Job, reason: str, numbers: dict[str, float], now: float) -> tuple[str, list[str]]:
    """One sentence, and what would change it."""
    asked, free, ahead = (int(numbers[name]) for name in ("gpus_asked", "gpus_free", "jobs_ahead"))
    where = on_nodes(state, job)
    if job.final:
        return job.message or f"it has ended: {job.final.name}", []
    if state.job_state(job) in (JobState.STARTING, JobState.RUNNING):
        held = links_words(state, job)
        return f"it is running; {held}" if held else "it is running", []
    if job.blockers:
        return _blocked(state, job, reason, now)
    if reason == "node_down" and state.low_disk:
        return state.low_disk, ["room on that disk"]
    if reason == "node_down":
        shuts = (state.tables.nodes["closed"] == 1) & state.demands.suits(job.spec)
        closed = [name for name, shut in zip(state.cluster.nodes, shuts, strict=True) if shut]
        have, names = int(numbers["gpus_open"]), ", ".join(closed[:8])
        drained = f"{names} {'is' if len(closed) == 1 else 'are'} drained"
        which = "those of them that take jobs" if where else "the nodes that take jobs"
        line = f"it asks for {counted(asked, 'GPU')}{where} and {which} have {have}: {drained}"
        return line, [f"headway nodes resume {name}" for name in closed[:1]]
    if reason == "notice":
        return "jobs that borrowed its GPUs return them after their notice", ["they end or checkpoint earlier"]
    if reason == "stopping":
        if state.job_state(job) == JobState.STOPPING:
            return "it is being stopped and waits again after that", ["it has saved its state"]
        return "the jobs that hold its GPUs are being stopped for it", ["they have saved their state"]
    if reason == "fragmentation":
        need, most = counted(int(numbers["nodes_needed"]), "node"), int(numbers["most_free_on_a_node"])
        change = ["a job on a partly used node ends"]
        if state.placement == "consolidated":
            change.append("placement consolidated?strict=no takes more nodes")
        change += _migrations_words(state, job, now)
        return f"{_are(free, 'GPU')} free{where}, but not {asked} on {need}: at most {most} on one", change
    if reason == "isolation":
        return missing_words(state, job, free)
    if state.engine.options.head_of_line_blocking and ahead:
        line = f"nobody overtakes under this policy, and {_are(ahead, 'job')} ahead of it"
        passes = ["a policy that lets jobs pass, such as best-effort or tiresias-l"] if asked <= free else []
        return line, ["the jobs ahead start", *passes]
    again = "it was preempted and " if reason == "preempted" else "it "
    free_words = "none is" if not free else f"{free} {'is' if free == 1 else 'are'}"
    there, ends = (", and", " there") if where else (" and", "")
    return (
        f"{again}needs {counted(asked, 'GPU')}{where}{there} {free_words} free{ends}; {_are(ahead, 'job')} ahead of it",
        [f"a job with GPUs{' of these nodes' if where else ''} ends"],
    )


def _migrations_words(state: ClusterState, job: Job, now: float) -> list[str]:
    """Return from when on smaller jobs may migrate to make room for a job; empty: they never do."""
    at = float(state.tables.jobs["queued"][job.row]) + state.engine.options.defragment_after
    if at == math.inf or len(state.tables.leaves):
        return []
    if at > now:
        return [f"{within(at - now)}, smaller jobs may migrate to make room for it, if all of them find other places"]
    return ["smaller jobs that can migrate find other places"]


def _are(count: int, what: str) -> str:
    """`1 job is`, `2 jobs are`."""
    return f"{counted(count, what)} {'is' if count == 1 else 'are'}"


def _kept_words(
    state: ClusterState,
    job: Job,
    reservation: Reserved | None,
    firm: bool,
    too_short: tuple[Holder, ...],
    message: str,
    change: list[str],
    now: float,
) -> tuple[str, list[str]]:
    """Return the message and what would change it, if GPUs are kept for a job or jobs have minimum run times."""
    if too_short:
        ends = joined([f"that of job {h.job_id} {within((h.until or now) - now)}" for h in too_short])
        message += f". Jobs that come after it have minimum run times, which end: {ends}"
        change = ["one of these minimum run times ends", "a job with GPUs ends"]
    if reservation is None:
        return message, change
    if reservation.job_id == job.id:
        one = sum(reservation.nodes.values()) == 1
        parts = [f"{places(reservation)} {'is' if one else 'are'} kept for it, {bound(reservation, now)}"]
        parts.append(holding(reservation, now) if reservation.by else "")
        parts.append("Jobs that come before it in the order may still go first")
        return ". ".join([message, *(part for part in parts if part)]), change
    other = whose(reservation)
    message = f"there would be room, but GPUs are kept for {other}, which comes before it: {places(reservation)}, {bound(reservation, now)}"
    nodes = booked(state, job, now)
    message += f". Besides, {nodes}" if nodes else ""
    return message, [f"{other} starts", *_earlier(state, job, reservation, firm)]


def _earlier(state: ClusterState, job: Job, reservation: Reserved, firm: bool) -> list[str]:
    """What would let a job pass the reservation of another: being gone in time."""
    change, grace_s = [], state.site.grace_s(job.spec)
    if reservation.passable_s is not None and job.spec.time_limit is None and reservation.passable_s > 2 * grace_s:
        change.append(
            f"a time limit of at most {reservation.passable_s - grace_s:.0f} s, after which it would be gone in time"
        )
    if state.engine.options.preempts and not job.spec.may_preempt and not firm:
        change.append("a checkpoint folder: it could then start now, and be stopped when the GPUs are needed")
    return change


def _dependency(job: Job) -> tuple[str, list[str]]:
    """What a job follows: which jobs must complete, and which must end."""
    numbers = sorted(job.waits_for)
    shown = f"{named(numbers[:MOST_AHEAD])}" + (
        f" and {len(numbers) - MOST_AHEAD} more" if numbers[MOST_AHEAD:] else ""
    )
    if job.spec.singleton:
        return f"it is a singleton: {shown} of the same user and name must end first", ["they end"]
    kinds = {need.kind for need in job.spec.needs}
    word = WORDS[next(iter(kinds))] if len(kinds) == 1 else "must end as it asked for"
    return f"it follows {shown}, which {word} first", [f"{shown} {'ends' if len(numbers) == 1 else 'end'}"]


def _blocked(state: ClusterState, job: Job, reason: str, now: float) -> tuple[str, list[str]]:
    """The same for a job that is not offered to the engine."""
    if reason == "node_down":
        where, have = on_nodes(state, job), gpus_of(state.cluster, asked_by(job.spec))
        if wanted := nodes_wanted(job.spec, "GPU"):
            nodes = int(state.demands.suits(job.spec).sum())
            line = (
                f"it needs {wanted}{where}, and since the cluster changed there {'is' if nodes == 1 else 'are'} {nodes}"
            )
            return line, ["a cluster with more such nodes", f"headway cancel {job.id}"]
        line = f"it asks for {counted(job.spec.gpus, 'GPU')}{where}, and since the cluster changed there are {have}"
        return line, [
            f"a cluster of at least {counted(job.spec.gpus, 'GPU')}{' there' if where else ''}",
            f"headway cancel {job.id}",
        ]
    if reason == "held":
        return "a person holds it", [f"headway release {job.id}"]
    if reason == "dependency":
        return _dependency(job)
    if reason == "array_limit":
        limit = state.arrays[job.array_id or 0].limit
        change = ["a task of the array ends", "submit with a higher limit after %"]
        return f"its array runs at most {counted(limit or 0, 'task')} at once", change
    left_s = max(0.0, job.not_before - now)
    if not job.failures:
        return f"it could not be started ({job.message or 'no reason given'}) and is tried again in {left_s:.1f} s", [
            "the back-off ends"
        ]
    times = "once" if job.failures == 1 else f"{job.failures} times"
    return f"it failed {times} and is tried again in {left_s:.1f} s", ["the back-off ends"]
