"""Certificates: every kind of slice verifies; damage, edits, conflicts and the theorem's counter-examples do not."""

import copy
import json

import pytest

from headway.errors import BadInput
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.certificate import Certificate, certificate_from, digest_of
from headway.network.certificates.flows import FlowModel
from headway.network.certificates.verify import verify
from headway.network.fabric.file import fabric_from
from headway.network.sharing.patterns import parse_pattern
from headway.sim.network_files import load_fabric

PODS = {
    "kind": "three-tier", "pods": 4, "leaves_per_pod": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8,
    "cores_per_group": 4,
}  # fmt: skip
SMALL = {"leaves": 6, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8}
LANES = {"leaves": 6, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 4, "parallel_links": 2}


def issued(fabric, gpus, method="vclos", pattern=None):
    answer = allocate(occupied_by(fabric), gpus, method, parse_pattern(pattern) if pattern else None)
    assert answer.certificate, answer.reason
    return json.loads(answer.certificate.as_text())


def edited(content, **changes):
    """A hand-edited certificate whose digest was put right again: only the full re-check can tell."""
    content = copy.deepcopy(content) | changes
    return content | {"digest": digest_of(content)}


def reasons(*contents):
    return [
        reason for verdict in verify([(f"c{i}", one) for i, one in enumerate(contents)]) for reason in verdict.reasons
    ]


@pytest.mark.parametrize(
    ("name", "method", "sizes"),
    [
        ("vclos-512", "vclos", [64, 48, 8, 100, 24, 96]),
        ("vclos-512", "vclos-padded", [40, 64, 50, 8, 100, 24, 90]),
        ("ocs-vclos-512", "ocs-vclos", [40, 64, 50, 8, 100, 24, 90, 36]),
        ("superpod", "vclos", [512, 8, 320, 4]),
        (LANES, "vclos", [12, 16, 4]),
        (PODS, "vclos", [8, 32, 64]),
    ],
)
def test_slices_of_every_kind_are_isolated_together(name, method, sizes):
    fabric = load_fabric(name) if isinstance(name, str) else fabric_from(name, "x")
    held: list[Certificate] = []
    for gpus in sizes:
        answer = allocate(occupied_by(fabric, held), gpus, method)
        assert answer.certificate, answer.reason
        for number, again in answer.reissued:
            held[number] = again
        held.append(answer.certificate)
    contents = [(str(i), json.loads(one.as_text())) for i, one in enumerate(held)]
    for verdict in verify(contents):
        assert verdict.isolation == "full", verdict
    assert [certificate_from(content) for _, content in contents] == held
    assert sum(len(one.links) for one in held) > 0


def test_across_pods_the_core_follows_the_rank():
    content = issued(fabric_from(PODS, "x"), 64)
    assert content["routing"]["core_modulus"] * content["routing"]["modulus"] < 64
    assert any(high.startswith("core") for _, high in content["links"])
    assert not reasons(content)
    wrong = {**content["routing"], "core_modulus": 1}
    assert any("flows at once" in reason for reason in reasons(edited(content, routing=wrong)))


def test_moved_circuits_are_reissued_and_verify():
    """Admissions on a crowded OCS fabric move circuits of others; all certificates together stay isolated."""
    import numpy as np

    fabric, rng = load_fabric("ocs-vclos-512"), np.random.default_rng(3)
    held, moved = [], 0
    for _ in range(120):
        answer = allocate(occupied_by(fabric, held), int(rng.choice([8, 24, 40, 48, 64, 72])), "ocs-vclos")
        if answer.certificate is None:
            held.pop(int(rng.integers(len(held))))
            continue
        for number, again in answer.reissued:
            held[number] = again
        moved += answer.moved
        held.append(answer.certificate)
        if answer.moved:
            verdicts = verify([(str(i), json.loads(one.as_text())) for i, one in enumerate(held)])
            assert not [reason for verdict in verdicts for reason in verdict.reasons]
    assert moved > 0


