"""Named changes of the tables other than `record`: admit a job, close or open a node, grow a table.

A world never writes a column itself. Each change is a fact in the world's journal, so that a state can be rebuilt from it.
"""

from collections.abc import Mapping
from typing import Any, Final, TypedDict, Unpack

import numpy as np
from numba import typeof, types
from numpy.typing import ArrayLike, NDArray

from headway.core.classes import renumbered
from headway.core.compiler.jit import jit
from headway.core.events import REASONS, WAIT_GPUS
from headway.core.history import fit_thresholds
from headway.core.tables.groups import group_table
from headway.core.tables.jobs import job_table
from headway.core.tables.options import ServiceHistory, history
from headway.core.tables.state import CLASS, TIMER, State, fewest_by_demand
from headway.core.tables.teams import Team, fill, with_rows
from headway.job_state import JobState

NOBODY: Final = -1
OTHERS: Final = 2**31 - 1  # holds seats that jobs use which are not in these tables


class Known(TypedDict, total=False):
    """What may be known of a job beside its size: columns of the job table (core/tables/jobs.py)."""

    model: ArrayLike
    skew: ArrayLike
    slice_wait: ArrayLike
    whole_wait: ArrayLike
    left: ArrayLike  # for oracles only
    min_runtime: ArrayLike
    turns: ArrayLike
    save: ArrayLike
    resume: ArrayLike
    limit: ArrayLike
    team: ArrayLike  # its row in the table of teams
    demand: ArrayLike  # its row in the table of demands
    group: ArrayLike  # its row in the table of groups


def admit(state: State, rows: Any, *, submit: ArrayLike, gpus: ArrayLike, **known: Unpack[Known]) -> None:
    """Fill the rows (a number or a slice) of jobs that will be submitted; columns are values, or arrays of equal length."""
    jobs = state.jobs
    jobs["submit"][rows] = jobs["since"][rows] = submit
    jobs["asked"][rows] = jobs["gpus"][rows] = gpus
    for name, values in known.items():
        jobs[name][rows] = values
    fixed = state.per_node[jobs["demand"][rows]] > 0
    jobs["skew"][rows] = np.where(fixed, np.inf, jobs["skew"][rows])  # a job with fixed nodes is never spread


def readmit(state: State, j: int, row: Any, receipt: NDArray[np.float64]) -> None:
    """Fill the row of a job that is over and comes back, with what its row and its receipt were."""
    # These numbers may have changed since the job left.
    present = {name: int(state.jobs[name][j]) for name in ("row", "team", "demand", "group")}
    state.jobs[j], state.receipts[:, j] = row, receipt
    for name, value in present.items():
        state.jobs[name][j] = value


def close_node(state: State, node: int, now: float) -> None:
    """Start nothing more on a node; what runs there goes on."""
    _set_closed(state, node, 1, now)


def open_node(state: State, node: int, now: float) -> None:
    """Use a closed node again."""
    _set_closed(state, node, 0, now)


def _set_closed(state: State, node: int, closed: int, now: float) -> None:
    state.nodes["closed"][node] = closed
    state.counts["moment"] = now
    _count_fewest(state)


def withheld(state: State) -> NDArray[np.int64]:
    """GPUs of each node that others than these jobs use."""
    first_slots = state.seats["holder"][: int(state.nodes["gpus"].sum())]
    return np.add.reduceat(first_slots == OTHERS, state.nodes["base"], dtype=np.int64)


def set_withheld(state: State, gpus: Mapping[int, int], now: float) -> None:
    """Set how many GPUs of nodes others use: no job is seated on them. Free ones are taken, from the last on; there must be enough."""
    before, total = withheld(state), int(state.nodes["gpus"].sum())
    slots = state.seats["holder"].reshape(-1, total)
    for node, count in gpus.items():
        more, first = count - int(before[node]), int(state.nodes["base"][node])
        own = slice(first, first + int(state.nodes["gpus"][node]))
        fit = (slots[:, own] == NOBODY).all(axis=0) if more > 0 else slots[0, own] == OTHERS
        changed = np.nonzero(fit)[0][-abs(more) :][: abs(more)]
        assert len(changed) == abs(more)
        slots[0, own][changed] = OTHERS if more > 0 else NOBODY
        state.nodes["free"][node] -= more
        state.counts["free_gpus"] -= more
    state.counts["moment"] = now
    _count_fewest(state)


def _count_fewest(state: State) -> None:
    """The fewest nodes that hold so many GPUs are counted among those that take jobs; sizes that none can hold need them all."""
    total = state.fewest.shape[1] - 1
    gpus = np.where(state.nodes["closed"] == 0, state.nodes["gpus"] - withheld(state), 0)
    state.fewest[:] = fewest_by_demand(gpus, state.suits, state.per_node, total)


def set_bookings(state: State, bookings: NDArray[Any], now: float) -> State:
    """Set which nodes are kept for teams, and when."""
    state.counts["moment"] = now
    return state._replace(bookings=bookings)


def credit(state: State, j: int, seconds: float) -> None:
    """Count seconds that the job ran beyond those between its facts (or, below zero, did not run): facts may be learnt late."""
    job, gpu_s = state.jobs[j], seconds * float(state.jobs["gpus"][j])
    job["service"], job["total"], job["ran"] = job["service"] + gpu_s, job["total"] + gpu_s, job["ran"] + seconds
    job["done"], job["left"] = job["done"] + seconds * job["rate"], job["left"] - seconds * job["rate"]


def set_costs(state: State, j: int, save: float, resume: float) -> None:
    """Set what stopping the job and starting it again takes, as measured: its turns follow from it."""
    state.jobs["save"][j], state.jobs["resume"][j] = save, resume


