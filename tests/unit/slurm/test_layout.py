"""Where ranks run, what Slurm is asked for, and which nice values steering wants: pure rules, without a Slurm."""

from dataclasses import replace
from typing import Any

import pytest

from headway.errors import BadInput
from headway.live.executors import Launch
from headway.live.executors.slurm.capacity import Lost, node_reports
from headway.live.executors.slurm.layout import layout
from headway.live.executors.slurm.render import SlurmSite, read_comment, render
from headway.live.jobfile.spec import job_spec
from headway.slurm.snapshot import Share, SlurmJob, SlurmNode, SlurmSnapshot
from headway.slurm.steering.plan import Scale, plan, scale_of
from headway.slurm.steering.service import Services

NODES = {name: SlurmNode(name, f"10.0.0.{k}", 4, cpus=32, memory_mb=4000) for k, name in enumerate("abcd")}
SITE = SlurmSite("ab12", {"partition": "gpu"}, NODES)


def launch(nodes: str, **spec: Any) -> Launch:
    given = job_spec({"run": "true", **spec})
    return Launch(3, 2, "me", given, tuple(range(len(nodes))), tuple(nodes))


def test_one_part_per_number_of_gpus() -> None:
    (whole,) = layout(launch("ccaa", num_nodes=2, resources={"accelerators": 2}, tasks_per_node=1))
    assert (whole.nodes, whole.gpus) == (("c", "a"), 2)
    assert [(place.rank, place.node, place.group, place.first, place.gpus) for place in whole.ranks] == [
        (0, "c", 0, 0, 2),
        (1, "a", 1, 0, 2),
    ]
    (shared,) = layout(launch("bbbb", num_nodes=2, resources={"accelerators": 2}, tasks_per_node="gpu"))
    assert [(place.local, place.locals, place.first) for place in shared.ranks] == [
        (0, 2, 0),
        (1, 2, 0),
        (0, 2, 2),
        (1, 2, 2),
    ]
    first, second = layout(launch("dddb", resources={"accelerators": 4}, tasks_per_node="gpu"))
    assert (first.nodes, first.gpus, second.nodes, second.gpus) == (("d",), 3, ("b",), 1)
    assert [place.rank for place in second.ranks] == [3]


def test_a_group_of_ranks_cannot_be_on_two_nodes() -> None:
    with pytest.raises(BadInput, match=r"gave 3\+1 GPUs on 2 nodes.*tasks_per_node: gpu"):
        layout(launch("aaab", num_nodes=2, resources={"accelerators": 2}, tasks_per_node=1))


def test_slurm_is_asked_for_the_nodes_of_the_job() -> None:
    given = launch("ccaa", num_nodes=2, resources={"accelerators": 2})
    (only,) = render(given, "/run", 20_007, {"HOME": "/h"}, SITE)
    assert [only.options[name] for name in ("nodes", "nodelist", "gres")] == ["2", "c,a", "gpu:2"]


def test_what_slurm_is_asked_for() -> None:
    (only,) = render(
        launch("cc", resources={"accelerators": 2}, time_limit="1h", name="gpt"), "/run", 20_007, {"HOME": "/h"}, SITE
    )
    assert only.options == {
        "job-name": "gpt",
        "comment": "headway:ab12:3:2:0",
        "partition": "gpu",
        "nodes": "1",
        "nodelist": "c",
        "ntasks-per-node": "1",
        "gres": "gpu:2",
        "cpus-per-task": "16",  # its GPUs' share of the node's
        "output": "/run/slurm.0.log",
        "chdir": "/",
        "open-mode": "append",
        "export": "ALL",
        "no-requeue": "",
        "mem": "2000",
        "time": "66",  # its limit, its grace, and a margin
    }
    assert "export MASTER_ADDR=10.0.0.2\n" in only.script
    asked = render(launch("cc", resources={"accelerators": 2, "cpus": 3, "memory": 1}), "/run", 1, {}, SITE)[0].options
    assert (asked["cpus-per-task"], asked["mem"]) == ("3", "1024")


def test_only_our_own_comments_are_ours() -> None:
    assert read_comment("headway:ab12:3:2:0", "ab12") == (3, 2, 0)
    for other in ("", "headway:zz:3:2:0", "headway:ab12:3:2", "headway:ab12:x:2:0", "mine"):
        assert read_comment(other, "ab12") is None