def test_a_changed_file_is_rejected_with_the_reason():
    content = issued(load_fabric("vclos-512"), 64)
    content["rank_order"][0], content["rank_order"][1] = content["rank_order"][1], content["rank_order"][0]
    assert reasons(content) == ["the digest does not match: the certificate was changed after it was issued"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda c: {"rank_order": c["rank_order"][:-1] + c["rank_order"][:1]}, "rank_order is not an order of gpus"),
        (lambda c: {"links": c["links"][1:]}, "a link it does not hold"),
        (lambda c: {"links": [*c["links"], c["links"][0]]}, "twice"),
        (lambda c: {"links": [*c["links"], ["leaf9", "spine99"]]}, "which the fabric does not have"),
        (lambda c: {"routing": {**c["routing"], "modulus": 31}}, "flows at once"),
        (lambda c: {"routing": {**c["routing"], "modulus": 33}}, "no link number 32"),
        (lambda c: {"routing": {"rule": "none"}}, "are on different leaves, but routing is 'none'"),
        (lambda c: {"routing": {"rule": "magic"}}, "field routing.rule"),
        (lambda c: {"patterns": ["tree"]}, "pattern 'tree' is not known"),
        (lambda c: {"circuits": [{"ocs": 0, "leaf": 0, "spine": 0, "fibre": 0}]}, "the fabric has no OCS layer"),
        (lambda c: {"gpus": [*c["gpus"][:-1], 512], "rank_order": [*c["rank_order"][:-1], 512]}, "outside 0 to 511"),
        (lambda c: {"extra": 1}, "field extra"),
        (lambda c: {"links": "all"}, "field links"),
        (lambda c: {"version": 2}, "field version"),
    ],
)  # fmt: skip
def test_hand_edits_with_a_new_digest_are_still_rejected(change, complaint):
    content = issued(load_fabric("vclos-512"), 64)
    assert any(complaint in reason for reason in reasons(edited(content, **change(content))))


def test_not_even_a_certificate():
    assert "field certificate" in reasons([1, 2])[0]
    assert "field version" in reasons({})[0]


def test_broken_circuits_are_rejected():
    fabric = load_fabric("ocs-vclos-512")
    content = issued(fabric, 100, "ocs-vclos")
    first, second = content["circuits"][:2]
    swapped = [{**first, "spine": (first["spine"] + 1) % 8}, *content["circuits"][1:]]
    assert any("no circuit leads" in r or "one spine port" in r for r in reasons(edited(content, circuits=swapped)))
    doubled = [{**first, "ocs": second["ocs"]}, *content["circuits"][1:]]
    assert any("two circuits on" in reason for reason in reasons(edited(content, circuits=doubled)))
    assert any("do not end on" in r for r in reasons(edited(content, circuits=content["circuits"][1:])))
    beyond = [{**first, "fibre": 2}, *content["circuits"][1:]]
    assert any("does not exist on this fabric" in reason for reason in reasons(edited(content, circuits=beyond)))


def test_two_certificates_may_hold_nothing_together():
    fabric = load_fabric("vclos-512")
    one, other = issued(fabric, 64), issued(fabric, 96)
    found = reasons(one, other)
    assert any(reason.startswith("holds GPU 0") for reason in found)
    assert any(reason.startswith("holds link leaf0-spine0, which c0 holds") for reason in found)
    assert any("another fabric" in reason for reason in reasons(one, issued(load_fabric("superpod"), 8)))


def claim(fabric, order, modulus, patterns, spines=None):
    """A certificate written by hand: ranks in `order`, all links of their leaves to the spines."""
    spines = spines or list(range(modulus))
    leaves = sorted({int(fabric.leaf_of_gpu[gpu]) for gpu in order})
    links = [fabric.cable_name(fabric.leaf_cable(leaf, spine)) for leaf in leaves for spine in spines]
    routing = {"rule": "rank-mod", "modulus": modulus, "spines": spines}
    return json.loads(Certificate(fabric, tuple(order), tuple(links), routing, tuple(patterns)).as_text())


def findings(content):
    verdict = verify([("c", content)])[0]
    return verdict, {found.pattern: found for found in verdict.findings}


def test_counter_example_a_remainder_leaf():
    """8, 8 and 4 ranks on 8 spines: the ring is clean, all-to-all reaches load 2 and is named as not promised."""
    fabric = fabric_from(SMALL, "x")
    verdict, found = findings(claim(fabric, list(range(20)), 8, ["ring"]))
    assert verdict.isolation == "partial"
    assert found["ring"].clean
    assert not found["all-to-all"].clean
    assert found["all-to-all"].worst.flows == 2
    assert found["all-to-all"].bound == 0.5
    assert "->" in found["all-to-all"].worst.link
    verdict, _ = findings(claim(fabric, list(range(20)), 8, ["ring", "all-to-all"]))
    assert verdict.isolation == "rejected"
    assert "all-to-all is promised, but spine" in verdict.reasons[0]
    assert "at most 1/2 of its rate each" in verdict.reasons[0]


def test_counter_example_blocks_that_do_not_divide():
    """6 ranks a leaf, blocks of 8: neither divides the other."""
    fabric = fabric_from(SMALL, "x")
    order = [leaf * 8 + i for leaf in range(4) for i in range(6)]
    verdict, _ = findings(claim(fabric, order, 6, ["hybrid:8"]))
    assert verdict.isolation == "rejected"
    clean, found = findings(claim(fabric, order, 6, ["all-to-all", "hybrid:3", "hybrid:12"]))
    assert clean.isolation == "full"
    assert found["hybrid:12"].worst.flows == 1


