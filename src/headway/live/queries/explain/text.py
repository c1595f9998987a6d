"""The texts of explanations: for each fact its sentence, and what would end or shorten the wait. Nothing else makes or edits them.

Plain words about a reason are those of headway/reasons.py.
"""

from collections.abc import Iterable, Mapping

from headway.io.units import counted, listed, within
from headway.live.jobfile.after import SINGLETON, WORDS
from headway.live.queries.borrowing import Notice, Promised
from headway.live.queries.explain import facts
from headway.live.queries.reservations import COMES_FIRST, Reserved
from headway.reasons import BY_CODE, HOLDS

MOST_JOBS = 20  # named in one sentence
Text = tuple[str, ...]  # a sentence without its full stop, and what would help

PLAIN: Mapping[facts.Plain, Text] = {
    facts.Plain.STARTING: ("it is starting",),
    facts.Plain.RUNNING: ("it is running",),
    facts.Plain.STOPPING: ("it is being stopped, and waits again after that", "it has checkpointed"),
    facts.Plain.CANCELLING: ("it is being cancelled",),
    facts.Plain.TIME_UP: ("it is being stopped at its time limit, and ends after that",),
    facts.Plain.STOPPING_OTHERS: ("jobs are being stopped for it", *BY_CODE["stopping"].remedies),
    facts.Plain.TOO_COSTLY: (
        "preempting jobs later in the order costs more GPU-time than it has waited for so far",
        "it has waited for what stopping them costs",
    ),
    facts.Plain.UNGUARANTEED: ("its GPUs are guaranteed to no queue: it cannot be preempted, and keeps them",),
}


def texts(answer: Iterable[facts.Fact], now: float) -> tuple[str, Text]:
    """Return the message, one sentence for each fact in their order, and what would help, each once."""
    message, remedies = "", list[str]()
    for fact in answer:
        sentence, *helps = _text(fact, now)
        foreign = isinstance(fact, facts.Remark | facts.Ended)  # may begin with a path or the name of a host
        message += f". {sentence if foreign else sentence[0].upper() + sentence[1:]}" if message else sentence
        remedies += helps
    return message, tuple(dict.fromkeys(remedies))


def _text(fact: facts.Fact, now: float) -> Text:
    if isinstance(fact, facts.OfQueue):
        return _queue(fact, now)
    if isinstance(fact, facts.ForGpus):
        return _wait_for_gpus(fact, now)
    match fact:
        case facts.Plain():
            return PLAIN[fact]
        case facts.Remark(text, remedies):
            return text, *remedies
        case facts.Ended(state, message):
            return (message or f"it has ended: {state.name}",)
        case facts.Held(job):
            return f"it is {BY_CODE['held'].long}", f"headway release {job}"
        case facts.Follows(groups):
            clauses = []
            for kind, jobs in groups:
                named = listed([f"job {number}" for number in jobs], MOST_JOBS)
                clauses.append(
                    f"it is a singleton: earlier jobs of its user and name must end first: {named}"
                    if kind == SINGLETON
                    else f"{named} {WORDS[kind]} first"
                )
            return "; ".join(clauses) or BY_CODE["dependency"].long, *BY_CODE["dependency"].remedies
        case facts.ArrayLimit(tasks):
            return f"its array runs at most {counted(tasks, 'task')} at once", *BY_CODE["array_limit"].remedies
        case facts.RetryBackoff(failures, message, until):
            times = "once" if failures == 1 else f"{failures} times"
            why = f"it failed {times}" if failures else f"it could not be started ({message or 'no reason given'})"
            return f"{why} and is tried again in {max(0.0, until - now):.1f} s", *BY_CODE["retry_backoff"].remedies
        case facts.TooLarge(job, needs, gpus):
            has = (
                counted(needs.eligible, "such node")
                if needs.per_node
                else counted(gpus, "such GPU" if needs.constraints else "GPU")
            )
            text = f"it needs {_needs(needs)}, and the cluster, which has changed, has {has}"
            return text, "a cluster with more eligible nodes", f"headway cancel {job}"
        case facts.Drained(needs, gpus, nodes, drained):
            which = "such nodes" if needs.constraints else "nodes"
            takes = f"{which} that take jobs have {counted(gpus, 'GPU')}"
            if needs.per_node:
                takes = f"{counted(nodes, 'such node')} {'takes' if nodes == 1 else 'take'} jobs"
            text = f"it needs {_needs(needs)}, and {takes} (drained: {listed(drained)})"
            return text, *(f"headway nodes resume {name}" for name in drained[:1])
        case facts.LinksInUse() | facts.NoLinks():
            return _links(fact)


