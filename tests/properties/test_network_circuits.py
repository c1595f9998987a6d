"""OCS-vClos: circuits stay whole, ports alone decide, and releases restore exactly."""

import numpy as np
import pytest

from headway.network.fabric.model import Fabric, Ocs
from headway.network.slices.circuits import CLASSES, DIRECT, ONE_LEAF, find_circuits
from headway.network.slices.colouring import BLOCKED, add_edge, connect, new_circuits, remove_job
from headway.network.slices.room import NO_ROOM, new_room


def unused(leaves, spines, switches, fibres):
    """No circuit yet on a fabric of so many leaves and spines."""
    return new_circuits(Fabric("x", "leaf-spine", tuple(range(leaves)), 1, spines, ocs=Ocs(switches, fibres)))


class OcsLedger:
    """A ledger for these tests alone: leaves of 32 GPUs below 32 OCS and spines of 64 ports."""

    def __init__(self, leaves, spines):
        self.leaves, self.fibres = leaves, 2
        self.node_leaf = np.repeat(np.arange(leaves), 4)
        self.free = np.full(leaves * 4, 8, np.int64)
        self.circuits = unused(leaves, spines, 32, self.fibres)
        self.partner, self.owner = self.circuits.ports["far"], self.circuits.ports["job"]
        self.held = {}

    def take(self, job, gpus):
        room = new_room(self.free, self.node_leaf, np.zeros(self.leaves, np.uint64))
        case, entries, width, moved = find_circuits(room, self.circuits, gpus, 0, job)
        if case > 0:
            nodes, counts = room.seats["server"][:entries], room.seats["gpus"][:entries]
            assert counts.sum() == gpus
            assert (self.free[nodes] >= counts).all()
            self.free[nodes] -= counts
            self.held[job] = (nodes, counts, case, width)
        return case, self.circuits.moves[:moved]

    def give(self, job):
        nodes, counts, *_ = self.held.pop(job)
        self.free[nodes] += counts
        remove_job(self.circuits, job)

    def check_whole(self):
        """Every circuit has two ends that agree, and every job the circuits its case needs."""
        vertex, ocs = np.nonzero(self.partner >= 0)
        far = self.partner[vertex, ocs]
        assert (self.partner[far, ocs] == vertex).all(), "two circuits on one port"
        assert (self.owner[far, ocs] == self.owner[vertex, ocs]).all()
        assert set(np.unique(self.owner[self.owner >= 0])) <= set(self.held)
        for job, (nodes, counts, case, width) in self.held.items():
            links = (self.owner[: self.leaves] == job).sum(axis=1)
            ranks = np.bincount(self.node_leaf[nodes], counts, self.leaves).astype(int)
            if case == ONE_LEAF:
                assert links.sum() == 0
            elif case == DIRECT:
                assert sorted(links[links > 0]) == [ranks[ranks > 0].min()] * 2
            elif width:
                assert (links == -(-ranks // width) * width).all()
                self._check_same_spines(job, np.nonzero(ranks)[0], -(-ranks // width))
            else:
                assert (links == ranks).all()

    def _check_same_spines(self, job, leaves, of_a_class):
        ends = []
        for leaf in leaves:
            far = self.partner[leaf][self.owner[leaf] == job]
            ends.append(sorted((far - self.leaves) // self.fibres)[:: of_a_class[leaf]])
        assert all(one == ends[0] for one in ends), "the links of a class must end on the same spine at every leaf"


@pytest.mark.parametrize("leaves", [16, 64])
def test_circuits_stay_whole_over_long_runs(leaves, rounds):
    rng = np.random.default_rng(leaves)
    ledger = OcsLedger(leaves, leaves // 2)
    cases, moved_any = {}, 0
    for job in range(rounds(800, 10_000)):
        size = int(rng.choice([1, 4, 8, 16, 24, 32, 40, 48, 64, 72, 96, 128, 200, 256]))
        before = ledger.partner.copy(), ledger.owner.copy()
        case, moves = ledger.take(job, size)
        cases[case] = cases.get(case, 0) + 1
        moved_any += len(moves) > 0
        assert all(before[1][leaf, ocs] == owner and owner != job for owner, leaf, ocs, _ in moves)
        if case in (NO_ROOM, BLOCKED):
            assert (ledger.partner == before[0]).all()
            assert (ledger.owner == before[1]).all()
            while ledger.held and rng.random() < 0.7:
                ledger.give(int(rng.choice(list(ledger.held))))
        if job % 10 == 0:
            ledger.check_whole()
    assert moved_any > 0, "no admission ever moved a circuit: the run is too tame"
    assert len(cases) >= 5
    for job in list(ledger.held):
        ledger.give(job)
    assert (ledger.partner == -1).all()
    assert (ledger.owner == -1).all()
    assert (ledger.free == 8).all()


def test_any_degrees_up_to_the_ports_can_be_coloured(rounds):
    """König: without leaves joined to each other, an edge is refused only when a port is missing."""
    rng = np.random.default_rng(4)
    for _ in range(rounds(60, 600)):
        leaves, subs, colours = int(rng.integers(2, 9)), int(rng.integers(2, 9)), int(rng.integers(2, 9))
        circuits = unused(leaves, subs, colours, 1)
        partner = circuits.ports["far"]
        edges = 0
        for job in range(leaves * colours * 3):
            leaf, sub = int(rng.integers(leaves)), int(rng.integers(subs))
            room = (partner[leaf] < 0).any() and (partner[leaves + sub] < 0).any()
            colour = add_edge(circuits, leaf, sub, job)
            assert (colour >= 0) == room
            edges += room
            vertex, at = np.nonzero(partner >= 0)
            assert vertex.size == 2 * edges
            assert (partner[partner[vertex, at], at] == vertex).all()


def test_an_odd_cycle_is_refused_and_nothing_changes():
    """Two leaves joined by the only colours they have left cannot both reach one sub-spine: a triangle, two colours."""
    circuits = unused(2, 1, 2, 1)
    connect(circuits.ports, 0, 1, 0, 7)
    assert add_edge(circuits, 0, 0, 8) == 1
    before = circuits.ports.copy()
    assert add_edge(circuits, 1, 0, 9) == BLOCKED
    assert (circuits.ports == before).all()


def test_uneven_leaves_are_admitted_over_several_spines():
    """A job larger than a spine on leaves with different room ends in classes of ranks."""
    ledger = OcsLedger(8, 4)
    rng = np.random.default_rng(0)
    seen = set()
    for job in range(400):
        case, _ = ledger.take(job, int(rng.choice([3, 5, 7, 8, 72, 90, 100, 120])))
        seen.add(case)
        while case == NO_ROOM and len(ledger.held) > 2 and rng.random() < 0.8:
            ledger.give(int(rng.choice(list(ledger.held))))
    assert CLASSES in seen
    ledger.check_whole()
