"""The texts of explanations: a sentence for each fact, and what would help. Nothing else makes or edits them."""

from collections.abc import Iterable, Mapping, Sequence

from headway.io.units import counted, listed, within
from headway.live.jobfile.after import WORDS
from headway.live.queries.borrowing import Notice, Promised
from headway.live.queries.explain import facts
from headway.live.queries.reservations import (
    COMES_FIRST,
    FIRST_STEP,
    MIN_RUNTIME,
    NOTICE,
    STAYS,
    TIME_LIMIT,
    Holder,
    Reserved,
)

MOST_JOBS = 20  # named in one sentence
GONE = {
    TIME_LIMIT: "its time limit is over",
    MIN_RUNTIME: "its minimum run time is over and it has saved",
    NOTICE: "it borrows them, its notice is over and it has saved",
    FIRST_STEP: "it has reported a step (or its start has taken too long) and it has saved",
}


PLAIN: Mapping[facts.Plain, tuple[str, ...]] = {  # the sentence, and what would help
    facts.Plain.RUNNING: ("it is running",),
    facts.Plain.STOPPING: ("it is being stopped, and waits again after that", "it has saved its state"),
    facts.Plain.STOPPING_OTHERS: ("jobs are being stopped for it", "they have saved their state"),
    facts.Plain.TOO_COSTLY: (
        "preempting jobs later in the order costs more GPU-time than it has waited for so far",
        "it has waited for what stopping them costs",
    ),
    facts.Plain.UNPLACEABLE: ("stopping jobs that borrow GPUs and migrating smaller jobs makes no place for it yet",),
    facts.Plain.UNGUARANTEED: ("its GPUs are guaranteed to no queue: it cannot be preempted, and keeps them",),
}
HELPS: Mapping[type, tuple[str, ...]] = {
    facts.Follows: ("these jobs end",),
    facts.ArrayLimit: ("a task of the array ends", "submit with a higher limit after %"),
    facts.RetryBackoff: ("the back-off ends",),
    facts.DiskFull: ("room on that disk",),
    facts.NodesKept: ("the reservation ends", "a time limit by which it would be gone before"),
    Promised: ("these jobs end or checkpoint earlier", "another job with GPUs ends"),
}


def message(answer: Iterable[facts.Fact], now: float) -> str:
    """Return one sentence for each fact, in their order."""
    first, *more = [_sentence(fact, now) for fact in answer]
    return ". ".join([first, *(text[0].upper() + text[1:] for text in more)])


def _sentence(fact: facts.Fact, now: float) -> str:
    match fact:
        case facts.Plain():
            return PLAIN[fact][0]
        case facts.Ended(state, reason):
            return reason or f"it has ended: {state.name}"
        case facts.HeldByPerson():
            return "a person holds it"
        case facts.Follows(jobs, kind, singleton):
            end = "must end first" if singleton else f"{WORDS.get(kind, 'must end as its job file says')} first"
            own = "it is a singleton: earlier jobs of its user and name" if singleton else "it waits for jobs that"
            return f"{own} {end}: {listed([f'job {number}' for number in jobs], MOST_JOBS)}"
        case facts.ArrayLimit(tasks):
            return f"its array runs at most {counted(tasks, 'task')} at once"
        case facts.RetryBackoff(failures, reason, until):
            times = "once" if failures == 1 else f"{failures} times"
            why = f"it failed {times}" if failures else f"it could not be started ({reason or 'no reason given'})"
            return f"{why} and is tried again in {max(0.0, until - now):.1f} s"
        case facts.TooLarge(_, needs, gpus):
            has = counted(needs.eligible, "such node") if needs.per_node else counted(gpus, "such GPU")
            return f"it needs {_needs(needs)}, and the cluster, which has changed, has {has}"
        case facts.Drained(needs, nodes):
            return f"it needs {_needs(needs)}, and too few nodes take jobs (drained: {listed(nodes)})"
        case facts.DiskFull(text) | facts.Remark(text):
            return text
        case facts.LinksInUse() | facts.NoLinks():
            return _links(fact)
        case _:
            return _wait_for_gpus(fact, now)


