"""Fabrics: presets, YAML, inventories, and refusals that name file and field."""

import gzip

import pytest

from headway.errors import BadInput
from headway.network.fabric.file import fabric_from
from headway.sim.network_files import load_fabric

LEAF_SPINE = {"kind": "leaf-spine", "leaves": 4, "servers_per_leaf": 2, "gpus_per_server": 4, "spines": 8}
RAIL = {"kind": "rail", "segments": 2, "servers_per_segment": 4, "gpus_per_server": 8, "spines": 2, "parallel_links": 2}
PODS = {
    "kind": "three-tier", "pods": 2, "leaves_per_pod": 3, "servers_per_leaf": 1, "gpus_per_server": 4, "spines": 4,
    "cores_per_group": 3,
}  # fmt: skip
OCS = {**LEAF_SPINE, "spines": 4, "ocs": {"switches": 8, "spine_fibres": 1}}


@pytest.mark.parametrize("gpus", [512, 2048, 4096, 8192])
def test_presets_have_the_papers_sizes(gpus):
    plain, optical = load_fabric(f"vclos-{gpus}"), load_fabric(f"ocs-vclos-{gpus}")
    assert (plain.gpus, plain.leaves, plain.uplinks, plain.oversubscription) == (gpus, gpus // 32, 32, 1.0)
    assert (optical.gpus, optical.spines, optical.uplinks) == (gpus, gpus // 64, 32)
    assert optical.ocs.switches * optical.ocs.spine_fibres == 64
    assert optical.spines * 64 == optical.leaves * optical.uplinks, "as many spine ports as leaf uplinks"
    assert plain.server_gbps == 10 * plain.link_gbps


def test_rails_put_gpu_g_of_every_server_on_leaf_g_of_its_segment():
    fabric = fabric_from(RAIL, "rail.yaml")
    assert (fabric.gpus, fabric.leaves, fabric.uplinks) == (64, 16, 4)
    assert fabric.leaf_of_gpu[0] == 0
    assert fabric.leaf_of_gpu[8 + 3] == 3, "server 1, GPU 3"
    assert fabric.leaf_of_gpu[4 * 8 + 3] == 8 + 3, "first server of segment 1"
    assert fabric.leaf_name(11) == "leaf1.r3"
    assert fabric.cable_name(fabric.leaf_cable(11, 3)) == ("leaf1.r3", "spine1.1")


def test_every_cable_has_its_own_name():
    for content in (LEAF_SPINE, RAIL, PODS, OCS):
        fabric = fabric_from(content, "x.yaml")
        names = [fabric.cable_name(cable) for cable in range(fabric.cables)]
        assert len(set(names)) == len(names)
    assert fabric_from(PODS, "x").cables == 6 * 4 + 2 * 4 * 3


def test_oversubscription_gives_the_spines_or_must_agree():
    content = {key: value for key, value in LEAF_SPINE.items() if key != "spines"}
    assert fabric_from({**content, "oversubscription": 2}, "x").spines == 4
    with pytest.raises(BadInput, match=r"oversubscription: 3 of 8 NICs per leaf gives 2\.67 spines"):
        fabric_from({**content, "oversubscription": 3}, "x")
    with pytest.raises(BadInput, match=r"two.yaml: oversubscription: 2 given, but 8 NICs over 8 uplinks per leaf is 1"):
        fabric_from({**LEAF_SPINE, "oversubscription": 2}, "two.yaml")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"spine_ports": 3}, r"x.yaml: spine_ports: 3, but 4 leaves x 1 uplinks to each spine need 4"),
        ({"servers": [{"name": "a", "leaf": 0}, {"name": "b"}]}, r"servers.1.leaf: server 'b' has NICs but no leaf"),
        ({"servers": [{"name": "a", "leaf": 9}]}, r"servers.0.leaf: server 'a' is on leaf 9, but leaves are 0 to 3"),
        ({"gpus_per_server": 0}, r"x.yaml: gpus_per_server: should be greater than or equal to 1, got 0, such as gpus_per_server: 8"),
        ({"spine": 3}, r"x.yaml: unknown key 'spine': did you mean 'spines'"),
        ({"leaves": None}, r"x.yaml: leaves: missing; a leaf-spine fabric needs it"),
        ({"spines": None}, r"x.yaml: spines: missing; give spines or oversubscription"),
        ({"spines": 65}, r"65 uplinks per leaf: between 1 and 64"),
        ({"cores_per_group": 2}, r"x.yaml: cores_per_group: only a three-tier fabric has cores"),
        ({"ocs": {"switches": 7, "spine_fibres": 1}}, r"ocs.switches: 7, but a leaf has 8 NICs"),
        ({"ocs": {"switches": 8, "spine_fibres": 2, "ports": 19}}, r"ocs.ports: 19, but 4 leaves and 8 spines x 2 .* 20"),
        ({"ocs": {"switches": 8, "spine_fibres": 2}, "spine_ports": 8}, r"spine_ports: 8, but 2 fibres .* 8 OCS are 16"),
        ({"parallel_links": 2, "ocs": {"switches": 8, "spine_fibres": 1}}, r"parallel_links: 2 with an OCS layer"),
        ({"kind": "rails"}, r"x.yaml: kind: should be 'leaf-spine'.*, got 'rails'"),
    ],
)  # fmt: skip
def test_inconsistent_fabrics_are_refused_with_file_and_field(change, complaint):
    with pytest.raises(BadInput, match=complaint):
        fabric_from({**LEAF_SPINE, **change}, "x.yaml")


def test_files_are_read_and_refused_by_name(tmp_path):
    good = tmp_path / "f.yaml"
    good.write_text("kind: leaf-spine\nleaves: 2\nservers_per_leaf: 1\ngpus_per_server: 4\nspines: 4\n")
    assert load_fabric(str(good)).gpus == 8
    good.write_text("kind: [")
    with pytest.raises(BadInput, match=r"f\.yaml, line 1, column 8: not YAML"):
        load_fabric(str(good))
    good.write_text("- 1")
    with pytest.raises(BadInput, match="a fabric is a mapping"):
        load_fabric(str(good))
    with pytest.raises(BadInput, match=r"no file .*absent.yaml"):
        load_fabric(str(tmp_path / "absent.yaml"))
    with pytest.raises(BadInput, match="did you mean 'vclos-512'"):
        load_fabric("vclos-51")


def test_inventories(tmp_path):
    path = tmp_path / "inventory.csv.gz"
    path.write_bytes(gzip.compress(b"host,dsw,psw,asw\nh0,D,P2,S1\nh1,D,P1,S1\nh2,D,P1,S1\nh3,D,P1,S2\n"))
    fabric = load_fabric(str(path))
    assert (fabric.kind, fabric.servers, fabric.leaves, fabric.pods) == ("three-tier", 4, 3, 2)
    assert fabric.server_group == (0, 0, 1, 2), "two hosts on (P1, S1); (P2, S1) is another leaf"
    path.write_bytes(gzip.compress(b"host,dsw,psw,asw\nh0,D,P2,\n"))
    with pytest.raises(BadInput, match=r"line 2: asw: host 'h0' has NICs but no leaf"):
        load_fabric(str(path))
    path.write_bytes(gzip.compress(b"host,psw\nh0,P2\n"))
    with pytest.raises(BadInput, match="column 'dsw' is missing"):
        load_fabric(str(path))


def test_the_shared_inventory(traces):
    fabric = load_fabric(str(traces / "lingjun2023_topology.csv.gz"))
    assert (fabric.servers, fabric.leaves, fabric.pods) == (847, 119, 3)
