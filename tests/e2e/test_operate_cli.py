"""What operators type: verbs on many jobs, history, health, nodes summarised, sessions, and the house rules of `serve`."""

import csv
import io
import json
import os
import pty
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.e2e.test_live_cli import HEADWAY, Shell
from tests.waiting import PATIENCE_S, wait_for

STUBBORN = "trap '' TERM; while true; do sleep 0.05; done"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    data, home = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("home")
    person = Shell(data, home)
    prolog = home / "prolog"
    prolog.write_text(f"#!/bin/sh\necho $HEADWAY_JOB_ID >> {home}/prologs\n")
    prolog.chmod(0o755)
    command = [*HEADWAY, "serve", "--cluster", "2x2", "--policy", "best-effort", "--port", "0", "--json"]
    command += ["--max-grace", "1s", "--max-jobs-per-user", "40", "--gpu-type", "a100", "--prolog", str(prolog)]
    server = subprocess.Popen(command, env=person.env, stdout=subprocess.PIPE, text=True, cwd=home)
    try:
        for line in server.stdout or ():
            if line.rstrip() == "}":
                break
        yield person
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0


def states(shell: Shell, *numbers: int) -> set[str]:
    return {job["state"] for job in shell.json("queue") if job["job_id"] in numbers}


def test_verbs_take_ranges_tasks_and_filters(shell: Shell) -> None:
    runs = shell.json("submit", "--gpus", "4", "--nodes", "2", "--", "sleep", "600")["job_id"]
    shell.until(runs, "RUNNING")
    array = shell.json("submit", "--array", "0-20:2", "--name", "bulk", "--", "true")["job_ids"]
    held = shell.json("hold", f"{array[0]}_[2-6]")
    assert [job["array_index"] for job in held] == [2, 4, 6]
    assert states(shell, *array[1:4]) == {"HELD"}
    many = shell("cancel", f"{array[0]}_*")
    assert (many.returncode, "cancel 11 jobs" in many.stderr, "needs --yes" in many.stderr) == (1, True, True)
    assert states(shell, *array) == {"PENDING", "HELD"}
    assert len(shell.json("cancel", f"{array[-2]}-{array[-1]}")) == 2
    refused = shell("cancel", "--name", "bulk", "--state", "pending")
    assert "needs --yes" in refused.stderr
    done = shell("cancel", "--name", "bulk", "--yes")
    assert done.returncode == 0, done.stderr
    assert states(shell, *array) == {"CANCELLED"}
    assert shell("cancel", "12-3").returncode == 1
    assert "'12_*'" in shell("cancel", "12_x").stderr
    assert "not both" in shell("cancel", "12", "--user", "x").stderr
    assert shell("cancel", str(runs), "--now", "--wait").returncode == 0


def test_a_job_is_named_in_the_same_way_everywhere(shell: Shell) -> None:
    array = shell.json("submit", "--array", "3-5", "--hold", "--", "true")["job_ids"]
    word = f"{array[0]}_4"
    assert shell.json("show", word)["job_id"] == array[1]
    assert shell.json("explain", word)["job_id"] == array[1]
    assert shell.json("logs", word) == {"job_id": array[1], "lines": []}
    assert [job["job_id"] for job in shell.json("hold", word)] == [array[1]]
    follows = shell.json("submit", "--after", word, "--after", f"any:{array[0]}_[4-5]", "--", "true")["job_id"]
    assert shell.json("explain", str(follows))["reason"] == "dependency"
    for index in (4, 5):
        assert shell("cancel", f"{array[0]}_{index}").returncode == 0
    shell.until(follows, "CANCELLED")  # of the tasks that it named, none is left; the first task still waits
    first = shell("submit", "--after", f"any:{array[0]}_3", "--", "true")
    assert f"stands for the whole array: write --after any:{array[0]}," in first.stderr
    for absent in (f"{array[0]}_99", f"any:{array[0]}_[7-9]"):
        ignored = shell("submit", "--after", absent, "--", "true")  # it was submitted, and waited for nothing
        assert (ignored.returncode, f"--after {absent}: there is no job" in ignored.stderr) == (102, True)
    for command in ("show", "explain", "logs", "cancel", "hold", "release", "requeue"):
        absent = shell(command, f"{array[0]}_99")
        assert (absent.returncode, absent.stdout) == (
            0 if command in ("cancel", "hold", "release", "requeue") else 102,
            "",
        )
        assert "no such jobs" in absent.stderr or f"there is no job {array[0]}_99" in absent.stderr
        assert shell(command, "9999_1").returncode == 102
    several = shell("show", f"{array[0]}_[4-5]")
    assert (several.returncode, "names 2 jobs: give one" in several.stderr) == (1, True)
    assert shell("cancel", str(array[0])).returncode == 0