def _wait_for_gpus(fact: facts.Fact, now: float) -> str:
    match fact:
        case facts.FreeGpus(needs, numbers):
            free, most = (int(numbers[name]) for name in ("gpus_free", "most_free_on_a_node"))
            if needs.per_node:
                finds = counted(int(numbers["nodes_with_gpus"]), "such node")
            elif fact.scattered:
                nodes = counted(int(numbers["nodes_needed"]), "node")
                finds = f"{free} free, but not on {nodes}: at most {most} on one"
            else:
                finds = f"{free} free"
            needed = _needs(needs, "free GPU" if needs.per_node else "GPU")
            ahead = counted(int(numbers["jobs_ahead"]), "waiting job")
            return (
                f"it {'was preempted and ' * fact.preempted}needs {needed} and finds {finds}, with {ahead} ahead of it"
            )
        case facts.InOrder(policy, ahead):
            return f"policy {policy} starts jobs in order, with {counted(ahead, 'waiting job')} ahead of it"
        case facts.MinRuntimesLeft(holders):
            return f"minimum run times of jobs later in the order end first: {_holders(holders, now)}"
        case facts.KeptForIt(reservation):
            return f"it has a backfill reservation of {_reserved(reservation, now)}. Jobs sorted ahead of it may start first"
        case facts.KeptForOther(reservation):
            return (
                f"it would fit, but {_owner(reservation)} has a backfill reservation of {_reserved(reservation, now)}"
            )
        case facts.NodesKept(nodes, queue, begin, end):
            begins = f"begins {within(begin - now)} and " if begin > now else ""
            return f"queue {queue} has reserved {listed(nodes)}: the reservation {begins}ends {within(end - now)}"
        case Promised(nodes, holders, ready_by):
            gpus = listed([f"{counted(gpus, 'GPU')} on {node}" for node, gpus in nodes.items()])
            by = f": {_holders(holders, now)}" if holders else ""
            starts = f"It starts {within(ready_by - now)} at the latest, when they have checkpointed"
            return f"it is promised {gpus}, which borrowers return{by}. {starts}"
        case _:
            return _queue(fact, now)


def _queue(fact: facts.Fact, now: float) -> str:
    match fact:
        case facts.QueueGone(queue):
            return f"its queue {queue!r} is not in the queues file, so nothing is guaranteed to it"
        case facts.QueueShare(queue, used, guaranteed, promised):
            away = f", and other jobs are promised {counted(promised, 'GPU')} more" if fact.is_promised_away else ""
            return f"queue {queue} uses {counted(used, 'GPU')} and has a guarantee of {guaranteed}{away}"
        case facts.OverLimit(queue, user, limit, used, gpus):
            most = (
                f"use {counted(limit, 'GPU')} and uses {used}"
                if gpus
                else f"run {counted(limit, 'job')} at once and runs {used}"
            )
            more = f": {gpus} more would be too many" if gpus else ""
            return f"{f'user {user} in ' if user else ''}queue {queue} may {most}{more}"
        case facts.OverGuarantee(queue, False):
            more = "beyond that, such a job gets only GPUs that are guaranteed to no queue"
            return f"it cannot be preempted, and queue {queue} already uses what is guaranteed to it: {more}"
        case facts.OverGuarantee(queue, promised=True):
            return f"GPUs under notice are promised to other jobs of queue {queue} and count against its limits"
        case facts.OverGuarantee(queue):
            return f"jobs of its size ahead of it in queue {queue} cannot be preempted, and may borrow no GPUs"
        case facts.Guaranteed(queue):
            return f"its GPUs are part of the guarantee of queue {queue}"
        case facts.Borrowed(queue, used, guaranteed, lenders, notice_s):
            text = (
                f"its GPUs are borrowed: queue {queue} uses {counted(used, 'GPU')} and has a guarantee of {guaranteed}"
            )
            idle = listed([f"{counted(gpus, 'GPU')} of queue {name}" for name, gpus in lenders])
            back = (
                f"lent are {idle}, and taken back after {notice_s:g} s of notice, from the last jobs in the order first"
            )
            return f"{text}; {back}" if lenders else text
        case Notice(until, queue):
            whom = f" for queue {queue}" if queue else ""
            return f"it is under notice: its GPUs are taken back {within(until - now)}{whom}, unless the notice is withdrawn"
    raise TypeError(fact)


def remedies(fact: facts.Fact, now: float) -> Sequence[str]:
    """Return what would end or shorten the wait, by one fact."""
    match fact:
        case facts.Plain():
            return PLAIN[fact][1:]
        case facts.HeldByPerson(job):
            return (f"headway release {job}",)
        case facts.TooLarge(job):
            return "a cluster with more eligible nodes", f"headway cancel {job}"
        case facts.Drained(_, nodes):
            return [f"headway nodes resume {name}" for name in nodes[:1]]
        case facts.FreeGpus():
            return _more_gpus(fact, now)
        case facts.InOrder(_, _, fits):
            passes = "a policy that lets jobs pass, such as best-effort or tiresias-l"
            return ("the jobs ahead start", *((passes,) if fits else ()))
        case facts.MinRuntimesLeft(_, helps):
            return ("one of these minimum run times ends",) if helps else ()
        case facts.KeptForIt(reservation, demotes):
            longer = demotes and any(holder.why == COMES_FIRST for holder in reservation.holders)
            return ("a job that comes before it has run so long that it comes after it",) if longer else ()
        case facts.KeptForOther(reservation, limit, checkpoints):
            shorter = f"a time limit of at most {limit:.0f} s, after which it would be gone in time"
            stops = "a checkpoint folder: it could then start now, and be stopped when the GPUs are needed"
            return (f"{_owner(reservation)} starts", *((shorter,) if limit else ()), *((stops,) if checkpoints else ()))
        case facts.NoLinks(_, _, drained, _, placement):
            shares = () if placement else ("network: {isolation: none} in its job file: it would share links",)
            ends = "a job with links or GPUs ends, so that a slice or enough GPUs below one leaf become free"
            return (ends, *(f"headway nodes resume {name}" for name in drained[:1]), *shares)
        case facts.OverLimit(_, user):
            return f"a job of {'this user' if user else 'this queue'} ends", "a higher limit in the queues file"
        case facts.OverGuarantee(queue, preemptible):
            if preemptible:
                return "these jobs start", "a job with GPUs ends"
            return f"a job of queue {queue} ends", "a checkpoint folder: it could then borrow GPUs"
        case _:
            return HELPS.get(type(fact), ())


