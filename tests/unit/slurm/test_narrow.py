"""Jobs that ask for more CPUs or memory than a node has free: when they are taken back, and what their node is told to others as."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headway.live.executors.slurm.capacity import node_reports
from headway.live.executors.slurm.narrow import SHUT_S, WAIT_S, Narrow
from headway.slurm.snapshot import Share, SlurmJob, SlurmNode, SlurmSnapshot

NODES = tuple(SlurmNode(name, name, 4, cpus=8, memory_mb=4000) for name in "ab")
WAITS = SlurmJob(7, "PENDING", reason="Resources", priority=1)
OTHER = SlurmJob(1, "RUNNING", shares={"a": Share(gpus=1, cpus=6, memory_mb=3000)})
ASKED = {"nodelist": "a,b", "cpus-per-task": "4", "mem": "900"}


@pytest.fixture
def lacks() -> Callable[..., str]:
    """What a Slurm job of Headway's job 3 lacks at a time, given the other job on a; one memory for the whole test."""
    narrow = Narrow()

    def ask(now: float, other: SlurmJob = OTHER, mine: SlurmJob = WAITS, **asked: str) -> str:
        narrow.look(SlurmSnapshot({job.id: job for job in (other, mine)}, NODES))
        found = narrow.lacks(3, mine, ASKED | asked, now)
        ask.shut = narrow.shut_nodes(now)  # type: ignore[attr-defined]
        return found

    ask.started = narrow.started  # type: ignore[attr-defined]
    return ask


def test_a_job_is_taken_back_after_a_while_and_its_node_shut_for_another(lacks: Callable[..., str]) -> None:
    said = "a has 2 of the 4 CPUs free that it asks for there"
    assert [lacks(at) for at in (100.0, 100.0 + WAIT_S / 2)] == ["", ""]
    assert lacks(100.0 + WAIT_S) == said
    assert lacks.shut == {"a"}  # type: ignore[attr-defined]
    lacks(100.0 + WAIT_S + SHUT_S, mine=replace(WAITS, state="CANCELLED"))
    assert lacks.shut == frozenset()  # type: ignore[attr-defined]
    # The next attempt, where it does not fit either, is given twice as long, also if another part of it runs by then.
    again = replace(WAITS, id=8)
    assert lacks(200.0, mine=replace(WAITS, id=18, state="RUNNING")) == ""
    assert [lacks(200.0 + at, mine=again) for at in (0.0, WAIT_S, 2 * WAIT_S)] == ["", "", said]
    lacks.started(3)  # type: ignore[attr-defined]
    assert [lacks(400.0 + at, mine=replace(WAITS, id=9)) for at in (0.0, WAIT_S)] == ["", said]


@pytest.mark.parametrize(
    "given",
    [
        {"other": replace(OTHER, state="COMPLETING")},  # it is about to end
        {"mine": replace(WAITS, reason="Dependency")},  # it waits for something else
        {"mine": replace(WAITS, priority=0)},  # somebody holds it
        {"cpus-per-task": "2"},
        {"nodelist": "b"},
        {"nodelist": "c"},  # a node that Slurm no longer knows
    ],
)
def test_who_lacks_nothing_that_others_hold_is_given_slurms_time(
    lacks: Callable[..., str], given: dict[str, object]
) -> None:
    assert [lacks(at, **given) for at in (100.0, 200.0)] == ["", ""]
    assert lacks.shut == frozenset()  # type: ignore[attr-defined]


def test_memory_counts_as_cpus_do(lacks: Callable[..., str]) -> None:
    asked = {"cpus-per-task": "2", "mem": "1001"}
    assert [lacks(at, **asked) for at in (0.0, WAIT_S)] == ["", "a has 1000 of the 1001 MB free that it asks for there"]


def test_what_was_seen_once_and_not_again_begins_anew(lacks: Callable[..., str]) -> None:
    away = replace(OTHER, state="COMPLETED")
    assert [lacks(0.0), lacks(WAIT_S, other=away), lacks(WAIT_S + 1.0), lacks(2 * WAIT_S)] == [""] * 4


def test_a_node_that_is_shut_has_no_gpus_for_anybody() -> None:
    ours = SlurmJob(2, "RUNNING", shares={"a": Share(gpus=2, cpus=2)})
    seen = SlurmSnapshot({1: OTHER, 2: ours}, NODES)
    reports = node_reports(seen, ["a", "b"], {2}, {}, {}, frozenset({"a", "c"}))
    assert [(report.node, report.away, report.taken) for report in reports] == [("a", "", 2), ("b", "", 0)]