def test_a_grace_has_a_limit_and_kills_are_at_once(shell: Shell) -> None:
    answer = shell("submit", "--grace", "24h", "--", "sh", "-c", STUBBORN)
    assert "preemption.grace: 86400 s is more than this cluster allows: the job is killed after 1 s" in answer.stderr
    number = int(answer.stdout.split()[-1])
    shell.until(number, "RUNNING")
    assert shell("cancel", str(number), "--wait").returncode == 0
    assert str(number) in (shell.home / "prologs").read_text().split()


def test_what_a_user_may_have_and_what_nodes_have(shell: Shell) -> None:
    many = shell("submit", "--array", "0-40", "--", "true")
    assert (many.returncode, "may have 40: 41 more cannot be accepted" in many.stderr) == (1, True)
    assert "this cluster has a100" in shell("submit", "--gpu-type", "h100", "--", "true").stderr
    assert shell("submit", "--gpu-type", "A100", "--wait", "--", "true").returncode == 0


def test_history_as_a_table_csv_and_sums(shell: Shell) -> None:
    bad = shell.json("submit", "--name", "=cmd()", "--queue", "team-a", "--", "sh", "-c", "exit 4")["job_id"]
    shell.until(bad, "FAILED")
    good = shell.json("submit", "--gpus", "2", "--name", "good", "--", "sleep", "0.3")["job_id"]
    job = shell.until(good, "COMPLETED")
    rows = shell.json("history")
    assert [row["job_id"] for row in rows] == sorted((row["job_id"] for row in rows), reverse=True)
    row = next(row for row in rows if row["job_id"] == good)
    assert (row["state"], row["gpus"], row["nodes"], row["exit_code"]) == ("COMPLETED", 2, ["n000"], 0)
    assert row["gpu_hours"] == pytest.approx(2 * (job["ended_at"] - job["started_at"]) / 3600, rel=0.01)
    assert {row["state"] for row in shell.json("history", "--state", "failed")} == {"FAILED"}
    assert shell.json("history", "--until", "2020-01-01") == []
    assert shell.json("history", "--user", "nobody-here") == []
    text = shell("history", "--csv").stdout
    table = list(csv.DictReader(io.StringIO(text)))
    assert next(line for line in table if line["job_id"] == str(bad))["name"] == "'=cmd()"
    shown = shell("history", "--since", "1h").stdout
    assert all(len(line) <= 100 for line in shown.splitlines())
    assert "GPU-hours, mean wait" in shown
    by_queue = shell.json("history", "--by", "queue")
    assert next(each for each in by_queue if each["queue"] == "team-a")["failed"] == 1
    assert "write a time ago" in shell("history", "--since", "soon").stderr


def test_health_and_nodes(shell: Shell) -> None:
    answer = shell.json("health")
    assert answer["ok"]
    assert answer["decisions"]["count"] > 0
    assert answer["decisions"]["p50_s"] <= answer["decisions"]["p99_s"] <= answer["decisions"]["max_s"]
    assert answer["journal"]["writable"]
    told = shell("health").stdout
    assert "the manager is well" in told
    assert "journal commits" in told
    shell("nodes", "drain", "n001")
    assert [(each["state"], each["nodes"]) for each in shell.json("nodes", "--summary")] == [
        ("drained", 1),
        ("idle", 1),
    ]
    assert "n000" in shell("nodes", "--summary").stdout
    shell("nodes", "resume", "n001")


