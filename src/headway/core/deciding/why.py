"""Why the jobs of each class wait, as the decision just made sees it. One reason holds for all jobs of a class."""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.deciding.offers import decided
from headway.core.deciding.teams import gives_way
from headway.core.events import (
    NOT_WAITING,
    WAIT_FRAGMENTATION,
    WAIT_GPUS,
    WAIT_ISOLATION,
    WAIT_MIN_RUNTIME,
    WAIT_NODE_DOWN,
)
from headway.core.keys import is_non_preemptible, keeps_gpus
from headway.core.order import rank_of
from headway.core.tables.scratch import Round
from headway.core.tables.teams import NO_TEAMS


@jit
def explain(r: Round) -> None:
    """Refine the reason of each class: nodes are down, minimum run times are not over, or free GPUs are scattered or not isolated."""
    walk, classes, any_kept, first, everywhere = r.scratch.walk[0], r.scratch.classes, False, True, (0, 0, 0)
    walk.explained = 1
    for i in range(r.state.counts[0].classes):
        c = r.state.classes[i].open
        # Without a reason, the class is behind a job that blocks others.
        if classes[c].rest >= 0 and (classes[c].why == NOT_WAITING or classes[c].why == WAIT_GPUS):
            if first:
                first, any_kept, everywhere = False, walk.preempting and _sum_preemptible(r), _gpus_for(r, 0)
            job = r.state.jobs[classes[c].rest]
            gpus = everywhere if job.demand == 0 else _gpus_for(r, job.demand)
            classes[c].why = _reason(r, job, r.state.classes[c].why, any_kept, gpus)


@jit
def _reason(r: Round, job: Any, recorded: int, any_kept: bool, gpus: tuple[int, int, int]) -> int:
    """Return why a job finds no GPUs; `recorded` is the reason recorded last, `gpus` are those free, free soon, and there at all."""
    walk, (free, soon, open_gpus) = r.scratch.walk[0], gpus
    if job.gpus > open_gpus:
        return WAIT_NODE_DOWN
    if any_kept and soon + _preemptible_for(r, job, job.gpus - soon) >= job.gpus:
        return WAIT_MIN_RUNTIME
    if not walk.preempting and recorded == WAIT_MIN_RUNTIME:
        return WAIT_MIN_RUNTIME  # nothing has happened to change that
    if job.gpus <= free and (not r.options.head_of_line_blocking or job.row == walk.first):
        return WAIT_ISOLATION if len(r.state.leaves) else WAIT_FRAGMENTATION
    return WAIT_GPUS


@jit
def _gpus_for(r: Round, demand: int) -> tuple[int, int, int]:
    """Return the GPUs that are free, free soon, and there for such jobs at all, on open nodes that are eligible."""
    free, soon, gpus, per_node, nodes = 0, 0, 0, r.state.per_node[demand], r.scratch.nodes
    for x in range(len(r.state.nodes)):
        if nodes.open[x] and r.state.suits[demand, x]:
            free += nodes.now[x]
            soon += max(0, nodes.soon[x])
            gpus += per_node if per_node > 0 else r.state.nodes[x].gpus
    return free, soon, gpus


@jit
def _sum_preemptible(r: Round) -> bool:
    """Sum up the GPUs of preemptible jobs from each place in the order on (`after`). Return whether a minimum run time is not over."""
    any_kept, n = False, r.state.counts[0].running
    r.scratch.after[n] = 0
    for i in range(n - 1, -1, -1):
        job = r.state.jobs[r.scratch.order[i]]
        counts = not is_non_preemptible(job, r.options) and decided(r, job.row) < 0
        any_kept |= counts and keeps_gpus(job, r.scratch.walk[0].now, r.options)
        r.scratch.after[i] = r.scratch.after[i + 1] + (job.gpus if counts else 0)
    return any_kept


@jit
def _preemptible_for(r: Round, job: Any, enough: int) -> int:
    """Return the GPUs of jobs that give way to a waiting one once their minimum run times are over, counted until they are enough."""
    rank, gpus = rank_of(r, job), 0
    if r.options.teams == NO_TEAMS and job.demand == 0:
        return int(r.scratch.after[rank])
    for i in range(rank, r.state.counts[0].running):
        other = r.state.jobs[r.scratch.order[i]]
        if is_non_preemptible(other, r.options) or decided(r, other.row) >= 0 or not gives_way(r, job, other):
            continue
        seat = other.seat
        while seat >= 0:
            gpus += r.state.suits[job.demand, r.state.seats[seat].node] != 0
            seat = r.state.seats[seat].next
        if gpus >= enough:
            break
    return gpus
