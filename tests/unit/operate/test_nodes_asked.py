"""Jobs of a live cluster that ask for N nodes with K GPUs each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import ME, one, until
from tests.unit.operate.conftest import Served
from typer.testing import CliRunner

from headway.cli import submit as command
from headway.cli.main import app
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.jobfile.sbatch import read_script
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.queries.replay.replay import ran_jobs, replay

pytestmark = pytest.mark.xdist_group("live")
SLEEP = {"run": "sleep 600"}
TWO = {**SLEEP, "num_nodes": 2, "resources": {"accelerators": 4}}


def test_two_nodes_are_two_nodes(serve: Callable[..., Served]) -> None:
    served = serve("3x8")
    assert served.until(served.submit(**TWO), "RUNNING").nodes == ("n000", "n001")
    assert served.until(served.submit(**TWO), "RUNNING").nodes == ("n000", "n001")  # best fit
    assert served.until(served.submit(**SLEEP, num_nodes=1, resources={"accelerators": 8}), "RUNNING").nodes == (
        "n002",
    )


def test_without_num_nodes_the_placement_chooses(serve: Callable[..., Served]) -> None:
    served = serve("2x4")
    assert served.until(served.submit(**SLEEP, resources={"accelerators": 8}), "RUNNING").nodes == ("n000", "n001")
    with pytest.raises(BadInput, match="1 node with 8 GPUs each, and no node has more than 4 GPUs"):
        served.submit(**SLEEP, num_nodes=1, resources={"accelerators": 8})


def test_explain_says_which_nodes_a_job_needs(serve: Callable[..., Served]) -> None:
    served = serve("2x8")
    first = served.submit(**SLEEP, resources={"accelerators": 2})
    served.until(first, "RUNNING")
    waits = served.submit(**SLEEP, num_nodes=2, resources={"accelerators": 8})
    said = served.explained(waits, "gpus")
    assert said.message.startswith(
        "it needs 2 nodes with 8 free GPUs each and finds 1 such node, with 0 waiting jobs ahead of it"
    )
    assert (said.numbers["gpus_per_node"], said.numbers["nodes_with_gpus"], said.numbers["nodes_needed"]) == (8, 1, 2)
    apart = served.submit(**SLEEP, num_nodes=2, resources={"accelerators": 7})
    said = served.explained(apart, "fragmentation")
    assert (
        "it needs 2 nodes with 7 free GPUs each and finds 1 such node, with 1 waiting job ahead of it" in said.message
    )
    served.manager.drain("n000")
    said = served.explained(waits, "node_down")
    assert said.message == "it needs 2 nodes with 8 GPUs each, and 1 such node takes jobs (drained: n000)"
    served.manager.resume("n000")
    served.manager.cancel(first, at_once=True)
    assert served.until(waits, "RUNNING").nodes == ("n000", "n001")


@pytest.mark.parametrize(
    ("nodes", "gpus", "words"),
    [
        (3, 2, "num_nodes: the job asks for 3 nodes with 2 GPUs each, and the cluster has 2: ask for at most 2 nodes"),
        (1, 9, "num_nodes: the job asks for 1 node with 9 GPUs each, and no node has more than 8 GPUs"),
    ],
)
def test_impossible_nodes_are_refused(serve: Callable[..., Served], nodes: int, gpus: int, words: str) -> None:
    served = serve("2x8")
    with pytest.raises(BadInput, match=words):
        served.submit(num_nodes=nodes, resources={"accelerators": gpus})
    with pytest.raises(BadInput, match=words):
        served.manager.dry_run(job_spec({"run": "true", "num_nodes": nodes, "resources": {"accelerators": gpus}}), ME)


def test_nodes_are_kept_through_restarts(tmp_path: Path) -> None:
    def opened() -> Manager:
        manager = Manager(tmp_path / "data", cluster("2x4"), "best-effort")
        manager.start()
        return manager

    manager = opened()
    first, waits = one(manager, **SLEEP, resources={"accelerators": 1}), one(manager, **TWO)
    until(manager, first, "RUNNING")
    for _ in range(2):  # the second reads a snapshot
        manager.stop()
        manager = opened()
        assert manager.explain(waits).numbers["gpus_per_node"] == 4
    manager.cancel(first, at_once=True)
    assert until(manager, waits, "RUNNING").nodes == ("n000", "n001")
    manager.stop(drain=True)


def test_a_replay_keeps_the_nodes(serve: Callable[..., Served]) -> None:
    from dataclasses import asdict

    served = serve("2x4")
    job = served.submit(run="sleep 0.2", num_nodes=2, resources={"accelerators": 2})
    served.until(job)
    jobs = ran_jobs([asdict(each) for each in served.manager.workload(0.0)])
    assert [(each.num_nodes, each.demand.gpus_per_node) for each in jobs] == [(2, 2)]
    assert replay(jobs, cluster("2x4"), ["fifo"]).jobs == 1


@pytest.mark.parametrize(
    ("options", "nodes", "gpus"),
    [
        ("--nodes=2 --gpus=16", 2, 8),
        ("--nodes=2 --gpus-per-node=8", 2, 8),
        ("--nodes=2 --gres=gpu:8", 2, 8),
        ("--gpus-per-node=8", 1, 8),
        ("--gres=gpu:8", 1, 8),
        ("--gpus=16", None, 16),
        ("--nodes=1 --gpus=16", 1, 16),
    ],
)
def test_batch_scripts_ask_for_nodes_as_in_slurm(tmp_path: Path, options: str, nodes: int | None, gpus: int) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\n#SBATCH {options}\ntrue\n")
    spec = job_spec(read_script(tmp_path / "job.sh").fields)
    assert (spec.num_nodes, spec.resources.accelerators) == (nodes, gpus)


@pytest.mark.parametrize(
    ("spec", "options", "found"),
    [
        ({}, (2, 16, None), (2, 8)),
        ({}, (None, 16, None), (None, 16)),
        ({}, (None, None, 8), (1, 8)),
        ({}, (2, None, 8), (2, 8)),
        ({}, (None, 16, 8), (2, 8)),
        ({}, (2, None, None), (2, None)),
        ({"num_nodes": 4}, (None, 16, None), (4, 4)),
        ({"num_nodes": 4}, (None, None, 8), (4, 8)),
        ({"num_nodes": 4}, (2, 16, None), (2, 8)),
    ],
)
def test_gpus_is_the_total(spec: dict[str, Any], options: Any, found: Any) -> None:
    assert command._nodes_and_gpus(spec, *options) == found


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--nodes", "2", "--gpus", "7"), "2 nodes do not divide"),
        (("--nodes", "2", "--gpus", "16", "--gpus-per-node", "4"), "2 nodes with 4 each have 8"),
        (("--gpus", "7", "--gpus-per-node", "4"), "4 does not divide it"),
    ],
)
def test_totals_that_nodes_do_not_divide_are_refused(words: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(app, ["submit", *words, "--", "true"])
    assert done.exit_code != 0
    assert says in str(done.exception)