def test_counter_example_xor_without_powers_of_two():
    """16 ranks, 3 padded spines do not divide 16; on 4 x 4 every exchange is clean."""
    fabric = fabric_from(SMALL, "x")
    order = [leaf * 8 + i for leaf in range(4) for i in range(4)]
    assert findings(claim(fabric, order, 4, ["halving-doubling"]))[0].isolation == "full"
    uneven = [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 24]
    assert findings(claim(fabric, uneven, 5, ["halving-doubling"]))[0].isolation == "rejected"


def test_counter_example_ranks_not_contiguous():
    """Ranks dealt round the leaves: even neighbours share a spine."""
    fabric = fabric_from(SMALL, "x")
    dealt = [leaf * 8 + i for i in range(8) for leaf in range(2)]
    assert findings(claim(fabric, dealt, 8, ["ring"]))[0].isolation == "rejected"


def test_sizes_that_can_never_be_isolated_say_which_would():
    fabric = load_fabric("vclos-512")
    with pytest.raises(BadInput, match=r"no m <= 16 leaves and n <= 32 with m\*n = 37; .* are 36 or 38"):
        allocate(occupied_by(fabric), 37, "vclos")
    with pytest.raises(BadInput, match="never be isolated by vclos-padded"):
        allocate(occupied_by(fabric), 37, "vclos-padded")
    assert allocate(occupied_by(load_fabric("ocs-vclos-512")), 37, "ocs-vclos").certificate, "one spine takes any split"
    with pytest.raises(BadInput, match="whole servers of 8; the nearest sizes that fit are 8 or 16"):
        allocate(occupied_by(load_fabric("superpod")), 12, "vclos")


@pytest.mark.parametrize(
    ("name", "gpus", "method", "pattern", "complaint"),
    [
        ("vclos-512", 513, "vclos", None, "513 GPUs asked: fabric vclos-512 has 512"),
        ("vclos-512", 8, "ocs-vclos", None, "has no OCS layer: use vclos or vclos-padded"),
        ("ocs-vclos-512", 8, "vclos", None, "has OCS layer: use ocs-vclos"),
        ("vclos-512", 12, "vclos", "halving-doubling", "needs a power of two of ranks, not 12"),
        ("vclos-512", 8, "magic", None, "method 'magic': one of vclos"),
    ],
)
def test_requests_that_make_no_sense_are_refused(name, gpus, method, pattern, complaint):
    with pytest.raises(BadInput, match=complaint):
        allocate(occupied_by(load_fabric(name)), gpus, method, parse_pattern(pattern) if pattern else None)


def test_no_room_is_an_answer_not_an_error():
    fabric = fabric_from(SMALL, "x")
    full = allocate(occupied_by(fabric), 48, "vclos").certificate
    assert full
    answer = allocate(occupied_by(fabric, [full]), 1, "vclos")
    assert (answer.certificate, answer.reason) == (None, "1 GPUs asked, 0 free")


def test_the_pattern_restricts_the_shape():
    """Blocks of 16 on leaves of 24 free GPUs: 2 x 24 would not be clean, so 3 x 16 is taken."""
    fabric = fabric_from({"leaves": 4, "servers_per_leaf": 3, "gpus_per_server": 8, "spines": 24}, "x")
    assert allocate(occupied_by(fabric), 48, "vclos").certificate.routing["modulus"] == 24
    blocks = allocate(occupied_by(fabric), 48, "vclos", parse_pattern("hybrid:16")).certificate
    assert blocks.routing["modulus"] == 16
    assert blocks.patterns[0] == "hybrid:16"


@pytest.mark.parametrize("name", ["hybrid:7", "halving-doubling", "ring-a-ring", "hierarchical-ring"])
def test_patterns_are_all_known_before_one_is_followed(monkeypatch, name):
    """All-to-all of 20,000 ranks was followed for 41 s before a pattern after it was refused."""
    content = issued(fabric_from(SMALL, "x"), 12)
    followed = []
    worst = FlowModel.worst
    monkeypatch.setattr(FlowModel, "worst", lambda model, pattern: (followed.append(pattern), worst(model, pattern))[1])
    assert not reasons(content)
    assert "all-to-all" in followed
    followed.clear()
    wrong = reasons(edited(content, patterns=["all-to-all", "ring", name]))
    assert len(wrong) == 1
    assert "is not known" in wrong[0] or "needs a group" in wrong[0] or "does not exist" in wrong[0]
    assert followed == []
