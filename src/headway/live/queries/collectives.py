"""A collective plan as bars over time: what each dimension of the network sends when."""

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from headway.io.units import size_bytes
from headway.live.queries.apart import ask_apart

PS_PER_S = 1e12
MOST_BYTES = 1 << 50


@dataclass(frozen=True, slots=True)
class Bar:
    """One chunk on one dimension: reduce-scatter (rs) or all-gather (ag)."""

    dimension: int
    chunk: int
    phase: str
    start_s: float
    end_s: float
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Planned:
    """An all-reduce under one scheduler; no plan is quicker than `limit_s`."""

    scheduler: str
    chunks: int
    time_s: float
    limit_s: float
    utilisation: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class CollectivePlans:
    """The baseline, and the plan that was asked for; the dimensions of the network in words."""

    topology: str
    size_bytes: int
    dimensions: tuple[str, ...]
    plans: tuple[Planned, ...]


def plans(topology: str, size: str, scheduler: str, chunks: int) -> CollectivePlans:
    """Plan an all-reduce on a network that is named by a preset or written in shorthand; files are not read."""
    # A mistake is told at once.
    _network(topology)
    size_bytes(size)
    question = {"topology": topology, "size": size, "schedulers": ["baseline", scheduler], "chunks": chunks}
    return TypeAdapter(CollectivePlans).validate_json(ask_apart(__name__, question))


def _network(text: str) -> Any:
    from headway.collectives.topology.presets import preset
    from headway.collectives.topology.text import topology_from_shorthand

    return topology_from_shorthand(text) if ":" in text else preset(text)


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """The same in a process of its own."""
    from dataclasses import asdict

    from headway.collectives.schedulers import schedule

    network, size = _network(asked["topology"]), min(size_bytes(asked["size"]), MOST_BYTES)
    plans = []
    # Best chooses its number of chunks up to the one given; then so does what it is compared with.
    how = "most_chunks" if "best" in asked["schedulers"] else "chunks"
    for name in dict.fromkeys(asked["schedulers"]):
        outcome = schedule(network, size, scheduler=name, **{how: asked["chunks"]})
        bars = _bars(outcome)
        numbers = (outcome.time_s, outcome.limit.limit_s, outcome.utilisation)
        plans.append(Planned(outcome.method, len(outcome.plan.chunks), *numbers, bars))
    words = tuple(f"{one.kind} of {one.size}" for one in network.dimensions)
    return asdict(CollectivePlans(network.name, size, words, tuple(plans)))


def _bars(outcome: Any) -> tuple[Bar, ...]:
    line, first = outcome.timeline, outcome.plan.chunks[0]
    kinds = ["rs"] * len(first.rs) + ["ag"] * len(first.ag)
    bars = []
    for chunk in range(len(outcome.plan.chunks)):
        for place, kind in enumerate(kinds):
            end = int(line.finish_ps[chunk, place]) - int(line.latency_ps[chunk, place])
            start = end - int(line.occupy_ps[chunk, place])
            dim, sent = int(line.dims[chunk, place]), int(line.sent_bytes[chunk, place])
            bars.append(Bar(dim, chunk, kind, start / PS_PER_S, end / PS_PER_S, sent))
    return tuple(sorted(bars, key=lambda bar: (bar.dimension, bar.start_s)))
