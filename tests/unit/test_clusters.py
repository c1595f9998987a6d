"""Clusters by shorthand, preset and file; every mistake is one line that says what would be right."""

import pytest

from headway.cluster.named import PRESETS, cluster
from headway.cluster.nodes import Cluster, of_groups
from headway.errors import BadInput


def test_shorthand_names_nodes_in_order() -> None:
    found = cluster("15x4")
    assert found == Cluster("15x4", tuple(f"n{i:03d}" for i in range(15)), (4,) * 15)
    assert found.total == 60


def test_two_kinds_of_nodes() -> None:
    found = cluster("2x8+3x4")
    assert found.gpus == (8, 8, 4, 4, 4)
    assert len(set(found.nodes)) == 5


@pytest.mark.parametrize(
    ("name", "nodes", "gpus"),
    [
        ("tiresias-testbed", 15, 60),
        ("philly", 552, 2490),
        ("venus", 133, 1064),
        ("helios", 802, 6416),
        ("pai2020", 1814, 6742),
        ("openb", 1213, 6212),
        ("kalos", 302, 2416),
        ("seren", 286, 2288),
        ("vclos-512", 64, 512),
        ("vclos-2048", 256, 2048),
        ("vclos-4096", 512, 4096),
        ("vclos-8192", 1024, 8192),
        ("rubick-64", 8, 64),
    ],
)
def test_presets_have_the_published_sizes(name: str, nodes: int, gpus: int) -> None:
    found = cluster(name)
    assert (found.name, len(found.nodes), found.total) == (name, nodes, gpus)


def test_every_preset_is_covered_above() -> None:
    assert len(PRESETS) == 13


def test_names_sort_as_numbers_in_large_clusters() -> None:
    names = of_groups("c", ((1024, 8),)).nodes
    assert list(names) == sorted(names)


def test_yaml_file(tmp_path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("nodes:\n- {name: a, gpus: 8, count: 2}\n- {name: big, gpus: 16}\n- {gpus: 4, count: 2}\n")
    found = cluster(str(path))
    assert found == Cluster("lab", ("a0", "a1", "big", "n3", "n4"), (8, 8, 16, 4, 4))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("0x4", "zero nodes"),
        ("4x0", "zero GPUs"),
        ("4x", "NODESxGPUS"),
        ("4*8", "NODESxGPUS"),
        ("-1x8", "NODESxGPUS"),
        ("99999999x8", "more than"),
        ("1x1000000000", "too large: at most 1,000,000 GPUs"),
        ("1000x2000", "2,000,000 GPUs: at most 1,000,000"),
        ("nope", "NODESxGPUS.* a preset: tiresias-testbed, philly"),
        ("filly", "did you mean 'philly'?"),
        ("vclos-521", "did you mean 'vclos-512'?"),
        ("nowhere.yaml", "cannot read the cluster file nowhere.yaml: no such file"),
        ("", "unknown cluster"),
    ],
)
def test_bad_names(spec: str, words: str) -> None:
    with pytest.raises(BadInput, match=words.replace("?", r"\?")) as raised:
        cluster(spec)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes: []", "nodes is empty: at least one is needed, such as nodes: .{name: a, gpus: 8"),
        ("nodes: [{gpu: 4}]", "unknown key 'gpu': did you mean 'gpus'"),
        ("nodes: [{gpus: 1000, count: 2000}]", "2,000,000 GPUs: at most 1,000,000"),
        ("nodes: [{name: a}]", r"line 1: nodes\[0\].gpus is missing, such as gpus: 8"),
        ("nodes: [{name: a, gpus: 0}]", "greater than or equal to 1, got 0"),
        ("nodes: [{name: a, gpus: eight}]", "eight"),
        ("nodes: [{name: a, gpus: 8, cuont: 4}]", "did you mean 'count'"),
        ("node: [{name: a, gpus: 8}]", "nodes"),
        ("nodes: [{name: a, gpus: 8}, {name: a, gpus: 8}]", "two nodes are named 'a'"),
        ("nodes: [", "not YAML"),
        ("just text", "mapping"),
        ("", "a cluster file is a mapping of keys to values, such as nodes: "),
    ],
)
def test_bad_files_name_the_file_and_the_key(tmp_path, text: str, words: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=words) as raised:
        cluster(str(path))
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_cluster_refuses_to_be_empty() -> None:
    with pytest.raises(BadInput, match="no nodes"):
        Cluster("c", (), ())
    with pytest.raises(BadInput, match="0 GPUs"):
        Cluster("c", ("a",), (0,))
    with pytest.raises(BadInput, match="GPU counts"):
        Cluster("c", ("a",), (1, 2))
