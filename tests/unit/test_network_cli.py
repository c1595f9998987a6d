"""`headway fabric` as a person types it: files in, tables or JSON out, one line and exit 1 for bad input."""

import json

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput
from headway.network.certificates.certificate import digest_of


def run(*words):
    result = CliRunner().invoke(app, ["fabric", *map(str, words)])
    if result.exception and not isinstance(result.exception, (BadInput, SystemExit)):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    """Two certificates of one fabric, the second issued after the first."""
    folder = tmp_path_factory.mktemp("certificates")
    first, second = folder / "one.json", folder / "two.json"
    assert run("allocate", "vclos-512", "--gpus", 64, "--pattern", "ring", "--out", first).exit_code == 0
    assert run("allocate", "vclos-512", "--gpus", 48, "--after", first, "--out", second).exit_code == 0
    return first, second


def test_allocate_prints_the_certificate(issued):
    content = json.loads(run("allocate", "vclos-512", "--gpus", 96, "--json").stdout)
    assert {"fabric", "gpus", "rank_order", "links", "circuits", "routing", "patterns"} <= set(content)
    assert len(content["gpus"]) == 96
    assert len(content["links"]) == 96
    assert json.loads(issued[0].read_text())["patterns"][0] == "ring"


def test_verify_accepts_both_together_and_in_json(issued):
    assert "full" in run("verify", *issued).stdout
    content = json.loads(run("verify", *issued, "--json").stdout)
    assert content["ok"]
    assert [one["isolation"] for one in content["certificates"]] == ["full", "full"]


def test_verify_rejects_a_copy_and_a_hand_edit(issued, tmp_path):
    twice = run("verify", issued[0], issued[0], "--json")
    assert not json.loads(twice.stdout)["ok"]
    assert "rejected: holds GPU 0" in str(twice.exception)
    damaged = tmp_path / "damaged.json"
    damaged.write_text(issued[0].read_text().replace('"modulus": 32', '"modulus": 16'))
    assert "the digest does not match" in str(run("verify", damaged).exception)
    damaged.write_text("{")
    assert "not JSON" in str(run("verify", damaged).exception)
    assert "cannot be read" in str(run("verify", tmp_path / "absent.json").exception)
    assert "rejected" in str(
        run("allocate", "vclos-512", "--gpus", 8, "--after", issued[0], "--after", issued[0]).exception
    )


def test_show_draws_and_reports(issued, tmp_path):
    page = tmp_path / "fabric.html"
    shown = run("show", "vclos-512", "--after", issued[0], "--report", page).stdout
    assert "[spine0]" in shown
    assert "#" * 32 in shown
    assert "." * 32 in shown
    assert "certificate 1" in page.read_text()
    numbers = json.loads(run("show", "superpod", "--json").stdout)
    assert (numbers["gpus"], numbers["leaves"], numbers["uplinks"]) == (1024, 32, 32)
    for name in ("ocs-vclos-512", "superpod"):
        assert run("show", name).exit_code == 0


def test_routes_for_switches(issued):
    text = run("routes", issued[0]).stdout
    assert "rule from 10.64.0.1/32 lookup 1000 priority 1000" in text
    assert "ip route replace default via 100.64.0.2 dev up1 onlink metric 1 table 1001" in text
    assert text.count("\nrule from") == 64, "one rule for each rank"
    assert run("routes", issued[0], "--undo").stdout.count("gone rule del from") == 64
    one = run("routes", issued[0], "--switch", "leaf1").stdout
    assert one.count("\nrule from") == 32
    assert run("routes", issued[0], "--format", "frr").stdout.count("set nexthop") == 128, "each with a spare"
    rules = json.loads(run("routes", issued[0], "--format", "json").stdout)["rules"]
    assert {rule["port"] for rule in rules if rule["switch"] == "leaf1"} == {f"up{i}" for i in range(32)}
    assert "did you mean 'linux'" in str(run("routes", issued[0], "--format", "linus").exception)
    assert "unknown switch 'leaf16'" in str(run("routes", issued[0], "--switch", "leaf16").exception)
    for name in ("spine0", "leaf9"):
        beside = run("routes", issued[0], "--switch", name)
        assert beside.exit_code == 0, "a loop over all switches of the hall goes on"
        assert "# no routes are needed" in beside.stdout
    assert "needs 33 policy rules as eos, and its budget is 20" in str(
        run("routes", issued[0], "--format", "eos", "--budget", 20).exception
    )


