"""The API responses for one time of a run, in the same form as a manager's."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from headway.client.job import JobQuery, JobView
from headway.core.events import NAMES
from headway.core.receipts import by_reason
from headway.job_state import JobState
from headway.live.queries.answers import GpuNode, Overview, QueuePage, Recording, Story, Trend
from headway.live.queries.explain.explain import Explanation
from headway.live.queries.lists.listed import levels, page
from headway.live.queries.lists.selection import Columns, select
from headway.live.queries.overview import FIRST_WAITING
from headway.live.queries.story import tell
from headway.player.film import FilmFrame
from headway.sim.results.timeline import mean_in_bins


def overview(frame: FilmFrame) -> Overview:
    """Everything that the first page shows."""
    film, run = frame.film, frame.film.run
    counts = dict.fromkeys((state.name for state in JobState if state is not JobState.FUTURE), 0)
    counts |= {
        JobState(int(s)).name: int(n) for s, n in zip(*np.unique(frame.states, return_counts=True), strict=True) if s
    }
    waits = frame.waiting
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
        jobs=job_views(frame, frame.on_gpus),
        waiting=job_views(frame, waits[:FIRST_WAITING].tolist()),
        reasons=dict(Counter(frame.waits_for.values()).most_common()),
        longest_wait_s=float((frame.time - film.submit[never]).max(initial=0.0)),
        recording=Recording(
            film.first, film.last, f"{run.workload.name} on {run.cluster.name} under {run.policy.name}"
        ),
    )


def gpu_nodes(frame: FilmFrame) -> tuple[GpuNode, ...]:
    """Every node, with the jobs on each of its GPUs."""
    cluster, base, nodes = frame.film.run.cluster, 0, []
    for name, size in zip(cluster.nodes, cluster.gpus, strict=True):
        here = tuple(tuple(j + 1 for j in holders) for holders in frame.holders[base : base + size])
        nodes.append(GpuNode(name, "open", here))
        base += size
    return tuple(nodes)


def trend(frame: FilmFrame, steps: int) -> Trend:
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


def columns(frame: FilmFrame, jobs: Sequence[int]) -> Columns:
    """Return what queries choose and sort these jobs by."""
    film, load = frame.film, frame.film.run.workload
    place = {j: i for i, j in enumerate(frame.waiting.tolist(), 1)}
    level = dict(zip(jobs, frame.levels(np.array(jobs, np.int64)).tolist(), strict=True))
    return {
        "job_id": lambda j: j + 1,
        "name": film.name,
        "names": lambda j: (j + 1, film.name(j), str(load.user[j])),
        "user": lambda j: str(load.user[j]),
        "state": lambda j: JobState(int(frame.states[j])).name,
        "gpus": lambda j: int(film.run.jobs["asked"][j]),
        "queue": lambda j: str(load.queue[j]),
        "order": lambda j: place.get(j, 0),
        "level": lambda j: level[j],
        "service": lambda j: float(frame.service[j]),
        "waited": lambda j: -float(film.submit[j]),
        "reason": lambda j: frame.waits_for.get(j, ""),
    }


def queue_page(frame: FilmFrame, query: JobQuery) -> QueuePage:
    """Part of the queue. Its jobs have no positions: the policy's own order is not in a journal."""
    jobs = frame.active.tolist()
    values = columns(frame, jobs)
    queue_levels = levels(
        [*frame.film.run.policy.thresholds, np.inf], ((values["level"](j), j in frame.hold_of) for j in jobs)
    )
    return page(frame.time, jobs, values, query, lambda part: job_views(frame, part), queue_levels)


# ---- jobs


def ended(frame: FilmFrame, query: JobQuery) -> list[JobView]:
    """Return jobs that have ended."""
    jobs = frame.ended.tolist()
    return list(job_views(frame, list(islice(select(query, jobs, columns(frame, jobs)), query.limit))))


def job_views(frame: FilmFrame, jobs: Sequence[int]) -> tuple[JobView, ...]:
    """Return jobs as of this moment."""
    levels_of = frame.levels(np.array(jobs, np.int64)).tolist()
    return tuple(job_view(frame, j, level) for j, level in zip(jobs, levels_of, strict=True))


def job_view(frame: FilmFrame, j: int, level: int) -> JobView:
    """Return one job as of this moment; `level` is its priority queue."""
    film, run, load = frame.film, frame.film.run, frame.film.run.workload
    began = [row for row in film.holds_of(j) if film.held.start_s[row] <= frame.time]
    hold = frame.hold_of.get(j)
    nodes = [] if hold is None else film.node_of[frame.gpus_of(hold)].tolist()
    return JobView(
        job_id=j + 1,
        name=film.name(j),
        user=str(load.user[j]),
        state=JobState(int(frame.states[j])).name,
        gpus=int(run.jobs["asked"][j]),
        queue=str(load.queue[j]),
        submitted_at=float(film.submit[j]),
        started_at=min(float(film.held.running_s[began[-1]]), frame.time) if began else None,
        preemptions=int(frame.stops[j]),
        attempt=int(frame.attempts[j]),
        ended_at=float(film.end[j]) if film.end[j] <= frame.time else None,
        service_gpu_s=float(frame.service[j]),
        reason=frame.waits_for.get(j, ""),
        level=level,
        nodes=tuple(run.cluster.nodes[node] for node in dict.fromkeys(nodes)),
        first_started_at=float(film.held.start_s[began[0]]) if began else None,
    )


def explanation(frame: FilmFrame, j: int) -> Explanation:
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
    parts = by_reason(spent)
    numbers = {"jobs_ahead": float(len(ahead)), "gpus_asked": float(film.run.jobs["asked"][j])}
    first = tuple(each + 1 for each in ahead[:FIRST_WAITING])
    return Explanation(j + 1, shown, reason, message, numbers, first, (), sum(parts.values()), parts)


def story(frame: FilmFrame, j: int) -> Story:
    """Its life up to this moment."""
    film, cluster = frame.film, frame.film.run.cluster
    node_of = film.node_of
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
    gpus = frame.gpus_of(frame.hold_of[j]).tolist() if j in frame.hold_of else []
    named = tuple(f"{cluster.nodes[node_of[gpu]]}:{gpu - base[node_of[gpu]]}" for gpu in gpus)
    return Story(j + 1, frame.time, phases, marks, named)
