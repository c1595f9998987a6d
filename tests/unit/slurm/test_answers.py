"""What Slurm answers, in the forms of several versions, and what is sent to it: read and rendered without a Slurm."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headway.errors import BadInput
from headway.live.executors.slurm.discovery import discover
from headway.slurm import answers, fixed
from headway.slurm.commands import Commands
from headway.slurm.hostlist import expand
from headway.slurm.requests import Call, Cancel, Hold, JobUpdate, NoAnswer, Signal, Submit
from headway.slurm.rest import Rest
from headway.slurm.snapshot import Share, SlurmSnapshot
from headway.slurm.topology import read_leaves

OLD = {
    "job_id": 7,
    "job_state": "RUNNING",
    "comment": "headway:ab:1:2:0",
    "user_name": "ada",
    "nodes": "gpu[01-02]",
    "node_count": 2,
    "cpus": 16,
    "gres_detail": ["gpu:v100:3(IDX:0,2-3)", "gpu:v100:1(IDX:1)"],
    "job_resources": {"allocated_nodes": [{"nodename": "gpu01", "memory_allocated": 10}, {"nodename": "gpu02"}]},
    "exit_code": 0,
    "submit_time": 5,
    "time_limit": 60,
    "tres_per_node": "gres:gpu:v100:3",
}
# Since 23.02 states are lists, numbers may be unset or infinite, and comments are by author.
NEW = OLD | {
    "job_state": ["RUNNING"],
    "comment": {"job": "headway:ab:1:2:0", "administrator": ""},
    "exit_code": {
        "return_code": {"set": True, "infinite": False, "number": 0},
        "signal": {"id": {"set": False, "number": 0}},
    },
    "submit_time": {"set": True, "infinite": False, "number": 5},
    "time_limit": {"set": True, "infinite": False, "number": 60},
    "node_count": {"set": True, "number": 2},
    "cpus": {"set": True, "number": 16},
    "nodes": "gpu[01-02]",
    "job_resources": {"select_type": ["CORE"], "nodes": {"count": 2}},
}


@pytest.mark.parametrize("row", [OLD, NEW])
def test_jobs_of_old_and_new_versions(row: dict[str, object]) -> None:
    job = answers.read_jobs(json.dumps({"jobs": [row]}))[7]
    assert (job.state, job.comment, job.user, job.submitted, job.limit_s) == (
        "RUNNING",
        "headway:ab:1:2:0",
        "ada",
        5.0,
        3600.0,
    )
    assert {name: share.gpus for name, share in job.shares.items()} == {"gpu01": 3, "gpu02": 1}
    assert (job.gpus, job.exit_code, job.holds) == (4, 0, True)


def test_exit_codes_are_those_of_a_shell() -> None:
    for given, code in (
        (256 * 3, 3),
        (9, 137),
        ({"return_code": {"number": 2}}, 2),
        ({"signal": {"id": {"number": 15}}}, 143),
    ):
        assert answers.read_jobs(json.dumps({"jobs": [OLD | {"exit_code": given}]}))[7].exit_code == code


@pytest.mark.parametrize(
    "bad", [b"", b"[]", b'{"jobs": 3}', b'{"jobs": [3]}', b'{"jobs": [{"job_state": null, "job_id": 1}]}']
)
def test_an_answer_in_no_known_form_is_refused_as_a_whole(bad: bytes) -> None:
    with pytest.raises(answers.Unreadable):
        answers.read_jobs(bad)


def test_nodes_and_their_states() -> None:
    rows = [
        {
            "name": "a",
            "address": "10.0.0.1",
            "gres": "gpu:a100:8(S:0-1),nic:2",
            "state": "mixed",
            "state_flags": ["DRAIN"],
        },
        {"name": "b", "gres": "gpu:4", "state": ["IDLE"], "cpus": 64, "real_memory": 1000, "features": "nvlink,ib"},
        {"name": "c", "gres": "", "state": ["DOWN", "NOT_RESPONDING"]},
    ]
    a, b, c = answers.read_nodes(json.dumps({"nodes": rows}))
    assert (a.gpus, a.gpu_type, a.address, a.away) == (8, "a100", "10.0.0.1", True)
    assert (b.gpus, b.cpus, b.memory_mb, b.features, b.away) == (4, 64, 1000, ("nvlink", "ib"), False)
    assert (c.gpus, c.away) == (0, True)


JOB_LINE = (
    "JobId=9 JobName=a b UserId=ada(100) GroupId=x(1) Priority=4294901756 Nice=5 Account=(null) JobState=RUNNING Reason=None "
    "Restarts=2 ExitCode=0:9 TimeLimit=1-00:00:30 SubmitTime=2026-01-01T00:00:00 StartTime=2026-01-01T00:00:01 EndTime=Unknown "
    "Partition=main NodeList=gpu[01-02] NumNodes=2 NumCPUs=4 NumTasks=2 JOB_GRES=gpu:v100:3 "
    "Nodes=gpu01 CPU_IDs=0-1 Mem=20 GRES=gpu:v100:2(IDX:0-1) Nodes=gpu02 CPU_IDs=4 Mem=10 GRES=gpu:v100:1(IDX:0) "
    "MinCPUsNode=1 Comment=headway:ab:1:2:0 Power= TresPerNode=gres:gpu:2"
)


def test_the_fixed_format() -> None:
    job = fixed.read_jobs(JOB_LINE + "\n")[9]
    assert (job.name, job.user, job.nice, job.restarts, job.comment) == ("a b", "ada", 5, 2, "headway:ab:1:2:0")
    assert (job.limit_s, job.exit_code, job.started - job.submitted, job.ended) == (86_430.0, 137, 1.0, 0.0)
    assert job.shares == {"gpu01": Share(2, 2, 20), "gpu02": Share(1, 1, 10)}
    line = (
        "NodeName=n0 CPUTot=8 AvailableFeatures=ib Gres=gpu:v100:4 NodeAddr=127.0.0.1 RealMemory=9 State=IDLE*+DRAIN "
        "Partitions=a,b Reason=fan x"
    )
    (node,) = fixed.read_nodes(line)
    assert (node.gpus, node.cpus, node.away, node.reason, node.partitions) == (4, 8, True, "fan x", ("a", "b"))


def test_lists_of_hosts() -> None:
    assert expand("gpu[01-03,7],login") == ["gpu01", "gpu02", "gpu03", "gpu7", "login"]
    assert expand("r[1-2]n[0-1]") == ["r1n0", "r1n1", "r2n0", "r2n1"]
    for bad in ("a[1-", "a[x]", "a[1-999999999]"):
        with pytest.raises(BadInput):
            expand(bad)


def test_leaves_of_topology_conf_and_of_scontrol() -> None:
    conf = "SwitchName=s0 Nodes=a[0-1]  # rack 1\nSwitchName=s1 Nodes=a2\nSwitchName=top Switches=s[0-1]\n"
    shown = (
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=a[0-1]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=a2\n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=a[0-2] Switches=s[0-1]\n"
    )
    for text in (conf, shown):
        assert read_leaves(text, ["a0", "a1", "a2"]) == [0, 0, 1]
        assert read_leaves(text, ["a2", "a0"]) == [0, 1]
    assert read_leaves(conf, ["a0", "b9"]) == []
    assert read_leaves("", ["a0"]) == []


def test_requests_as_text() -> None:
    door = Commands()
    submit = Submit("#!/bin/sh\n", {"job-name": "x y", "gres": "gpu:2", "no-requeue": ""}, "ada")
    assert (
        str(door.render(submit))
        == "sbatch --parsable '--job-name=x y' --gres=gpu:2 --no-requeue  # as ada\n#!/bin/sh\n"
    )
    assert str(door.render(Signal(5, "SIGTERM"))) == "scancel --signal=TERM 5"
    assert str(door.render(Signal(5, "SIGKILL", 0))) == "scancel --signal=KILL 5.0"
    assert str(door.render(Cancel((5, 6)))) == "scancel 5 6"
    assert str(door.render(JobUpdate("5", {"Nice": "-3"}))) == "scontrol update JobId=5 Nice=-3"
    assert str(door.render(Hold("5", release=True))) == "scontrol release 5"


def test_a_submission_does_not_carry_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm gives the environment of sbatch to the job."""
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\nenv >{tmp_path}/seen\necho 7\n")
    (tmp_path / "sbatch").chmod(0o755)
    given = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_CONF": "/x", "SBATCH_QOS": "low", "SECRET": "s"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert Commands().send(Submit("#!/bin/sh\n", {})) == "7"
    seen = (tmp_path / "seen").read_text().splitlines()
    assert {row.partition("=")[0] for row in seen} <= {"PATH", "SLURM_CONF", "PWD", "SHLVL", "_", "OLDPWD"}


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED: only root submits for others")
def test_what_is_submitted_for_somebody_else_does_not_carry_our_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm would take the submission for that of the account that the token is for, and show the token to the job."""
    monkeypatch.setenv("SLURM_JWT", "secret")
    monkeypatch.setenv("SLURM_CONF", "/x")
    seen = Commands()._run(Call(("env",), user="nobody", bare=True)).decode()
    assert "SLURM_CONF=/x" in seen
    assert "secret" not in seen


def test_the_same_requests_for_slurmrestd() -> None:
    door = Rest("unix:/nowhere")
    door.acts = True
    options = {
        "job-name": "x",
        "gres": "gpu:2",
        "nodes": "2",
        "nodelist": "a,b",
        "no-requeue": "",
        "export": "ALL",
        "mem": "64",
    }
    call = door.render(Submit("#!/bin/sh\n", options))
    assert call.words == ("POST", "/slurm/v0.0.38/job/submit")
    job = json.loads(call.body)["job"]
    assert (job["name"], job["gres"], job["nodes"], job["nodelist"]) == ("x", "gpu:2", [2, 2], "a,b")
    assert job["memory_per_node"] == 64
    door._version = "v0.0.40"
    job = json.loads(door.render(Submit("#!/bin/sh\n", options)).body)["job"]
    assert (job["tres_per_node"], job["required_nodes"]) == ("gres/gpu:2", ["a", "b"])
    assert door.render(Submit("", {}, "ada")).words[0] == "sbatch"  # as somebody else: by the command
    door.acts = False
    assert door.render(Cancel((5,))).words == ("scancel", "5")  # root acts by the commands
    with pytest.raises(BadInput, match="unix:/path"):
        Rest("localhost")


class Answers:
    """Three nodes; partition p has two of them, q the third, and q is the default. Reservation r has the first."""

    away, default = False, "q"

    def poll(self) -> SlurmSnapshot:
        """The nodes."""
        if self.away:
            raise NoAnswer("no answer")
        rows = (
            ("a", "gpu:a100:4(S:0-1)", "ib,nvlink", ["p", "q"]),
            ("v", "gpu:v100:2", "", ["q"]),
            ("m", "gpu:a100:2,gpu:v100:2", "ib", ["q"]),
            ("c", "", "ib", ["cpus"]),
        )
        nodes = [
            {"name": name, "gres": gres, "features": has, "state": ["IDLE"], "partitions": among}
            for name, gres, has, among in rows
        ]
        return SlurmSnapshot({}, answers.read_nodes(json.dumps({"nodes": nodes})))

    def show(self, what: str) -> str:
        """As scontrol prints it."""
        if what == "reservation":
            return "ReservationName=r StartTime=2026-01-01T00:00:00 Nodes=a NodeCnt=1 State=ACTIVE\n"
        named = (
            f"PartitionName={name} Default={'YES' if name == self.default else 'NO'}" for name in ("p", "q", "cpus")
        )
        return "\n".join(named) if what == "partition" else ""


def test_what_nodes_have_is_what_jobs_may_ask_for(tmp_path: Path) -> None:
    """GRES types and features of Slurm's nodes, also while it does not answer; GPUs of two types on one node are of none."""
    door: Any = Answers()
    for door.away in (False, True):
        found = discover(door, tmp_path, {}).cluster
        assert found.gpus == (4, 2, 4)
        assert found.types == ("a100", "v100", "")
        assert found.features == (("ib", "nvlink"), (), ("ib",))


