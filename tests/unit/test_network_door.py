"""The one door for certificates: whoever acts on one takes it through `admitted`, which refuses what the real fabric does not bear."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

import headway
from headway.errors import BadInput
from headway.io.keys import make_keys, read_private_key
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.anchored import admitted
from headway.network.certificates.certificate import digest_of, signed
from headway.network.certificates.verify import holdings
from headway.sim.network_files import load_fabric

HALL = load_fabric("vclos-512")


def issued(*sizes):
    """Certificates of jobs that run at the same time."""
    found = []
    for gpus in sizes:
        found.append(allocate(occupied_by(HALL, found), gpus, "vclos").certificate)
    return found


def plain(certificate):
    return json.loads(certificate.as_text())


def held(**certificates):
    """What certificates in force hold, with the name of the holder."""
    return {thing: name for name, one in certificates.items() for thing in holdings(plain(one))}


def again(content, **changes):
    """The same with changes and a digest that fits."""
    changed = content | changes
    return changed | {"digest": digest_of(changed)}


def test_what_the_allocator_issued_comes_in_as_it_was():
    first, second = issued(64, 48)
    assert admitted([("a", plain(first)), ("b", plain(second))], HALL) == [first, second]
    assert admitted([], HALL) == []


WRONG = {
    "a fabric of its own": (lambda one: again(one, fabric=one["fabric"] | {"spines": 64}), "spines is 64, not 32"),
    "a link less": (lambda one: again(one, links=one["links"][1:]), "uses leaf0 - spine0, a link it does not hold"),
    "a GPU twice": (lambda one: again(one, rank_order=[0, *one["rank_order"][1:-1], 0]), "rank_order is not an order of gpus"),
    "no promise": (lambda one: again(one, patterns=[]), "promises no pattern"),
    "changed by hand": (lambda one: one | {"patterns": ["ring"]}, "the digest does not match"),
    "another kind of thing": (lambda one: [one], "field certificate"),
    "nothing": (lambda one: None, "field certificate"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_the_fabric_does_not_bear_is_refused_by_name(case):
    change, complaint = WRONG[case]
    (first,) = issued(64)
    with pytest.raises(BadInput, match=r"^job\.json: rejected: ") as refused:
        admitted([("job.json", change(plain(first)))], HALL)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_in_force_is_held_and_not_checked_again(monkeypatch):
    first, second = issued(64, 48)
    ledger = held(a=first)
    assert admitted([("b", plain(second))], HALL, in_force=ledger) == [second]
    with pytest.raises(BadInput, match="c: rejected: holds GPU 0, which a holds"):
        admitted([("c", plain(first))], HALL, in_force=ledger)
    links = again(plain(second), links=[*plain(second)["links"], ["leaf0", "spine0"]])
    with pytest.raises(BadInput, match="holds link leaf0-spine0, which a holds"):
        admitted([("b", links)], HALL, in_force=ledger)
    followed = []
    follow = "headway.network.certificates.verify.FlowModel"
    monkeypatch.setattr(follow, lambda content: followed.append(content) or _stop())
    with pytest.raises(InterruptedError):
        admitted([("b", plain(second))], HALL, in_force=ledger)
    assert followed == [plain(second)]


def _stop():
    raise InterruptedError


def test_circuits_in_force_are_held_too():
    """A certificate without the GPUs and links of the first still meets it at a port of a spine."""
    hall = load_fabric("ocs-vclos-512")
    first = allocate(occupied_by(hall), 80, "ocs-vclos").certificate
    answer = allocate(occupied_by(hall, [first]), 80, "ocs-vclos")
    second, first = answer.certificate, dict(answer.reissued).get(0, first)
    assert admitted([("b", plain(second))], hall, in_force=held(a=first)) == [second]
    moved = replace(first, rank_order=(511,), links=(), circuits=second.circuits)
    with pytest.raises(BadInput, match=r"b: rejected: holds port ocs[0-9]+-spine[0-9]+\.[0-9]+, which a holds"):
        admitted([("b", plain(second))], hall, in_force=held(a=moved))


def test_with_a_key_only_the_managers_certificates_come_in(tmp_path):
    path = tmp_path / "manager.key"
    _, public = make_keys(path)
    (first,) = issued(64)
    with pytest.raises(BadInput, match="is not signed"):
        admitted([("a", plain(first))], HALL, public)
    assert admitted([("a", signed(plain(first), read_private_key(path)))], HALL, public) == [first]
    make_keys(tmp_path / "other.key")
    with pytest.raises(BadInput, match="is signed by"):
        admitted([("a", signed(plain(first), read_private_key(tmp_path / "other.key")))], HALL, public)


def test_nobody_else_makes_certificates_of_plain_data():
    """`certificate_from` trusts its input: only the door may call it, once the verifier has spoken."""
    users = []
    for path in sorted(Path(headway.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            imported = [one.name for one in node.names] if isinstance(node, ast.ImportFrom) else []
            if name == "certificate_from" or "certificate_from" in imported:
                users.append(path.name)
    assert set(users) == {"anchored.py"}
