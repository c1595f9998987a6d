"""Running jobs slow each other down on shared links: who joins, who leaves, and what that does to the speed of the others.

An iteration takes 1 - c + c f of its time on a clean network, with c the job's communication share and f the slow-down that
`network/sharing.py` keeps up to date; only jobs that share a link with the one that starts or stops are looked at. Without a shared
network (rule < 0) nothing here is called.

Everything lies in two buffers, `Links`, and is unpacked where it is needed: a world of thirty arrays, passed from kernel to kernel, made
every simulation half as slow again, also those without a network.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.ledger import gpu_count
from headway.core.tables.state import State
from headway.network.fabric.model import Fabric
from headway.network.sharing.routing import LINKS_PER_FLOW, RULES, Wiring, wiring_of
from headway.network.sharing.slowdown import Shares, join, leave, new_shares
from headway.sim.models.communication import MOST_STEPS, write_steps

NO_RULE: Final = -1
# Links.ints begins with these numbers, then where each array of whole numbers begins, then where each of the others does.
RULE, SEED, UPLINKS, CORES, RAILS, CORE_BASE, AT = range(7)
(
    LEAF_OF_GPU, NIC_OF_GPU, POD_OF_LEAF, TOTAL, FIRST_ON_LINK, FIRST_USE, FIRST_SHARE, STAMP, USE, SHARE, FREE,
    PATTERN, MEMBER, LOADS, MET, STEPS, INTS,
) = range(17)  # fmt: skip
BASE, FACTOR, USE_WEIGHT, PART, WEIGHTS, FLOATS = range(6)
AT_FLOATS: Final = AT + INTS + 1


class Links(NamedTuple):
    """Who uses which links, and what every job sends: see above for the order."""

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]


def new_links(
    rule: str, fabric: Fabric, pattern: NDArray[np.int64], part: NDArray[np.float64], slots: int, seed: int
) -> Links:
    """Links without users. The pools hold what all GPUs can use at once: a flow a rank and step."""
    hops = LINKS_PER_FLOW if fabric.cores_per_group else 2
    shares = new_shares(fabric.directed_links, len(pattern), fabric.gpus * slots * hops * MOST_STEPS)
    return _pack(RULES[rule], seed, wiring_of(fabric), shares, pattern, part)


def no_links() -> Links:
    """A network without contention."""
    return Links(np.array([NO_RULE]), np.zeros(1))


def _pack(rule: int, seed: int, wiring: Wiring, shares: Shares, pattern: Any, part: Any) -> Links:
    jobs, links = len(pattern), len(shares.total)
    member, loads, met, steps = np.zeros(jobs), np.zeros(links), np.zeros(jobs), np.zeros(MOST_STEPS * 3)
    ints = [
        *(wiring.leaf_of_gpu, wiring.nic_of_gpu, wiring.pod_of_leaf, shares.total, shares.first_on_link),
        *(shares.first_use, shares.first_share, shares.stamp, shares.use.ravel(), shares.share.ravel(), shares.free),
        *(pattern, member, loads, met, steps),
    ]
    floats = [shares.base, shares.factor, shares.use_weight, part, np.zeros(MOST_STEPS)]
    first = AT_FLOATS + FLOATS + 1
    ends = np.cumsum([first, *map(len, ints)])
    float_ends = np.cumsum([0, *map(len, floats)])
    head = [rule, seed, wiring.uplinks, wiring.cores, wiring.rails, wiring.core_base]
    return Links(np.concatenate([head, ends, float_ends, *ints]).astype(np.int64), np.concatenate(floats))


@jit(allocates=True)
def _whole(links: Links, k: int) -> NDArray[np.int64]:
    return links.ints[links.ints[AT + k] : links.ints[AT + k + 1]]


@jit(allocates=True)
def _real(links: Links, k: int) -> NDArray[np.float64]:
    return links.floats[links.ints[AT_FLOATS + k] : links.ints[AT_FLOATS + k + 1]]


@jit(allocates=True)
def _wiring(links: Links) -> Wiring:
    head = links.ints
    return Wiring(
        _whole(links, LEAF_OF_GPU),
        _whole(links, NIC_OF_GPU),
        _whole(links, POD_OF_LEAF),
        head[UPLINKS],
        head[CORES],
        head[RAILS],
        head[CORE_BASE],
    )


@jit(allocates=True)
def _shares(links: Links) -> Shares:
    use, share = _whole(links, USE), _whole(links, SHARE)
    return Shares(
        _whole(links, TOTAL),
        _whole(links, FIRST_ON_LINK),
        _whole(links, FIRST_USE),
        _whole(links, FIRST_SHARE),
        _real(links, BASE),
        _real(links, FACTOR),
        _whole(links, STAMP),
        use.reshape((use.size // 4, 4)),
        _real(links, USE_WEIGHT),
        share.reshape((share.size // 6, 6)),
        _whole(links, FREE),
    )


@jit(allocates=True)
def met(links: Links, i: int) -> int:
    """The i-th job that the last one to come or go shares links with."""
    return int(_whole(links, MET)[i])


@jit(allocates=True)
def ranks_of(state: State, job: Any) -> NDArray[np.int64]:
    """The GPU of every rank: in the order in which the placement gave them, the reverse of the chain of seats."""
    gpus, count, seat = gpu_count(state), 0, job.seat
    while seat >= 0:
        count += 1
        seat = state.seats[seat].next
    order = np.empty(count, np.int64)
    seat = job.seat
    while seat >= 0:
        count -= 1
        order[count] = seat % gpus
        seat = state.seats[seat].next
    return order


@jit(allocates=True)
def begin_sending(state: State, links: Links, j: int) -> int:
    """Job j begins to send. How many others are slower for it, listed in `met`."""
    order, wiring = ranks_of(state, state.jobs[j]), _wiring(links)
    apart = False
    for gpu in order:
        apart |= wiring.leaf_of_gpu[gpu] != wiring.leaf_of_gpu[order[0]]
    if not apart:
        return 0
    steps, weights = _whole(links, STEPS).reshape((MOST_STEPS, 3)), _real(links, WEIGHTS)
    count = write_steps(_whole(links, PATTERN)[j], order.size, steps, weights)
    _whole(links, MEMBER)[j] = 1
    others = join(
        _shares(links),
        j,
        links.ints[RULE],
        links.ints[SEED],
        steps[:count],
        weights,
        _real(links, PART)[j],
        order,
        wiring,
        np.empty(0, np.int64),
        1,
        _whole(links, LOADS),
        _whole(links, MET),
    )
    assert others >= 0
    return others


@jit(allocates=True)
def end_sending(links: Links, j: int) -> int:
    """Job j no longer sends. How many others are faster for it, listed in `met`."""
    member = _whole(links, MEMBER)
    if not member[j]:
        return 0
    member[j] = 0
    return leave(_shares(links), j, _whole(links, MET))


@jit(allocates=True)
def slowed(links: Links, j: int) -> float:
    """The speed of job j among the others, 1 on a network of its own."""
    if not _whole(links, MEMBER)[j]:
        return 1.0
    return 1.0 / (1.0 + _real(links, PART)[j] * (_real(links, FACTOR)[j] - 1.0))
