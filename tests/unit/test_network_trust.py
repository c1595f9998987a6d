"""What a certificate may say: nothing without holding it, nothing of another fabric, nothing in another's name."""

import json
import stat
import subprocess
import sys

import pytest
from tests.waiting import PATIENCE_S
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput
from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.anchored import admitted
from headway.network.certificates.certificate import Certificate, describe, digest_of
from headway.network.certificates.verify import verify
from headway.network.fabric.file import fabric_from
from headway.sim.network_files import load_fabric

SMALL = {"leaves": 6, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8}
RAIL = {"kind": "rail", "segments": 2, "servers_per_segment": 2, "gpus_per_server": 4, "spines": 4}


def run(*words):
    result = CliRunner().invoke(app, ["fabric", *map(str, words)])
    if result.exception and not isinstance(result.exception, (BadInput, SystemExit)):
        raise result.exception
    return result


def claim(fabric, order, links, patterns, modulus=8):
    """A certificate written by hand, with a digest that is right."""
    routing = {"rule": "rank-mod", "modulus": modulus, "spines": list(range(modulus))}
    return json.loads(Certificate(fabric, tuple(order), tuple(links), routing, tuple(patterns)).as_text())


def only(content, **given):
    return verify([("c", content)], **given)[0]


# Holding what is promised.


def test_a_certificate_that_promises_nothing_is_no_certificate():
    """16 GPUs on two leaves, no link held, nothing promised: it used to be `full`."""
    verdict = only(claim(fabric_from(SMALL, "x"), range(16), [], []))
    assert verdict.isolation == "rejected"
    assert verdict.reasons == ["field patterns: promises no pattern, so there is nothing that it certifies"]


def test_a_ring_that_holds_its_two_links_is_not_clean_for_all_to_all():
    fabric = fabric_from(SMALL, "x")
    links = [(leaf, "spine7") for leaf in ("leaf0", "leaf1")]
    verdict = only(claim(fabric, range(16), links, ["ring"]))
    assert verdict.isolation == "partial"
    found = {one.pattern: one for one in verdict.findings}
    assert found["ring"].clean
    assert found["all-to-all"].worst.flows == 1, "no two flows of its own meet"
    assert not found["all-to-all"].clean, "but it holds 2 of the 16 links"
    assert (found["all-to-all"].not_held, found["all-to-all"].bound) == (14, 0.0)
    assert found["all-to-all"].complaint == "uses leaf0 - spine0 and 13 more, which it does not hold"
    rejected = only(claim(fabric, range(16), links, ["ring", "all-to-all"]))
    assert rejected.reasons == ["all-to-all is promised, but uses leaf0 - spine0, a link it does not hold"]


def test_two_jobs_on_the_same_links_do_not_both_pass():
    """Two rings over the same leaves: whoever holds the links is isolated, the other one is not, whatever it leaves out."""
    fabric = fabric_from(SMALL, "x")
    links = [(leaf, "spine3") for leaf in ("leaf0", "leaf1")]
    mine, yours = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    first = claim(fabric, mine, links, ["ring"], modulus=4)
    assert only(first).isolation == "partial"
    silent = claim(fabric, yours, [], [], modulus=4)
    without = claim(fabric, yours, [], ["ring"], modulus=4)
    same = claim(fabric, yours, links, ["ring"], modulus=4)
    for other, reason in (
        (silent, "promises no pattern"),
        (without, "uses leaf0 - spine3, a link it does not hold"),
        (same, "holds link leaf0-spine3, which a holds"),
    ):
        accepted, rejected = verify([("a", first), ("b", other)])
        assert not accepted.reasons
        assert reason in rejected.reasons[0]


def test_on_rails_the_nics_of_others_are_not_used():
    """GPU 0 of one server and GPU 1 of the next: their flows would leave by NICs that belong to another job."""
    content = json.loads(Certificate(fabric_from(RAIL, "x"), (0, 5), (), {"rule": "none"}, ("ring",)).as_text())
    assert only(content).reasons == ["ring is promised, but uses gpu1 - leaf0.r1, a link it does not hold"]


def test_a_rule_for_circuits_is_refused_where_there_are_none():
    """By member the way up and the way down end on different spines: no such path exists without an OCS layer."""
    content = claim(fabric_from(SMALL, "x"), range(8), [], ["ring"])
    content["routing"] = {"rule": "by-member", "fibres": {"0": [0, 1], "1": [2, 3]}}
    content["digest"] = digest_of(content)
    assert only(content).reasons == ["field routing.rule: by-member is for fabrics with an OCS layer"]


