"""Why a job waits: one cause of the closed list, the facts behind it, the jobs ahead, what would change it, and the wait receipt.

A table names the function for each reason. It reads the state and returns facts; `text.py` makes the message of them, once.
A job that can never start is refused when it is submitted, so that is no cause of a wait.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from headway.core.events import REASONS
from headway.job_state import JobState
from headway.live.jobfile.after import SINGLETON
from headway.live.queries.borrowing import Promised, notice_in, promised_in, promised_to, shared_out
from headway.live.queries.explain import facts
from headway.live.queries.explain.text import texts
from headway.live.queries.reservations import First, Holder, Reserved, Sees, min_runtimes, reserved
from headway.live.rows import CANCEL, TIME_UP
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

MOST_NAMED: Final = 20  # jobs named; all are counted
Answer = Iterable[facts.Fact | None]  # facts in the order of their sentences; None: nothing to say


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


@dataclass(frozen=True, slots=True)
class Case:
    """A job, its reason and numbers, and which other jobs the caller may see."""

    state: ClusterState
    job: Job
    reason: str
    now: float
    sees: Sees
    ahead: tuple[int, ...]
    needs: facts.Needs
    numbers: dict[str, float]
    first: First | None  # the job with the backfill reservation, if this one waits for GPUs
    reservation: facts.KeptForIt | None  # the GPUs that are kept for the job, if it is that job


def sees_all(job_id: int, user: str) -> bool:
    """Return True: the caller may see every job."""
    return True


def explain(state: ClusterState, job: Job, now: float, sees: Sees = sees_all, remark: str = "") -> Explanation:
    """Return why a job waits, or how it ended; `sees` says which other jobs may be named, `remark` is of the executor."""
    case = _case(state, job, now, sees)
    has_gpus = state.job_state(job) in (JobState.STARTING, JobState.RUNNING)
    answer = _not_waiting(case) if job.final or has_gpus else CAUSES[case.reason](case)
    all_facts = [fact for fact in (*answer, facts.Remark(remark) if remark and not job.final else None) if fact]
    message, remedies = texts(all_facts, now)
    receipt_us = state.receipt_us(job, now)
    return Explanation(
        job.id,
        state.shown_state(job).name,
        case.reason,
        message,
        case.numbers,
        tuple(other for other in case.ahead[:MOST_NAMED] if sees(other, state.jobs[other].user)),
        remedies,
        sum(receipt_us.values()),
        receipt_us,
        next((fact.reservation for fact in all_facts if isinstance(fact, facts.KeptForIt | facts.KeptForOther)), None),
        next((fact.holders for fact in all_facts if isinstance(fact, facts.MinRuntimesLeft)), ()),
        next((fact.holders for fact in all_facts if isinstance(fact, Promised)), ()),
    )


def _case(state: ClusterState, job: Job, now: float, sees: Sees) -> Case:
    """Return the job's reason and numbers, and the waiting jobs ahead of it."""
    waits = state.job_state(job) in (JobState.FUTURE, JobState.PENDING)
    ahead = tuple(jobs_ahead(state, job)) if waits else ()
    nodes, eligible, asked = state.tables.nodes, state.demands.suits(job.spec), job.spec.demand
    open_nodes, per_node = nodes[(nodes["closed"] == 0) & eligible], asked.gpus_per_node
    row = state.tables.jobs[job.row]
    possible = open_nodes if job.spec.gpus <= open_nodes["gpus"].sum() else nodes[eligible]
    largest_first = np.sort(possible["gpus"])[::-1]
    numbers: dict[str, float] = {
        "gpus_asked": job.spec.gpus,
        "gpus_free": int(open_nodes["free"].sum()),
        "gpus_stopping": int(open_nodes["stopping"].sum()),
        "gpus_open": int(open_nodes["gpus"].sum()),
        "gpus_total": int(nodes["gpus"][eligible].sum()),
        "most_free_on_a_node": int(open_nodes["free"].max(initial=0)),
        "nodes_needed": job.spec.num_nodes or min(int((largest_first.cumsum() < job.spec.gpus).sum()) + 1, len(nodes)),
        "jobs_ahead": len(ahead),
        "queue_level": int(row["level"]),
        "service_gpu_s": state.service_gpu_s(job, now),
        "preemptions": job.preemptions,
        "failures": job.failures,
    }
    if asked:
        numbers["nodes_that_suit"] = int(eligible.sum())
    if per_node:
        numbers |= {"gpus_per_node": per_node, "nodes_with_gpus": int((open_nodes["free"] >= per_node).sum())}
    queue = state.teams.queue_of(job.spec)
    if queue and not job.blockers and not job.final:
        numbers |= {"queue_gpus_used": state.teams.used(queue), "queue_gpus_guaranteed": queue.guaranteed_gpus}
        numbers["queue_jobs_running"] = int(state.teams.table(state.teams.row_of(job.spec, ""))["running"])
    reason = "" if job.final else job.blocked_by or REASONS[int(state.why([job.row])[0])]
    spec, count = job.spec, int(eligible.sum())
    needs = facts.Needs(spec.gpus, spec.num_nodes or 0 if per_node else 0, per_node, str(asked), count, len(nodes))
    first, reservation = reserved(state, now, sees) if waits and not job.blockers else None, None
    if first and first.job.id == job.id:
        demotes = len(state.engine.options.thresholds) > 1 or state.engine.options.dynamic_keys
        reservation = facts.KeptForIt(first.kept, demotes and reason == "gpus")
    return Case(state, job, reason, now, sees, ahead, needs, numbers, first, reservation)