def test_nodes_as_others_leave_them() -> None:
    def held(number: int, state: str, comment: str = "", **share: int) -> SlurmJob:
        return SlurmJob(number, state, comment, shares={"a": Share(**share)})

    jobs = {
        1: held(1, "RUNNING", gpus=1),
        2: held(2, "RUNNING", "headway:ab12:3:2:0", gpus=2),
        3: held(3, "COMPLETED", gpus=4),
    }
    away = SlurmNode("b", "b", 4, state=("IDLE", "DRAIN"), reason="fan")
    a, b, c = node_reports(SlurmSnapshot(jobs, (NODES["a"], away)), ["a", "b", "c"], {2}, {})
    assert (a.away, a.taken) == ("", 1)
    assert b.away == "idle+drain in Slurm: fan"
    assert "no longer knows" in c.away
    cpus = SlurmSnapshot({1: held(1, "RUNNING", cpus=17)}, (NODES["a"],))  # more than two GPUs' share
    assert node_reports(cpus, ["a"], set(), {})[0].taken == 3
    # A job of ours with one GPU and the CPUs of three: two are of no use to others. With the CPUs of its own GPUs it takes none beside.
    for own, taken in ((24, 2), (8, 0)):
        greedy = SlurmSnapshot({2: held(2, "RUNNING", "headway:ab12:3:2:0", gpus=1, cpus=own)}, (NODES["a"],))
        assert node_reports(greedy, ["a"], {2}, {})[0].taken == taken
    # Who submits to a reservation may use its nodes, while it is in force.
    for state, given, away in (
        (("IDLE", "RESERVED"), {}, "idle+reserved in Slurm"),
        (("MIXED", "RESERVED"), {"reservation": "r"}, ""),
        (("IDLE",), {"reservation": "r"}, "the reservation r is not in force"),
        (("IDLE", "RESERVED", "DRAIN"), {"reservation": "r"}, "idle+reserved+drain in Slurm"),
    ):
        node = replace(NODES["a"], state=state)
        assert node_reports(SlurmSnapshot({}, (node,)), ["a"], set(), given)[0].away == away


def test_gpus_that_slurm_has_lost_are_taken() -> None:
    """A crash of slurmctld may leave GPUs used by no job; a job that starts between two questions does not look like that."""
    ours = SlurmJob(2, "RUNNING", "headway:ab12:3:2:0", shares={"a": Share(gpus=2)})
    lost, leaks = Lost(), replace(NODES["a"], gpus_used=3)
    for jobs in ({}, {2: ours}):
        assert lost.look(SlurmSnapshot(jobs, (leaks,))) == {}
    seen = lost.look(SlurmSnapshot({2: ours}, (leaks,)))
    assert seen == {"a": 1}
    assert node_reports(SlurmSnapshot({2: ours}, (leaks,)), ["a"], {2}, {}, seen)[0].taken == 1
    assert lost.look(SlurmSnapshot({2: ours}, (replace(leaks, gpus_used=2),))) == {}


@pytest.mark.parametrize(("top", "raises"), [(4_294_901_759, False), (1_500_000, True), (0, True)])
def test_queues_are_apart_whatever_priorities_the_site_has(top: int, raises: bool) -> None:
    jobs = [SlurmJob(k, "PENDING", user=f"u{k}", priority=max(1, top - k), gpus=1, nice=k) for k in range(3)]
    scale = scale_of(jobs, {}, 2)
    assert scale is not None
    assert scale.raises is raises
    wanted = plan(jobs, {}, {"u0": 5.0, "u1": 50.0}, "user", [1.0, 10.0], scale)
    assert [each.queue for each in wanted] == [1, 2, 0]
    becomes = [each.job.priority - (each.nice - each.job.nice) for each in wanted]
    assert becomes[2] > becomes[0] > becomes[1] > 0
    assert max(becomes) < 1 << 32
    if raises:
        assert max(becomes) < 1 << 31


def test_the_scale_follows_the_priorities_that_jobs_have_without_us() -> None:
    """An empty queue says nothing of priorities; ages and fair shares grow; what we raised ourselves does not count."""

    def one(priority: int, nice: int = 0) -> list[SlurmJob]:
        return [SlurmJob(1, "PENDING", priority=priority, nice=nice, gpus=1)]

    assert scale_of([], {}, 1) is None
    low = Scale(10_000_000, raises=False)
    assert scale_of(one(4_294_901_759), {}, 1) == low
    assert scale_of(one(4_284_901_759, 10_000_000), {1: 0}, 1, low) == low
    first = scale_of(one(28), {}, 1)
    assert first == Scale(100_000, raises=True)
    assert scale_of(one(100_028, -100_000), {1: 0}, 1, first) == first
    assert scale_of(one(800_000, -100_000), {1: 0}, 1, first) == Scale(10_000_000, raises=True)
    assert scale_of(one(0), {}, 1, first) == first, "a job that is held has no priority"


def test_no_service_is_lost_when_a_run_ends() -> None:
    """Slurm gives whole seconds: a job that ran for half a second ends when it started."""
    seen = Services({})
    seen.look([SlurmJob(1, "RUNNING", user="a", gpus=4, started=100.0)], "user", 100.5)
    seen.look([SlurmJob(1, "CANCELLED", user="a", gpus=4, started=100.0, ended=100.0)], "user", 103.0)
    assert seen.by_owner() == {"a": 2.0}


def test_service_adds_up_over_restarts() -> None:
    seen = Services({})
    seen.look([SlurmJob(1, "RUNNING", user="a", gpus=2, submitted=1.0, started=100.0)], "job", 110.0)
    # Slurm sets the time of submission anew when it requeues a job.
    seen.look([SlurmJob(1, "PENDING", user="a", gpus=2, submitted=112.0, restarts=1)], "job", 120.0)
    seen.look([SlurmJob(1, "RUNNING", user="a", gpus=2, submitted=112.0, started=200.0, restarts=1)], "job", 205.0)
    assert seen.by_owner() == {"1/a": 30.0}
