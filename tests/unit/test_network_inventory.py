"""The inventory: an operator's names and addresses in the routes, and one line for whatever is wrong in it."""

import json

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput
from headway.network.fabric.file import fabric_from
from headway.network.routes.plan import as_json, planned
from headway.sim.network_files import load_fabric, read_inventory

FABRIC = "name: lab\nleaves: 2\nservers_per_leaf: 1\ngpus_per_server: 2\nspines: 2\n"
KINDS = [
    "vclos-512",
    "ocs-vclos-512",
    "superpod",
    {"kind": "three-tier", "pods": 2, "leaves_per_pod": 2, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4, "cores_per_group": 2},
]  # fmt: skip


def run(*words):
    result = CliRunner().invoke(app, ["fabric", *map(str, words)])
    if result.exception and not isinstance(result.exception, (BadInput, SystemExit)):
        raise result.exception
    return result


@pytest.fixture
def hall(tmp_path):
    """A fabric, a certificate of all of it, and an inventory in the operator's words, as plain data."""
    (tmp_path / "lab.yaml").write_text(FABRIC)
    assert run("allocate", tmp_path / "lab.yaml", "--gpus", 4, "--out", tmp_path / "job.json").exit_code == 0
    content = {
        "fabric": "lab.yaml",
        "switches": {
            "leaf0": {"switch": "rack1-leaf", "prefix": "10.1.0.0/24"},
            "leaf1": {"switch": "rack2-leaf", "prefix": "10.2.0.0/24"},
            "spine0": {"switch": "row-spine1"},
            "spine1": {"switch": "row-spine2"},
        },
        "nics": [
            {
                "gpu": gpu,
                "address": f"10.{gpu // 2 + 1}.0.{10 + gpu}",
                "port": f"swp{gpu % 2 + 1}",
                "server": f"node{gpu // 2}",
            }
            for gpu in range(4)
        ],
        "cables": [
            {
                "ends": [f"leaf{leaf}", f"spine{spine}"],
                "lower": {"interface": f"swp{31 + spine}", "address": f"172.16.{leaf}.{4 * spine + 1}"},
                "upper": {"interface": f"swp{1 + leaf}", "address": f"172.16.{leaf}.{4 * spine + 2}"},
            }
            for leaf in range(2)
            for spine in range(2)
        ],
    }
    return tmp_path, content


def write(hall, name="hall.json"):
    path = hall[0] / name
    path.write_text(json.dumps(hall[1]))
    return path


@pytest.mark.parametrize("name", ["hall.json", "hall.yaml"])
def test_routes_speak_the_operators_language(hall, name):
    path = write(hall, name)
    words = ("routes", hall[0] / "job.json", "--inventory", path)
    linux = run(*words, "--switch", "rack1-leaf").stdout
    assert "# on rack1-leaf (leaf0): 2 of 4096 policy rules" in linux
    assert "ip route replace throw 10.1.0.0/24 table 1000" in linux
    assert "ip route replace default via 172.16.0.2 dev swp31 onlink metric 1 table 1000" in linux
    assert "ip route replace default via 172.16.0.6 dev swp32 onlink metric 2 table 1000" in linux
    assert "rule from 10.1.0.10/32 lookup 1000 priority 1000" in linux
    nvue = run(*words, "--format", "nvue", "--switch", "rack2-leaf").stdout
    for line in (
        "via 172.16.1.2 interface swp31",
        "rule 4 match source-ip 10.2.0.12/32",
        "rule 2 match destination-ip 10.2.0.0/24",
        "rule 2 action vrf default",
        "nv set interface swp1 router pbr map hw-",
    ):
        assert line in nvue
    eos = run(*words, "--format", "eos", "--switch", "rack1-leaf").stdout
    for line in (
        "10 permit ip 10.1.0.10/32 any",
        "set nexthop recursive 198.18.0.0",
        "ip route 198.18.0.0/32 swp31 172.16.0.2 1",
    ):
        assert line in eos
    assert "ip route 198.18.0.0/32 swp32 172.16.0.6 2" in eos, "the spare, with a greater distance"
    sonic = run(*words, "--format", "sonic", "--switch", "rack1-leaf").stdout
    assert "SRC_IP '10.1.0.10/32' PACKET_ACTION 'REDIRECT:172.16.0.2@swp31'" in sonic
    assert "ports@ 'swp1,swp2'" in sonic


def test_a_switch_may_have_its_own_budget(hall):
    hall[1]["budget"] = 5
    hall[1]["switches"]["leaf0"]["budget"] = 1
    path = write(hall)
    words = ("routes", hall[0] / "job.json", "--inventory", path)
    assert "rack1-leaf (leaf0) needs 2 policy rules as linux, and its budget is 1" in str(run(*words).exception)
    assert "# on rack1-leaf (leaf0): 2 of 7" in run(*words, "--budget", 7).stdout
    assert "# on rack2-leaf (leaf1): 4 of 5" in run(*words, "--switch", "leaf1", "--format", "nvue").stdout


