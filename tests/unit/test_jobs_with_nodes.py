"""Jobs that ask for N nodes with K GPUs each: from a trace, under every placement."""

from pathlib import Path

import numpy as np
import pytest

import headway
from headway.cluster.demands import Demand, check_possible, demand_of, read_label
from headway.cluster.named import cluster
from headway.cluster.nodes import Cluster
from headway.core.events import START
from headway.core.tables.state import fewest_by_demand
from headway.errors import BadInput
from headway.sim.results.result import Result
from headway.sim.trace import read_trace
from headway.workloads.load import load
from headway.workloads.workload import workload
from headway.workloads.write import write_csv

LAB = """
name: lab
nodes:
  - {name: a, gpus: 4, count: 2, type: a100, features: [ib, nvlink]}
  - {name: v, gpus: 8, count: 2}
"""
TRACE = """job_id,submit_s,gpus,duration_s,nodes,gpu_type,features
two,0,8,100,2,,
one,0,4,100,1,,
any,0,4,100,,A100,ib;nvlink
apart,5,2,10,2,,ib|roce
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Return a trace with nodes, a GPU type and features."""
    (tmp_path / "trace.csv").write_text(TRACE)
    return str(tmp_path / "trace.csv")


@pytest.fixture
def lab(tmp_path: Path) -> str:
    """Return a cluster with two kinds of nodes."""
    (tmp_path / "lab.yaml").write_text(LAB)
    return str(tmp_path / "lab.yaml")


def places(result: Result) -> dict[str, list[int]]:
    """Return the GPUs by node of the last start of every job."""
    run = result.run
    node_of = np.repeat(np.arange(len(run.cluster.nodes)), run.cluster.gpus)
    found = {}
    for row in run.entries[run.entries["kind"] == START]:
        gpus = run.seats[row["seat_at"] : row["seat_at"] + row["gpus"]]
        place = np.bincount(node_of[gpus], minlength=len(run.cluster.nodes))
        found[str(run.workload.job_id[row["job"]])] = place.tolist()
    return found


def test_a_trace_has_nodes_types_and_features(trace: str, tmp_path: Path) -> None:
    jobs = load(trace)
    assert jobs.nodes.tolist() == [2, 1, 0, 2]
    assert jobs.gpu_type.tolist() == ["", "", "A100", ""]
    assert jobs.features.tolist() == ["", "", "ib;nvlink", "ib|roce"]
    write_csv(jobs, tmp_path / "again.csv")
    again = load(str(tmp_path / "again.csv"))
    assert all((getattr(again, name) == getattr(jobs, name)).all() for name in ("nodes", "gpu_type", "features"))
    other = tmp_path / "other.csv"
    other.write_text("submit_s,gpus,duration_s,num_nodes\n0,4,10,2\n")
    assert load(str(other)).nodes.tolist() == [2]


def test_workloads_without_these_columns_keep_their_hash() -> None:
    plain, with_nodes = (workload("w", [0.0], [4], [1.0], nodes=nodes) for nodes in (None, [2]))
    assert read_trace(plain).sha256 == read_trace(workload("w", [0.0], [4], [1.0])).sha256
    assert read_trace(plain).sha256 != read_trace(with_nodes).sha256


@pytest.mark.parametrize(
    ("placement", "two"),
    [
        ("consolidated", [4, 4, 0, 0]),  # the fullest nodes that have 4 GPUs
        ("consolidated?strict=no", [4, 4, 0, 0]),
        ("profile", [4, 4, 0, 0]),
        ("joint", [4, 4, 0, 0]),
        ("spread", [0, 0, 4, 4]),  # the emptiest
    ],
)
def test_a_trace_with_nodes_is_simulated(trace: str, lab: str, placement: str, two: list[int]) -> None:
    found = places(headway.simulate(trace, lab, "fifo", placement=placement, keep_journal=True))
    assert found["two"] == two
    assert sorted(found["one"]) == [0, 0, 0, 4]
    assert sum(found["any"][:2]) == 4
    assert found["apart"] == [1, 1, 0, 0]


