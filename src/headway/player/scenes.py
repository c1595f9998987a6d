"""The API responses for one time of a run, in the same form as a manager's."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from headway.client.job import JobView
from headway.core.events import NAMES, NOT_WAITING, REASONS
from headway.job_state import JobState
from headway.live.queries.answers import Brief, GpuNode, Level, Overview, QueuePage, Recording, Story, Trend
from headway.live.queries.explain.explain import Explanation
from headway.live.queries.overview import FIRST_WAITING, MOST_NAMES, QueueWanted
from headway.live.queries.story import tell
from headway.player.film import Frame
from headway.sim.results.timeline import mean_in_bins

ON_GPUS = (JobState.STARTING, JobState.RUNNING, JobState.STOPPING)


def brief(frame: Frame, j: int, reason: str = "") -> Brief:
    """One job."""
    film, load = frame.film, frame.film.run.workload
    starts = [float(film.held.running_s[row]) for row in film.holds_of(j) if film.held.start_s[row] <= frame.time]
    return Brief(
        *(j + 1, film.name(j), str(load.user[j]), JobState(int(frame.states[j])).name, int(film.run.jobs["asked"][j])),
        *(str(load.queue[j]), int(frame.levels(np.array([j]))[0]), float(frame.service[j]), reason),
        *(float(film.submit[j]), min(starts[-1], frame.time) if starts else None),
        *(int(frame.attempts[j]), int(frame.stops[j])),
    )


def waiting_briefs(frame: Frame, first: int, last: int) -> tuple[Brief, ...]:
    """Part of the waiting jobs, by level and submission. They have no positions: the policy's own order is not in a journal."""
    jobs = frame.waiting[first:last]
    reasons = frame.film.reasons(jobs, frame.time, frame.attempts[jobs] > 0)
    pairs = zip(jobs.tolist(), reasons, strict=True)
    return tuple(brief(frame, j, why) for j, why in pairs)


def overview(frame: Frame) -> Overview:
    """Everything that the first page shows."""
    film, run = frame.film, frame.film.run
    counts = dict.fromkeys((state.name for state in JobState if state is not JobState.FUTURE), 0)
    counts |= {
        JobState(int(s)).name: int(n) for s, n in zip(*np.unique(frame.states, return_counts=True), strict=True) if s
    }
    waits = frame.waiting
    reasons = Counter(film.reasons(waits, frame.time, frame.attempts[waits] > 0))
    never = waits[frame.attempts[waits] == 0]
    return Overview(
        now=frame.time,
        last_event=0,
        policy=run.policy.name,
        placement=run.placement.name,
        cluster=run.cluster.name,
        trouble="",
        gpus=run.cluster.total,
        gpus_busy=sum(map(bool, frame.holders)),
        counts=counts,
        nodes=gpu_nodes(frame),
        jobs=tuple(brief(frame, j) for j in sorted(set(film.held.job[frame.on].tolist()))),
        waiting=waiting_briefs(frame, 0, FIRST_WAITING),
        reasons=dict(reasons.most_common()),
        longest_wait_s=float((frame.time - film.submit[never]).max(initial=0.0)),
        recording=Recording(
            film.first, film.last, f"{run.workload.name} on {run.cluster.name} under {run.policy.name}"
        ),
    )


def gpu_nodes(frame: Frame) -> tuple[GpuNode, ...]:
    """Every node, with the jobs on each of its GPUs."""
    cluster, base, nodes = frame.film.run.cluster, 0, []
    for name, size in zip(cluster.nodes, cluster.gpus, strict=True):
        here = tuple(tuple(j + 1 for j in holders) for holders in frame.holders[base : base + size])
        nodes.append(GpuNode(name, "open", here))
        base += size
    return tuple(nodes)


def trend(frame: Frame, steps: int) -> Trend:
    """From the start of the run to this moment."""
    film, held = frame.film, frame.film.held
    last = max(frame.time, film.first + 1e-3 * (film.last - film.first) + 1e-6)
    edges = np.linspace(film.first, last, steps + 1)
    times = np.concatenate([held.start_s, held.end_s])
    busy = mean_in_bins(times, np.concatenate([held.gpus, -held.gpus]), edges)
    running = mean_in_bins(times, np.repeat([1, -1], len(held)), edges)
    there = mean_in_bins(np.concatenate([film.submit, film.end]), np.repeat([1, -1], film.jobs), edges)
    done = np.histogram(film.end[film.end <= frame.time], edges)[0]
    zero = np.zeros(steps, np.int64)
    columns = (
        np.clip(busy / film.run.cluster.total, 0, 1).round(4),
        running.round(3),
        np.clip(there - running, 0, None).round(3),
    )
    return Trend(film.first, last, (last - film.first) / steps, *(tuple(c.tolist()) for c in (*columns, done, zero)))


