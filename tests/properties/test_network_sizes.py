"""A size has no slice exactly if the search finds none on an empty fabric: by every method, in the command and the simulator."""

import numpy as np
import pytest

from headway.cluster.nodes import Cluster
from headway.errors import BadInput, HeadwayError
from headway.network.certificates import allocate as allocation
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.fabric.model import Fabric, Ocs
from headway.network.slices import sizes
from headway.network.slices.sizes import has_slice, why_never
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.models import network as simulated
from headway.sim.models.network import NetworkModel
from headway.sim.network_files import load_fabric
from headway.sim.run import Setting, simulate_run
from headway.workloads.workload import workload


def random_fabric(rng: np.random.Generator, kind: str) -> Fabric:
    """A small fabric, often with leaves of different sizes and with more or fewer links than GPUs."""
    each, leaves = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    servers = rng.integers(1, 4, leaves) if rng.random() < 0.5 else np.full(leaves, rng.integers(1, 4))
    groups, spines = tuple(np.repeat(np.arange(leaves), servers).tolist()), int(rng.integers(1, 9))
    if kind == "ocs":
        ocs = Ocs(switches=int(rng.integers(1, 9)), spine_fibres=int(rng.integers(1, 3)))
        return Fabric("random", "leaf-spine", groups, each, int(rng.integers(1, 4)), ocs=ocs)
    if kind == "three-tier":
        pods = tuple(np.sort(rng.integers(0, 3, leaves)).tolist())
        pods = tuple(int(pod) for pod in np.unique(pods, return_inverse=True)[1])
        return Fabric("random", kind, groups, each, spines, leaf_pod=pods, cores_per_group=int(rng.integers(1, 4)))
    return Fabric("random", kind, groups, each, spines)


METHODS = [
    ("leaf-spine", "vclos"),
    ("leaf-spine", "vclos-padded"),
    ("rail", "vclos"),
    ("rail", "vclos-padded"),
    ("three-tier", "vclos"),
    ("three-tier", "vclos-padded"),
    ("ocs", "ocs-vclos"),
]


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_the_command_says_never_exactly_if_its_search_finds_nothing(monkeypatch, rounds, kind, method) -> None:
    monkeypatch.setattr(allocation, "why_never", lambda *_, **__: "")  # the search alone
    rng = np.random.default_rng(25)
    answers = {True: 0, False: 0}
    for _ in range(rounds(20, 400)):
        fabric = random_fabric(rng, kind)
        for gpus in range(1, fabric.gpus + 1):
            if gpus > fabric.rails and gpus % fabric.rails:
                assert not has_slice(fabric, method, gpus, direct=True)
                continue
            found = allocate(occupied_by(fabric), gpus, method).certificate is not None
            assert has_slice(fabric, method, gpus, direct=True) == found, (fabric, gpus)
            answers[found] += 1
    assert min(answers.values()) > 5, answers


@pytest.mark.parametrize(
    ("kind", "method"), [("leaf-spine", "vclos"), ("leaf-spine", "vclos-padded"), ("ocs", "ocs-vclos")]
)
def test_the_simulator_says_never_exactly_if_its_placement_finds_nothing(monkeypatch, rounds, kind, method) -> None:
    rng = np.random.default_rng(52)
    answers = {True: 0, False: 0}
    for _ in range(rounds(12, 200)):
        fabric = random_fabric(rng, kind)
        nodes = tuple(f"n{node}" for node in range(fabric.servers))
        where = Cluster("random", nodes, (fabric.gpus_per_server,) * fabric.servers)
        setting = Setting(network=NetworkModel("isolated", fabric))
        for gpus in rng.permutation(np.arange(1, fabric.gpus + 1))[:6].tolist():
            said = not simulated.never_isolated(np.array([gpus], np.int32), fabric, find_placement(method))[0]
            with monkeypatch.context() as patch:
                patch.setattr(simulated, "has_slice", lambda *_, **__: True)  # the placement alone
                try:
                    simulate_run(
                        workload("one", [0.0], [gpus], [9.0]),
                        where,
                        find_policy("fifo"),
                        find_placement(method),
                        setting,
                    )
                    found = True
                except HeadwayError:  # it can never start under this placement
                    found = False
            assert said == found, (fabric, gpus)
            answers[found] += 1
    assert min(answers.values()) > 3, answers


def test_sizes_that_only_circuits_allow() -> None:
    """The size was refused by the rule for fixed links: 74 = 2 x 37."""
    fabric = load_fabric("ocs-vclos-512")
    certificate = allocate(occupied_by(fabric), 74, "ocs-vclos").certificate
    assert certificate is not None
    assert len(certificate.rank_order) == 74
    assert why_never(load_fabric("vclos-512"), "vclos", 74).endswith("the nearest sizes that fit are 72 or 75")
    with pytest.raises(BadInput, match="74 GPUs can never be isolated by vclos "):
        allocate(occupied_by(load_fabric("vclos-512")), 74, "vclos")


def test_the_nearest_sizes_are_those_of_the_method() -> None:
    """Wide links: a padded slice of 10 holds 5 links of 3 leaves with 4 GPUs."""
    fabric = Fabric("wide", "leaf-spine", (0, 1, 2), 4, 8)
    assert [size for size in range(1, 13) if has_slice(fabric, "vclos", size)] == [1, 2, 3, 4, 6, 8, 9, 12]
    assert [size for size in range(1, 13) if has_slice(fabric, "vclos-padded", size)] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        12,
    ]
    assert "n <= 4 with m*n = 10; the nearest sizes that fit are 9 or 12" in why_never(fabric, "vclos", 10)
    assert "the nearest sizes that fit are 10 or 12" in why_never(fabric, "vclos-padded", 11)


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_the_nearest_sizes_are_found_and_have_a_slice(rounds, kind, method) -> None:
    """On rails, the nearest whole servers were named, whether or not they have a slice."""
    rng = np.random.default_rng(71)
    refused = 0
    for _ in range(rounds(20, 400)):
        fabric = random_fabric(rng, kind)
        fitting = [gpus for gpus in range(1, fabric.gpus + 1) if has_slice(fabric, method, gpus, direct=True)]
        for gpus in sorted({*range(1, fabric.gpus + 1)} - {*fitting}):
            below, above = ([size for size in fitting if (size < gpus) == less] for less in (True, False))
            nearest = below[-1:] + above[:1]
            names = " or ".join(map(str, nearest))
            are = "sizes that fit are" if above else "size that fits is"
            assert why_never(fabric, method, gpus, direct=True).endswith(f"; the nearest {are} {names}")
            refused += 1
    assert refused > 5


def test_a_size_beyond_every_slice_is_refused_without_a_search(monkeypatch) -> None:
    """Every size up to a million GPUs was tried."""
    fabric = Fabric("thin", "leaf-spine", tuple(sorted([*range(100)] * 1250)), 8, 1)
    tried = []
    monkeypatch.setattr(sizes, "_spans_pods", lambda *words: tried.append(words))
    assert why_never(fabric, "vclos", 20_001).endswith("; the nearest size that fits is 10000")
    assert len(tried) < 10
