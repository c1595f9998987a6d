"""The live manager under load: durable submissions, a deep queue, a large array, and memory.

    python -m bench.live [--submissions 4000] [--clients 8] [--queued 10000] [--array 1000]

Everything goes over HTTP to a `headway serve` of its own, with a journal that is flushed to disk for every acknowledgement.
"""

import argparse
import http.client
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.submitters import load

from headway.client.peer import check_peer

HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
# What a manager of one machine must reach.
WANTED_PER_S, WANTED_P99_S, WANTED_QUEUE_S, WANTED_DECISION_S = 500, 0.100, 0.5, 0.050


class Server:
    """A manager for the bench."""

    def __init__(self, cluster: str, *more: str, data: Path | None = None) -> None:
        self.data = data or Path(tempfile.mkdtemp(prefix="headway-bench-"))
        command = [*HEADWAY, "serve", "--cluster", cluster, "--data", str(self.data), "--port", "0", "--json", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        text = ""
        for line in self.process.stdout or ():
            text += line
            if line.rstrip() == "}":
                break
        self.url: str = json.loads(text)["url"]
        self.token = (self.data / "token").read_text().strip()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = connect(self.url)
        try:
            return request(connection, self.token, method, path, body)
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        text = self.ask("GET", "/metrics")
        return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1000

    def cpu_s(self) -> float:
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        shutil.rmtree(self.data, ignore_errors=True)


def connect(url: str) -> http.client.HTTPConnection:
    """Connect to a manager of the caller's own; the connection does not open again by itself."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.connect()
    check_peer(connection.sock, {os.geteuid()}, url, 60)
    connection.sock.settimeout(60)
    connection.auto_open = 0
    return connection


def request(connection: http.client.HTTPConnection, token: str, method: str, path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, content, headers)
    answer = connection.getresponse()
    raw = answer.read()
    if answer.status >= 400:
        raise RuntimeError(f"{answer.status}: {raw.decode()[:200]}")
    return (
        json.loads(raw) if raw and answer.getheader("content-type", "").startswith("application/json") else raw.decode()
    )


def submissions(count: int, clients: int) -> dict[str, Any]:
    """Durable submissions from several clients at once; no job may start, so that nothing else is measured."""
    server = Server("2x4", "--rate", "100000")  # the limit of one token, which an idle machine reaches
    try:
        for node in ("n000", "n001"):
            server.ask("POST", f"/v1/nodes/{node}/drain")
        load(server.url, server.token, clients, 10 * clients, "warm")
        before, stored_before = server.cpu_s(), server.ask("GET", "/v1/status")["counts"]["PENDING"]
        made = load(server.url, server.token, clients, count)
        spent_s, took = server.cpu_s() - before, made.took
        stored = server.ask("GET", "/v1/status")["counts"]["PENDING"] - stored_before
        assert stored == len(took), f"{stored} stored of {len(took)} acknowledged"
        return {
            "clients": clients,
            "submissions": len(took),
            "per_s": len(took) / made.wall_s,
            "p50_ms": took[len(took) // 2] * 1e3,
            "p99_ms": took[int(len(took) * 0.99)] * 1e3,
            "server_cpu_ms_each": spent_s / len(took) * 1e3,
            "server_cores": spent_s / made.wall_s,
            "clients_cpu_ms_each": made.cpu_s / len(took) * 1e3,
            "commits": server.metric("headway_journal_commits_total"),
            "enough": len(took) / made.wall_s >= WANTED_PER_S and took[int(len(took) * 0.99)] <= WANTED_P99_S,
        }
    finally:
        server.stop()


def deep_queue(queued: int) -> dict[str, Any]:
    """A full cluster with a deep queue: how long `queue` takes, and how long decisions take while jobs come and go."""
    server = Server("2x4")
    try:
        server.ask(
            "POST",
            "/v1/jobs",
            {"command": ["sleep", "600"], "num_nodes": 2, "resources": {"accelerators": 4}, "preemption": {"grace": 1}},
        )
        server.ask("POST", "/v1/jobs", {"command": ["true"], "array": f"0-{queued - 1}"})
        env = {**os.environ, "HEADWAY_DATA": str(server.data)}
        env.pop("HEADWAY_API", None)
        walls, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([*HEADWAY, "queue"], env=env, check=True, stdout=subprocess.DEVNULL)
            walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rounds, busy = (
            server.metric("headway_decision_duration_seconds_count"),
            server.metric("headway_decision_duration_seconds_sum"),
        )
        for _ in range(50):
            server.ask("POST", "/v1/jobs", {"command": ["true"]})
        rounds_after, busy_after = (
            server.metric("headway_decision_duration_seconds_count"),
            server.metric("headway_decision_duration_seconds_sum"),
        )
        each = (busy_after - busy) / max(1.0, rounds_after - rounds)
        server.ask("POST", "/v1/jobs/1/cancel")
        return {
            "queued": queued,
            "queue_command_s": min(walls),
            "queue_command_median_s": sorted(walls)[2],
            "queue_command_cpu_s": cpu_s / len(walls),
            "decision_ms": each * 1e3,
            "memory_mb": server.memory_mb(),
            "enough": min(walls) <= WANTED_QUEUE_S and each <= WANTED_DECISION_S,
        }
    finally:
        for job in server.ask("GET", "/v1/jobs?state=RUNNING&state=STARTING&limit=100")["jobs"]:
            server.ask("POST", f"/v1/jobs/{job['job_id']}/cancel")
        server.stop()


def array(tasks: int) -> dict[str, Any]:
    """An array run to its end, with every task counted once."""
    server = Server("8x8")
    try:
        began, before = time.perf_counter(), server.memory_mb()
        server.ask(
            "POST", "/v1/jobs", {"command": ["sh", "-c", "echo $HEADWAY_ARRAY_INDEX"], "array": f"0-{tasks - 1}"}
        )
        while (counts := server.ask("GET", "/v1/status")["counts"])["COMPLETED"] + counts["FAILED"] < tasks:
            time.sleep(0.2)
        wall = time.perf_counter() - began
        seen = set()
        for job in range(1, tasks + 1):
            seen.add(int(server.ask("GET", f"/v1/jobs/{job}/logs")))
        assert counts["COMPLETED"] == tasks, counts
        assert seen == set(range(tasks)), "a task's log is missing or doubled"
        return {
            "tasks": tasks,
            "completed": counts["COMPLETED"],
            "tasks_per_s": tasks / wall,
            "memory_mb": server.memory_mb(),
            "memory_before_mb": before,
        }
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Load on the live manager.")
    parser.add_argument("--submissions", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--array", type=int, default=1000)
    given = parser.parse_args()
    print(
        f"$ python -m bench.live --submissions {given.submissions} --clients {given.clients} --queued {given.queued} --array {given.array}"
    )
    print(f"cores: {os.cpu_count()}")
    for name, run in (
        ("durable submissions", lambda: submissions(given.submissions, given.clients)),
        ("deep queue", lambda: deep_queue(given.queued)),
        ("array", lambda: array(given.array)),
    ):
        print(name)
        for what, value in run().items():
            print(f"  {what:<24} {value:,.3f}" if isinstance(value, float) else f"  {what:<24} {value}")


if __name__ == "__main__":
    main()