def test_random_nodes_are_drawn_from_the_seed(lab: str) -> None:
    jobs = workload("jobs", [0.0], [4], [10.0], nodes=[2])
    drawn = [
        places(headway.simulate(jobs, "6x4", "fifo", placement="random", seed=seed, keep_journal=True))["0"]
        for seed in range(40)
    ]
    assert all(sorted(place) == [0, 0, 0, 0, 2, 2] for place in drawn)
    assert len(set(map(tuple, drawn))) > 5
    assert all(sum(place[node] for place in drawn) for node in range(6))


@pytest.mark.parametrize("placement", ["vclos", "vclos-padded", "ocs-vclos", "leaf-aware", "joint"])
def test_placements_that_know_the_fabric_keep_the_nodes(placement: str) -> None:
    shapes = [(1, 3), (2, 4), (2, 8), (3, 2), (4, 8), (8, 8), (16, 8), (1, 8), (2, 1)] * 6
    draw = np.random.default_rng(3)
    submit, length = draw.integers(0, 60, len(shapes)), draw.integers(10, 300, len(shapes))
    jobs = workload("jobs", submit, [n * k for n, k in shapes], length, nodes=[n for n, _ in shapes])
    run = headway.simulate(jobs, "vclos-512", "srtf", placement=placement, keep_journal=True)
    found = places(run)
    assert len(found) == len(shapes)
    for number, (nodes, each) in enumerate(shapes):
        assert sorted(filter(None, found[str(number)])) == [each] * nodes


def test_jobs_that_the_cluster_never_holds_are_refused_or_left_out(lab: str) -> None:
    jobs = workload("jobs", [0.0, 0.0], [24, 4], [10.0, 10.0], nodes=[3, 1])
    with pytest.raises(
        BadInput, match=r"job 0: .*3 nodes with 8 GPUs each, and the cluster has 2: .*--skip-impossible"
    ):
        headway.simulate(jobs, lab)
    assert headway.simulate(jobs, lab, skip_impossible=True).left_out == 1
    typed = workload("jobs", [0.0], [4], [10.0], gpu_type=["h100"])
    with pytest.raises(BadInput, match=r"job 0: .*asks for h100 GPUs, and this cluster has a100") as refused:
        headway.simulate(typed, lab, skip_impossible=True)
    assert "--skip-impossible" not in str(refused.value), "no job is left then"


@pytest.mark.parametrize(
    ("gpus", "nodes", "words"),
    [
        (16, 4, None),
        (32, 8, "8 nodes with 4 GPUs each, and the cluster has 4: ask for at most 4 nodes"),
        (16, 1, "1 node with 16 GPUs each, and no node has more than 8 GPUs: ask for fewer GPUs per node"),
    ],
)
def test_what_can_never_start_is_refused(lab: str, gpus: int, nodes: int, words: str | None) -> None:
    where = cluster(lab)
    if words is None:
        check_possible(where, demand_of("", (), gpus, nodes), gpus)
        return
    with pytest.raises(BadInput, match=words):
        check_possible(where, demand_of("", (), gpus, nodes), gpus)


def test_one_gpu_needs_no_constraint_and_labels_are_read_back() -> None:
    assert not demand_of("", (), 1, 1)
    for each in (Demand(), Demand("a100"), Demand("", ("ib", "x|y"), 4), demand_of("A100", ["b|a"], 8, 2)):
        assert read_label(each.label) == each


def test_the_fewest_nodes_of_a_constraint() -> None:
    suits, per_node = np.ones((2, 3), np.int8), np.array([0, 4], np.int32)
    fewest = fewest_by_demand(np.array([4, 2, 8]), suits, per_node, 14)
    assert fewest[0].tolist() == [0, *[1] * 8, *[2] * 4, 3, 3]
    assert [fewest[1, gpus] for gpus in (0, 4, 8, 5, 12)] == [0, 1, 2, 3, 3]


def test_two_jobs_share_gpus_only_on_the_nodes_that_both_ask_for() -> None:
    where = Cluster("two", ("a", "b"), (2, 2))
    jobs = workload("jobs", [0.0, 0.0, 1.0, 1.0], [2, 2, 2, 2], [500.0] * 4, nodes=[1, 1, 2, 1], model=["vgg16"] * 4)
    result = headway.simulate(jobs, where, "gandiva?quantum=60", keep_journal=True)
    for job, place in places(result).items():
        assert sorted(place) == ([1, 1] if job == "2" else [0, 2])
