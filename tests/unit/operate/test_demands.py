"""Nodes of two kinds under one manager: jobs run where they asked to, say what they wait for, and keep that through restarts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, cycle
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from tests.live_manager import ME, one, until
from tests.unit.operate.conftest import Served
from tests.waiting import wait_for

from headway.cli.tables.nodes import nodes_table, summarised, summary_table
from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.live.errors import WrongState
from headway.live.jobfile.sbatch import read_script
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.queries.replay.replay import ran_jobs, replay
from headway.live.state import demands
from headway.live.state.site import Site
from headway.live.store.journal import Journal

pytestmark = pytest.mark.xdist_group("live")
LAB = """
nodes:
  - {name: a, gpus: 1, count: 2, type: A100, features: [ib, nvlink]}
  - {name: v, gpus: 2, type: v100, features: [roce]}
"""
OTHERS = ("ada", "bob", "cyd", "dan")
SLEEP = {"run": "sleep 600"}
A100 = {"resources": {"type": "a100"}}


@pytest.fixture
def lab(tmp_path: Path) -> str:
    """A cluster file of two kinds of nodes."""
    (tmp_path / "lab.yaml").write_text(LAB)
    return str(tmp_path / "lab.yaml")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    """Managers of one data folder, one after the other."""
    made: list[Manager] = []

    def start(where: str, **given: Any) -> Manager:
        manager = Manager(tmp_path / "data", cluster(where), "best-effort", **given)
        manager.start()
        made.append(manager)
        return manager

    yield start
    for manager in made:
        manager.stop(drain=True)


def nodes_of(manager: Manager, job: int) -> tuple[str, ...]:
    return until(manager, job, "RUNNING").nodes


def test_jobs_run_on_nodes_that_have_what_they_ask_for(opened: Callable[..., Manager], lab: str) -> None:
    manager = opened(lab)
    first, second = (one(manager, **SLEEP, **A100) for _ in range(2))
    assert {nodes_of(manager, first)[0], nodes_of(manager, second)[0]} == {"a0", "a1"}
    third = one(manager, **SLEEP, resources={"type": "a100", "accelerators": 2})
    manager.settle()
    said = manager.explain(third)
    assert said.reason == "gpus"
    assert said.message.startswith(
        "it needs 2 GPUs on nodes with a100 (2 of 3 nodes) and finds 0 free, with 0 waiting jobs ahead of it"
    )
    assert said.would_change == ("a job with GPUs of these nodes ends",)
    assert (said.numbers["gpus_free"], said.numbers["nodes_that_suit"], said.numbers["nodes_needed"]) == (0, 2, 2)
    # Those who ask for something else, or for nothing, are not held up.
    assert nodes_of(manager, one(manager, **SLEEP, constraints=["roce|infiniband"])) == ("v",)
    assert nodes_of(manager, one(manager, **SLEEP)) == ("v",)
    manager.cancel(first, at_once=True)
    manager.cancel(second, at_once=True)
    assert sorted(nodes_of(manager, third)) == ["a0", "a1"]


def test_what_nodes_have_is_shown(opened: Callable[..., Manager], lab: str) -> None:
    from dataclasses import asdict

    from rich.console import Console

    manager = opened(lab, site=Site(gpu_type="t4", features=frozenset({"rack1"})))
    nodes = manager.nodes()
    assert [(node.gpu_type, node.features) for node in nodes] == [
        *[("A100", ("ib", "nvlink", "rack1"))] * 2,
        ("v100", ("roce", "rack1")),
    ]
    console = Console(width=100)
    rows = [asdict(node) for node in nodes]
    with console.capture() as shown:
        console.print(summary_table(summarised(rows)), nodes_table(rows))
    assert "A100  ib,nvlink,rack1  a[0-1]" in shown.get()
    assert "v100  roce,rack1" in shown.get()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"resources": {"type": "h100"}}, "asks for h100 GPUs, and this cluster has A100, v100"),
        ({"constraints": ["nvme"]}, "no node here has nvme; features: A100, ib, nvlink, roce, v100"),
        ({"constraints": ["ib", "roce"]}, r"no node here has all of ib, roce \(ib: a0, a1; roce: v\)"),
        (
            {"resources": {"type": "a100", "accelerators": 3}},
            r"3 GPUs on nodes with a100, and those that have it \(a0, a1\) have 2: it could never start",
        ),
        ({"constraints": ["ib&roce"]}, "constraints"),
        ({"constraints": [""]}, "constraints"),
    ],
)
def test_what_no_node_has_is_refused_with_what_there_is(
    opened: Callable[..., Manager], lab: str, spec: dict[str, Any], words: str
) -> None:
    manager = opened(lab)
    with pytest.raises(BadInput, match=words):
        one(manager, run="true", **spec)
    with pytest.raises(BadInput, match=words):
        manager.dry_run(job_spec({"run": "true", **spec}), ME)


def test_a_forecast_keeps_to_the_nodes(opened: Callable[..., Manager], lab: str) -> None:
    manager = opened(lab)
    ask = job_spec({**SLEEP, "resources": {"type": "a100", "accelerators": 2}})
    assert manager.dry_run(ask, ME).nodes == ("a0", "a1")
    held = one(manager, **SLEEP, constraints=["ib"])
    until(manager, held, "RUNNING")
    found = manager.dry_run(ask, ME)
    assert (found.starts_now, found.nodes) == (False, ())
    assert manager.dry_run(job_spec({**SLEEP, "constraints": ["roce"]}), ME).nodes == ("v",)
    assert manager.dry_run(job_spec(SLEEP), ME).starts_now


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_restart_keeps_what_jobs_ask_for(opened: Callable[..., Manager], lab: str, snapshot: bool) -> None:
    manager = opened(lab)
    runs = [one(manager, **SLEEP, **A100) for _ in range(2)]
    waits = one(manager, **SLEEP, constraints=["nvlink|roce", "A100"])
    for job in runs:
        until(manager, job, "RUNNING")
    manager.settle()
    assert manager.explain(waits).reason == "gpus"
    before = manager._state.tables
    manager.stop()
    if not snapshot:
        journal = Journal(manager.data)
        journal.commit(lambda connection: connection.execute("DELETE FROM snapshots"))
        journal.close()
    again = opened(lab)
    after = again._state.tables
    for name in ("suits", "fewest", "classes", "nodes"):
        assert getattr(after, name).tobytes() == getattr(before, name).tobytes(), name
    assert again._state.demands.rows == manager._state.demands.rows
    assert again.explain(waits).reason == "gpus"
    again.cancel(runs[0], at_once=True)
    assert nodes_of(again, waits)[0].startswith("a")


def test_nodes_that_get_another_type_hold_back_who_asked_for_the_old_one(
    opened: Callable[..., Manager], lab: str
) -> None:
    manager = opened(lab)
    runs = [one(manager, **SLEEP, **A100) for _ in range(2)]
    for job in runs:
        until(manager, job, "RUNNING")
    waits = one(manager, **SLEEP, **A100)
    manager.settle()
    assert manager.explain(waits).reason == "gpus"
    manager.stop()
    Path(lab).write_text(LAB.replace("A100", "h100"))
    again = opened(lab)
    assert again.explain(waits).reason == "node_down"
    assert (
        "1 GPU on nodes with a100 (0 of 3 nodes), and the cluster, which has changed, has 0 such GPUs"
        in again.explain(waits).message
    )
    assert [again.job(job).state for job in runs] == ["RUNNING", "RUNNING"]  # type: ignore[union-attr]
    again.stop()
    Path(lab).write_text(LAB)
    last = opened(lab)
    assert last.explain(waits).reason == "gpus"
    last.cancel(runs[0], at_once=True)
    assert nodes_of(last, waits)[0].startswith("a")


def test_batch_scripts_are_obeyed(opened: Callable[..., Manager], lab: str, tmp_path: Path) -> None:
    manager = opened(lab)
    for lines, node in (
        ("--gres=gpu:v100:1", "v"),
        ("--gres=gpu:a100:1 --constraint='nvlink&ib'", "a"),
        ("--gpus=1 --constraint='roce|nvme'", "v"),
        ("--gpus=1 --constraint='nvlink&(ib|roce)'", "a"),
    ):
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/bash\n#SBATCH {lines}\nsleep 60\n")
        assert nodes_of(manager, one(manager, **read_script(script).fields))[0].startswith(node), lines


def test_rows_of_demands_are_used_again(served_lab: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many kinds at once as the engine should tell apart; those of jobs that have left the memory are free again."""
    monkeypatch.setattr(demands, "MOST_DEMANDS", 3)
    monkeypatch.setattr("headway.live.manager.loop.recorder.KEPT_FINISHED", 1)
    kinds: list[dict[str, Any]] = [{"constraints": [word]} for word in ("ib", "nvlink", "roce", "v100")]
    held = [served_lab.submit(user, hold=True, **spec) for user, spec in zip(OTHERS, kinds[:3], strict=False)]
    with pytest.raises(WrongState, match="ask for 3 different kinds of nodes already"):
        served_lab.submit(OTHERS[0], **kinds[3])
    assert served_lab.until(served_lab.submit(**kinds[0])).state == "COMPLETED"
    for job in held:
        served_lab.manager.cancel(job)
    for _ in range(4):
        served_lab.until(served_lab.submit())
    assert served_lab.until(served_lab.submit(**kinds[3])).state == "COMPLETED"
    assert len(served_lab.manager._state.tables.suits) <= 4