def queue_page(frame: Frame, wanted: QueueWanted) -> QueuePage:
    """Part of the queue."""
    film, load = frame.film, frame.film.run.workload
    place = {j: i for i, j in enumerate(frame.waiting.tolist(), 1)}
    with_gpus = sorted(set(film.held.job[frame.on].tolist()))
    every = [*with_gpus, *place]
    text = wanted.text.lower()

    def passes(j: int) -> bool:
        return (
            (wanted.user is None or str(load.user[j]) == wanted.user)
            and (wanted.queue is None or str(load.queue[j]) == wanted.queue)
            and (not wanted.states or JobState(int(frame.states[j])).name in wanted.states)
            and (not text or text in film.name(j).lower() or text in str(load.user[j]).lower() or text == str(j + 1))
        )

    chosen = [j for j in every if passes(j)]
    level = dict(zip(every, frame.levels(np.array(every, np.int64)).tolist(), strict=True))
    waits = frame.waiting
    why = dict(zip(waits.tolist(), film.reasons(waits, frame.time, frame.attempts[waits] > 0), strict=True))
    by: dict[str, Callable[[int], Any]] = {
        "order": lambda j: place.get(j, 0),
        "job_id": lambda j: j,
        "name": film.name,
        "user": lambda j: str(load.user[j]),
        "state": lambda j: JobState(int(frame.states[j])).name,
        "gpus": lambda j: int(film.run.jobs["asked"][j]),
        "queue": lambda j: str(load.queue[j]),
        "level": lambda j: level[j],
        "service": lambda j: float(frame.service[j]),
        "waited": lambda j: -float(film.submit[j]),
        "reason": lambda j: why.get(j, ""),
    }
    chosen.sort(key=lambda j: (by[wanted.sort](j), j), reverse=wanted.descending)
    part = chosen[wanted.offset : wanted.offset + wanted.limit]
    names = [sorted({str(name) for name in column[frame.active]})[:MOST_NAMES] for column in (load.user, load.queue)]
    rows = tuple(brief(frame, j, why.get(j, "")) for j in part)
    return QueuePage(
        frame.time, len(every), len(chosen), wanted.offset, rows, _levels(frame, level, place), *map(tuple, names)
    )


def _levels(frame: Frame, level: dict[int, int], waits: dict[int, int]) -> tuple[Level, ...]:
    """The priority queues of the policy."""
    running, waiting = Counter[int](), Counter[int]()
    for j, each in level.items():
        (waiting if j in waits else running)[each] += 1
    bounds, low, levels = [*frame.film.run.policy.thresholds, None], 0.0, []
    for each, high in enumerate(bounds):
        levels.append(Level(each, low, high, running[each], waiting[each]))
        low = high or 0.0
    return tuple(levels)


# ---- one job


def job_view(frame: Frame, j: int) -> JobView:
    """One job as of this moment."""
    film, run = frame.film, frame.film.run
    one = brief(frame, j)
    over = film.end[j] <= frame.time
    now = [row for row in film.holds_of(j) if row in frame.on]
    nodes = (
        np.repeat(np.arange(len(run.cluster.nodes)), run.cluster.gpus)[frame.gpus_of(now[0])]
        if now
        else np.zeros(0, int)
    )
    began = [float(film.held.start_s[row]) for row in film.holds_of(j) if film.held.start_s[row] <= frame.time]
    return JobView(
        job_id=one.job_id,
        name=one.name,
        user=one.user,
        state=one.state,
        gpus=one.gpus,
        attempt=one.attempt,
        exit_code=None,
        submitted_at=one.submitted_at,
        started_at=one.started_at,
        ended_at=float(film.end[j]) if over else None,
        service_gpu_s=one.service_gpu_s,
        reason="",
        queue=one.queue,
        level=one.level,
        command="",
        nodes=tuple(run.cluster.nodes[node] for node in dict.fromkeys(nodes.tolist())),
        progress={},
        preemptions=one.preemptions,
        array_id=None,
        array_index=None,
        message="",
        first_started_at=began[0] if began else None,
    )


def explanation(frame: Frame, j: int) -> Explanation:
    """Why it waits now, and where its wait of the whole run went."""
    film = frame.film
    shown = JobState(int(frame.states[j])).name
    waits = frame.states[j] == JobState.PENDING
    reason = film.reasons(np.array([j]), frame.time, frame.attempts[[j]] > 0)[0] if waits else ""
    order = frame.waiting.tolist()
    ahead = order[: order.index(j)] if waits else []
    words = {
        JobState.FUTURE: "it has not been submitted yet",
        JobState.PENDING: f"it waits, with {len(ahead)} before it by level and submission",
        JobState.COMPLETED: "it has ended",
    }
    message = f"{words.get(JobState(int(frame.states[j])), 'it has GPUs')}. The receipt is that of the whole run"
    spent = film.run.receipts_us[j].tolist()
    parts = {REASONS[code]: int(us) for code, us in enumerate(spent) if us and code != NOT_WAITING}
    numbers = {"jobs_ahead": float(len(ahead)), "gpus_asked": float(film.run.jobs["asked"][j])}
    first = tuple(each + 1 for each in ahead[:FIRST_WAITING])
    return Explanation(j + 1, shown, reason, message, numbers, first, (), sum(parts.values()), parts)


def story(frame: Frame, j: int) -> Story:
    """Its life up to this moment."""
    film, cluster = frame.film, frame.film.run.cluster
    node_of = np.repeat(np.arange(len(cluster.nodes)), cluster.gpus)
    base = np.cumsum((0, *cluster.gpus))
    starts = {float(film.held.start_s[row]): row for row in film.holds_of(j)}
    rows = []
    for number in film.rows_of(j, frame.time).tolist():
        row = film.entries[number]
        name, data = NAMES[int(row["kind"])], dict[str, Any]()
        if name in ("Start", "Pack") and float(row["time"]) in starts:
            nodes = Counter(node_of[frame.gpus_of(starts[float(row["time"])])].tolist())
            data = {"places": list(nodes.items()), "links": film.links_of(number)}
        elif name == "Notify":
            data = film.notice_in(number)
        elif name == "Ended":
            data = {"state": JobState.COMPLETED.name}
        rows.append((float(row["time"]), name, int(row["attempt"]), data))
    phases, marks = tell(rows, float(film.submit[j]), cluster.nodes)
    now = [row for row in film.holds_of(j) if row in frame.on]
    gpus = frame.gpus_of(now[0]).tolist() if now else []
    named = tuple(f"{cluster.nodes[node_of[gpu]]}:{gpu - base[node_of[gpu]]}" for gpu in gpus)
    return Story(j + 1, frame.time, phases, marks, named)
