"""The ledger: which job holds which GPUs and links, and what teams use. A job's GPUs and links are allocated and released together.

A GPU offers slots: one, or two where a policy packs jobs. "Held twice" means a seat (a slot of a GPU) held twice. Links are bits: a leaf's
word has a bit for each spine, set while the link between them is free. Isolation is reserving links. What teams use is counted as jobs
start, stop, wait and end, with a decaying account of GPU time.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.keys import usage_at
from headway.core.tables.options import Options
from headway.core.tables.state import State
from headway.core.tables.teams import CLUSTER, NO_TEAMS
from headway.job_state import JobState


@jit
def gpu_count(state: State) -> int:
    """GPUs of the cluster."""
    last = state.nodes[len(state.nodes) - 1]
    return last.base + last.gpus


@jit
def take_gpus(state: State, job: Any, node: int, count: int) -> None:
    """Give the job the `count` lowest-numbered whole free GPUs of a node."""
    home = state.nodes[node]
    for gpu in range(home.base, home.base + home.gpus):
        if count == 0:
            break
        if _empty(state, gpu):
            _sit(state, job, gpu)
            home.free -= 1
            state.counts[0].free_gpus -= 1
            count -= 1
    assert count == 0


@jit
def join_gpus(state: State, job: Any, partner: Any) -> None:
    """Put the job on the second slot of every GPU that `partner` holds."""
    gpus, seat = gpu_count(state), partner.seat
    while seat >= 0:
        other = seat + gpus if seat < gpus else seat - gpus
        assert state.seats[other].holder < 0
        _sit(state, job, other)
        seat = state.seats[seat].next


@jit
def _sit(state: State, job: Any, seat: int) -> None:
    state.seats[seat].holder = job.row
    state.seats[seat].next = job.seat
    job.seat = seat


@jit
def _empty(state: State, gpu: int) -> bool:
    if len(state.seats) == gpu_count(state):
        return state.seats[gpu].holder < 0
    return state.seats[gpu].holder < 0 and state.seats[gpu + gpu_count(state)].holder < 0


@jit
def give_gpus(state: State, job: Any) -> None:
    """Free all seats of a job; a GPU is free when all its slots are."""
    gpus, seat = gpu_count(state), job.seat
    while seat >= 0:
        row = state.seats[seat]
        row.holder = -1
        if _empty(state, seat % gpus):
            state.nodes[row.node].free += 1
            state.counts[0].free_gpus += 1
        seat = row.next
    job.seat = -1


@jit
def take_links(state: State, job: Any, leaf: int, mask: Any) -> None:
    """Reserve links of a leaf for the job; each must be free."""
    assert state.leaves[leaf].free & mask == mask
    state.leaves[leaf].free ^= mask
    entry = state.counts[0].spare_link
    row = state.held_links[entry]
    state.counts[0].spare_link = row.next
    row.leaf = leaf
    row.mask = mask
    row.next = job.link
    job.link = entry


@jit
def give_links(state: State, job: Any) -> None:
    """Free all links of a job."""
    entry = job.link
    while entry >= 0:
        row = state.held_links[entry]
        following = row.next
        state.leaves[row.leaf].free |= row.mask
        row.next = state.counts[0].spare_link
        state.counts[0].spare_link = entry
        entry = following
    job.link = -1


@jit
def holds_links(state: State, job: Any, leaf: int, mask: Any) -> bool:
    """Whether the job holds one of these links."""
    entry, found = job.link, False
    while entry >= 0:
        found |= state.held_links[entry].leaf == leaf and state.held_links[entry].mask & mask != 0
        entry = state.held_links[entry].next
    return found


@jit
def withdraw_links(state: State, leaf: int, mask: Any) -> None:
    """Links that failed belong to nobody any more: they are not free, and no holder gives them back."""
    state.leaves[leaf].free &= ~mask
    state.leaves[leaf].stopping &= ~mask
    for entry in range(len(state.held_links)):
        if state.held_links[entry].leaf == leaf:
            state.held_links[entry].mask &= ~mask


@jit
def begin_stopping(state: State, job: Any) -> None:
    """Count what the job holds among what is free soon; GPUs that it shares are, once both jobs stop."""
    state.counts[0].stopping += 1
    job.freeing = 0
    if job.partner < 0 or state.jobs[job.partner].state == JobState.STOPPING:
        count_freeing(state, job)


@jit
def count_freeing(state: State, job: Any) -> None:
    """Count what a stopping job holds among what is free soon, if it is not yet."""
    if job.state == JobState.STOPPING and not job.freeing:
        job.freeing = 1
        _count_stopping(state, job, 1)


@jit
def end_stopping(state: State, job: Any) -> None:
    """Take back what `begin_stopping` counted; the job still holds it."""
    state.counts[0].stopping -= 1
    if job.freeing:
        _count_stopping(state, job, -1)
    job.freeing = 0


@jit
def _count_stopping(state: State, job: Any, sign: int) -> None:
    seat = job.seat
    while seat >= 0:
        state.nodes[state.seats[seat].node].stopping += sign
        seat = state.seats[seat].next
    entry = job.link
    while entry >= 0:
        state.leaves[state.held_links[entry].leaf].stopping ^= state.held_links[entry].mask
        entry = state.held_links[entry].next


@jit
def nodes_held(state: State, job: Any) -> int:
    """On how many nodes the job has GPUs. Seats of one node follow each other in the chain."""
    n, last, seat = 0, -1, job.seat
    while seat >= 0:
        if state.seats[seat].node != last:
            n, last = n + 1, state.seats[seat].node
        seat = state.seats[seat].next
    return n


# ---- what teams use


@jit
def count_in_teams(state: State, options: Options, job: Any, sign: int, now: float) -> None:
    """Count a job in the state it is in (sign 1), or no longer (-1), in its team and all teams above; without queues nothing is."""
    t = job.team if options.teams > NO_TEAMS else -1
    while t >= CLUSTER:
        team = state.teams[t]
        if job.state == JobState.RUNNING or job.state == JobState.STARTING:
            _settle(team, options, now)
            team.used += sign * job.gpus
            team.running += sign
        elif job.state == JobState.STOPPING:
            _settle(team, options, now)
            team.leaving += sign * job.gpus
            team.stopping += sign
        elif job.state == JobState.PENDING or job.state == JobState.HELD:
            team.waiting += sign
        t = team.parent


@jit
def _settle(team: Any, options: Options, now: float) -> None:
    """Bring the GPU-seconds of a team up to now."""
    held, elapsed = team.used + team.leaving, now - team.since
    team.usage = usage_at(team, now, options.half_life)
    team.gpu_s += elapsed * held
    team.borrowed_gpu_s += elapsed * max(0, held - team.guarantee)
    team.since = now