def change(path, value):
    """A change of one place of the inventory."""

    def make(content):
        inside = content
        for key in path[:-1]:
            inside = inside[key]
        if value is None:
            del inside[path[-1]]
        else:
            inside[path[-1]] = value

    return make


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (change(["switches", "leaf0", "switch"], "x; rm -rf /"), "switches.leaf0.switch"),
        (change(["nics", 0, "port"], "swp1\nreboot"), "nics[0].port"),
        (change(["nics", 0, "port"], "$(reboot)"), "nics[0].port"),
        (change(["nics", 0, "address"], "10.1.0.256"), "nics[0].address"),
        (change(["nics", 0, "address"], "10.1.0.²"), "nics[0].address"),
        (change(["nics", 0, "address"], "10.9.0.1"), "gpu 0 has address 10.9.0.1, outside 10.1.0.0/24 of leaf0"),
        (change(["nics", 0, "gpu"], 10**30), "nics[0].gpu"),
        (change(["nics", 0, "gpu"], 99), "gpu 99: the fabric lab has GPUs 0 to 3"),
        (change(["nics", 1, "gpu"], 0), "nics: gpu 0 is there twice"),
        (change(["nics", 1, "address"], "10.1.0.10"), "address 10.1.0.10 is there twice"),
        (change(["nics", 1, "port"], "swp31"), "interface leaf0 swp31 is there twice"),
        (change(["cables", 1, "ends"], ["leaf0", "spine0"]), "cables: ends leaf0 spine0 is there twice"),
        (change(["switches", "leaf1", "prefix"], "10.1.0.0/16"), "10.1.0.0/24 overlaps 10.1.0.0/16"),
        (change(["switches", "leaf1", "prefix"], "10.2.0.1/24"), "switches.leaf1.prefix"),
        (change(["switches", "leaf1", "switch"], "rack1-leaf"), "switches rack1-leaf is there twice"),
        (change(["switches", "leaf1"], None), "switches has no leaf1, which the certificate needs"),
        (change(["nics", 3], None), "nics has no gpu: 3, which the certificate needs"),
        (change(["cables", 3], None), "cables has none with ends: [leaf1, spine1], which the certificate needs"),
        (change(["cables", 3, "upper"], None), "the cable [leaf1, spine1] has no upper end"),
        (change(["switches", "leaf1", "prefix"], None), "switches.leaf1 has no prefix"),
        (change(["fabric"], "superpod"), "is of another fabric than the one given: name is lab, not superpod"),
        (change(["fabric"], "missing.yaml"), "no file missing.yaml"),
        (change(["colour"], "blue"), "unknown key 'colour'"),
        (change(["budget"], -1), "budget"),
    ],
)
def test_a_wrong_inventory_is_one_line(hall, make, complaint):
    make(hall[1])
    error = str(run("routes", hall[0] / "job.json", "--inventory", write(hall)).exception)
    assert complaint in error
    assert "\n" not in error


@pytest.mark.parametrize("kind", KINDS, ids=["leaf-spine", "optical", "rail", "pods"])
def test_the_plan_is_an_inventory(kind, tmp_path):
    """Written to a file and read again with all checks, it says the same."""
    fabric = load_fabric(kind) if isinstance(kind, str) else fabric_from({**kind, "name": "pods"}, "x")
    plan = planned(fabric)
    name = kind
    if not isinstance(kind, str):
        name = "pods.yaml"
        (tmp_path / name).write_text("\n".join(f"{key}: {value}" for key, value in {**kind, "name": "pods"}.items()))
    path = tmp_path / "plan.json"
    path.write_text(as_json(plan, name))
    again = read_inventory(path)
    assert again.fabric == fabric
    assert (again.switches, again.nics, again.cables) == (plan.switches, plan.nics, plan.cables)


def test_the_command_writes_one_to_start_from(hall):
    path = hall[0] / "plan.json"
    assert run("inventory", hall[0] / "lab.yaml", "--out", path).exit_code == 0
    by_plan = run("routes", hall[0] / "job.json", "--fabric", hall[0] / "lab.yaml").stdout
    by_file = run("routes", hall[0] / "job.json", "--inventory", path).stdout
    assert by_plan.splitlines()[2:] == by_file.splitlines()[2:], "all but the line that says where names come from"
    assert "which is not vclos-512" in str(
        run("routes", hall[0] / "job.json", "--inventory", path, "--fabric", "vclos-512").exception
    )
