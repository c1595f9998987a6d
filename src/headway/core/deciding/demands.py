"""Jobs that ask for some of the nodes, by the type of their GPUs or by features: which suit them, and whom they hold up.

A demand is a row of the table `suits`; row 0 is that of jobs to which every node suits. Jobs of two demands are of two classes.
"""

from typing import Any

from headway.core.compiler.jit import jit
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State


@jit
def suits_job(state: State, job: Any, node: int) -> bool:
    """Whether a node has what the job asks for."""
    return job.demand == 0 or state.suits[job.demand, node] != 0


@jit
def gpus_for(state: State, job: Any, other: Any) -> int:
    """GPUs that another job holds on nodes that suit this one."""
    if job.demand == 0:
        return int(other.gpus)
    gpus, seat = 0, other.seat
    while seat >= 0:
        gpus += suits_job(state, job, state.seats[seat].node)
        seat = state.seats[seat].next
    return gpus


@jit
def sits_well(state: State, job: Any, other: Any) -> bool:
    """Whether all nodes of another job suit this one."""
    return gpus_for(state, job, other) == other.gpus


@jit
def room_for(state: State, scratch: Scratch, demand: int) -> tuple[int, int, int]:
    """GPUs that are free, that are free soon, and all there are, on open nodes that suit a demand."""
    free, soon, gpus = 0, 0, 0
    for x in range(len(state.nodes)):
        room = scratch.nodes[x]
        if not state.nodes[x].closed and (demand == 0 or state.suits[demand, x] != 0):
            free += room.now
            soon += room.soon
            gpus += state.nodes[x].gpus
    return free, soon, gpus


@jit
def hold_up(state: State, scratch: Scratch, job: Any) -> None:
    """Where no job may be passed, one that waits holds up those behind it which some of its nodes suit."""
    for x in range(len(state.nodes)):
        if suits_job(state, job, x):
            scratch.nodes[x].held_up = scratch.walk[0].decision


@jit
def is_held_up(state: State, scratch: Scratch, job: Any) -> bool:
    """Whether a job before it waits for one of the nodes that suit it."""
    found, decision = False, scratch.walk[0].decision
    for x in range(len(state.nodes)):
        found |= scratch.nodes[x].held_up == decision and suits_job(state, job, x)
    return found