def jobs_ahead(state: ClusterState, job: Job) -> list[int]:
    """Return the waiting jobs (of its queue, if there are queues) that the policy sorts before this one, in order."""
    jobs, order = state.tables.jobs[: len(state.jobs)], state.waiting_rows()
    here = np.nonzero(order == job.row)[0]
    # A job that was accepted this instant comes after all waiting jobs, and after those that were accepted before it.
    accepted = np.nonzero(jobs["state"][: job.row] == JobState.FUTURE)[0]
    before = order[: int(here[0])] if len(here) else np.concatenate([order, accepted])
    others = [state.at(int(row)) for row in before]
    if state.teams:  # the order among queues depends on what they use
        queue = state.teams.name_of(job.spec)
        others = [other for other in others if state.teams.name_of(other.spec) == queue]
    return [other.id for other in others]


# ---- jobs that do not wait


def _not_waiting(case: Case) -> Answer:
    """Return how the job ended, or the links and the queue of its GPUs."""
    state, job = case.state, case.job
    if job.final:
        return (facts.Ended(job.final, job.message),)
    has = facts.Plain.STARTING if state.job_state(job) == JobState.STARTING else facts.Plain.RUNNING
    served = state.site.fabric
    if served is None or not job.seats or state.engine.uplinks == 0:
        return (has, *_guarantee(case))
    name, switch, uplinks = served.fabric.leaf_name, served.fabric.upper_name, range(served.fabric.uplinks)
    leaves = tuple(name(leaf) for leaf in sorted({int(served.fabric.leaf_of_gpu[seat]) for seat in job.seats}))
    own_links = tuple(
        (name(leaf), tuple(switch(leaf, up) for up in uplinks if mask >> up & 1)) for leaf, mask in job.links
    )
    links = facts.LinksInUse(
        leaves, own_links, job.spec.network.isolation, "" if state.engine.shares else state.placement
    )
    return (has, links, *_guarantee(case))


def _guarantee(case: Case) -> Answer:
    """Return whether the GPUs of a running job are guaranteed or borrowed, and the notice that it is under."""
    state, job = case.state, case.job
    if state.teams.queues is None:
        return ()
    owners, unused = shared_out(state, state.teams.queues)
    if job.row in owners:
        return (facts.Guaranteed(state.teams.label(owners[job.row])[0]),)
    if not job.spec.may_preempt:
        return (facts.Plain.UNGUARANTEED,)
    queue, notice = state.teams.queue_of(job.spec), notice_in(state, state.tables.jobs[job.row])
    if queue is None:
        return facts.QueueGone(job.spec.queue), notice
    others = None if notice else tuple(pair for pair in unused if pair[0] != queue.name)
    used, notice_s = state.teams.used(queue), state.engine.options.notice
    return facts.Borrowed(queue.name, used, queue.guaranteed_gpus, others, notice_s), notice


# ---- jobs that are not offered to the engine


def _held(case: Case) -> Answer:
    """Return that the job is on hold."""
    return (facts.Held(case.job.id),)


def _dependency(case: Case) -> Answer:
    """Return which jobs must end before the job, and how."""
    by_kind: dict[str, set[int]] = {}
    for need in case.job.spec.needs:
        by_kind.setdefault(need.kind, set()).update(case.job.waits_for.intersection(case.state.tasks_of(need.job)))
    by_kind[SINGLETON] = case.job.waits_for.difference(*by_kind.values())
    return (facts.Follows(tuple((kind, tuple(sorted(jobs))) for kind, jobs in by_kind.items() if jobs)),)


