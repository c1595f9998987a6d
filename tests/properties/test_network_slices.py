"""The search for slices: equal to the MILP, whole over long runs, and clean as the theorem says."""

import numpy as np
import pytest

from headway.network.slices.padded import fewest_leaves, find_padded
from headway.network.slices.room import NO_ROOM, PLACED, UNDECIDED, new_room, survey
from headway.network.slices.solver import solve_equal, solve_padded
from headway.network.slices.vclos import equal_shape, find_slice, tightest_first

BUDGET = 100_000


class FabricLedger:
    """A ledger for these tests alone: free GPUs of servers and free links of leaves."""

    def __init__(self, leaves, servers_per_leaf, gpus_per_server, uplinks, find):
        self.node_leaf = np.repeat(np.arange(leaves), servers_per_leaf)
        self.free = np.full(self.node_leaf.size, gpus_per_server, np.int64)
        self.masks = np.full(leaves, (1 << uplinks) - 1, np.uint64)
        self.find = find
        self.held = []

    def take(self, gpus):
        room = new_room(self.free, self.node_leaf, self.masks)
        status, entries, width, _ = self.find(room, gpus, 0, BUDGET)
        if status != PLACED:
            return status, None
        nodes, counts, links = room.seats["server"][:entries], room.seats["gpus"][:entries], room.leaves["taken"]
        assert counts.sum() == gpus
        assert (counts > 0).all()
        assert len(set(nodes)) == entries
        assert (self.free[nodes] >= counts).all(), "a GPU would be held twice"
        assert (links & ~self.masks == 0).all(), "a link would be held twice"
        self.free[nodes] -= counts
        self.masks &= ~links
        self.held.append((nodes, counts, links))
        return status, (nodes, counts, links, width)

    def give(self, index):
        nodes, counts, links = self.held.pop(index)
        self.free[nodes] += counts
        assert (self.masks & links == 0).all()
        self.masks |= links


