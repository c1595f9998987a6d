"""Restarting the live manager, and what one job costs it, by how many jobs have ended before.

    python -m bench.live_restart [10000 50000 200000] [--jobs 500]

The journal is written as a manager would have left it (a submission and four rows per job), without a snapshot. The first start
reads all of it, as after an upgrade; the second starts from the snapshot that the first left. Each start is a process of its own. Then
trivial jobs are run by an executor whose processes end at once, so that what is measured is the manager: journal, engine, records.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from headway.live.executors import Executor

NODES, GPUS = 2, 4
RETIRED_EVERY = 1000
ROWS = (
    ("Submitted", "{}"),
    ("Start", '{"places":[[%d,1]]}'),
    ("Started", "{}"),
    ("Ended", '{"exit_code":0,"message":"","state":"COMPLETED"}'),
)


def write_journal(folder: Path, jobs: int) -> None:
    """Write a journal of jobs that ran one after the other, for a second each, with their rows of finished jobs."""
    from headway.live.store.history import insert_finished

    _write_rows(folder, jobs)
    view, rest = _first_finished()
    content = json.loads(zlib.decompress(rest))

    def rows() -> Iterator[tuple[Any, bytes]]:
        for i in range(jobs):
            times = {name: getattr(view, name) + i for name in ("submitted_at", "started_at", "ended_at")}
            record = {**content, "job": {**content["job"], "id": i + 1}}
            yield replace(view, job_id=i + 1, **times), zlib.compress(json.dumps(record).encode(), 1)

    with sqlite3.connect(folder / "journal.db") as file:
        insert_finished(file, rows())


def _first_finished() -> tuple[Any, bytes]:
    """Return the row of finished jobs of a job like the first."""
    from headway.cluster.named import cluster
    from headway.live.manager.recovery import restore
    from headway.live.queries.archive import finished_row
    from headway.live.state.cluster import ClusterState
    from headway.live.store.journal import Journal
    from headway.placement.registry import find_placement
    from headway.policies.registry import find_policy

    with tempfile.TemporaryDirectory(prefix="headway-bench-") as one:
        _write_rows(Path(one), 1)
        journal = Journal(Path(one))
        rules = find_policy("fifo"), find_placement("consolidated")
        state, _, _ = restore(lambda nodes: ClusterState(nodes or cluster(f"{NODES}x{GPUS}"), *rules), journal)
        journal.close()
        return finished_row(state, state.jobs[1], state.jobs[1].ended or 0.0)


def _write_rows(folder: Path, jobs: int) -> None:
    from headway.live.manager.loop.recorder import KEPT_FINISHED
    from headway.live.store.integrity.checksum import insertion, sealed
    from headway.live.store.journal import Journal

    Journal(folder).close()
    with sqlite3.connect(folder / "journal.db") as file:
        spec = json.dumps({"command": ["true"], "name": "past"})
        file.execute(insertion("specs"), sealed("specs", (1, spec)))
        opened = {"cluster": [GPUS] * NODES, "nodes": ["n000", "n001"], "policy": "fifo", "placement": "consolidated"}
        first = 1.7e9
        submitted = ((i, "me", first + i, 1, None, None) for i in range(1, jobs + 1))
        facts = (
            (first + i + at / 4, kind, i, int(at > 0), data % (i % NODES) if "%" in data else data)
            for i in range(1, jobs + 1)
            for at, (kind, data) in enumerate(ROWS)
        )
        rounds = iter(lambda: list(islice(facts, RETIRED_EVERY * len(ROWS))), [])  # after each, jobs leave the memory
        retired = ((*part, (part[-1][0], "Retired", 0, 0, json.dumps({"keep": KEPT_FINISHED}))) for part in rounds)
        rows = enumerate(chain([(first, "Opened", 0, 0, json.dumps(opened))], chain.from_iterable(retired)), 1)
        file.executemany(insertion("jobs"), (sealed("jobs", row) for row in submitted))
        file.executemany(insertion("events"), (sealed("events", (seq, *row)) for seq, row in rows))


class AtOnce(Executor):
    """An executor whose processes have ended as soon as they are started."""

    def check_user(self, user: str) -> None:
        """Accept imagined users: no process runs."""

    def start(self, launch: Any) -> None:
        from headway.live.executors import ENDED, STARTED, Report

        self.tell(Report(STARTED, launch.job, launch.attempt))
        self.tell(Report(ENDED, launch.job, launch.attempt, exit_code=0))

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None: ...

    def adopt(self, job: int, attempt: int) -> None: ...


def measure(folder: str, jobs: int) -> None:
    """In a process of its own: start on a journal, run some jobs, stop; print what it took."""
    from headway.cluster.named import cluster
    from headway.live.jobfile.spec import JobSpec
    from headway.live.manager.manager import Manager

    before, cpu = time.perf_counter(), time.process_time()
    executor = AtOnce(Path(folder))
    manager = Manager(Path(folder), cluster(f"{NODES}x{GPUS}"), "fifo", executor=executor)
    manager.start()
    started = time.perf_counter() - before
    started_cpu = time.process_time() - cpu
    done, began, cpu = manager.counts()["COMPLETED"], time.perf_counter(), time.process_time()
    for _ in range(jobs):
        manager.submit(JobSpec(command=("true",)), "me")
    while manager.counts()["COMPLETED"] < done + jobs:
        time.sleep(0.005)
    spent, spent_cpu = time.perf_counter() - began, time.process_time() - cpu
    manager.stop()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps([started, started_cpu, spent / max(1, jobs), spent_cpu / max(1, jobs), peak_mb]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("finished", type=int, nargs="*", default=[10_000, 50_000, 200_000])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.jobs)
        return
    print(
        f"$ python -m bench.live_restart {' '.join(map(str, given.finished))} --jobs {given.jobs}    ({os.cpu_count()} cores)"
    )
    print(f"{'finished':>9}  {'start':<14} {'wall s':>8} {'CPU s':>8} {'ms/job':>8} {'CPU ms/job':>11} {'peak MB':>8}")
    for finished in given.finished:
        folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
        try:
            write_journal(folder, finished)
            for name in ("whole journal", "again"):
                command = [
                    sys.executable,
                    "-m",
                    "bench.live_restart",
                    "--measure",
                    str(folder),
                    "--jobs",
                    str(given.jobs),
                ]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                wall, cpu, each, each_cpu, peak = json.loads(out.splitlines()[-1])
                print(
                    f"{finished:>9,}  {name:<14} {wall:>8.2f} {cpu:>8.2f} {each * 1e3:>8.2f} {each_cpu * 1e3:>11.2f} {peak:>8.0f}"
                )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
