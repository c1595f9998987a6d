"""Classes of ranks (decision 0038): clean for every shift and XOR by brute force, and found whenever ports allow one."""

from itertools import product

import numpy as np

from headway.network.slices.circuits import ONE_SPINE, new_plan, plan_ports, ports_suffice
from headway.network.slices.room import LEAF, NO_ROOM


def plan(free, fibres, ports, gpus):
    """(case, ranks by leaf, classes, spine of every class)."""
    leaves = np.zeros(len(free), LEAF)
    leaves["free"], leaves["fibres"] = free, fibres
    plan = new_plan(leaves, len(ports))
    plan.spines["ports"] = ports
    case, size, classes = plan_ports(plan, gpus, 0)
    ranks = np.zeros(len(free), np.int64)
    ranks[plan.parts["leaf"][:size]] = plan.parts["ranks"][:size]
    classes = 1 if case == ONE_SPINE else int(classes)
    return case, ranks, classes, plan.spine_of[:classes]


def exists(free, fibres, ports, gpus):
    """Whether any split of the ranks over the leaves has classes with ports enough: every split, every P."""
    for ranks in product(*(range(one + 1) for one in free)):
        if sum(ranks) != gpus:
            continue
        for classes in (one for one in range(1, gpus + 1) if gpus % one == 0):
            each = [-(-one // classes) for one in ranks]
            enough = all(classes * links <= have for links, have in zip(each, fibres, strict=True))
            if enough and sum(have // sum(each) for have in ports) >= classes:
                return True
    return False


def test_a_slice_is_found_whenever_one_exists(rounds):
    rng = np.random.default_rng(6)
    answers = {True: 0, False: 0}
    for _ in range(rounds(400, 5000)):
        free, fibres = rng.integers(0, 6, 3).tolist(), rng.integers(0, 7, 3).tolist()
        ports, gpus = rng.integers(0, 9, int(rng.integers(1, 4))).tolist(), int(rng.integers(2, 13))
        case, ranks, classes, spines = plan(free, fibres, ports, gpus)
        found = case != NO_ROOM
        assert found == ports_suffice(free, fibres, ports, gpus)
        assert found == exists(free, fibres, ports, gpus), (free, fibres, ports, gpus)
        answers[found] += 1
        if not found:
            continue
        each = -(-ranks // classes)
        assert ranks.sum() == gpus
        assert (ranks <= free).all()
        assert (each * classes <= fibres).all()
        assert (np.bincount(spines, minlength=len(ports)) * each.sum() <= ports).all()
    assert min(answers.values()) > 40


def worst_load(ranks, classes, senders, receivers):
    """Flows on the fullest link: up by sender's class and position, down by sender's class and receiver's position."""
    leaf = np.repeat(np.arange(len(ranks)), ranks)
    position = np.concatenate([np.arange(count) for count in ranks])
    crosses = leaf[senders] != leaf[receivers]
    senders, receivers = senders[crosses], receivers[crosses]
    up = list(zip(leaf[senders], senders % classes, position[senders] // classes, strict=True))
    down = list(zip(leaf[receivers], senders % classes, position[receivers] // classes, strict=True))
    return max((links.count(one) for links in (up, down) for one in links), default=0)


def test_every_shift_and_every_xor_is_clean(rounds):
    rng = np.random.default_rng(7)
    uneven = 0
    for _ in range(rounds(60, 1500)):
        free = rng.integers(0, 17, 6)
        gpus = int(rng.choice([12, 16, 18, 24, 30, 32, 48]))
        case, ranks, classes, _ = plan(free, np.full(6, 24), np.full(4, 24), gpus)
        if case == NO_ROOM:
            continue
        used = ranks[ranks > 0]
        uneven += classes > 1 and len(set(used)) > 1
        me = np.arange(gpus)
        for distance in range(1, gpus):
            assert worst_load(used, classes, me, (me + distance) % gpus) <= 1
        if gpus & (gpus - 1) == 0:
            for bit in range(gpus.bit_length() - 1):
                assert worst_load(used, classes, me, me ^ (1 << bit)) <= 1
    assert uneven > 5


def test_a_number_of_classes_that_does_not_divide_the_ranks_collides():
    """The counter-example: without P dividing N the shift wraps out of step."""
    me = np.arange(4)
    assert worst_load(np.array([1, 2, 1]), 2, me, (me + 2) % 4) == 1
    assert worst_load(np.array([1, 2, 1]), 3, me, (me + 2) % 4) == 2