def set_displaced(state: State, j: int, displaced: bool) -> None:
    """Set whether a job that is stopping makes room for another; it is taken to unless this says otherwise."""
    state.jobs["displaced"][j] = displaced


def set_hold(state: State, j: int, why: int, now: float) -> None:
    """Set why a job is kept from the engine: one of REASONS."""
    job = state.jobs[j]
    if job["state"] == JobState.HELD:
        state.receipts[job["held_for"], j] += now
        state.receipts[why, j] -= now
    state.jobs["held_for"][j] = why


def set_min_runtime(state: State, j: int, min_runtime: float) -> None:
    """Set how long an attempt of the job runs before it may be preempted; one that runs has a new timer once Crossed is recorded."""
    state.jobs["min_runtime"][j] = min_runtime


def set_left(state: State, j: int, left: float, now: float) -> None:
    """Set the seconds of work that a job reports to be left (NaN: not known); its key is another once Crossed is recorded."""
    job = state.jobs[j]
    elapsed = now - job["since"] if job["state"] == JobState.RUNNING else 0.0
    state.jobs["left"][j] = left + elapsed * job["rate"]


def set_limit(state: State, j: int, limit: float) -> None:
    """Set how many seconds a job runs at most in all."""
    state.jobs["limit"][j] = limit


def set_outcome(state: State, j: int, outcome: int) -> None:
    """Set how a job ended: completed (which `record` assumes), failed, cancelled or timed out."""
    state.jobs["state"][j] = outcome


def grow(state: State, room: int) -> State:
    """The same state with room for more jobs: the job table, the receipts and the timers have a row per job."""
    jobs, timers = job_table(room), np.zeros(2 * room + 16, TIMER)
    receipts = np.zeros((len(REASONS), room))
    jobs[: len(state.jobs)] = state.jobs
    timers[: len(state.timers)] = state.timers
    receipts[:, : len(state.jobs)] = state.receipts
    return state._replace(jobs=jobs, timers=timers, receipts=receipts)


def set_team(state: State, row: int, team: Team) -> State:
    """Make a row of the table of teams that has no job yet stand for a team. The table grows where it has to, and the classes with it."""
    if row >= len(state.teams):
        state = _grow_teams(state, 2 * row)
    fill(state.teams, row, team)
    return state


def _grow_teams(state: State, rows: int) -> State:
    """A class is a kind of job, a team and a demand: with more teams, each has another number."""
    return _renumbered(state, rows, len(state.suits))._replace(teams=with_rows(state.teams, rows))


def _renumbered(state: State, teams: int, demands: int) -> State:
    """The classes of a table with more teams or more demands."""
    before = (len(state.classes) // (len(state.teams) * len(state.suits)), len(state.teams), len(state.suits))
    after, old = (before[0], teams, demands), (slice(None), slice(before[1]), slice(before[2]))
    classes, spent = np.full(after, -1, CLASS), np.zeros((*after, len(REASONS)))
    classes["since"], classes["why"] = 0.0, WAIT_GPUS
    classes[old], spent[old] = state.classes.reshape(before), state.spent.reshape(*before, -1)
    flat, n = classes.reshape(-1), int(state.counts["classes"][0])
    flat["open"] = -1
    flat["open"][:n] = renumbered(state.classes["open"][:n], before, after)
    return state._replace(classes=flat, spent=spent.reshape(len(flat), -1))


def set_demand(state: State, row: int, suits: NDArray[np.bool_], per_node: int = 0) -> State:
    """Set the eligible nodes of a constraint and its GPUs per node (0: any). The row is unused or has the same meaning; the table grows."""
    if row >= len(state.suits):
        rows = 2 * row
        more = np.ones((rows - len(state.suits), len(state.nodes)), np.int8)
        state = _renumbered(state, len(state.teams), rows)._replace(suits=np.concatenate([state.suits, more]))
        each = np.concatenate([state.per_node, np.zeros(rows - len(state.per_node), np.int32)])
        state = state._replace(per_node=each, fewest=np.zeros((rows, state.fewest.shape[1]), np.int32))
    state.suits[row], state.per_node[row] = suits, per_node
    _count_fewest(state)
    return state


def grow_history(past: ServiceHistory, room: int) -> ServiceHistory:
    """The same history with room for a sample per job; a distribution from a file stays as it is."""
    if not past.counts["grows"][0] or len(past.samples) > room:
        return past
    more = history(None, room)
    more.samples[: len(past.samples)], more.curve[: len(past.curve)] = past.samples, past.curve
    more.counts[:] = past.counts
    return more._replace(groups=past.groups)


def grow_groups(past: ServiceHistory, rows: int) -> ServiceHistory:
    """The same history with room for more groups."""
    return past._replace(groups=group_table(rows, past.groups))


def refit_thresholds(past: ServiceHistory, thresholds: NDArray[np.float64]) -> None:
    """Fit thresholds to the samples that a history was fitted with."""
    _fit(past, thresholds)


@jit(types.void(typeof(history()), types.Array(types.float64, 1, "C")))
def _fit(past: ServiceHistory, thresholds: Any) -> None:
    fit_thresholds(past, thresholds)


def copied(tables: Any) -> Any:
    """A copy of a named tuple of tables (a state, a history) that shares nothing with it."""
    parts: list[NDArray[Any] | Any] = [
        part.copy() if isinstance(part, np.ndarray) else copied(part) if isinstance(part, tuple) else part
        for part in tables
    ]
    return type(tables)(*parts)
