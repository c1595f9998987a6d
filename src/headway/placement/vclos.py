"""vclos and vclos-padded: a job gets GPUs together with links that nobody else has (vClos, stages 0 to 2).

The search is `network/slices/vclos.py` (or `padded.py`). Here it is given what is on offer, and what it chose is written down: GPUs by node
in rank order, links by leaf; `record` releases them together. When the search runs past its node budget, a solver is asked
(a mixed-integer program with a time limit), and that is counted (`undecided` of the actions).

Jobs of one size are alike: the patterns of the simulator (shifts, and XOR for powers of two) are clean on every shape that holds the size.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numba import njit, objmode

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.actions import Actions, add_link, add_seat
from headway.core.tables.options import Options
from headway.core.tables.scratch import PLACE_SIGNATURE
from headway.network.slices import vclos as slices
from headway.network.slices.padded import find_padded
from headway.network.slices.vclos import NODE_BUDGET, find_slice

ANY_BLOCK = 0  # no pattern asks for blocks of ranks


@jit(allocates=True)
def offered(nodes: Any, leaves: Any) -> tuple[Any, Any, Any]:
    """What is on offer, as the searches take it: GPUs by node, the leaf of each node, links by leaf."""
    free, leaf_of = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
    for x in range(len(nodes)):
        free[x] = nodes[x].offer
        leaf_of[x] = nodes[x].leaf
    masks = np.empty(len(leaves), np.uint64)
    for x in range(len(leaves)):
        masks[x] = leaves[x].offer
    return free, leaf_of, masks


@jit
def write(chosen: Any, counts: Any, entries: int, links: Any, out: Actions) -> bool:
    """Write a slice down, nodes in rank order. False: there is none."""
    for i in range(entries):
        add_seat(out, chosen[i], counts[i])
    for leaf in range(links.size):
        if entries > 0 and links[leaf] != np.uint64(0):
            add_link(out, leaf, links[leaf])
    return entries > 0


@cache
def _with_fallback(name: str) -> Any:
    """The placement kernel of one search. It calls back into Python only where the search was undecided."""
    find = find_padded if name == "vclos-padded" else find_slice

    def solve(free: Any, leaf_of: Any, masks: Any, gpus: Any, widest: Any, chosen: Any, counts: Any, links: Any) -> int:
        from headway.network.slices.fallback import solve_slice  # SciPy takes a while to import, and is rarely needed

        _, _, servers, each, taken = solve_slice(name, free, leaf_of, masks, gpus, ANY_BLOCK, widest)
        chosen[: servers.size], counts[: servers.size], links[:] = servers, each, taken
        return int(servers.size)

    @njit(PLACE_SIGNATURE)
    def place(nodes: Any, leaves: Any, fewest: Any, job: Any, given: Options, out: Actions) -> bool:
        free, leaf_of, masks = offered(nodes, leaves)
        chosen, counts = np.empty(free.size, np.int64), np.empty(free.size, np.int64)
        links = np.zeros(masks.size, np.uint64)
        gpus = np.int64(job.gpus)
        status, entries, width, _ = find(free, leaf_of, masks, gpus, ANY_BLOCK, NODE_BUDGET, chosen, counts, links)
        if status == slices.UNDECIDED:
            out.counts[0].undecided += 1
            widest = width if width > 0 else gpus
            with objmode(entries="int64"):
                entries = solve(free, leaf_of, masks, gpus, widest, chosen, counts, links)
        return write(chosen, counts, entries, links, out)

    return place


def make(given: Mapping[str, str]) -> Placement:
    """Equal leaves: as many GPUs and the same links on each."""
    return Placement("vclos", _with_fallback("vclos"), needs_fabric=True)


def make_padded(given: Mapping[str, str]) -> Placement:
    """Uneven leaves, at the price of links that stay idle."""
    return Placement("vclos-padded", _with_fallback("vclos-padded"), needs_fabric=True)
