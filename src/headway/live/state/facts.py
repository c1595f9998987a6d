"""Facts and actions as data of journal rows, and back. Rows name teams and constraints: their numbers change between managers."""

import math
from typing import Any

import numpy as np

from headway.core import events
from headway.core.classes import join_class, split_class
from headway.core.engine import Cause, EngineAction, Event, PreemptionRetry, Recorded
from headway.core.events import NO_JOB
from headway.core.tables.teams import CLUSTER
from headway.live.rows import ENGINE_KINDS, UNTIL
from headway.live.state.cluster import ClusterState
from headway.live.state.records import JournalRow


def data_of(state: ClusterState, fact: Recorded) -> dict[str, Any]:
    """Return the data of the row of a fact or an action."""
    match fact:
        case Cause():
            return {**_class(state, fact.group), "why": events.REASONS[fact.why]}
        case PreemptionRetry():
            return {UNTIL: _finite(fact.at)}
        case EngineAction(kind=events.NOTIFY):
            teams = [(state.teams.label(team), gpus) for team, gpus in fact.places if team > CLUSTER]
            return {UNTIL: _finite(fact.until), **({"team": teams[0][0], "gpus": teams[0][1]} if teams else {})}
        case EngineAction():
            places = {"places": fact.places} if fact.places else {}
            links = {"links": fact.links} if fact.links else {}
            return places | links | ({UNTIL: fact.until} if math.isfinite(fact.until) else {})
    return {}


def _class(state: ClusterState, number: int) -> dict[str, Any]:
    kind, team, demand = split_class(number, state.engine.options)
    named_demand = {"demand": state.demands.label(demand)} if demand else {}
    return {"class": kind, **({"team": state.teams.label(team)} if state.teams else {}), **named_demand}


def fact_in(state: ClusterState, row: JournalRow) -> Recorded | None:
    """Return the fact or action of a row; None if its team or constraints are gone. Job 0 of the journal is -1 in the engine."""
    kind, j = ENGINE_KINDS[row.kind], state.jobs[row.job].row if row.job else NO_JOB
    if kind == events.EXPLAINED:
        team = state.teams.row_named(row.data["team"]) if "team" in row.data else None if state.teams else CLUSTER
        demand = state.demands.row_named(row.data["demand"]) if "demand" in row.data else 0
        if team is None or demand is None:
            return None
        group = join_class(int(row.data["class"]), team, demand, state.engine.options)
        return Cause(group, events.REASONS.index(row.data["why"]))
    if kind == events.DEFERRED:
        return PreemptionRetry(_or_infinity(row.data[UNTIL]))
    if kind == events.NOTIFY:
        team = state.teams.row_named(row.data["team"]) if "team" in row.data else None
        receiver = () if team is None else ((team, int(row.data["gpus"])),)
        return EngineAction(kind, j, receiver, until=_or_infinity(row.data[UNTIL]))
    if "places" not in row.data:
        return Event(kind, j)
    pairs = {name: tuple((int(a), int(b)) for a, b in row.data.get(name, ())) for name in ("places", "links")}
    return EngineAction(kind, j, pairs["places"], pairs["links"], float(row.data.get(UNTIL, -np.inf)))


def _finite(at: float) -> float | None:
    return at if at < math.inf else None


def _or_infinity(at: float | None) -> float:
    return math.inf if at is None else float(at)
