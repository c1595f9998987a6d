"""CONTRIBUTING's first four walk-throughs, done from outside Headway: a policy, a placement, a trace reader and an executor.

They live in one module of a temporary folder and are named on the command line, all of them together, as a person would. What each may
get wrong is tested one by one: test_policy_names.py, test_placements_outside.py, test_traces_readers.py, test_executors.py.
"""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S, wait_for

from headway.client.client import Client
from headway.cluster.nodes import Cluster
from headway.live.manager.recovery import restore
from headway.live.state.cluster import ClusterState
from headway.live.store.journal import Journal
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

pytestmark = pytest.mark.xdist_group("live")
HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
EXAMPLES = Path(__file__).parents[2] / "examples"
MODULE = '''
from headway.cluster.nodes import Cluster
from headway.core.tables.actions import add_seat
from headway.live.executors import ENDED, STARTED, Discovery, Executor, Report
from headway.workloads.workload import workload


class LargeFirst:
    """The job with the most GPUs first; equal ones in the order of submission."""

    preempts = False

    def key(self, job, now, options):
        return -job.gpus, job.submit


class LastNode:
    """The last node that holds the whole job, or none."""

    def place(self, nodes, leaves, fewest, job, options, out):
        for x in range(len(nodes.offer) - 1, -1, -1):
            if nodes.offer[x] >= job["gpus"]:
                add_seat(out, x, int(job["gpus"]))
                return True
        return False


def read(source, options, *, strict):
    """Lines such as `10:2:60`: submission, GPUs, seconds."""
    rows = [list(map(int, line.split(":"))) for line in source.text.splitlines()]
    return workload(source.name, *([row[i] for row in rows] for i in range(3)))


class Imagined(Executor):
    """Starts no process: every attempt writes one line and ends well."""

    def discover(self):
        return Discovery(Cluster("imagined", ("a", "b"), (4, 4)), "two imagined nodes")

    def start(self, launch):
        folder = self.folder(launch.job, launch.attempt)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rank-0.log").write_text(f"{launch.spec.name} on {launch.nodes[0]}\\n")
        self.tell(Report(STARTED, launch.job, launch.attempt))
        self.tell(Report(ENDED, launch.job, launch.attempt, exit_code=0))

    def stop(self, job, attempt, signal_name, grace_s):
        pass

    def adopt(self, job, attempt):
        self.tell(Report(ENDED, job, attempt, lost=True))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the module and a trace that no built-in reader knows: one job of four GPUs behind three of one and two."""
    (tmp_path / "outside.py").write_text(MODULE)
    (tmp_path / "jobs.log").write_text("0:4:100\n1:1:10\n2:2:10\n3:4:10\n")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY")}
    return {
        **keep,
        "PYTHONPATH": f"{folder}{os.pathsep}{EXAMPLES}",
        "HEADWAY_DATA": str(folder / "data"),
        "PYTHONUNBUFFERED": "1",
    }


def test_a_simulation_with_reader_policy_and_placement_from_outside(folder: Path) -> None:
    words = ["simulate", "jobs.log?reader=outside:read", "--cluster", "1x4", "--policy", "outside:LargeFirst"]
    words += ["--placement", "outside:LastNode", "--out", "result", "--json"]
    done = subprocess.run([*HEADWAY, *words], cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["policy"], summary["placement"]) == ("outside:LargeFirst", "outside:LastNode")
    assert summary["trace"] == "jobs.log?reader=outside:read"
    assert summary["finished"] == 4
    # The other job of four GPUs goes first though it came last; the small ones then run side by side.
    starts = [line.split(",")[4] for line in (folder / "result" / "jobs.csv").read_text().splitlines()[1:]]
    assert list(map(float, starts)) == [0.0, 110.0, 110.0, 100.0]


@contextlib.contextmanager
def serving(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A manager whose executor is from outside, ready; its nodes are those that the executor found."""
    command = [*HEADWAY, "serve", *words, "--executor", "outside:Imagined", "--port", "0", "--json"]
    server = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True)
    try:
        text = ""
        for line in server.stdout or ():
            text += line
            if line.rstrip() == "}":
                break
        assert json.loads(text)
        yield server
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE_S)
        if server.stdout:
            server.stdout.close()


def test_a_job_run_by_policy_placement_and_executor_from_outside(folder: Path) -> None:
    words = ("--policy", "outside:LargeFirst", "--placement", "outside:LastNode")
    with serving(folder, *words), Client(data=folder / "data") as client:
        assert [node["name"] for node in client.nodes()] == ["a", "b"]
        job = client.submit(["train"], gpus=2, name="hello")
        assert client.wait(job, PATIENCE_S).state == "COMPLETED"
        assert list(client.logs(job)) == ["hello on b"]


def learnt(folder: Path) -> tuple[list[tuple[str, ...]], list[int], list[float]]:
    """What the policy knows by the journal: the groups, and of each (of all jobs first) how many ended and the mean that it keeps."""
    here = Cluster("imagined", ("a", "b"), (4, 4))
    policy, placement = find_policy(USUAL), find_placement("consolidated")
    journal = Journal(folder / "data")
    state, _, _ = restore(lambda other: ClusterState(other or here, policy, placement), journal)
    journal.close()
    table, rows = state.engine.options.history.groups, len(state.groups.labels) + 1
    return state.groups.labels, table["jobs"][:rows].tolist(), table["own"][:rows, 0].tolist()


def ends_in_journal(folder: Path) -> int:
    """Return how many jobs have ended by the journal."""
    with contextlib.closing(sqlite3.connect(folder / "data" / "journal.db")) as file:
        return int(file.execute("SELECT COUNT(*) FROM events WHERE kind = 'Ended'").fetchone()[0])


USUAL = "usual:Usual?trust=2"


def test_what_a_policy_from_outside_has_learnt_survives_a_kill_and_a_stop(folder: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(client: Client, *names: str) -> None:
        for job in [client.submit(["train"], gpus=1, name=name) for name in names]:
            assert client.wait(job, PATIENCE_S).state == "COMPLETED"

    with serving(folder, "--policy", USUAL) as server, Client(data=folder / "data") as client:
        run(client, "long", "short", "long")
        wait_for(lambda: ends_in_journal(folder) == 3)  # people see an end a moment before the journal has it
        server.kill()
        server.wait(PATIENCE_S)
    labels, jobs, means = learnt(folder)  # from the whole journal
    assert [name for _, name in labels] == ["long", "short"]
    assert jobs == [3, 2, 1]
    assert all(mean >= 0.0 for mean in means)
    with serving(folder, "--policy", USUAL), Client(data=folder / "data") as client:
        run(client, "short")
        assert client.dry_run({"command": ["train"], "name": "long"})["starts_now"]
        told = ["replay", "--policy", f"{USUAL},fifo", "--json"]
        done = subprocess.run([*HEADWAY, *told], cwd=folder, env=environment(folder), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert [one["name"] for one in json.loads(done.stdout)["simulated"]] == [USUAL, "fifo"]
    assert learnt(folder)[:2] == (labels, [4, 2, 2])  # from the snapshot