def _wait_for_gpus(fact: facts.ForGpus, now: float) -> Text:
    match fact:
        case facts.FreeGpus(needs, numbers):
            count = {name: int(number) for name, number in numbers.items()}
            finds = f"{count['gpus_free']} free"
            if needs.per_node:
                finds = counted(count["nodes_with_gpus"], "such node")
            elif fact.scattered:
                nodes = counted(count["nodes_needed"], "node")
                finds += f", but not on {nodes}: at most {count['most_free_on_a_node']} on one"
            needed = _needs(needs, "free GPU" if needs.per_node else "GPU")
            again, ahead = "was preempted and " if fact.preempted else "", counted(count["jobs_ahead"], "waiting job")
            return f"it {again}needs {needed} and finds {finds}, with {ahead} ahead of it", *_more_gpus(fact, now)
        case facts.InOrder(policy, ahead, fits):
            passes = ("a policy that lets jobs pass, such as best-effort or tiresias-l",) if fits else ()
            text = f"policy {policy} starts jobs in order, with {counted(ahead, 'waiting job')} ahead of it"
            return text, "the jobs ahead start", *passes
        case facts.MinRuntimesLeft(holders, helps):
            ends = listed(
                [f"job {holder.job_id} {within((holder.until or now) - now)}" for holder in holders], MOST_JOBS
            )
            text = f"minimum run times of jobs later in the order end first: {ends}"
            return text, *(("one of these minimum run times ends",) if helps else ())
        case facts.KeptForIt(reservation, demotes):
            longer = demotes and any(holder.why == COMES_FIRST for holder in reservation.holders)
            text = f"it has a backfill reservation of {_reserved(reservation, now)}. Jobs sorted ahead of it may start first"
            return text, *(("a job that comes before it has run so long that it comes after it",) if longer else ())
        case facts.KeptForOther(reservation, limit, checkpoints):
            owner = _owner(reservation)
            text = f"it would fit, but {owner} has a backfill reservation of {_reserved(reservation, now)}"
            shorter = f"a time limit of at most {limit:.0f} s, after which it would be gone in time"
            stops = "a checkpoint folder: it could then start now, and be stopped when the GPUs are needed"
            return text, f"{owner} starts", *((shorter,) if limit else ()), *((stops,) if checkpoints else ())
        case facts.NodesKept(nodes, queue, begin, end):
            begins = f"begins {within(begin - now)} and " if begin > now else ""
            text = f"queue {queue} has reserved {listed(nodes)}: the reservation {begins}ends {within(end - now)}"
            return text, *BY_CODE["advance_reservation"].remedies
        case Promised(nodes, holders, ready_by):
            gpus = listed([f"{counted(gpus, 'GPU')} on {node}" for node, gpus in nodes.items()])
            ends = listed(
                [f"job {holder.job_id} {within((holder.until or now) - now)}" for holder in holders], MOST_JOBS
            )
            starts = f"It starts {within(ready_by - now)} at the latest, when they have checkpointed"
            text = f"it is promised {gpus}, which borrowers return{f': {ends}' if holders else ''}. {starts}"
            return text, "the borrowers end or checkpoint earlier", *BY_CODE["gpus"].remedies


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
        jobs: dict[str, list[str]] = {}
        for holder in reservation.holders:
            if holder.until is None:
                jobs.setdefault(holder.why, []).append(f"job {holder.job_id}")
        groups = [f"{listed(names, MOST_JOBS)} ({HOLDS[why]})" for why, names in jobs.items()]
        because = "; ".join(groups) or f"{counted(reservation.holders_unseen, 'job')} of other users"
        return f"{gpus}; no bound can be given, because of {because}"
    holders = [] if reservation.holders_unseen else [h for h in reservation.holders if h.until is not None]
    last = max(holders, key=lambda h: h.until or 0.0, default=None)  # with unseen holders, another job may be the last
    latest = f"{within(reservation.by - now)} at the latest"
    gone = f", when job {last.job_id} is gone because {HOLDS[last.why]}" if last else ""
    if reservation.passable_s is not None and reservation.by - now > reservation.passable_s + 1.0:
        passing = "because jobs that can be preempted may pass it until then"
        return f"{gpus}, free {within(reservation.passable_s)}{gone}, or {latest}, {passing}"
    return f"{gpus}, free {latest}{gone}"


def _owner(reservation: Reserved) -> str:
    """Return the job that GPUs are kept for, if the caller may see it."""
    return "another job" if reservation.job_id is None else f"job {reservation.job_id}"


