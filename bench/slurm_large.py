"""A poll and a decision on a large Slurm: 1,000 nodes with 8 GPUs and 10,000 jobs, with answers as slurmctld would give them.

    python -m bench.slurm_large [--nodes 1000] [--jobs 10000]

Of the Slurm jobs a third are Headway's own and run, a third are others' and run, a third are others' and wait. Headway's queue holds
as many jobs. A poll is:
both answers parsed, every job told ours or others', every node compared with the ledger. What the commands and slurmctld take is not in it;
how often they are asked is bounded, and printed.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from headway.core.engine import Event
from headway.core.events import STARTED, SUBMITTED
from headway.live.executors.slurm import discovery
from headway.live.executors.slurm.attempt import Attempt, PartRun
from headway.live.executors.slurm.executor import POLL_S, SHARE, SlurmExecutor
from headway.live.executors.slurm.render import comment_of
from headway.live.executors.slurm.states import PartState
from headway.live.jobfile.spec import job_spec
from headway.live.state.cluster import ClusterState
from headway.live.state.nodes import node_changes
from headway.live.state.records import Job
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.slurm import answers
from headway.slurm.snapshot import SlurmSnapshot

GPUS, ADA = 8, 1000
WANTED_S = 1.0


class Answers:
    """A door whose answers are text in memory, of the size that Slurm's have."""

    def __init__(self, nodes: int) -> None:
        self.nodes, self.jobs = json.dumps({"nodes": [_node(k) for k in range(nodes)]}).encode(), b'{"jobs": []}'

    def poll(self) -> SlurmSnapshot:
        """Parse both."""
        return SlurmSnapshot(answers.read_jobs(self.jobs), answers.read_nodes(self.nodes))

    def show(self, what: str) -> str:
        """One partition, and nothing else."""
        return "PartitionName=main Default=YES" if what == "partition" else ""


def _node(number: int) -> dict[str, Any]:
    known = {"address": f"10.0.0.{number}", "gres": "gpu:a100:8", "gres_used": "gpu:a100:0(IDX:N/A)", "state": "idle"}
    more = dict.fromkeys(("comment", "extra", "features", "mcs_label", "owner", "reason", "tres", "architecture"), "")
    numbers = dict.fromkeys(
        ("boards", "boot_time", "cores", "cpu_load", "free_memory", "port", "sockets", "threads", "weight"), 1
    )
    return {
        "name": f"n{number:04d}",
        **known,
        **more,
        **numbers,
        "cpus": 64,
        "real_memory": 512_000,
        "partitions": ["main"],
    }


def _slurm_job(number: int, nodes: int, comment: str, running: bool) -> dict[str, Any]:
    """As `squeue --json` of 22.05 prints it: about a hundred fields, 2.7 kB."""
    texts = {f"text_{k}": "" for k in range(55)}
    numbers = {f"number_{k}": 0 for k in range(45)}
    name = f"n{number % nodes:04d}"
    held: dict[str, Any] = {"nodes": "", "gres_detail": [], "job_resources": {}}
    if running:
        cores = {str(core): {"cores": {"0": "allocated"}} for core in range(8)}
        row = {"nodename": name, "sockets": cores, "cpus_used": 0, "memory_used": 0, "memory_allocated": 64_000}
        held = {"nodes": name, "gres_detail": ["gpu:a100:1(IDX:0)"], "job_resources": {"allocated_nodes": [row]}}
    state = {"job_id": number, "job_state": "RUNNING" if running else "PENDING", "comment": comment}
    state |= {"user_name": "ada", "user_id": ADA}
    asked = {
        "node_count": 1,
        "cpus": 8,
        "tasks": 1,
        "tres_per_node": "gres:gpu:1",
        "time_limit": 60,
        "submit_time": 1_700_000_000,
    }
    return {**state, **asked, **held, **texts, **numbers}


def prepared(nodes: int, jobs: int, data: Path) -> tuple[SlurmExecutor, ClusterState]:
    """An executor that watches a third of the jobs, and a state with a queue."""
    door = Answers(nodes)
    executor = SlurmExecutor(data)
    executor.door = door  # type: ignore[assignment]
    found = executor.discover()
    instance, third = discovery.instance_of(data), jobs // 3
    rows = [_slurm_job(k + 1, nodes, comment_of(instance, k + 1, 1, 0), True) for k in range(third)]
    rows += [_slurm_job(k + 1, nodes, "", k < 2 * third) for k in range(third, jobs)]
    door.jobs = json.dumps({"jobs": rows}).encode()
    print(f"answers: {len(door.jobs) / 1e6:.1f} MB of jobs, {len(door.nodes) / 1e6:.1f} MB of nodes")
    executor.runs.mkdir(parents=True)
    executor._site = type(executor._site)(instance, {}, {})
    for k in range(third):
        folder = executor.folder(k + 1, 1)
        (folder / "own").mkdir(parents=True)
        executor._attempts[k + 1, 1] = Attempt(k + 1, 1, folder, [PartRun(PartState.RUNNING, slurm=k + 1)], uid=ADA)
    state = ClusterState(found.cluster, find_policy("tiresias-l"), find_placement("consolidated"))
    one = job_spec({"run": "true", "preemptible": True})
    for number in range(1, jobs + 1):
        state.add(Job(number, "ada", one, float(number)))
    return executor, state


def main() -> None:
    """Measure, and say how often Slurm is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
        executor, state = prepared(given.nodes, given.jobs, Path(folder))
        now = float(given.jobs + 1)
        for number in range(given.jobs):
            state.engine.record(Event(SUBMITTED, number), now)
        for action in state.engine.decide(now).actions[: given.jobs // 3]:
            state.engine.record(action, now)
            state.engine.record(Event(STARTED, action.job), now)
        polls, decisions, looks = [], [], []
        for k in range(5):
            began = time.perf_counter(), time.process_time()
            executor._poll()
            for _ in node_changes(state.tables, state.cluster.nodes, state.drained, executor.node_reports()):
                pass
            polls.append((time.perf_counter() - began[0], time.process_time() - began[1]))
            began = time.perf_counter(), time.process_time()
            state.engine.decide(now + k)
            decisions.append((time.perf_counter() - began[0], time.process_time() - began[1]))
            began = time.perf_counter(), time.process_time()
            for attempt in executor._known():
                executor._look(attempt)
            looks.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        for name, spent in (("poll", polls), ("decision", decisions), ("look into folders", looks)):
            wall, cpu = min(spent)
            print(f"{name}: {wall * 1e3:.1f} ms, {cpu * 1e3:.1f} ms CPU (best of {len(spent)})")
        both = min(polls)[0] + min(decisions)[0]
        print(f"poll and decision: {both:.3f} s ({'within' if both < WANTED_S else 'NOT within'} {WANTED_S:g} s)")
        print(
            f"load on slurmctld: 2 requests per poll, a poll at most every {POLL_S:g} s and after {SHARE:g} times what the last one took "
            "(so at most a tenth of its time); one request at a time; one per part started, at most three per part stopped"
        )


if __name__ == "__main__":
    main()