def test_a_pattern_that_cannot_be_followed_is_not_clean():
    """8 and 2 ranks, a link for each of 9 indices: the pipeline works, the ring has no way back, and `full` is not said."""
    fabric = fabric_from(SMALL | {"spines": 16}, "x")
    content = claim(
        fabric, range(10), [(leaf, f"spine{spine}") for leaf in ("leaf0", "leaf1") for spine in (7, 8)], ["pipeline"]
    )
    content["routing"] = {"rule": "rank-mod", "modulus": 10, "spines": list(range(9))}
    content["digest"] = digest_of(content)
    verdict = only(content)
    assert verdict.isolation == "partial"
    found = {one.pattern: one for one in verdict.findings}
    assert found["pipeline"].clean
    assert found["ring"].complaint == "routing gives leaf1 no link number 9"
    assert (found["ring"].clean, found["ring"].bound) == (False, 0.0)
    assert "halving-doubling" not in found, "it does not exist for 10 ranks"


# The real fabric.


def test_another_fabric_than_the_real_one_is_rejected_with_the_field():
    own = load_fabric("vclos-512")
    content = json.loads(allocate(occupied_by(own), 64, "vclos").certificate.as_text())
    assert only(content).notes == [
        "the fabric is the certificate's own claim: give --fabric to check against the real one"
    ]
    assert not only(content).anchored
    anchored = only(content, fabric=describe(own))
    assert (anchored.anchored, anchored.isolation, anchored.notes) == (True, "full", [])
    bigger = content | {"fabric": content["fabric"] | {"spines": 64}}
    bigger |= {"digest": digest_of(bigger)}
    assert only(bigger).isolation == "full", "it is sound on the fabric that it claims"
    found = only(bigger, fabric=describe(own))
    assert found.reasons == ["is of another fabric than the one given: spines is 64, not 32"]
    with pytest.raises(
        BadInput, match=r"job\.json: rejected: is of another fabric than the one given: spines is 64, not 32"
    ):
        admitted([("job.json", bigger)], own)


def test_the_command_says_what_it_was_checked_against(tmp_path):
    path = tmp_path / "one.json"
    assert run("allocate", "vclos-512", "--gpus", 64, "--out", path).exit_code == 0
    assert "the fabric is the certificate's own claim" in " ".join(run("verify", path).stdout.split())
    anchored = run("verify", path, "--fabric", "vclos-512").stdout
    assert "own claim" not in anchored
    assert "checked against the real fabric vclos-512" in anchored
    content = json.loads(run("verify", path, "--json").stdout)
    assert (content["anchored"], content["certificates"][0]["anchored"]) == (False, False)
    assert content["certificates"][0]["notes"]
    content = json.loads(run("verify", path, "--fabric", "vclos-512", "--json").stdout)
    assert (content["anchored"], content["certificates"][0]["notes"]) == (True, [])
    refused = run("verify", path, "--fabric", "vclos-2048")
    assert "rejected: is of another fabric than the one given: name is vclos-512, not vclos-2048" in str(
        refused.exception
    )
    assert "own claim" not in refused.stdout, "a fabric was given"
    assert "is of another fabric" in str(run("allocate", "vclos-2048", "--gpus", 8, "--after", path).exception)


# Malformed files.

