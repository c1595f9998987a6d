"""`headway fabric` as a person types it: files in, tables or JSON out, one line and exit 1 for bad input."""

import json

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput


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


def test_routes_for_switches(issued, tmp_path):
    linux = run("routes", issued[0]).stdout
    assert "ip rule add from 10.64.0.1/32 lookup 1000 priority 1000" in linux
    assert "ip route replace default via 100.64.0.2 dev up1 table 1064" in linux
    assert linux.count("ip rule add") == 64, "one rule for each rank"
    frr = run("routes", issued[0], "--format", "frr").stdout
    assert frr.count("set nexthop") == 64
    rules = json.loads(run("routes", issued[0], "--format", "json").stdout)["rules"]
    assert {rule["port"] for rule in rules if rule["switch"] == "leaf1"} == {f"up{i}" for i in range(32)}
    assert "did you mean 'linux'" in str(run("routes", issued[0], "--format", "linus").exception)


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
        (["allocate", "vclos-512", "--gpus", "0"], "0 GPUs asked"),
        (["allocate", "vclos-512", "--gpus", "8", "--pattern", "rign"], "did you mean 'ring'"),
        (["allocate", "vclos-512", "--gpus", "8", "--placement", "ocs-vclos"], "has no OCS layer"),
    ],
)
def test_bad_input_is_one_line(words, complaint):
    result = run(*words)
    assert isinstance(result.exception, BadInput)
    assert complaint in str(result.exception)
    assert "\n" not in str(result.exception)
