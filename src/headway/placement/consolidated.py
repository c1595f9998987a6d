"""consolidated: as few nodes as possible, and among those the fullest that will do (best fit)."""

from collections.abc import Mapping
from typing import Any

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_seat, forget
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE


@jit
def tightest(nodes: Any, gpus: int) -> int:
    """Return the node with the fewest GPUs on offer that holds `gpus` of them, or -1."""
    best = -1
    for x in range(len(nodes.offer)):
        if nodes.offer[x] >= gpus and (best < 0 or nodes.offer[x] < nodes.offer[best]):
            best = x
    return best


@jit
def largest(nodes: Any) -> int:
    """The node with the most GPUs on offer."""
    best = 0
    for x in range(1, len(nodes.offer)):
        if nodes.offer[x] > nodes.offer[best]:
            best = x
    return best


@jit
def fewest_on_offer(nodes: Any, gpus: int, most: int, out: Actions) -> bool:
    """Place on the fewest nodes that can hold the job, at most `most`: the largest offers first, the rest by best fit."""
    need, best, seats_before = gpus, tightest(nodes, gpus), out.counts[0].seats
    while best < 0:  # no node holds the rest: fill all nodes with the largest offer
        first = largest(nodes)
        largest_offer = nodes.offer[first]
        if largest_offer == 0:
            forget(out)
            return False
        for x in range(first, len(nodes.offer)):
            if nodes.offer[x] == largest_offer and need > largest_offer:
                add_seat(out, x, largest_offer)
                nodes.offer[x] = 0
                need -= largest_offer
        best = tightest(nodes, need)
    add_seat(out, best, need)
    if out.counts[0].seats - seats_before > most:
        forget(out)
        return False
    return True


@jit(PLACE_SIGNATURE)
def strictly(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """On the fewest nodes that this cluster could ever hold it on, or not at all."""
    return fewest_on_offer(nodes, job.gpus, fewest[job.gpus], out)


@jit(PLACE_SIGNATURE)
def softly(nodes: Any, leaves: Any, fewest: Any, job: Any, options: Options, out: Actions) -> bool:
    """On the fewest nodes that can be had now."""
    return fewest_on_offer(nodes, job.gpus, len(nodes.offer), out)


def make(options: Mapping[str, str]) -> Placement:
    """With `strict=no`, the fewest nodes available now."""
    strict = options.get("strict", "yes") == "yes"
    return Placement("consolidated", strictly if strict else softly)