DEEP = 100_000
MALFORMED = {
    "nested lists": ("[" * DEEP, "nested too deeply"),
    "nested mappings": ('{"a":' * DEEP, "nested too deeply"),
    "duplicate keys": ('{"version": 1, "version": 1}', "the key 'version' is there twice"),
    "infinite": ('{"version": 1e999}', "the number 1e999 is infinite here"),
    "infinity": ('{"version": -Infinity}', "-Infinity is not a number"),
    "not a number": ('{"version": NaN}', "NaN is not a number"),
    "long number": ("1" + "0" * 100_000, "a number of 100,001 characters"),
    "huge number": ('{"version": 1' + "0" * 30 + "}", "field version"),
    "long float": ("0." + "1" * 100_000, "a number of 100,002 characters"),
    "not text": (b"\xff\xfe", "not UTF-8 text"),
    "no JSON": ("{", "not JSON (line 1, column 2"),
    "empty": ("", "not JSON"),
    "half a character": ('{"\\ud800": 1}', "rejected: field"),
    "control characters": ('{"a\\nb\\u001b[31m": 1}', "rejected: field"),
    "a list": ("[1, 2]", "field certificate"),
    "too long": ("[" + "1," * (9 << 20) + "1]", "longer than 8 MiB"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files_are_one_line(case, tmp_path):
    content, complaint = MALFORMED[case]
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for words in (("verify", path), ("routes", path), ("show", "vclos-512", "--after", path)):
        error = str(run(*words).exception)
        assert complaint in error
        assert "\n" not in error
        assert error.isascii()
        assert len(error) < 400


HOSTILE = [
    ("rank_order", lambda c: [10**30] * 16, "field rank_order.0"),
    ("patterns", lambda c: ["hybrid:²"], "field patterns.0"),
    ("patterns", lambda c: ["ring"] * 100_000, "field patterns"),
    ("patterns", lambda c: ["ring:4"], "pattern 'ring:4' is not known"),
    ("patterns", lambda c: ["hybrid:9999999"], "needs a group that divides 16 ranks"),
    ("version", lambda c: True, "field version"),
    ("version", lambda c: 1.0, "field version"),
    ("links", lambda c: [["leaf0", "spine0\n"]], "field links.0.1"),
    ("links", lambda c: [["leaf0", "spine²"]], "field links.0.1"),
    ("links", lambda c: [["leaf00", "spine0"]], "which the fabric does not have"),
    ("fabric", lambda c: c["fabric"] | {"name": "\x1b[2J"}, "field fabric.name"),
    ("fabric", lambda c: c["fabric"] | {"name": "[/bold]"}, "field fabric.name"),
    ("fabric", lambda c: c["fabric"] | {"link_gbps": 1e300}, "field fabric.link_gbps"),
    (
        "fabric",
        lambda c: c["fabric"] | {"gpus_per_server": 10**30, "servers_on_leaf": [0]},
        "field fabric.gpus_per_server",
    ),
    ("fabric", lambda c: c["fabric"] | {"servers_on_leaf": [0]}, "the last leaf has no servers"),
    ("fabric", lambda c: c["fabric"] | {"kind": "rail", "gpus_per_server": 65536}, "leaves or"),
    ("fabric", lambda c: c["fabric"] | {"spines": 65536}, "uplinks per leaf: at most 64"),
    ("fabric", lambda c: c["fabric"] | {"leaf_pod": [0] * 6}, "only a three-tier fabric has pods"),
    ("routing", lambda c: c["routing"] | {"modulus": 10**30}, "field routing.modulus"),
    ("routing", lambda c: c["routing"] | {"near": 0}, "field routing.near: has no meaning with rank-mod"),
    ("routing", lambda c: {"rule": "rank-mod", "spines": [0]}, "field routing.modulus: missing"),
    ("signature", lambda c: {"algorithm": "none"}, "field signature"),
]


@pytest.mark.parametrize(("field", "change", "complaint"), HOSTILE)
def test_numbers_and_names_are_bounded(field, change, complaint):
    content = claim(fabric_from(SMALL, "x"), range(16), [], ["ring"])
    content[field] = change(content)
    content["digest"] = digest_of(content)
    verdict = only(content)
    assert verdict.isolation == "rejected"
    assert complaint in verdict.reasons[0]
    assert verdict.reasons[0].isprintable()


def test_the_verifier_takes_any_plain_data():
    """From Python too: what JSON cannot say is a verdict, not a traceback."""
    deep = []
    for _ in range(DEEP):
        deep = [deep]
    for content in (deep, {"version": float("nan")}, {"version": 10**5000}, object(), {"version": {1, 2}}, None, "x"):
        assert only(content).reasons[0].startswith("field")


# Signatures.


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("manager", "other"):
        assert run("key", folder / f"{name}.key").exit_code == 0
    return folder


def test_a_signed_certificate_says_who_issued_it(keys, tmp_path):
    path, fabric = tmp_path / "signed.json", ("--fabric", "vclos-512")
    assert run("allocate", "vclos-512", "--gpus", 64, "--sign", keys / "manager.key", "--out", path).exit_code == 0
    content = json.loads(path.read_text())
    assert content["digest"] == digest_of(content), "the digest is over the same fields as before"
    assert "signed by ed25519:" in run("verify", path, *fabric, "--key", keys / "manager.key.pub").stdout
    unvouched = json.loads(run("verify", path, *fabric, "--json").stdout)["certificates"][0]
    assert unvouched["signature"] == "unchecked"
    assert "which nobody vouched for" in unvouched["notes"][0]
    answered = run("verify", path, *fabric, "--key", keys / "other.key.pub", "--json")
    assert json.loads(answered.stdout)["certificates"][0]["signature"] == "wrong"
    wrong = str(answered.exception)
    assert "rejected: is signed by ed25519:" in wrong
    assert ", not by ed25519:" in wrong


def test_changes_and_borrowed_signatures_are_rejected(keys, tmp_path):
    path, public = tmp_path / "signed.json", keys / "manager.key.pub"
    run("allocate", "vclos-512", "--gpus", 64, "--sign", keys / "manager.key", "--out", path)
    content = json.loads(path.read_text())
    other = json.loads(run("allocate", "vclos-512", "--gpus", 32, "--json").stdout)
    for forged in (
        content | {"patterns": ["ring"], "digest": digest_of(content | {"patterns": ["ring"]})},
        other | {"signature": content["signature"]},
    ):
        path.write_text(json.dumps(forged))
        for words in ((), ("--key", public)):
            assert "the signature does not match" in str(run("verify", path, *words).exception)
    path.write_text(json.dumps(other))
    assert "is not signed; it must be by ed25519:" in str(run("verify", path, "--key", public).exception)
    assert run("sign", path, "--key", keys / "manager.key", "--fabric", "vclos-512").exit_code == 0
    assert run("verify", path, "--key", public).exit_code == 0


def test_nothing_unsound_is_signed(keys, tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(claim(load_fabric("vclos-512"), range(64), [], ["ring"])))
    refused = run("sign", path, "--key", keys / "manager.key", "--fabric", "vclos-512")
    assert "a link it does not hold" in str(refused.exception)


def test_keys_are_private_and_never_written_over(keys, tmp_path):
    private = keys / "manager.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    before = private.read_bytes()
    assert "is there already: keys are never written over" in str(run("key", private).exception)
    assert private.read_bytes() == before
    open_key = tmp_path / "open.key"
    open_key.write_bytes(before)
    open_key.chmod(0o644)
    allocate_words = ("allocate", "vclos-512", "--gpus", 8)
    assert "chmod 600" in str(run(*allocate_words, "--sign", open_key).exception)
    open_key.chmod(0o600)
    open_key.write_bytes((keys / "manager.key.pub").read_bytes())
    assert "this is a public key: give its private key" in str(run(*allocate_words, "--sign", open_key).exception)
    open_key.write_text("nothing")
    assert "not a private Ed25519 key" in str(run(*allocate_words, "--sign", open_key).exception)
    path = tmp_path / "one.json"
    run(*allocate_words, "--out", path)
    assert f"a private key: give its public key, {private.name}.pub" in str(
        run("verify", path, "--key", private).exception
    )
    assert "not a public Ed25519 key" in str(run("verify", path, "--key", open_key).exception)
    assert "the key cannot be read" in str(run("verify", path, "--key", tmp_path / "none.pub").exception)


def test_a_public_key_does_not_sign_and_is_called_public(tmp_path, keys):
    """It was called a private key that others can read."""
    path, public = tmp_path / "one.json", keys / "manager.key.pub"
    run("allocate", "vclos-512", "--gpus", 8, "--out", path)
    for words in (("sign", path, "--fabric", "vclos-512", "--key"), ("allocate", "vclos-512", "--gpus", 8, "--sign")):
        message = str(run(*words, public).exception)
        assert message == f"{public}: this is a public key: give its private key, {keys / 'manager.key'}"


def test_a_private_key_may_stand_beside_its_public_key(tmp_path, keys):
    """A file of both was refused as a public key."""
    both = tmp_path / "both"
    both.touch(mode=0o600)
    both.write_text((keys / "manager.key").read_text() + (keys / "manager.key.pub").read_text())
    assert run("allocate", "vclos-512", "--gpus", 8, "--sign", both).exit_code == 0


def test_no_traceback_reaches_a_terminal(tmp_path):
    """The whole program: a path and a message that a terminal library could take for markup."""
    path = tmp_path / "[bold]x[red].json"
    path.write_text("[" * DEEP)
    words = [sys.executable, "-c", "from headway.cli.main import main; main()", "fabric", "verify", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "nested too deeply" in done.stderr