def _queue(fact: facts.OfQueue, now: float) -> Text:
    """Return the part of the job's queue in its wait, or in the GPUs that it has."""
    match fact:
        case facts.QueueGone(queue):
            return (f"its queue {queue!r} is not in the queues file, so nothing is guaranteed to it",)
        case facts.QueueShare(queue, used, guaranteed, promised):
            text = f"queue {queue} uses {counted(used, 'GPU')} and has a guarantee of {guaranteed}"
            if promised:
                text += f", and other jobs are promised {counted(promised, 'GPU')} more"
            if fact.served_first:
                text += ", so it is served first"
            if fact.unplaceable:
                rest = "the rest of the guarantee lies on several nodes, beside jobs that keep their GPUs"
                text += f". Preempting borrowers and migrating smaller jobs makes no place for it yet: {rest}"
            return (f"{text}. The account of its queue: {fact.account}" if fact.account else text,)
        case facts.OverLimit(queue, user, limit, used, gpus):
            whose, ends = f"queue {queue}", "a job of this queue ends"
            if user:
                whose, ends = f"user {user} in queue {queue}", "a job of this user ends"
            most = f"run {counted(limit, 'job')} at once and runs {used}"
            if gpus:
                most = f"use {counted(limit, 'GPU')} and uses {used}: {gpus} more would be too many"
            return f"{whose} may {most}", ends, "a higher limit in the queues file"
        case facts.OverGuarantee(queue, False):
            more = "beyond that, such a job gets only GPUs that are guaranteed to no queue"
            text = f"it cannot be preempted, and queue {queue} already uses what is guaranteed to it: {more}"
            return text, f"a job of queue {queue} ends", "a checkpoint folder: it could then borrow GPUs"
        case facts.OverGuarantee(queue, promised=promised):
            text = f"jobs of its size ahead of it in queue {queue} cannot be preempted, and may borrow no GPUs"
            if promised:
                text = f"GPUs under notice are promised to other jobs of queue {queue} and count against its limits"
            return text, "these jobs start", *BY_CODE["gpus"].remedies
        case facts.Guaranteed(queue):
            return (f"its GPUs are part of the guarantee of queue {queue}",)
        case facts.Borrowed(queue, used, guaranteed, unused, notice_s):
            text = (
                f"its GPUs are borrowed: queue {queue} uses {counted(used, 'GPU')} and has a guarantee of {guaranteed}"
            )
            if unused is None:
                return (text,)
            if not unused:
                return (f"{text}. No other queue leaves guaranteed GPUs unused",)
            leave = listed([f"{counted(gpus, 'GPU')} of queue {name}" for name, gpus in unused])
            back = f"borrowers give GPUs back after {notice_s:g} s of notice, the last in the order first"
            text += f". Of what other queues are guaranteed, {leave} are unused"
            return (f"{text}: when jobs of these queues need the GPUs, {back}",)
        case Notice(until, queue):
            whom = f" for queue {queue}" if queue else ""
            taken = f"its GPUs are taken back {within(until - now)}{whom}, unless the notice is withdrawn"
            return (f"it is under notice: {taken}",)


def _links(fact: facts.LinksInUse | facts.NoLinks) -> Text:
    """Return which links a job has, or waits for, and why."""
    why = "they were free when it started"
    if fact.isolation != "none":
        why = f"its job file asks for them (isolation: {fact.isolation})"
    elif fact.placement:
        why = f"placement {fact.placement} gives every job its own"
    if isinstance(fact, facts.NoLinks):
        text = f"it needs {counted(fact.gpus, 'GPU')} and finds {fact.free} free, but not with links for it alone, and {why}"
        ends = "a job with links or GPUs ends, so that a slice or enough GPUs below one leaf become free"
        shares = () if fact.placement else ("network: {isolation: none} in its job file: it would share links",)
        return text, ends, *(f"headway nodes resume {name}" for name in fact.drained[:1]), *shares
    if fact.own:
        ends = "; ".join(f"{leaf} to {listed(switches)}" for leaf, switches in fact.own)
        count = sum(len(switches) for _, switches in fact.own)
        return (f"it has {counted(count, 'link')} of its own ({ends}), because {why}",)
    if len(fact.leaves) == 1:
        return (f"its GPUs are all below {fact.leaves[0]}: it needs no link above it",)
    alone = "no links were free for it alone when it started, and it did not ask to wait for them"
    return (f"it shares links of {listed(fact.leaves)}: {alone} (network: {{isolation: vclos}})",)
