"""Nodes that are kept for a team for a time: who may start there before, who has to go when it begins, and when to look again.

A job of another team starts there only if it is sure to be gone by then: at the end of its time limit or, if it can be stopped, after a
whole turn. Those who are still there when it begins and can be stopped are.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.deciding.teams import is_below, is_firm
from headway.core.keys import turn
from headway.core.tables.jobs import run_s
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State


@jit
def open_bookings(state: State, scratch: Scratch, now: float) -> None:
    """Note for each node whom it is kept for now or next, and when that changes."""
    walk = scratch.walk[0]
    walk.booked_at = np.inf
    for x in range(len(scratch.nodes)):
        scratch.nodes[x].kept_for = -1
    for i in range(len(state.bookings)):
        booking = state.bookings[i]
        room = scratch.nodes[booking.node]
        if booking.begin > now:
            walk.booked_at = min(walk.booked_at, booking.begin)
        elif booking.end > now:
            walk.booked_at = min(walk.booked_at, booking.end)
        if booking.end > now and room.kept_for < 0:
            room.kept_for = booking.team
            room.kept_from = booking.begin


@jit
def may_use(state: State, options: Options, scratch: Scratch, job: Any, node: int) -> bool:
    """Whether a job that starts now on a node is of the team that it is kept for, or gone by then."""
    room, now = scratch.nodes[node], scratch.walk[0].now
    if room.kept_for < 0 or is_below(state, job.team, room.kept_for):
        return True
    runs = now + (job.resume if job.attempt > 0 else 0.0)
    stays = max(0.0, min(job.limit, options.limit) - run_s(job, now))
    if not is_firm(job, options):
        stays = min(stays, turn(job, options))
    return room.kept_from > now and runs + stays <= room.kept_from


@jit
def sits_in_the_way(state: State, scratch: Scratch, job: Any) -> bool:
    """Whether a job holds GPUs of a node that is kept for another team by now."""
    seat = job.seat
    while seat >= 0:
        room = scratch.nodes[state.seats[seat].node]
        if (
            room.kept_for >= 0
            and room.kept_from <= scratch.walk[0].now
            and not is_below(state, job.team, room.kept_for)
        ):
            return True
        seat = state.seats[seat].next
    return False