def test_routes_around_a_failed_link(issued):
    usual, around = run("routes", issued[0]).stdout, run("routes", issued[0], "--failed", "leaf0-spine3").stdout
    assert "around leaf0-spine3: flows share links" in around
    assert "ip route replace default via 100.64.0.8 dev up4 onlink metric 1 table 1003" in around, (
        "at leaf0 the next link"
    )
    assert "ip route replace 10.64.0.0/24 via 100.64.0.136 dev up4 onlink metric 1 table 1003" in around, (
        "at leaf1, to leaf0"
    )
    assert "ip route replace 10.64.0.0/24 via" not in usual
    assert "not a link of this slice, such as leaf0-spine0" in str(
        run("routes", issued[0], "--failed", "leaf9-spine3").exception
    )


def test_routes_are_of_the_real_fabric(issued, tmp_path):
    """A preset is known by its name; any other fabric must be named, or its inventory."""
    own = tmp_path / "lab.yaml"
    own.write_text("name: lab\nleaves: 4\nservers_per_leaf: 2\ngpus_per_server: 4\nspines: 8\n")
    path = tmp_path / "lab.json"
    assert run("allocate", own, "--gpus", 16, "--out", path).exit_code == 0
    assert "give --fabric F or --inventory FILE" in str(run("routes", path).exception)
    assert run("routes", path, "--fabric", own).exit_code == 0
    own.write_text(own.read_text().replace("spines: 8", "spines: 9"))
    assert "is of another fabric than the one given: spines is 8, not 9" in str(
        run("routes", path, "--fabric", own).exception
    )
    forged = tmp_path / "forged.json"
    content = json.loads(issued[0].read_text())
    content["fabric"]["spines"] = 64
    forged.write_text(json.dumps(content | {"digest": digest_of(content)}))
    assert run("verify", forged).exit_code == 0, "sound on the fabric that it claims"
    assert "spines is 64, not 32" in str(run("routes", forged).exception)


def test_routes_of_circuits(tmp_path):
    path = tmp_path / "ocs.json"
    for gpus, rule in ((40, "direct"), (64, "direct"), (100, "rank-mod")):
        run("allocate", "ocs-vclos-512", "--gpus", gpus, "--out", path)
        content = json.loads(path.read_text())
        assert content["routing"]["rule"] == rule
        routes = json.loads(run("routes", path, "--format", "json").stdout)
        assert len(routes["cross_connects"]) == len(content["circuits"])
        assert routes["rules"]
        ends = [(one["switch"], end) for one in routes["cross_connects"] for end in one["ends"]]
        assert len(set(ends)) == len(ends), "a port is joined once"
        assert run("routes", path, "--format", "frr").exit_code == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["show", "vclos-51"], "did you mean 'vclos-512'"),
        (["allocate", "vclos-512", "--gpus", "37"], "the nearest sizes that fit are 36 or 38"),
        (["allocate", "vclos-512", "--gpus", "0"], "--gpus 0 is not a whole number from 1"),
        (["allocate", "vclos-512", "--gpus", "8", "--pattern", "rign"], "did you mean 'ring'"),
        (["allocate", "vclos-512", "--gpus", "8", "--pattern", "hybrid:²"], "the group is a number of ranks"),
        (
            ["allocate", "vclos-512", "--gpus", "8", "--pattern", f"hybrid:{'9' * 5000}"],
            "the group is a number of ranks",
        ),
        (["allocate", "vclos-512", "--gpus", "8", "--placement", "ocs-vclos"], "has no OCS layer"),
    ],
)
def test_bad_input_is_one_line(words, complaint):
    result = run(*words)
    assert isinstance(result.exception, BadInput)
    assert complaint in str(result.exception)
    assert "\n" not in str(result.exception)