def _more_gpus(fact: facts.FreeGpus, now: float) -> list[str]:
    """Return what would free GPUs for a job."""
    if fact.behind:
        owner = _owner(fact.behind.reservation)
        beside = [f"GPUs of other nodes become free, too few for {owner}"] if fact.behind.fits_beside else []
        return [f"{owner}, for which GPUs are kept, starts, and more GPUs become free", *beside]
    if not fact.scattered:
        return [f"a job with GPUs{' of these nodes' if fact.needs.constraints else ''} ends"]
    helps = ["a job on a partly used node ends"]
    if fact.strict and not fact.needs.per_node:
        helps.append("placement consolidated?strict=no takes more nodes")
    if fact.migrates_from is not None and fact.migrates_from > now:
        when = within(fact.migrates_from - now)
        helps.append(f"{when}, smaller jobs may migrate to make room for it, if all of them find other places")
    elif fact.migrates_from is not None:
        helps.append("smaller jobs that can migrate find other places")
    return helps


def _needs(needs: facts.Needs, gpu: str = "GPU") -> str:
    """Return `2 nodes with 8 GPUs each`, or `8 GPUs`, and on which nodes: ` on nodes with a100 (2 of 4 nodes)`."""
    where = f" on nodes with {needs.constraints} ({needs.eligible} of {counted(needs.cluster, 'node')})"
    gpus = counted(needs.per_node or needs.gpus, gpu)
    count = "" if not needs.per_node else f"{counted(needs.nodes, 'node')} with "
    return f"{count}{gpus}{' each' if needs.nodes > 1 else ''}{where if needs.constraints else ''}"


def _reserved(reservation: Reserved, now: float) -> str:
    """Return `8 GPUs on n000`, by when they are free, and why then; or why there is no bound."""
    gpus = listed([f"{counted(gpus, 'GPU')} on {node}" for node, gpus in reservation.nodes.items()])
    if reservation.by is None:
        whys = {STAYS: "that cannot be preempted", COMES_FIRST: "before it in the order"}
        jobs = {why: [holder.job_id for holder in reservation.holders if holder.why == why] for why in whys}
        groups = [f"{text}: {listed(jobs[why], MOST_JOBS)}" for why, text in whys.items() if jobs[why]]
        unseen = f"that belong to other users ({counted(reservation.holders_unseen, 'job')})"
        because = "; ".join(groups or [unseen])
        return f"{gpus}; no bound can be given, because of jobs without a time limit {because}"
    last = max((h for h in reservation.holders if h.until is not None), key=lambda h: h.until or 0.0, default=None)
    latest = f"{within(reservation.by - now)} at the latest"
    gone = f", when job {last.job_id} is gone because {GONE[last.why]}" if last else ""
    if reservation.passable_s is not None and reservation.by - now > reservation.passable_s + 1.0:
        passing = "because jobs that can be preempted may pass it until then"
        return f"{gpus}, free {within(reservation.passable_s)}{gone}, or {latest}, {passing}"
    return f"{gpus}, free {latest}{gone}"


def _links(fact: facts.LinksInUse | facts.NoLinks) -> str:
    """Return which links a job has, or waits for, and why."""
    why = "they were free when it started"
    if fact.isolation != "none":
        why = f"its job file asks for them (isolation: {fact.isolation})"
    elif fact.placement:
        why = f"placement {fact.placement} gives every job its own"
    if isinstance(fact, facts.NoLinks):
        needs = f"it needs {counted(fact.gpus, 'GPU')} and finds {fact.free} free"
        return f"{needs}, but not with links for it alone, and {why}"
    if fact.own:
        ends = "; ".join(f"{leaf} to {listed(switches)}" for leaf, switches in fact.own)
        count = sum(len(switches) for _, switches in fact.own)
        return f"it has {counted(count, 'link')} of its own ({ends}), because {why}"
    if len(fact.leaves) == 1:
        return f"its GPUs are all below {fact.leaves[0]}: it needs no link above it"
    alone = "no links were free for it alone when it started, and it did not ask to wait for them"
    return f"it shares links of {listed(fact.leaves)}: {alone} (network: {{isolation: vclos}})"


def _holders(holders: Iterable[Holder], now: float) -> str:
    return listed([f"job {holder.job_id} {within((holder.until or now) - now)}" for holder in holders], MOST_JOBS)


def _owner(reservation: Reserved) -> str:
    return "another job" if reservation.job_id is None else f"job {reservation.job_id}"
