"""Whether it is worth stopping some jobs for another, and if not yet, when: the policy's answer, about what would be stopped."""

from typing import Any, NamedTuple

import numpy as np

from headway.core.compiler.jit import jit
from headway.core.order import key_now
from headway.core.tables.options import Options
from headway.core.tables.scratch import Scratch
from headway.core.tables.state import State


class Rules(NamedTuple):
    """The functions that a decision asks: the policy's, and the placement's."""

    key: Any
    worth: Any
    place: Any


@jit
def clear_stops(scratch: Scratch) -> None:
    """Nobody is thought to stop."""
    stops = scratch.stops[0]
    stops.jobs, stops.moves, stops.gpus = 0, 0, 0
    stops.gpu_s, stops.save = 0.0, 0.0
    stops.k1, stops.k2 = np.inf, np.inf


@jit
def add_stop(options: Options, scratch: Scratch, job: Any, gpus: int) -> None:
    """Count a job among those that would be stopped, which frees so many GPUs."""
    stops, (k1, k2) = scratch.stops[0], key_now(options, scratch, job)
    stops.jobs += 1
    stops.gpus += gpus
    stops.gpu_s += float(job.gpus * (job.save + job.resume))
    stops.save = max(stops.save, job.save)
    if k1 < stops.k1 or (k1 == stops.k1 and k2 < stops.k2):
        stops.k1, stops.k2 = k1, k2


@jit
def worth_at(options: Options, worth: Any, scratch: Scratch, job: Any) -> float:
    """When it is worth stopping those that were counted for a waiting job; a time that is over: now."""
    at = worth(job, scratch.stops[0], scratch.walk[0].now, options)
    if np.isnan(at):
        raise ValueError(
            "the policy's worth(job, stops, now, options) must return a time, or infinity, and returned NaN"
        )
    return at


@jit
def chosen_worth_at(state: State, options: Options, worth: Any, scratch: Scratch, job: Any, moved: int) -> float:
    """The same of the chosen jobs, the first `moved` of which are moved; at once, where nobody weighs that."""
    if not options.weighs:
        return scratch.walk[0].now
    clear_stops(scratch)
    for i in range(scratch.walk[0].chosen):
        victim = state.jobs[scratch.chosen[i]]
        add_stop(options, scratch, victim, victim.gpus)
        if victim.partner >= 0:
            add_stop(options, scratch, state.jobs[victim.partner], 0)
    scratch.stops[0].moves = moved
    return worth_at(options, worth, scratch, job)
