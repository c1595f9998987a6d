"""The bounds of collectives against everything that is possible, where that can be enumerated (decision 0080)."""

import itertools

import numpy as np
import pytest

from headway.collectives.draft import Task
from headway.collectives.schedulers import bounds, schedule
from headway.collectives.simulate.cost import PS_PER_S, CollectiveKind
from headway.collectives.simulate.operations import operations, slots
from headway.collectives.simulate.play import run_lists
from headway.errors import BadInput
from headway.sim.network_files import topology_from


def least_words(parts: int, under_way: bool) -> int:
    """How many words must go between parts until each knows what all contributed; a word tells all that its sender knows, which is more
    than any sum does. With `under_way` words arrive whenever they like; else at once."""
    everything = (1 << parts) - 1
    begin = tuple(1 << part for part in range(parts)), ()
    front, seen = {begin}, {begin}
    for words in itertools.count():
        todo = list(front)
        while todo:
            known, flying = todo.pop()
            if all(one == everything for one in known):
                return words
            for number, (target, told) in enumerate(flying):
                heard = tuple(one | told if part == target else one for part, one in enumerate(known))
                after = heard, flying[:number] + flying[number + 1 :]
                if after not in seen:
                    seen.add(after)
                    front.add(after)
                    todo.append(after)
        sent = set()
        for known, flying in front:
            for source, target in itertools.permutations(range(parts), 2):
                more = tuple(sorted((*flying, (target, known[source]))))
                if not under_way:
                    known_then = tuple(one | known[source] if part == target else one for part, one in enumerate(known))
                    sent.add((known_then, ()))
                else:
                    sent.add((known, more))
        front = sent - seen
        seen |= front
    raise AssertionError


@pytest.mark.parametrize(("parts", "under_way"), [(2, True), (3, True), (4, False)])
def test_between_n_parts_no_fewer_than_2n_minus_2_words_tell_everybody_everything(parts, under_way):
    assert least_words(parts, under_way) == 2 * (parts - 1)


NETWORKS = [
    "switch:4:800Gbps:700ns,switch:2:400Gbps:1700ns",
    "ring:3:100Gbps:5us,fullyconnected:4:3200Gbps:20ns",
    "switch:2:25Gbps:0ns,ring:2:1600Gbps:900us",
]


def all_lists(ops, dims: int):
    """Every way in which dimensions may work through their operations."""
    mine = [np.flatnonzero(ops.dim == dim) for dim in range(dims)]
    begins = np.concatenate([[0], np.cumsum([len(one) for one in mine])]).astype(np.int64)
    for orders in itertools.product(*(itertools.permutations(one.tolist()) for one in mine)):
        yield np.array([op for order in orders for op in order], np.int64), begins


def quickest_of_all_s(network, kind, parts, in_flight: int) -> float:
    """The least time over all plans with chunks of these sizes: all orders of every chunk, all lists of every dimension."""
    chunks, dims = np.array(parts, np.int64), len(network.dimensions)
    ways = [np.array(order) for order in itertools.permutations(range(dims))]
    # An all-reduce goes back the way it came, as ours do.
    best = np.inf
    for orders in itertools.product(ways, repeat=len(parts)):
        rs = np.stack(orders)
        ops = operations(network, kind, chunks, rs, np.ascontiguousarray(rs[:, ::-1]))
        for lists in all_lists(ops, dims):
            try:
                progress, _ = run_lists(ops, *lists, slots(network, in_flight))
            except BadInput:  # these lists wait for each other
                continue
            best = min(best, int(progress["finish_ps"].max()) / PS_PER_S)
    return best


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("in_flight", [1, 2])
def test_no_plan_at_all_is_quicker_than_the_bound(network, in_flight):
    topology, reached = topology_from(network), []
    cases = [(kind, parts) for kind in CollectiveKind for parts in ([999], [600, 399])]
    cases += [(kind, [400, 300, 299]) for kind in CollectiveKind if kind is not CollectiveKind.ALL_REDUCE]
    # Step by step it takes longer: two chunks, and one size.
    for size in (1, 10**3, 10**5) if in_flight == 1 else (10**3,):
        for kind, parts in cases if in_flight == 1 else cases[1:8:2]:
            sizes = [part * size for part in parts]
            limit, with_latencies_s = bounds(Task(topology, kind, sum(sizes), in_flight))
            bound_s = max(limit.limit_s, with_latencies_s)
            quickest_s = quickest_of_all_s(topology, kind, sizes, in_flight)
            assert quickest_s >= bound_s * (1 - 1e-9)
            assert schedule(topology, sum(sizes), collective=kind, in_flight=in_flight).time_s >= bound_s * (1 - 1e-9)
            reached.append(bound_s / quickest_s)
    # A bound of nothing would pass as well. It is for any number of chunks, so two in flight do not come as near to it.
    assert max(reached) > (0.99 if in_flight == 1 else 0.7)
    assert np.mean(reached) > (0.7 if in_flight == 1 else 0.6)