def _array_limit(case: Case) -> Answer:
    """Return how many tasks of the job's array may run."""
    return (facts.ArrayLimit(case.state.arrays[case.job.array_id or 0].limit or 0),)


def _retry_backoff(case: Case) -> Answer:
    """Return what failed, and when the job is tried again."""
    return (facts.RetryBackoff(case.job.failures, case.job.message, case.job.not_before),)


# ---- jobs that are offered to the engine


def _gpus(case: Case) -> tuple[facts.Fact, facts.Fact | None, facts.Fact | None]:
    """Return why the free GPUs do not suffice, the share of the job's queue, and the GPUs that are kept for the job."""
    state, job = case.state, case.job
    if state.engine.options.head_of_line_blocking and case.ahead:
        fits = job.spec.gpus <= case.numbers["gpus_free"]
        return facts.InOrder(state.policy, len(case.ahead), fits), _share(case), case.reservation
    scattered = case.reason == "fragmentation"
    migrates_from = float(state.tables.jobs["queued"][job.row]) + state.engine.options.defragment_after
    free = facts.FreeGpus(
        case.needs,
        case.numbers,
        case.reason == "preempted",
        scattered,
        state.placement == "consolidated",
        migrates_from if scattered and migrates_from < math.inf and not len(state.tables.leaves) else None,
        _behind(case),
    )
    return free, _share(case), case.reservation


def _min_runtime(case: Case) -> Answer:
    """Return which jobs may be preempted for the job after their minimum run times, or that preempting costs too much."""
    free, share, reservation = _gpus(case)
    if holders := min_runtimes(case.state, case.job, case.now, case.sees):
        behind = isinstance(free, facts.FreeGpus) and free.behind is not None
        return free, share, facts.MinRuntimesLeft(holders, helps=not behind), reservation
    is_promised_away = isinstance(share, facts.QueueShare) and share.promised
    return free, share, None if is_promised_away else facts.Plain.TOO_COSTLY, reservation


def _behind(case: Case) -> facts.Behind | None:
    """Return the reservation before a job on nodes that suit it, or None if it could pass (docs/semantics.md, rules 21 and 22)."""
    state, job, first = case.state, case.job, case.first
    eligible = {name for name, suits in zip(state.cluster.nodes, state.demands.suits(job.spec), strict=True) if suits}
    if first is None or first.job.id == job.id or not eligible & first.kept.nodes.keys():
        return None
    smaller = job.spec.gpus < first.job.spec.gpus
    stays = min(float(state.tables.jobs["limit"][job.row]), state.engine.options.limit) - state.run_s(job, case.now)
    in_time = first.kept.passable_s is not None and stays <= first.kept.passable_s
    if smaller and (in_time or (state.engine.options.preempts and job.spec.may_preempt and not first.firm)):
        return None
    beside = [i for i, name in enumerate(state.cluster.nodes) if name in eligible and name not in first.kept.nodes]
    nodes = state.tables.nodes[beside]
    gpus = int(nodes["gpus"][nodes["closed"] == 0].sum())
    return facts.Behind(first.kept, smaller and gpus >= job.spec.gpus)


def _backfill_reservation(case: Case) -> Answer:
    """Return the GPUs that are kept for another job, and how the job could pass."""
    state, spec, first = case.state, case.job.spec, case.first
    if first is None or first.job.id == case.job.id:
        return _gpus(case)
    passable_s, grace_s = first.kept.passable_s, state.site.grace_s(spec)
    could_pass = passable_s is not None and spec.time_limit is None and passable_s > 2 * grace_s
    limit = passable_s - grace_s if could_pass and passable_s else 0.0
    checkpoints = state.engine.options.preempts and not spec.may_preempt and not first.firm
    return facts.KeptForOther(first.kept, limit, checkpoints), _nodes_kept(case)


def _advance_reservation(case: Case) -> Answer:
    """Return the nodes that are kept for another queue."""
    nodes, share = _nodes_kept(case), _share(case)
    if nodes is None:
        return _gpus(case)
    return nodes, share if isinstance(share, facts.QueueGone) else None, case.reservation


def _nodes_kept(case: Case) -> facts.NodesKept | None:
    """Return the advance reservation for another queue that is or begins next; None: there is none."""
    own_queues = {queue.name for queue in case.state.teams.path(case.job.spec)}
    others = [
        booking for booking in case.state.teams.bookings if booking.end > case.now and booking.queue not in own_queues
    ]
    first = min(others, key=lambda booking: booking.begin, default=None)
    return facts.NodesKept(first.nodes, first.queue, first.begin, first.end) if first else None


