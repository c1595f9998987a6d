"""A plan: how a collective is cut, which order each chunk takes, and the list of operations of every dimension.

Plans are values: two ranks that plan from the same inputs hold equal plans. A dimension works through its list from the
front and nothing overtakes. The lists are taken from a simulated run, so all of them agree with one sequence in time
that respects every chunk's order: whichever operation is next in that sequence can always proceed. No interleaving of
the ranks or of the dimensions can deadlock (Themis, section 4.4, asks for the same and pre-simulates for it).
"""

import itertools
import json
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headway.collectives.simulate.cost import MOST_BYTES, CollectiveKind
from headway.errors import BadInput
from headway.io.json_file import parse_json

Ints = NDArray[np.int64]
Step = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the collective and the dimensions that it visits: reduce-scatter, all-gather, or all-to-all orders."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    bytes: Annotated[int, Field(gt=0, le=MOST_BYTES)]
    rs: tuple[int, ...]
    ag: tuple[int, ...]
    a2a: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectivePlan:
    """Chunks and, per dimension, the steps (chunk, "rs" | "ag" | "a2a") in the order in which they are started."""

    collective: CollectiveKind
    chunks: tuple[Chunk, ...]
    lists: tuple[tuple[Step, ...], ...]

    def orders(self) -> tuple[Ints, Ints, Ints]:
        """Bytes, shrinking (or all-to-all) orders and growing orders, as arrays."""
        count, dims = len(self.chunks), len(self.lists)
        data = np.array([chunk.bytes for chunk in self.chunks], np.int64)
        rs = np.array([chunk.rs or chunk.a2a for chunk in self.chunks], np.int64).reshape(count, -1)
        ag = np.array([chunk.ag for chunk in self.chunks], np.int64).reshape(count, -1)
        empty = np.empty((count, dims), np.int64)
        return data, rs if rs.size else empty, ag if ag.size else empty

    def listed(self) -> tuple[Ints, Ints]:
        """The lists as operation numbers (chunk x phases + phase), one after the other, and where each begins."""
        places = [
            {(kind, dim): place for place, (kind, dim) in enumerate(phases(self.collective, chunk))}
            for chunk in self.chunks
        ]
        width = len(places[0])
        flat = [
            chunk * width + places[chunk][kind, dim] for dim, steps in enumerate(self.lists) for chunk, kind in steps
        ]
        begins = np.cumsum([0, *(len(steps) for steps in self.lists)])
        return np.array(flat, np.int64), begins.astype(np.int64)


def phases(collective: CollectiveKind, chunk: Chunk) -> list[tuple[str, int]]:
    """What a chunk does, in time."""
    if collective is CollectiveKind.ALL_TO_ALL:
        return [("a2a", dim) for dim in chunk.a2a]
    return [("rs", dim) for dim in chunk.rs] + [("ag", dim) for dim in chunk.ag]


def plan_from_arrays(
    collective: CollectiveKind, chunk_bytes: Ints, rs: Ints, listed: Ints, begins: Ints
) -> CollectivePlan:
    """The value for arrays that a scheduler made; an all-gather goes back the way of the reduce-scatter."""
    shrinks = collective in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    grows = collective in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER)
    whole = collective is CollectiveKind.ALL_TO_ALL
    orders = zip(chunk_bytes.tolist(), map(tuple, rs.tolist()), strict=True)
    chunks = tuple(
        Chunk(data, way if shrinks else (), way[::-1] if grows else (), way if whole else ()) for data, way in orders
    )
    kinds = [kind for kind, _ in phases(collective, chunks[0])]
    steps = [(op // len(kinds), kinds[op % len(kinds)]) for op in listed.tolist()]
    lists = tuple(tuple(steps[begin:end]) for begin, end in itertools.pairwise(begins.tolist()))
    return CollectivePlan(collective, chunks, lists)


def plan_to_json(plan: CollectivePlan) -> str:
    """The file that the runtime executes (`--plan`): dimensions and chunks are counted from 0."""
    chunks = [asdict(chunk) for chunk in plan.chunks]
    if plan.collective is not CollectiveKind.ALL_TO_ALL:
        for row in chunks:
            del row["a2a"]
    return json.dumps({"chunks": chunks, "lists": plan.lists}) + "\n"


class _PlanFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    chunks: tuple[Chunk, ...] = Field(min_length=1)
    lists: tuple[tuple[Step, ...], ...] = Field(min_length=1)


def plan_from_json(text: str, where: str = "plan") -> CollectivePlan:
    """Read a plan back; every operation must be there exactly once, and every order must visit all dimensions."""
    try:
        rows = _PlanFile.model_validate(parse_json(text, where, "plan", most_bytes=None))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where}: field {field or 'chunks'}: {first['msg']}") from None
    plan = CollectivePlan(_collective_of(rows.chunks[0]), rows.chunks, rows.lists)
    _check(plan, where)
    return plan


def _collective_of(chunk: Chunk) -> CollectiveKind:
    if chunk.a2a:
        return CollectiveKind.ALL_TO_ALL
    if chunk.rs and chunk.ag:
        return CollectiveKind.ALL_REDUCE
    return CollectiveKind.REDUCE_SCATTER if chunk.rs else CollectiveKind.ALL_GATHER


def _check(plan: CollectivePlan, where: str) -> None:
    dims = list(range(len(plan.lists)))
    wanted: list[list[Step]] = [[] for _ in dims]
    for number, chunk in enumerate(plan.chunks):
        if _collective_of(chunk) is not plan.collective:
            raise BadInput(f"{where}: chunk {number} is not of the same collective as chunk 0 ({plan.collective})")
        for order in filter(None, (chunk.rs, chunk.ag, chunk.a2a)):
            if sorted(order) != dims:
                raise BadInput(f"{where}: chunk {number}: an order must visit each of the {len(dims)} dimensions once")
        for kind, dim in phases(plan.collective, chunk):
            wanted[dim].append((number, kind))
    for dim in dims:
        if sorted(plan.lists[dim]) != sorted(wanted[dim]):
            raise BadInput(f"{where}: lists.{dim}: it must hold every operation of dimension {dim} exactly once")
