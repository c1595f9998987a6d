"""Rebuild the tables for another set of nodes: between two managers, GPUs may have been added or removed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.tables.state import State, any_node, fewest_by_demand, new_state
from headway.core.tables.teams import CLUSTER
from headway.job_state import JobState

GONE = -1


def on_other_nodes(state: State, gpus_per_node: NDArray[Any], moved: NDArray[np.int64]) -> State:
    """The state on these nodes. `moved` has the new number of every GPU, or GONE; only jobs that are stopping may hold GPUs that are.

    Nothing may be promised, because a promise names places. There are as many classes as before at least: a job may have become too large
    for the cluster, which its world then holds back. Which nodes suit a demand is to be set anew: until then, all do.
    """
    old_total, slots = len(moved), len(state.seats) // len(moved)
    new = _of_teams(new_state(len(state.jobs), gpus_per_node, slots=slots), state.teams, len(state.suits))
    total, counts = int(np.sum(gpus_per_node)), state.counts.copy()
    if len(state.classes) >= len(new.classes):
        new = new._replace(classes=state.classes, spent=state.spent)
    else:
        new.classes[: len(state.classes)], new.spent[: len(state.spent)] = state.classes, state.spent
    for name in ("jobs", "receipts", "timers"):
        getattr(new, name)[:] = getattr(state, name)
    running = int(counts["running"][0])
    new.run[:running] = state.run[:running]
    for j in np.nonzero(state.jobs["seat"] >= 0)[0]:
        left = [(int(moved[seat % old_total]), seat // old_total) for seat in _held(state, int(j))]
        _sit(new, int(j), [gpu + total * slot for gpu, slot in left if gpu != GONE])
    held = (new.seats["holder"].reshape(slots, total) >= 0).any(axis=0)
    taken = np.bincount(new.seats["node"][:total][held], minlength=len(new.nodes))
    new.nodes["free"] = new.nodes["gpus"] - taken
    counts["free_gpus"] = total - held.sum()
    new.counts[:] = counts
    return new._replace(bad_pairs=state.bad_pairs)


def _of_teams(new: State, teams: NDArray[Any], demands: int) -> State:
    """The new state with classes for as many teams and demands, and the teams as they are; the cluster is as large as it is now."""
    new_teams = teams.copy()
    new_teams["guarantee"][CLUSTER] = new.teams["guarantee"][CLUSTER]
    times, suits = len(new_teams) * demands, np.repeat(any_node(len(new.nodes)), demands, axis=0)
    classes, spent = np.repeat(new.classes, times), np.repeat(new.spent, times, axis=0)
    per_node = np.zeros(demands, np.int32)
    fewest = fewest_by_demand(new.nodes["gpus"], suits, per_node, int(new.nodes["gpus"].sum()))
    return new._replace(teams=new_teams, classes=classes, spent=spent, suits=suits, per_node=per_node, fewest=fewest)


def _held(state: State, j: int) -> list[int]:
    """The seats of a job, the one taken last first."""
    seats, seat = [], int(state.jobs["seat"][j])
    while seat >= 0:
        seats.append(seat)
        seat = int(state.seats["next"][seat])
    return seats


def _sit(new: State, j: int, seats: list[int]) -> None:
    """Seat a job; what it frees when it has stopped is counted anew."""
    job = new.jobs[j]
    job["seat"] = seats[0] if seats else -1
    for seat, following in zip(seats, [*seats, -1][1:], strict=True):
        new.seats["holder"][seat], new.seats["next"][seat] = j, following
        if job["state"] == JobState.STOPPING and job["freeing"]:
            new.nodes["stopping"][new.seats["node"][seat]] += 1
