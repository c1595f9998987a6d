"""A plan on a wiring: which rank sends which chunk to which, in the order of urgency, and when that happens.

A rank sends a chunk on as soon as it has it: in the reduce-scatter, when the sums of all that report to it have arrived;
in the all-gather, when the chunk has. Every link takes the most urgent transfer that is ready. The plan fixes who sends
what to whom; so it also runs on a network whose links have become slower, later.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.collectives.simulate.cost import PS_PER_S, CollectiveKind, split_bytes
from headway.errors import BadInput
from headway_wiring import kernels
from headway_wiring.bound import Cut
from headway_wiring.kernels import MOVE
from headway_wiring.model import Wiring
from headway_wiring.ways import ways_of


@dataclass(frozen=True, slots=True)
class Send:
    """A chunk goes from rank to rank through switches; `phase` is "rs" (added at the target), "ag" (copied) or "a2a"
    (passed on)."""

    phase: str
    chunk: int
    source: int
    target: int
    through: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WiredPlan:
    """Sends by urgency with their times. Chunk i belongs to rank `owners[i]`, where its sum ends up or where it comes
    from."""

    wiring: Wiring
    collective: CollectiveKind
    size_bytes: int
    owners: tuple[int, ...]
    chunk_bytes: tuple[int, ...]
    transfers: tuple[Send, ...]
    start_ps: tuple[int, ...]
    arrive_ps: tuple[int, ...]
    bound: Cut | None = None

    @property
    def time_s(self) -> float:
        """When the last chunk arrives."""
        return max(self.arrive_ps) / PS_PER_S

    def as_json(self) -> dict[str, Any]:
        """The plan file: ranks by name, bytes of every chunk with its owner, and the sends by urgency."""
        names = self.wiring.ranks
        return {
            "network": self.wiring.name,
            "collective": str(self.collective),
            "ranks": names,
            "chunks": [
                {"bytes": data, "owner": owner} for data, owner in zip(self.chunk_bytes, self.owners, strict=True)
            ],
            "sends": [
                {"phase": one.phase, "chunk": one.chunk, "from": one.source, "to": one.target, "through": one.through,
                 "start_ps": start, "arrive_ps": arrive}
                for one, start, arrive in zip(self.transfers, self.start_ps, self.arrive_ps, strict=True)
            ],
        }  # fmt: skip

    def to_json(self) -> str:
        """The text of the plan file."""
        return json.dumps(self.as_json()) + "\n"


def timed(
    wiring: Wiring, collective: CollectiveKind, size_bytes: int, owners: Sequence[int], sends: Sequence[Send]
) -> WiredPlan:
    """Run sends on a wiring, perhaps not the one they were planned for."""
    ways, through = ways_of(wiring)
    hops = {
        (int(hop["source"]), int(hop["target"]), way): number
        for number, (hop, way) in enumerate(zip(ways.hops, through, strict=True))
    }
    if collective is CollectiveKind.ALL_TO_ALL:
        # To every rank the same part of what a rank has, in as many pieces as there are; rounded up, so none is lost.
        pieces = len(owners) // (len(wiring.ranks) * (len(wiring.ranks) - 1))
        parts = np.full(len(owners), -(-size_bytes // (len(wiring.ranks) * pieces)))
    else:
        parts = split_bytes(size_bytes, len(owners))
    moves = np.zeros(len(sends), MOVE)
    try:
        moves["hop"] = [hops[one.source, one.target, one.through] for one in sends]
    except KeyError as error:
        source, target, way = error.args[0]
        path = ">".join([wiring.ranks[source], *way, wiring.ranks[target]])
        raise BadInput(f"the plan sends over {path}, which network {wiring.name!r} does not have: plan again") from None
    moves["bytes"] = parts[[one.chunk for one in sends]]
    before, after = _waits(sends)
    moves["needs"] = np.bincount(after, minlength=len(sends))
    counts = np.bincount(before, minlength=len(sends))
    moves["next_end"] = np.cumsum(counts)
    moves["next_at"] = moves["next_end"] - counts
    ran = kernels.run(ways, moves, after[np.argsort(before, kind="stable")])
    if ran < len(sends):
        raise BadInput(f"{len(sends) - ran} sends of the plan wait for each other and could never start")
    cut = tuple(owners), tuple(parts.tolist())
    times = tuple(moves["start_ps"].tolist()), tuple(moves["arrive_ps"].tolist())
    return WiredPlan(wiring, collective, size_bytes, *cut, tuple(sends), *times)


def _waits(sends: Sequence[Send]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Which send waits for which: pairs of numbers, before and after."""
    into: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for number, one in enumerate(sends):
        into[one.phase, one.chunk, one.target].append(number)
    before, after = list[int](), list[int]()
    for number, one in enumerate(sends):
        came = into[one.phase, one.chunk, one.source] or into["rs", one.chunk, one.source]
        before += came
        after += [number] * len(came)
    return np.array(before, np.int64), np.array(after, np.int64)


def replayed(plan: WiredPlan, wiring: Wiring) -> WiredPlan:
    """The same sends on another wiring."""
    return timed(wiring, plan.collective, plan.size_bytes, plan.owners, plan.transfers)