def test_only_nodes_that_a_submission_may_use_are_discovered(tmp_path: Path) -> None:
    """Slurm refuses others, and the job with them: of another partition than the default, without the feature, outside the reservation."""
    door: Any = Answers()
    for given, names in (
        ({"partition": "p"}, ("a",)),
        ({"constraint": "ib"}, ("a", "m")),
        ({"constraint": "ib|x"}, ("a", "m")),
        ({"constraint": "[ib*1&x*2]"}, ("a", "v", "m")),  # left to Slurm
        ({"reservation": "r"}, ("a",)),
    ):
        assert discover(door, tmp_path, given).cluster.nodes == names
    for given, says in (
        ({"partition": "x"}, "partition 'x' has no nodes with GPUs.*one of p, q"),
        ({"partition": "cpus"}, "partition 'cpus' has no nodes with GPUs"),
        ({"reservation": "x"}, "no reservation 'x'"),
        ({"constraint": "gold"}, "no node with GPUs is left by constraint 'gold'"),
    ):
        with pytest.raises(BadInput, match=says):
            discover(door, tmp_path, given)
    for door.default, says in (("cpus", r"the default partition \(cpus\)"), ("", r"the default partition \(none\)")):
        with pytest.raises(BadInput, match=says):
            discover(door, tmp_path, {})


def test_names_of_jobs_may_hold_any_bytes() -> None:
    row = json.dumps({"jobs": [OLD | {"name": "x@y"}]}).encode().replace(b"@", b"\xff")
    assert answers.read_jobs(row)[7].name == "x\ufffdy"


def test_nice_values_have_a_sign() -> None:
    """22.05 prints -50 as 4294967246."""
    for given, nice in ((4_294_967_246, -50), (7, 7), (None, 0), ({"set": True, "number": 3}, 3)):
        assert answers.read_jobs(json.dumps({"jobs": [OLD | {"nice": given}]}))[7].nice == nice
