"""Headway on a real Slurm of four nodes with four GPUs each: gangs, preemption, limits, the jobs of others, identity, commands."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.live_manager import ME, one, until
from tests.ports import reserve_ports
from tests.slurm_cluster import SlurmCluster
from tests.waiting import PATIENCE_S, gate, wait_for

from headway.errors import BadInput
from headway.live.executors import ENDED, Launch, Report
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.network.certificates.certificate import describe
from headway.network.certificates.verify import verify
from headway.sim.network_files import load_fabric
from headway.slurm.commands import Commands
from headway.slurm.requests import Cancel, NoAnswer, Rejected, Submit
from headway.slurm.rest import Rest

SAY = 'echo $RANK $SLURMD_NODENAME $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK of $WORLD_SIZE "$CUDA_VISIBLE_DEVICES" $SLURM_PROCID'
TRAIN = {
    "numpy": [sys.executable, "-m", "headway.demo.train"],
    "torch": [sys.executable, str(Path(__file__).with_name("torch_training.py"))],
}
HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]


def ended(executor: SlurmExecutor, job: int) -> Report:
    found: list[Report] = []

    def end() -> Report | None:
        found.extend(executor.reports())
        return next((report for report in found if report.what == ENDED and report.job == job), None)

    return wait_for(end, "no end")


def test_ranks_follow_the_placement_and_see_their_own_gpus(slurm: SlurmCluster, tmp_path: Path) -> None:
    executor = SlurmExecutor(tmp_path, poll_s=0.3)
    executor.open(lambda: None)
    copies = {"output": f"{tmp_path}/copy-%j-%t.txt"}
    even = job_spec({"run": SAY, "num_nodes": 2, "resources": {"accelerators": 2}, "tasks_per_node": "gpu", **copies})
    # The placement decided for n2 first; and three GPUs here, one there, which Slurm only gives to two jobs.
    executor.start(Launch(1, 1, ME, even, (0, 1, 2, 3), ("n2", "n2", "n0", "n0")))
    uneven = job_spec({"run": SAY, "num_nodes": 1, "resources": {"accelerators": 4}, "tasks_per_node": "gpu"})
    executor.start(Launch(2, 1, ME, uneven, (0, 1, 2, 3), ("n3", "n3", "n3", "n1")))
    assert (ended(executor, 1).exit_code, executor.outage.failures) == (0, 0)
    said = [path.read_text().split() for path in executor.logs(1, 1)]
    assert [words[:2] for words in said] == [["0", "n2"], ["1", "n2"], ["2", "n0"], ["3", "n0"]]
    assert [words[2:4] for words in said] == [["0/2", "0"], ["1/2", "0"], ["0/2", "1"], ["1/2", "1"]]
    assert {words[5] for words in said} == {"4"}
    assert [(tmp_path / f"copy-1-{rank}.txt").read_text().split() for rank in range(4)] == said
    assert {words[6] for words in said} == {"0,1"}
    assert [words[7] for words in said] == ["0", "1", "2", "3"]  # RANK is SLURM_PROCID
    wait_for(lambda: (2, 1) not in executor._attempts, "the uneven job does not end")
    said = [path.read_text().split() for path in executor.logs(2, 1)]
    assert [words[1] for words in said] == ["n3", "n3", "n3", "n1"]
    assert [words[6] for words in said] == ["0,1,2", "0,1,2", "0,1,2", "0"]
    executor.close()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_preempted_training_job_resumes_elsewhere_with_the_same_weights(
    kind: str, slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path
) -> None:
    """Two ranks on two nodes; jobs that others gave to Slurm leave no other room, and are never touched."""
    if find_spec(kind) is None:
        pytest.skip(f"SKIPPED: training in {kind} on Slurm needs {kind}: pip install {kind}")
    others = {
        node: slurm.ask("sbatch", "--parsable", f"--nodelist={node}", "--gres=gpu:4", "--wrap", "sleep 600")
        for node in ("n2", "n3")
    }
    wait_for(lambda: slurm.ask("squeue", "-h", "-t", "R", "-o", "%i").count("\n") == 1, "the others' jobs do not run")
    manager = serve()
    wait_for(lambda: [node.free for node in manager.nodes()] == [4, 4, 0, 0], "others' jobs are not seen")
    steps = 40
    slow_at_first = 'exec "$@" --step-s $(( HEADWAY_ATTEMPT == 1 ))'
    train = one(
        manager,
        command=["sh", "-c", slow_at_first, "sh", *TRAIN[kind], "--steps", str(steps)],
        num_nodes=2,
        resources={"accelerators": 4},
        checkpoint={"dir": str(tmp_path / "saved")},
        preemption={"grace": PATIENCE_S, "min_runtime": 0},
    )
    first = until(manager, train, "RUNNING", true=lambda view: view.progress.get("step", 0) >= 5)
    assert set(first.nodes) == {"n0", "n1"}
    urgent = one(manager, run="sleep 600", resources={"accelerators": 4}, num_nodes=2)
    until(manager, urgent, "RUNNING")
    assert "use 8 GPUs" in manager.explain(train).message
    slurm.ask("scancel", *others.values())
    again = until(manager, train, "RUNNING", true=lambda view: view.attempt == 2)
    assert set(again.nodes) == {"n2", "n3"}
    manager.cancel(urgent)
    assert until(manager, train).state == "COMPLETED"
    assert until(manager, urgent).state == "CANCELLED"
    assert manager.job(train).preemptions == 1  # type: ignore[union-attr]
    assert int(manager.log_files(train, 2)[0].read_text().partition("resumed at step ")[2].split()[0]) >= 5
    with np.load(tmp_path / "saved/weights.npz") as saved:
        np.testing.assert_array_equal(saved["weights"], alone(kind, steps, tmp_path / "alone"))


def alone(kind: str, steps: int, folder: Path) -> np.ndarray:
    """The weights of the same training, never stopped. In an environment as small as a job's: OPENBLAS_CORETYPE changes the last bit."""
    port, reserved = reserve_ports()
    given = {
        "PATH": os.environ["PATH"],
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "HEADWAY_CHECKPOINT_DIR": str(folder),
    }
    command = [*TRAIN[kind], "--steps", str(steps), "--step-s", "0"]
    ranks = [subprocess.Popen(command, env={**given, "RANK": str(rank)}) for rank in (1, 0)]
    assert [rank.wait(PATIENCE_S) for rank in ranks] == [0, 0]
    reserved.close()
    with np.load(folder / "weights.npz") as saved:
        return saved["weights"].copy()


