"""The live manager under the load of a group: durable submissions, questions beside a long history and a deep queue, followers, and idle.

    python -m bench.live_load [--submissions 16000] [--clients 16] [--finished 50000] [--waiting 10000] [--idle 30] [--followers 512]

A number of 0 leaves a part out.

Everything goes over HTTP to a `headway serve` of its own (see bench/live.py). The history is written into the journal before the manager
starts, as a manager would have left it.
"""

import argparse
import getpass
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.live import HEADWAY, Server, connect, request, submissions
from bench.live_restart import write_journal

from headway.live.http.streams import MOST_STREAMS

WANTED_PER_S, WANTED_P99_MS, WANTED_ANSWER_MS, WANTED_IDLE = 1000, 100.0, 100.0, 0.01
FOLLOWED_S = 20.0
QUESTIONS = {
    "list the first 100": "/v1/jobs?limit=100",
    "list the newest 100": "/v1/jobs?limit=100&newest=true",
    "filter: waiting": "/v1/jobs?state=PENDING&limit=100",
    "filter: finished, user": "/v1/jobs?state=COMPLETED&user=me&limit=100",
    "filter: failed (none)": "/v1/jobs?state=FAILED&limit=100",
    "one finished job": "/v1/jobs/7",
    "explain the last waiting": "/v1/jobs/{last}/explain",
    "explain a finished one": "/v1/jobs/7/explain",
    "status": "/v1/status",
    "history": "/v1/history?limit=100",
}


def questions(finished: int, waiting: int) -> dict[str, Any]:
    """Answers while there are so many jobs: the median and the worst of 20, in milliseconds."""
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    write_journal(folder, finished)
    server = Server("2x4", data=folder)
    found: dict[str, Any] = {}
    try:
        for node in ("n000", "n001"):
            server.ask("POST", f"/v1/nodes/{node}/drain")
        for begin in range(0, waiting, 1000):
            many = min(1000, waiting - begin)
            last = server.ask("POST", "/v1/jobs", {"command": ["true"], "array": f"0-{many - 1}"})["job_ids"][-1]
        while server.ask("GET", "/v1/status")["counts"]["PENDING"] < waiting:
            time.sleep(0.1)
        connection = connect(server.url)
        for name, path in QUESTIONS.items():
            path = path.format(last=last)
            took = []
            for _ in range(20):
                began = time.perf_counter()
                request(connection, server.token, "GET", path)
                took.append((time.perf_counter() - began) * 1e3)
            found[name] = f"median {statistics.median(took):7.1f} ms, worst {max(took):7.1f} ms"
        found["memory_mb"] = server.memory_mb()
        return found
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def idle(seconds: float) -> dict[str, Any]:
    """The share of a core that a manager takes that has nothing to do but watch one running job."""
    server = Server("2x4")
    try:
        job = server.ask("POST", "/v1/jobs", {"command": ["sleep", "3600"], "preemption": {"grace": 1}})["job_id"]
        time.sleep(3)
        before = server.cpu_s()
        time.sleep(seconds)
        share = (server.cpu_s() - before) / seconds
        server.ask("POST", f"/v1/jobs/{job}/cancel")
        time.sleep(1)
        return {"cpu_share": f"{share:.2%}", "enough": share < WANTED_IDLE}
    finally:
        server.stop()


def followers(count: int, seconds: float) -> dict[str, Any]:
    """Return the share of a core that a manager uses while `count` clients follow one job that writes nothing."""
    server = Server("2x4")
    shares: dict[str, Any] = {}
    try:
        make = [*HEADWAY, "token", "make", "--user", getpass.getuser()]
        make += ["--scope", "operate", "--data", str(server.data)]
        tokens = [
            subprocess.run([*make, f"t{number}"], check=True, capture_output=True, text=True).stdout.split()[-1]
            for number in range(-(-count // MOST_STREAMS))
        ]
        for name, path, spec in (
            ("logs of a waiting job", "/v1/jobs/{job}/logs?follow=true", {"hold": True}),
            ("logs of a silent job", "/v1/jobs/{job}/logs?follow=true", {}),
            ("events", "/v1/events?after=1000000", {}),
        ):
            quick = {"command": ["sleep", "3600"], "preemption": {"grace": 1}}
            job = server.ask("POST", "/v1/jobs", {**quick, **spec})["job_id"]
            time.sleep(2)
            streams = []
            for number in range(count):
                stream = connect(server.url)
                headers = {"Authorization": f"Bearer {tokens[number // MOST_STREAMS]}"}
                stream.request("GET", path.format(job=job), headers=headers)
                assert stream.getresponse().status == 200
                streams.append(stream)
            time.sleep(3)
            before = server.cpu_s()
            time.sleep(seconds)
            shares[name] = f"{(server.cpu_s() - before) / seconds:.2%} of a core"
            for stream in streams:
                stream.close()
            server.ask("POST", f"/v1/jobs/{job}/cancel")
            time.sleep(2)
        return shares
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submissions", type=int, default=16_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--finished", type=int, default=50_000)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=30.0)
    parser.add_argument("--followers", type=int, default=512)
    given = parser.parse_args()
    words = " ".join(f"--{name} {value:g}" for name, value in vars(given).items())
    print(f"$ python -m bench.live_load {words}    ({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})")
    for name, size, run in (
        (
            f"durable submissions (wanted: {WANTED_PER_S}/s, p99 {WANTED_P99_MS:g} ms)",
            given.submissions,
            lambda: submissions(given.submissions, given.clients),
        ),
        (
            f"questions (wanted: {WANTED_ANSWER_MS:g} ms)",
            given.waiting,
            lambda: questions(given.finished, given.waiting),
        ),
        (f"idle (wanted: {WANTED_IDLE:.0%})", given.idle, lambda: idle(given.idle)),
        (f"{given.followers} followers", given.followers, lambda: followers(given.followers, FOLLOWED_S)),
    ):
        if not size:
            continue
        print(name, flush=True)
        for what, value in run().items():
            print(f"  {what:<26} {value:,.3f}" if isinstance(value, float) else f"  {what:<26} {value}", flush=True)


if __name__ == "__main__":
    main()