def test_demands_of_jobs_that_have_ended_keep_nobody_out(served_lab: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last thousand finished jobs are in memory: whoever ran jobs of many kinds would lock everybody else out."""
    monkeypatch.setattr(demands, "MOST_DEMANDS", 3)
    kinds = [{"constraints": [word]} for word in ("ib", "nvlink", "roce", "v100", "a100", "ib|roce")]
    first = served_lab.submit(hold=True, **kinds[0])
    for spec in kinds[1:]:
        assert served_lab.until(served_lab.submit(**spec)).state == "COMPLETED"
        wait_for(lambda: not served_lab.manager._state.demands.crowded)
    assert len(served_lab.manager._state.tables.suits) <= 4
    served_lab.manager.release(first)
    assert served_lab.until(first).state == "COMPLETED"
    assert served_lab.manager.job(2).state == "COMPLETED"  # type: ignore[union-attr]


def test_submissions_at_once_stay_within_the_limit(
    serve: Callable[..., Served], served_lab: Served, lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demands, "MOST_DEMANDS", 4)
    words = ("ib", "nvlink", "roce", "v100")
    kinds = [{"constraints": [word]} for word in (*words, *("|".join(pair) for pair in combinations(words, 2)))]

    def accepted(specs: Sequence[dict[str, Any]]) -> list[int]:
        """Submit all at once, and return the jobs that were accepted."""
        made, gate = [], Barrier(len(specs))

        def submit(spec: dict[str, Any], user: str) -> None:
            gate.wait()
            with suppress(WrongState):
                made.append(served_lab.submit(user, hold=True, **spec))

        threads = [Thread(target=submit, args=pair) for pair in zip(specs, cycle((ME, *OTHERS)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return made

    jobs = accepted(kinds)
    assert len(jobs) == 4
    asked = [served_lab.manager._state.jobs[job].spec.constraints for job in jobs]
    assert len(accepted([{"constraints": list(words)} for words in asked])) == 4  # which other jobs have
    fifth = {"constraints": ["ib", "nvlink"]}
    with pytest.raises(WrongState, match="ask for 4 different kinds of nodes already, which is the most"):
        served_lab.manager.dry_run(job_spec({"run": "true", **fifth}), ME)
    served_lab.manager.stop()
    served_lab = serve(lab)
    assert accepted([fifth]) == []  # a restart gives nothing more
    for job in [job.id for job in served_lab.manager._state.active_jobs()]:
        served_lab.manager.cancel(job)
    assert len(accepted([fifth])) == 1


def test_jobs_that_are_run_again_count_too(served_lab: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that have left the memory: whoever has run jobs of many kinds could have all of them again at once."""
    monkeypatch.setattr(demands, "MOST_DEMANDS", 3)
    monkeypatch.setattr("headway.live.manager.loop.recorder.KEPT_FINISHED", 1)
    jobs = [served_lab.submit(constraints=[word]) for word in ("ib", "nvlink")]
    for word in ("roce", "v100", "a100", "ib|roce"):
        assert served_lab.until(jobs[-1]).state == "COMPLETED"
        jobs.append(served_lab.submit(constraints=[word]))
    for job in jobs:
        assert served_lab.until(job).state == "COMPLETED"
    refused = served_lab.manager.act("requeue", jobs, True)
    again = [job for job in jobs if job not in refused]
    assert again == jobs[:3]
    assert all("different kinds of nodes already, which is the most" in str(error) for error in refused.values())
    assert served_lab.manager.job(again[0]).state == "HELD"  # type: ignore[union-attr]


@pytest.fixture
def served_lab(serve: Callable[..., Served], lab: str) -> Served:
    served = serve(lab)
    served.manager._checked_users.update(OTHERS)  # users whose jobs never run need no account
    return served


def test_a_replay_keeps_to_the_nodes(opened: Callable[..., Manager], lab: str) -> None:
    from dataclasses import asdict

    manager = opened(lab)
    jobs = [one(manager, run="sleep 0.5", resources={"type": "a100", "accelerators": 2}) for _ in range(3)]
    jobs += [one(manager, run="sleep 0.5", constraints=["roce"]) for _ in range(2)]
    for job in jobs:
        assert until(manager, job).state == "COMPLETED"
    past = ran_jobs([asdict(job) for job in manager.workload(0.0)])
    found = replay(past, manager.cluster, ["best-effort"])
    assert found.simulated[0].makespan_s == pytest.approx(found.measured.makespan_s, rel=0.25)
    # Were any node good enough, all would have run at once: three after one another take at least three times as long.
    assert found.simulated[0].makespan_s >= 1.5