def on_terminal(shell: Shell, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """A command on a terminal of its own, and our end of that."""
    ours, theirs = pty.openpty()
    made = subprocess.Popen(
        [*HEADWAY, *words], env=shell.env, stdin=theirs, stdout=theirs, stderr=theirs, cwd=shell.home
    )
    os.close(theirs)
    return made, ours


def read_until(terminal: int, words: bytes) -> bytes:
    text = b""
    while words not in text:
        assert select.select([terminal], [], [], PATIENCE_S)[0], text
        try:
            text += os.read(terminal, 4096)
        except OSError:  # its other end is closed
            raise AssertionError(text) from None
    return text


def test_a_person_is_asked_again_before_many_jobs_change(shell: Shell) -> None:
    numbers = shell.json("submit", "--array", "0-1", "--hold", "--name", "asked", "--", "true")["job_ids"]
    for answer, code, state in ((b"n\n", 1, "HELD"), (b"y\n", 0, "CANCELLED")):
        made, terminal = on_terminal(shell, "cancel", "--name", "asked")
        read_until(terminal, f"cancel 2 jobs ({numbers[0]}-{numbers[1]})? [y/N]".encode())
        os.write(terminal, answer)
        assert made.wait(PATIENCE_S) == code
        assert states(shell, *numbers) == {state}


def test_a_session_is_a_job_with_a_terminal(shell: Shell) -> None:
    made, terminal = on_terminal(shell, "shell", "--gpus", "2", "--name", "talk", "--", "sh")
    os.write(terminal, b"echo gpus=$CUDA_VISIBLE_DEVICES\n")
    read_until(terminal, b"gpus=0,1")
    os.write(terminal, b"tty; exit 5\n")
    read_until(terminal, b"/dev/pts/")
    assert made.wait(PATIENCE_S) == 5
    job = next(row for row in shell.json("history") if row["name"] == "talk")
    assert (shell.until(job["job_id"], "FAILED")["exit_code"], job["gpus"]) == (5, 2)


def test_a_session_ends_when_its_user_is_gone(shell: Shell) -> None:
    made, terminal = on_terminal(shell, "shell", "--name", "left", "--", "sh")
    os.write(terminal, b"echo rea''dy\n")
    read_until(terminal, b"ready")
    job = next(row for row in shell.json("history") if row["name"] == "left")["job_id"]
    shell.until(job, "RUNNING")  # output can arrive before the manager has seen the start
    made.kill()
    made.wait()
    os.close(terminal)
    shell.until(job, "FAILED", "COMPLETED")


def test_a_session_that_is_cancelled_says_so(shell: Shell) -> None:
    made, terminal = on_terminal(shell, "shell", "--name", "stopped", "--", "sh")
    os.write(terminal, b"echo rea''dy\n")
    read_until(terminal, b"ready")
    job = next(row for row in shell.json("history") if row["name"] == "stopped")["job_id"]
    shell("cancel", str(job))
    read_until(terminal, b"the job is being stopped")
    made.wait(PATIENCE_S)
    shell.until(job, "CANCELLED")


def test_house_rules_are_checked_before_anything_starts(tmp_path: Path, shell: Shell) -> None:
    loose = tmp_path / "loose"
    loose.write_text("#!/bin/sh\n")
    loose.chmod(0o777)
    free = Shell(tmp_path / "data", tmp_path)
    for words, said in (
        (("--prolog", str(loose)), "others can change it"),
        (("--epilog", str(tmp_path / "none")), "is not a program that can be run"),
        (("--max-grace", "soon"), "--max-grace"),
        (("--webhook", "nowhere"), "--webhook nowhere: write an address"),
        (("--prolog", str(loose), "--executor", "slurm"), "does not run them"),
    ):
        done = free("serve", "--cluster", "1x1", "--port", "0", *words)
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
        assert json.dumps(done.stdout) == '""'


class Taking(BaseHTTPRequestHandler):
    """A receiver of a webhook that takes everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_health_has_an_exit_code_while_the_webhook_fails(tmp_path: Path) -> None:
    receiver = HTTPServer(("127.0.0.1", 0), Taking, bind_and_activate=False)
    receiver.server_bind()  # but nobody listens yet
    (tmp_path / "home").mkdir()
    person = Shell(tmp_path / "data", tmp_path / "home")
    webhook = f"http://127.0.0.1:{receiver.server_address[1]}/"
    command = [*HEADWAY, "serve", "--cluster", "1x1", "--port", "0", "--json", "--webhook", webhook]
    command += ["--max-processes", "500"]
    server = subprocess.Popen(command, env=person.env, stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout or ():
            if line.rstrip() == "}":
                break
        assert person("health").returncode == 0
        person.json("submit", "--", "true")
        wait_for(lambda: person("health").returncode == 1)
        assert "the webhook fails: the last errors say why" in person("health").stdout
        receiver.server_activate()
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        wait_for(lambda: person("health").returncode == 0)
        receiver.shutdown()  # a thread that waits for a closed socket keeps files open that get its number later
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        receiver.server_close()