def test_cancel_requeue_limits_and_identity(slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path) -> None:
    manager = serve()
    told = "trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    cancelled = one(manager, run=told, preemption={"grace": PATIENCE_S})
    again = one(manager, run=f"echo $HEADWAY_ATTEMPT; [ $HEADWAY_ATTEMPT = 2 ] || {{ {told}; }}")
    limited = one(manager, run=told, time_limit="2s", preemption={"grace": "1s"})
    tmp_path.chmod(0o755)
    for above in tmp_path.parents:
        if above.name.startswith(("pytest-", "popen-")):
            above.chmod(0o755)
    nobody = one(manager, "nobody", run="id -un; echo $HOME", workdir="/")
    for job in (cancelled, again):
        until(manager, job, "RUNNING")
        wait_for(lambda job=job: "up" in manager.log_files(job, 1)[0].read_text(), "it does not come up")
    manager.cancel(cancelled)
    manager.requeue(again)
    assert until(manager, cancelled).state == "CANCELLED"
    assert manager.log_files(cancelled, 1)[0].read_text().split()[-1] == "told"
    assert (until(manager, again).state, manager.log_files(again, 2)[0].read_text()) == ("COMPLETED", "2\n")
    over = until(manager, limited)
    assert (over.state, "time limit of 2 s" in over.message) == ("TIMEOUT", True)
    assert until(manager, nobody).state == "COMPLETED", manager.job(nobody)
    assert manager.log_files(nobody, 1)[0].read_text().split() == ["nobody", pwd.getpwnam("nobody").pw_dir]


