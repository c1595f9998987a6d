"""Certificates over long runs: every placement is verified by code of its own, alone and with all others."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import headway.network
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.verify import verify
from headway.network.fabric.file import fabric_from
from headway.network.sharing.patterns import parse_pattern, why_undefined
from headway.network.slices.fallback import solve_slice
from headway.network.slices.room import PLACED, UNDECIDED, new_room
from headway.network.slices.vclos import NODE_BUDGET, find_slice
from headway.sim.network_files import load_fabric

PODS = {
    "kind": "three-tier", "pods": 3, "leaves_per_pod": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8,
    "cores_per_group": 4,
}  # fmt: skip
RAIL = {"kind": "rail", "segments": 6, "servers_per_segment": 4, "gpus_per_server": 4, "spines": 2, "parallel_links": 2}
THIN = {"leaves": 8, "servers_per_leaf": 2, "gpus_per_server": 8, "oversubscription": 2}
OPTICAL = {
    "leaves": 8, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 4, "ocs": {"switches": 8, "spine_fibres": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "method", "unit"),
    [
        (PODS, "vclos", 1),
        (PODS, "vclos-padded", 1),
        (RAIL, "vclos", 4),
        (RAIL, "vclos-padded", 4),
        (THIN, "vclos", 1),
        (THIN, "vclos-padded", 1),
        (OPTICAL, "ocs-vclos", 1),
    ],
    ids=["pods", "pods-padded", "rails", "rails-padded", "thin", "thin-padded", "optical"],
)
def test_every_placement_is_isolated_on_every_kind_of_fabric(content, method, unit, rounds):
    """Random sizes and patterns, random departures; after every admission all certificates are verified together."""
    fabric = fabric_from(content, "x")
    rng = np.random.default_rng(17)
    held, spread = [], 0
    for _ in range(rounds(60, 600)):
        gpus = int(rng.choice([2, 4, 8, 12, 16, 18, 20, 24, 32, 48]))
        pattern = parse_pattern(
            str(rng.choice(["ring", "all-to-all", "halving-doubling", "hybrid:4", "hierarchical-ring:2"]))
        )
        if (gpus > unit and gpus % unit) or why_undefined(pattern, gpus):
            continue
        before = occupied_by(fabric, held)
        answer = allocate(before, gpus, method, pattern)
        if answer.certificate is None:
            assert answer.reason
            if held:
                held.pop(int(rng.integers(len(held))))
            continue
        for number, again in answer.reissued:
            assert again.rank_order == held[number].rank_order
            held[number] = again
        held.append(answer.certificate)
        spread += bool(answer.certificate.links)
        assert answer.certificate.patterns[0] == str(pattern)
        verdicts = verify([(str(i), json.loads(one.as_text())) for i, one in enumerate(held)])
        assert not [reason for verdict in verdicts for reason in verdict.reasons]
    assert spread > 5
    whole = occupied_by(fabric)
    assert whole.gpu_free.all()
    assert (whole.masks == fabric.free_masks()).all()


def test_the_fallback_gives_what_the_search_gives():
    """The MILP alone, on small busy fabrics, finds a slice exactly when the search does, of the same shape."""
    rng = np.random.default_rng(8)
    node_leaf = np.arange(8)
    placed = 0
    for _ in range(60):
        masks = (rng.random((8, 6)) < 0.7) @ (1 << np.arange(6))
        masks = masks.astype(np.uint64)
        free = rng.integers(0, 7, 8)
        gpus = int(rng.choice([8, 9, 10, 12, 15, 16, 18]))
        searched, solved = new_room(free, node_leaf, masks), new_room(free, node_leaf, masks)
        status, entries, width, _ = find_slice(searched, gpus, 0, NODE_BUDGET)
        again, seats, as_wide = solve_slice("vclos", solved, gpus, 0, gpus)
        assert (again, as_wide) == (status, width)
        if status == PLACED:
            placed += 1
            nodes = solved.seats["server"][:seats]
            assert solved.seats["gpus"][:seats].sum() == gpus
            assert free[nodes].sum() == free[searched.seats["server"][:entries]].sum(), "the same cost"
            assert (solved.leaves["taken"] & ~masks == 0).all()
    assert placed > 10


def test_running_past_the_budget_asks_the_milp(monkeypatch):
    """With one node to visit the search is undecided, and the answer is still that of the whole search."""
    fabric = load_fabric("vclos-512")
    rng = np.random.default_rng(1)
    undecided = placed = 0
    for gpus in (36, 40, 48, 60, 66, 80):
        state = occupied_by(fabric)
        state.masks[:] = ((rng.random((16, 32)) < 0.8) @ (1 << np.arange(32))).astype(np.uint64)
        whole = allocate(state, gpus, "vclos").certificate
        undecided += find_slice(state.room(), gpus, 0, 1)[0] == UNDECIDED
        with monkeypatch.context() as patch:
            patch.setattr("headway.network.certificates.allocate.NODE_BUDGET", 1)
            answer = allocate(state, gpus, "vclos").certificate
        assert (answer is None) == (whole is None)
        if answer and whole:
            placed += 1
            assert answer.routing["modulus"] == whole.routing["modulus"]
            assert verify([("c", json.loads(answer.as_text()))])[0].isolation == "full"
    assert undecided > 0
    assert placed > 0


def test_the_verifier_shares_nothing_with_the_allocator():
    folder = Path(headway.network.__file__).parent
    allowed = {f"headway.network.certificates.{name}" for name in ("flows", "form", "signature")}
    allowed.add("headway.io.json_file")
    for name in ("verify", "flows", "form", "signature"):
        for node in ast.walk(ast.parse((folder / "certificates" / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("headway"):
                assert node.module in allowed
            if isinstance(node, ast.Import):
                assert not any(one.name.startswith("headway") for one in node.names)