def _share(case: Case) -> facts.QueueShare | facts.QueueGone | None:
    """Return the share of the lowest queue above a job whose guarantee has room for it, or of its own queue; None: there are no queues."""
    teams, gpus = case.state.teams, case.job.spec.gpus
    if not teams:
        return None
    path = teams.path(case.job.spec)
    if not path:
        return facts.QueueGone(case.job.spec.queue)
    queue = next((above for above in path if teams.used(above) + gpus <= above.guaranteed_gpus), path[0])
    used, guaranteed, promised = teams.used(queue), queue.guaranteed_gpus, promised_in(case.state, queue, case.job)
    fits = used + promised + gpus <= guaranteed
    return facts.QueueShare(
        queue.name,
        used,
        guaranteed,
        0 if fits else promised,
        fits and case.reason != "notice",
        fits and case.reason in ("gpus", "fragmentation"),
        teams.account(path[0], case.now),
    )


def _quota(case: Case) -> Answer:
    """Return which limit of its queue keeps the job waiting."""
    state, spec = case.state, case.job.spec
    queue = state.teams.queue_of(spec)
    if queue is None:
        return _gpus(case)
    broken = state.teams.broken_limit(spec, case.job.user)
    if broken is None:
        promised = any(promised_in(state, above, case.job) for above in state.teams.path(spec))
        return (facts.OverGuarantee(queue.name, spec.may_preempt, promised),)
    above, user, limits, row = broken
    jobs, gpus = int(row["running"] + row["stopping"]), int(row["used"] + row["leaving"])
    if jobs + 1 > limits.running:
        return (facts.OverLimit(above.name, user, limits.running, jobs, 0),)
    return (facts.OverLimit(above.name, user, limits.gpus, gpus, spec.gpus),)


def _notice(case: Case) -> Answer:
    """Return the guarantee that a job is within, and the GPUs that are returned to it."""
    return _share(case), promised_to(case.state, case.job, case.sees)


def _stopping(case: Case) -> Answer:
    """Return that the job is being stopped, or that others are stopped for it."""
    if case.state.job_state(case.job) != JobState.STOPPING:
        return (facts.Plain.STOPPING_OTHERS,)
    ends = {CANCEL: facts.Plain.CANCELLING, TIME_UP: facts.Plain.TIME_UP}
    return (ends.get(case.job.stop_reason, facts.Plain.STOPPING),)


def _node_down(case: Case) -> Answer:
    """Return that the cluster has become too small for the job, that a disk is full, or which nodes are drained."""
    state, needs, count = case.state, case.needs, {name: int(number) for name, number in case.numbers.items()}
    if case.job.blockers:
        return (facts.TooLarge(case.job.id, needs, count["gpus_total"]),)
    if state.low_disk:
        return (facts.Remark(state.low_disk, ("room on that disk",)),)
    nodes, eligible = state.tables.nodes, state.demands.suits(case.job.spec)
    usable = eligible & (nodes["closed"] == 0) & (nodes["gpus"] >= needs.per_node)
    drained = tuple(state.cluster.nodes[node] for node in np.flatnonzero(eligible & (nodes["closed"] == 1)))
    return (facts.Drained(needs, count["gpus_open"], int(usable.sum()), drained),)


def _isolation(case: Case) -> Answer:
    """Return which links the job needs for itself, and the share of its queue."""
    state, job = case.state, case.job
    closed = state.tables.nodes["closed"]
    drained = tuple(name for name, shut in zip(state.cluster.nodes, closed, strict=True) if shut)
    free, placement = int(case.numbers["gpus_free"]), "" if state.engine.shares else state.placement
    links = facts.NoLinks(job.spec.gpus, free, drained, job.spec.network.isolation, placement)
    return links, _share(case), case.reservation


CAUSES: Final[Mapping[str, Callable[[Case], Answer]]] = {
    "held": _held,
    "dependency": _dependency,
    "array_limit": _array_limit,
    "gpus": _gpus,
    "fragmentation": _gpus,
    "isolation": _isolation,
    "min_runtime": _min_runtime,
    "backfill_reservation": _backfill_reservation,
    "preempted": _gpus,
    "stopping": _stopping,
    "node_down": _node_down,
    "retry_backoff": _retry_backoff,
    "quota": _quota,
    "advance_reservation": _advance_reservation,
    "notice": _notice,
}
