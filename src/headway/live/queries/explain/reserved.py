"""GPUs kept for the first waiting job, by when they are free, which jobs hold them; and minimum run times. Times are seconds since 1970."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.core.engine import Reservation
from headway.io.units import counted
from headway.job_state import JobState
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

MOST_NAMED = 20  # jobs named in one answer
SAME_S = 1e-3  # times that are nearer to each other are one
Sees = Callable[[int, str], bool]  # whether whoever asks may know of a job, by its number and user

# What ends a job's hold on its GPUs: its time limit, its minimum run time, its first step, a notice; or the end is not known, because the
# job cannot be preempted, or comes first in the order.
TIME_LIMIT, MIN_RUNTIME, FIRST_STEP, STAYS = "time_limit", "min_runtime", "first_step", "not_preemptible"
COMES_FIRST = "comes_first"
NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Holder:
    """A job with GPUs: by when they can be had (None: not known), and what that follows from."""

    job_id: int
    gpus: int
    until: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """What is kept for a job (None: one that the caller may not see): GPUs by node, and by when at the latest (None: not known)."""

    job_id: int | None
    nodes: dict[str, int]
    by: float | None
    in_s: float | None
    passable_s: float | None  # another job passes if it is sure to be gone within this time
    holders: tuple[Holder, ...]
    holders_unseen: int  # jobs of others that hold GPUs there too


@dataclass(frozen=True, slots=True)
class First:
    """The job that has a reservation, whoever asks; `firm`: jobs that can be stopped do not pass it either."""

    job: Job
    kept: Reserved
    firm: bool

    @property
    def words(self) -> str:
        """`job 3`, or `another job`."""
        return whose(self.kept)


def reserved(state: ClusterState, now: float, sees: Sees) -> First | None:
    """The job that has a reservation now, and what is kept for it."""
    reservation = state.engine.reservation(now)
    if reservation is None:
        return None
    nodes = {state.cluster.nodes[node]: gpus for node, gpus in reservation.places}
    holders = [_holder(state, reservation, job, now) for job in _on_nodes(state, dict(reservation.places))]
    seen = [holder for holder in holders if sees(holder.job_id, state.jobs[holder.job_id].user)]
    job = state.at(reservation.job)
    by, gone_by = (
        at + _grace_s(state, holders, at) if at < np.inf else None for at in (reservation.bound, reservation.gone_by)
    )
    named = tuple(sorted(seen, key=lambda holder: (holder.until or np.inf, holder.job_id)))[:MOST_NAMED]
    shown = job.id if sees(job.id, job.user) else None
    in_s, passable_s = (None if at is None else max(0.0, at - now) for at in (by, gone_by))
    return First(job, Reserved(shown, nodes, by, in_s, passable_s, named, len(holders) - len(seen)), reservation.firm)


def passes(state: ClusterState, job: Job, first: First, now: float) -> bool:
    """Return whether a job may take GPUs that are reserved for the first job (docs/semantics.md, rules 21 and 22)."""
    stops = state.engine.options.preempts and job.spec.may_preempt
    if stops and not first.firm:
        return True
    stays = min(float(state.tables.jobs["limit"][job.row]), state.engine.options.limit) - state.run_s(job, now)
    return first.kept.passable_s is not None and stays <= first.kept.passable_s


def behind(state: ClusterState, job: Job, first: First, change: list[str], now: float) -> list[str]:
    """What would change the wait of a job behind the one with a reservation: that one is offered first whatever becomes free."""
    smaller = job.spec.gpus < first.job.spec.gpus
    if smaller and passes(state, job, first, now):
        return change
    changes = [f"{first.words}, for which GPUs are kept, starts, and more GPUs become free"]
    suits, nodes = state.demands.suits(job.spec), state.tables.nodes
    others = sum(
        int(nodes["gpus"][x])
        for x, name in enumerate(state.cluster.nodes)
        if suits[x] and not nodes["closed"][x] and name not in first.kept.nodes
    )
    if smaller and others >= job.spec.gpus:
        changes.append(f"GPUs of other nodes become free, too few for {first.words}")
    return changes


def _on_nodes(state: ClusterState, reserved_gpus: dict[int, int]) -> Iterable[Job]:
    """The jobs with GPUs on nodes of a reservation that are not free enough for it."""
    free = state.tables.nodes["free"]
    short = {node for node, gpus in reserved_gpus.items() if gpus > free[node]}
    return (job for job in state.active_jobs() if any(node in short for node, _ in job.places))


def _holder(state: ClusterState, reservation: Reservation, job: Job, now: float) -> Holder:
    row: Any = state.tables.jobs[job.row]
    until, limit_at = reservation.free_by.get(job.row, np.inf), now + float(row["limit"]) - state.run_s(job, now)
    if row["state"] == JobState.STOPPING:
        until, why = now + float(row["save"]), MIN_RUNTIME
    elif until == np.inf:
        why = COMES_FIRST if job.spec.may_preempt and state.engine.options.preempts else STAYS
    elif until >= limit_at - SAME_S:
        why = TIME_LIMIT
    elif state.teams and _has_notice(state, row, until, now):
        why = NOTICE
    else:
        why = FIRST_STEP if job.attempts.waits_for_step else MIN_RUNTIME
    return Holder(job.id, job.spec.gpus, until if until < np.inf else None, why)


def _has_notice(state: ClusterState, row: Any, until: float, now: float) -> bool:
    """Return whether a job holds GPUs until then because it is under notice, or would be given one now."""
    ends = (float(row["until"]), now + state.engine.options.notice)
    return any(abs(until - float(row["save"]) - max(now, end)) < SAME_S for end in ends if end < np.inf)


def _grace_s(state: ClusterState, holders: list[Holder], by: float) -> float:
    """How much longer than they did so far those who are stopped until then may take to save."""
    stopped = [
        state.jobs[h.job_id]
        for h in holders
        if h.until and h.until <= by and h.why in (MIN_RUNTIME, FIRST_STEP, NOTICE)
    ]
    return max((max(0.0, state.site.grace_s(job.spec) - job.attempts.save.value) for job in stopped), default=0.0)


def min_runtimes(state: ClusterState, job: Job, now: float, sees: Sees) -> tuple[Holder, ...]:
    """Return the running jobs after this one whose minimum run times are not over, the first to end first."""
    rows, options, holders = state.tables.jobs, state.engine.options, list[Holder]()
    suits = state.demands.suits(job.spec)
    mine = (rows["k1"][job.row], rows["k2"][job.row], job.row)
    for other in state.active_jobs():
        row: Any = rows[other.row]
        after = options.dynamic_keys or (row["k1"], row["k2"], other.row) > mine
        here = any(suits[node] for node, _ in other.places)
        if row["state"] != JobState.RUNNING or not after or not here or not sees(other.id, other.user):
            continue
        costs = float(row["turns"]) * (float(row["save"]) + float(row["resume"]))
        ends = float(row["started"]) + max(options.min_runtime, float(row["min_runtime"]), costs)
        if now < ends < np.inf:
            why = FIRST_STEP if other.attempts.waits_for_step else MIN_RUNTIME
            holders.append(Holder(other.id, other.spec.gpus, ends, why))
    return tuple(sorted(holders, key=lambda holder: (holder.until or 0.0, holder.job_id)))[:MOST_NAMED]


# ---- words


def within(seconds: float) -> str:
    """From now on, in a few words."""
    for size, word in ((172_800, "d"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"in {seconds / {'d': 86_400, 'h': 3600, 'min': 60}[word]:.1f} {word}"
    return f"in {max(0.0, seconds):.0f} s"


def places(reservation: Reserved) -> str:
    """Where: 4 GPUs on n000 and 4 GPUs on n001."""
    parts = [f"{counted(gpus, 'GPU')} on {node}" for node, gpus in reservation.nodes.items()]
    return joined([*parts[:8], f"more on {len(parts) - 8} other nodes"] if len(parts) > 8 else parts)


def bound(reservation: Reserved, now: float) -> str:
    """By when, and why then; or why nobody can say."""
    if reservation.by is None:
        free = "when it becomes free" if sum(reservation.nodes.values()) == 1 else "as they become free"
        return f"{free}; no bound can be given, because {_why_unknown(reservation)}"
    last = max((h for h in reservation.holders if h.until is not None), key=lambda h: h.until or 0.0, default=None)
    if last is None:
        return f"free {within(reservation.by - now)} at the latest"
    words = {
        TIME_LIMIT: "its time limit is over",
        MIN_RUNTIME: "its minimum run time is over and it has saved",
        NOTICE: "it borrows them, its notice is over and it has saved",
        FIRST_STEP: "it has reported a step (or its start has taken too long) and it has saved",
    }
    gone = f"when job {last.job_id} is gone because {words[last.why]}"
    if reservation.passable_s is not None and reservation.by - now > reservation.passable_s + 1.0:
        latest = (
            f"{within(reservation.by - now)} at the latest, because jobs that can be preempted may pass it until then"
        )
        return f"free {within(reservation.passable_s)}, {gone}, or {latest}"
    return f"free {within(reservation.by - now)} at the latest, {gone}"


def _why_unknown(reservation: Reserved) -> str:
    parts = []
    for why, words in (
        (STAYS, ("has no time limit and cannot be preempted", "have no time limit and cannot be preempted")),
        (
            COMES_FIRST,
            (
                "has no time limit and comes before it in the order",
                "have no time limit and come before it in the order",
            ),
        ),
    ):
        numbers = [holder.job_id for holder in reservation.holders if holder.why == why]
        if numbers:
            parts.append(f"{named(numbers)} {words[len(numbers) > 1]}")
    unseen = f"{counted(reservation.holders_unseen, 'job')} of other users hold GPUs there"
    return ", ".join(parts) or (unseen if reservation.holders_unseen else "the jobs there have no time limit")


def holding(reservation: Reserved, now: float) -> str:
    """Who holds the GPUs until then, if they are several: the last of them is named with the bound."""
    known = [f"job {h.job_id} ({within(h.until - now)})" for h in reservation.holders if h.until is not None]
    return f"Until then they are held by {joined(known)}" if len(known) > 1 else ""


def whose(reservation: Reserved) -> str:
    """The job that GPUs are kept for, as whoever asks may know it."""
    return "another job" if reservation.job_id is None else f"job {reservation.job_id}"


def named(numbers: list[int]) -> str:
    """job 3; jobs 3 and 4."""
    return f"job{'s' if len(numbers) > 1 else ''} {joined([str(number) for number in numbers])}"


def joined(parts: list[str]) -> str:
    """a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