def test_the_commands_are_the_same(slurm: SlurmCluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    given = {**os.environ, "HEADWAY_DATA": str(data)}
    server = subprocess.Popen(
        [
            *HEADWAY,
            "serve",
            "--executor",
            "slurm?partition=main&poll=0.5",
            "--port",
            "0",
            "--data",
            str(data),
            "--json",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )

    def headway(*words: str) -> str:
        done = subprocess.run(
            [*HEADWAY, *words], env=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        assert server.stdout is not None
        opened = ""
        while not opened.endswith("}\n"):
            opened += server.stdout.readline()
        job = json.loads(
            headway("submit", "--gpus", "2", "--wait", "--json", "--", "sh", "-c", "echo hi from $SLURM_JOB_NUM_NODES")
        )
        assert headway("logs", str(job["job_id"])) == "hi from 1\n"
        view = json.loads(headway("show", str(job["job_id"]), "--json"))
        assert (view["state"], view["gpus"], view["exit_code"]) == ("COMPLETED", 2, 0)
        slurm.ask("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=fan")

        def states() -> list[str]:
            return [node["state"] for node in json.loads(headway("nodes", "--json"))]

        wait_for(lambda: states() == ["open", "open", "open", "drained"], "a drained node stays in the ledger")
        slurm.ask("scontrol", "update", "NodeName=n3", "State=RESUME")
        wait_for(lambda: states() == ["open"] * 4, "a node does not return")
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def test_topology_conf_is_read_and_jobs_keep_to_a_leaf(slurm: SlurmCluster, serve: Callable[..., Manager]) -> None:
    """Leaves are {n0, n1} and {n2, n3}: after a job on n0 one of two nodes goes to the other leaf, not to n1 and n2."""
    manager = serve(placement="leaf-aware")
    assert manager.cluster.leaves == (0, 0, 1, 1)
    small = one(manager, run="sleep 600", resources={"accelerators": 4}, preemption={"grace": 0})
    first = until(manager, small, "RUNNING").nodes
    pair = one(manager, run="sleep 600", num_nodes=2, resources={"accelerators": 4}, preemption={"grace": 0})
    both = until(manager, pair, "RUNNING").nodes
    leaf = {"n0": 0, "n1": 0, "n2": 1, "n3": 1}
    assert {leaf[node] for node in both} == {1 - leaf[first[0]]}


def test_jobs_run_on_nodes_that_have_what_they_ask_for(
    slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path
) -> None:
    """Types of GPUs and features are Slurm's; two nodes have a feature, and a third job waits for them while others are idle."""
    for node in ("n1", "n3"):
        slurm.ask("scontrol", "update", f"NodeName={node}", "AvailableFeatures=fast", "ActiveFeatures=fast")
    manager = serve()
    asked = {"resources": {"accelerators": 4, "type": "v100"}, "constraints": ["fast"]}
    jobs = [one(manager, run=f"echo $SLURMD_NODENAME; {gate(tmp_path / 'go')}", **asked) for _ in range(3)]
    plain = one(manager, run="true", resources={"accelerators": 4})
    assert until(manager, plain).state == "COMPLETED"
    (tmp_path / "go").touch()
    for job in jobs:
        assert until(manager, job).state == "COMPLETED"
    said = [manager._executor.logs(job, 1)[0].read_text().strip() for job in jobs]
    assert {said[0], said[1]} == {"n1", "n3"}
    assert said[2] in {"n1", "n3"}
    assert manager.job(plain).started_at < manager.job(jobs[2]).started_at
    with pytest.raises(BadInput, match="a100"):
        manager.submit(job_spec({"run": "true", "resources": {"accelerators": 1, "type": "a100"}}), ME)
    for node in ("n1", "n3"):
        slurm.ask("scontrol", "update", f"NodeName={node}", "AvailableFeatures=", "ActiveFeatures=")


def test_a_job_that_asks_for_more_cpus_than_are_free_on_a_node_goes_to_another(
    slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path
) -> None:
    """Placements count GPUs: it was sent to the fullest node that has one, waited a minute, and was sent there again, for ever."""
    greedy = ("--nodelist=n0", "--cpus-per-task=6", "--gres=gpu:1")
    other = slurm.ask("sbatch", "--parsable", *greedy, "--wrap", "sleep 600")
    wait_for(lambda: slurm.ask("squeue", "-h", "-t", "R", "-o", "%i") == other, "the other's job does not run")
    executor = SlurmExecutor(tmp_path / "data", poll_s=0.3)
    executor._narrow.wait_s = PATIENCE_S
    manager = serve(executor=executor)
    wait_for(lambda: [node.free for node in manager.nodes()] == [1, 4, 4, 4], "the other's job is not seen")
    job = one(manager, run="sleep 600", resources={"accelerators": 1, "cpus": 4})
    wait_for(lambda: slurm.ask("squeue", "-h", "-t", "PD"), "it does not wait in Slurm")
    executor._narrow.wait_s = 0.0
    until(manager, job, "STARTING", "RUNNING", true=lambda view: view.attempt == 2)
    executor._narrow.wait_s = PATIENCE_S
    assert "n0" not in until(manager, job, "RUNNING").nodes
    rows = [row for row in manager.events(0) if row.job == job]
    tried = [node for row in rows if row.kind == "Start" for node, _ in row.data["places"]]
    assert tried[0] == 0, rows
    assert 0 not in tried[1:], rows


@pytest.mark.skipif(not (shutil.which("slurmrestd") and shutil.which("setpriv")), reason="SKIPPED: no slurmrestd")
def test_slurmrestd_answers_as_the_commands_do(slurm: SlurmCluster, tmp_path: Path) -> None:
    folder = slurm.folder / "rest"
    folder.mkdir()
    shutil.chown(folder, "nobody")
    address = f"unix:{folder}/socket"
    # It refuses to run as root, and to load the plugins for accounts where there are none.
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    slurm.run("slurmrestd", *as_nobody, "slurmrestd", "-s", "openapi/v0.0.38", "-a", "rest_auth/local", address)
    wait_for((folder / "socket").exists, "slurmrestd does not start")
    rest, commands = Rest(address), Commands()
    assert [node.name for node in rest.poll().nodes] == ["n0", "n1", "n2", "n3"]
    # Two polls are two moments: jobs of the test before may still be ending.
    wait_for(lambda: rest.poll() == commands.poll(), "slurmrestd does not answer as the commands do")
    rest.acts = True  # as nobody, for a job of nobody's
    options = {
        "job-name": "x",
        "comment": "mine",
        "nodes": "2",
        "nodelist": "n1,n2",
        "gres": "gpu:2",
        "chdir": "/",
        "output": "/dev/null",
    }
    job = int(rest.send(Submit("#!/bin/sh\nexec /bin/sleep 600\n", options)))
    wait_for(lambda: rest.poll().jobs[job].holds, "the job does not run")
    seen = rest.poll().jobs[job]
    assert (seen.user, seen.comment, {name: share.gpus for name, share in seen.shares.items()}) == (
        "nobody",
        "mine",
        {"n1": 2, "n2": 2},
    )
    rest.send(Cancel((job,)))
    wait_for(lambda: rest.poll().jobs[job].state == "CANCELLED", "the job is not cancelled")
    with pytest.raises(Rejected):
        rest.send(Submit("#!/bin/sh\n", {**options, "nodelist": "n99"}))
    slurm.kill("slurmrestd")
    with pytest.raises(NoAnswer):
        rest.poll()


def test_slices_of_a_fabric_are_certified_and_have_routes(
    slurm: SlurmCluster, serve: Callable[..., Manager], tmp_path: Path
) -> None:
    """Two leaves of two nodes, eight spines: a job across both has links of its own, and their routes follow from its certificate."""
    (tmp_path / "fabric.yaml").write_text("name: rack\nleaves: 2\nservers_per_leaf: 2\ngpus_per_server: 4\nspines: 8\n")
    executor = SlurmExecutor(tmp_path / "data", {"fabric": str(tmp_path / "fabric.yaml")}, poll_s=0.3)
    manager = serve(executor=executor, placement="vclos")
    assert manager.cluster.leaves == (0, 0, 1, 1)
    with pytest.raises(BadInput, match=r"no slice of the fabric has 13 GPUs.*12 or 14"):
        one(manager, run="true", resources={"accelerators": 13}, tasks_per_node="gpu")
    job = one(manager, run="sleep 600", resources={"accelerators": 4}, num_nodes=4, preemption={"grace": 0})
    until(manager, job, "RUNNING")
    path = manager.log_files(job, 1)[0].parent / "certificate.json"
    content = json.loads(path.read_text())
    (verdict,) = verify([(path.name, content)], describe(load_fabric(str(tmp_path / "fabric.yaml"))))
    assert (verdict.reasons, verdict.ranks, len(content["links"])) == ([], 16, 16)
    command = [*HEADWAY, "fabric", "routes", str(path), "--fabric", str(tmp_path / "fabric.yaml")]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "ip route" in shown.stdout or "ip rule" in shown.stdout