def random_state(rng):
    """Half of them masks without structure, half of them reached by arrivals and departures."""
    leaves, uplinks = int(rng.integers(3, 11)), int(rng.integers(2, 9))
    if rng.random() < 0.5:
        free_links = rng.random((leaves, uplinks)) < rng.uniform(0.3, 0.95)
        masks = (free_links * (1 << np.arange(uplinks))).sum(axis=1).astype(np.uint64)
        return masks, rng.integers(0, uplinks + 1, leaves).astype(np.int64), uplinks
    ledger = FabricLedger(leaves, 2, max(1, uplinks // 2), uplinks, find_slice)
    for _ in range(20):
        ledger.take(int(rng.integers(1, 2 * uplinks + 1)))
        if ledger.held and rng.random() < 0.6:
            ledger.give(int(rng.integers(len(ledger.held))))
    return ledger.masks, ledger.free.reshape(leaves, 2).sum(axis=1), uplinks


def leaves_of(masks, leaf_free):
    """The leaves of a fabric with one server per leaf."""
    room = new_room(leaf_free, np.arange(masks.size), masks)
    survey(room)
    return room.leaves


@pytest.mark.parametrize("block", range(10))
def test_equal_shapes_agree_with_the_milp(block, rounds):
    """Feasibility and objective in 500 random states (the whole count also in `make test`)."""
    rng = np.random.default_rng(1000 + block)
    feasible = 0
    for _ in range(rounds(50, 300)):
        masks, leaf_free, uplinks = random_state(rng)
        width, leaves = int(rng.integers(1, uplinks + 1)), int(rng.integers(2, masks.size + 1))
        chosen = np.empty(masks.size, np.int64)
        found, cost, links, _, complete = equal_shape(
            tightest_first(leaves_of(masks, leaf_free)), width, leaves, BUDGET, chosen
        )
        oracle = solve_equal(masks, leaf_free, uplinks, width, leaves)
        assert complete
        assert bool(found) == (oracle is not None)
        if oracle:
            feasible += 1
            assert cost == oracle.cost == leaf_free[chosen[:found]].sum()
            assert found == leaves
            assert len(set(chosen[:found])) == leaves
            assert (leaf_free[chosen[:found]] >= width).all()
            assert int(links).bit_count() >= width
            assert (masks[chosen[:found]] & links == links).all()
    assert feasible > 5, "the states must not all be infeasible"


@pytest.mark.parametrize("block", range(4))
def test_padded_shapes_agree_with_the_milp(block, rounds):
    """The fewest leaves that share the spines and give the GPUs."""
    rng = np.random.default_rng(2000 + block)
    feasible = 0
    for _ in range(rounds(30, 200)):
        masks, leaf_free, uplinks = random_state(rng)
        width, gpus = int(rng.integers(1, uplinks + 1)), int(rng.integers(2, 3 * uplinks))
        chosen = np.empty(masks.size, np.int64)
        table = tightest_first(leaves_of(masks, leaf_free))
        found, _, links, _, complete = fewest_leaves(table, width, gpus, masks.size, BUDGET, chosen)
        oracle = solve_padded(masks, leaf_free, uplinks, width, gpus)
        assert complete
        assert bool(found) == (oracle is not None)
        if oracle:
            feasible += 1
            assert found == oracle.cost
            assert np.minimum(leaf_free[chosen[:found]], width).sum() >= gpus
            assert int(links).bit_count() >= width
            assert (masks[chosen[:found]] & links == links).all()
    assert feasible > 5


@pytest.mark.parametrize("find", [find_slice, find_padded], ids=["vclos", "vclos-padded"])
def test_nothing_is_held_twice_and_release_restores(find, rounds):
    """Long random arrivals and departures; at the end everything is back."""
    rng = np.random.default_rng(7)
    ledger = FabricLedger(16, 4, 8, 32, find)
    whole = ledger.free.copy(), ledger.masks.copy()
    placed = spread = 0
    for _ in range(rounds(1500, 20_000)):
        size = int(rng.choice([1, 2, 4, 8, 12, 16, 24, 32, 36, 48, 64, 80, 96, 128]))
        before = ledger.free.copy(), ledger.masks.copy()
        status, taken = ledger.take(size)
        if taken is None:
            assert status == NO_ROOM
            assert (ledger.free == before[0]).all()
            assert (ledger.masks == before[1]).all()
            if ledger.held:
                ledger.give(int(rng.integers(len(ledger.held))))
        else:
            placed += 1
            spread += taken[3] > 0
    assert placed > 500
    assert spread > 50
    while ledger.held:
        ledger.give(int(rng.integers(len(ledger.held))))
    assert (ledger.free == whole[0]).all()
    assert (ledger.masks == whole[1]).all()


def downlink_load(leaf_of_rank, modulus, target):
    """The fullest downlink when rank r leaves by spine r mod modulus, by counting."""
    load = {}
    for rank, other in enumerate(target):
        if other >= 0 and leaf_of_rank[rank] != leaf_of_rank[other]:
            key = (leaf_of_rank[other], rank % modulus)
            load[key] = load.get(key, 0) + 1
    return max(load.values(), default=0)


@pytest.mark.parametrize("find", [find_slice, find_padded], ids=["vclos", "vclos-padded"])
def test_every_shift_and_every_xor_has_load_one(find, rounds):
    """The theorem on slices taken from a busy fabric; uplinks cannot collide because senders' spines differ."""
    rng = np.random.default_rng(11)
    ledger = FabricLedger(16, 4, 8, 32, find)
    checked = uneven = 0
    for _ in range(rounds(400, 4000)):
        size = int(rng.choice([8, 16, 24, 33, 36, 40, 48, 60, 64, 72, 96, 128]))
        _, taken = ledger.take(size)
        if len(ledger.held) > 8 or taken is None:
            ledger.give(int(rng.integers(len(ledger.held))))
        if taken is None or taken[3] == 0:
            continue
        nodes, counts, links, modulus = taken
        leaf = np.repeat(ledger.node_leaf[nodes], counts)
        per_leaf = np.bincount(leaf)
        per_leaf = per_leaf[per_leaf > 0]
        uneven += len(set(per_leaf)) > 1
        used = links[np.unique(leaf)]
        assert (used == used[0]).all()
        assert int(used[0]).bit_count() == modulus
        assert per_leaf.max() <= modulus
        rank = np.arange(size)
        for shift in range(1, size):
            assert downlink_load(leaf, modulus, (rank + shift) % size) <= 1
        if size & (size - 1) == 0:
            for t in range(size.bit_length() - 1):
                assert downlink_load(leaf, modulus, rank ^ (1 << t)) <= 1
        checked += 1
    assert checked > 30
    assert (uneven > 0) == (find is find_padded)


def test_a_small_budget_is_undecided_not_wrong():
    """Past the node budget the search says so; with room to search it agrees with the MILP again."""
    rng = np.random.default_rng(3)
    undecided = 0
    for _ in range(40):
        masks = rng.integers(0, 1 << 12, 24).astype(np.uint64)
        leaf_free = np.full(24, 12, np.int64)
        chosen = np.empty(24, np.int64)
        found, *_, complete = equal_shape(tightest_first(leaves_of(masks, leaf_free)), 4, 5, 3, chosen)
        oracle = solve_equal(masks, leaf_free, 12, 4, 5)
        undecided += not complete
        if complete:
            assert bool(found) == (oracle is not None)
        assert not found or oracle is not None
    assert undecided > 0


def test_undecided_is_told_apart_from_no_room():
    """`find_slice` with one node to visit cannot prove anything on a tangled fabric."""
    rng = np.random.default_rng(5)
    masks = rng.integers(0, 1 << 16, 32).astype(np.uint64)
    free = np.full(32, 16, np.int64)
    status, entries, *_ = find_slice(new_room(free, np.arange(32), masks), 32, 0, 1)
    assert status == UNDECIDED
    assert entries == 0
