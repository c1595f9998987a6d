"""The cluster commands as a person types them, against a manager started by `headway serve`: output, JSON and exit codes."""

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S, wait_for

from headway.cli.main import main
from headway.client.transport import ApiError
from headway.io.accounts import own_account
from headway.live.executors.process.cgroups.find import find_cgroups

HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


class Shell:
    """A person with a data folder."""

    def __init__(self, data: Path, home: Path) -> None:
        self.data = data
        keep = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY")}
        self.env = {**keep, "HEADWAY_DATA": str(data), "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
        self.home = home

    def __call__(self, *words: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Done:
        """Run the command in this process: as a person would, without half a second of start-up each time."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(cwd or self.home),
        ):
            patch.setattr(sys, "argv", ["headway", *words])
            for name, value in {**self.env, **(env or {})}.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def json(self, *words: str) -> Any:
        done = self(words[0], "--json", *words[1:]) if words[0] != "token" else self(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def until(self, job: int, *states: str) -> dict[str, Any]:
        from headway.client.client import Client

        with Client(data=self.data) as client:
            wait_for(lambda: client.job(job).state in states, lambda: client.job(job))
        found: dict[str, Any] = self.json("show", str(job))
        return found


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    data, home = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("home")
    person = Shell(data, home)
    command = [*HEADWAY, "serve", "--cluster", "2x2", "--policy", "tiresias-l?threshold=1000", "--port", "0", "--json"]
    command += ["--min-runtime", "auto,batch=1h"]
    server = subprocess.Popen(command, env=person.env, stdout=subprocess.PIPE, text=True, cwd=home)
    try:
        text = ""
        for line in server.stdout or ():
            text += line
            if line.rstrip() == "}":
                break
        assert json.loads(text)["url"] == (data / "url").read_text().strip()
        yield person
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0


def test_submit_wait_gives_the_jobs_exit_code(shell: Shell) -> None:
    assert shell("submit", "--wait", "--", "true").returncode == 0
    failed = shell("submit", "--wait", "--json", "--", "sh", "-c", "exit 3")
    assert failed.returncode == 100
    answer = json.loads(failed.stdout)
    assert (answer["state"], answer["exit_code"]) == ("FAILED", 3)
    late = shell("submit", "--wait", "--timeout", "0.5s", "--json", "--", "sleep", "600")
    assert late.returncode == 101
    number = json.loads(late.stdout)["job_id"]
    assert shell("cancel", str(number), "--wait").returncode == 0
    assert shell("show", str(number), "--exit-code").returncode == 103
    assert shell("logs", str(number), "--follow").returncode == 103


def test_the_installed_command_ends_with_the_same_codes(shell: Shell) -> None:
    for words, code in (
        (("submit", "--wait", "--", "false"), 100),
        (("show", "9999"), 102),
        (("queue", "--json"), 0),
        (("queue", "-x"), 2),
    ):
        assert (
            subprocess.run(
                [*HEADWAY, *words], env=shell.env, capture_output=True, timeout=PATIENCE_S, check=False
            ).returncode
            == code
        )


def test_what_is_not_there(shell: Shell) -> None:
    for words in (
        ("show", "9999"),
        ("explain", "9999"),
        ("logs", "9999"),
        ("cancel", "9999"),
        ("hold", "9999"),
        ("nodes", "drain", "n9"),
    ):
        done = shell(*words)
        assert done.returncode == 102, words
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr


def test_json_has_the_fields_of_the_interface(shell: Shell) -> None:
    number = shell.json("submit", "--name", "fields", "--gpus", "4", "--nodes", "2", "--queue", "team", "--", "true")[
        "job_id"
    ]
    job = shell.until(number, "COMPLETED")
    wanted = "job_id name user state gpus attempt exit_code submitted_at started_at ended_at service_gpu_s reason"
    assert set(wanted.split()) <= set(job)
    assert (job["gpus"], job["name"], job["queue"], job["exit_code"]) == (4, "fields", "team", 0)
    listed = shell.json("queue", "--name", "fields")
    assert [row["job_id"] for row in listed] == [number]
    assert set(wanted.split()) <= set(listed[0])


def test_the_command_after_the_dashes_is_taken_as_it_is(shell: Shell) -> None:
    number = shell.json("submit", "--", "printf", "%s|", "--name", "--json", "--", "-x", "a b", "$HOME;")["job_id"]
    shell.until(number, "COMPLETED")
    assert shell("logs", str(number)).stdout == "--name|--json|--|-x|a b|$HOME;|\n"


def test_a_job_file_and_options_that_win_over_it(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: gpt\nrun: echo $WORD in $(pwd)\nenvs: {WORD: one}\nresources: {accelerators: 2}\n"
    )
    done = shell("submit", "job.yaml", "--env", "WORD=two", "--json", cwd=tmp_path)
    number = json.loads(done.stdout)["job_id"]
    job = shell.until(number, "COMPLETED")
    assert (job["name"], job["gpus"]) == ("gpt", 2)
    assert shell("logs", str(number)).stdout == f"two in {tmp_path}\n"


def test_a_batch_script_is_kept_as_it_was(shell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH --job-name=batch --gpus-per-node=2 --mem=1G\n#SBATCH --mail-type=END\necho first $1\n"
    )
    done = shell("submit", "train.sh", "--json", "--", "argument", cwd=tmp_path)
    script.write_text("#!/bin/sh\necho second\n")
    assert "--mail-type has no effect here" in done.stderr
    groups = find_cgroups(tmp_path)
    groups.close(lambda group: False)
    loose = "memory" not in groups.enforced
    assert ("resources.memory is not enforced here" in done.stderr) == loose
    number = json.loads(done.stdout)["job_id"]
    job = shell.until(number, "COMPLETED")
    assert (job["name"], job["gpus"]) == ("batch", 2)
    assert ("resources.memory is not enforced here" in shell("show", str(number)).stderr) == loose
    assert shell("logs", str(number)).stdout == "first argument\n"


def test_arrays_and_dependencies(shell: Shell) -> None:
    numbers = shell.json("submit", "--array", "0-3%2", "--", "sh", "-c", "echo task $HEADWAY_ARRAY_INDEX")["job_ids"]
    assert len(numbers) == 4
    after = shell.json("submit", "--after", str(numbers[0]), "--", "echo", "last")["job_id"]
    last = shell.until(after, "COMPLETED")
    tasks = [shell.until(number, "COMPLETED") for number in numbers]
    assert last["started_at"] >= max(task["ended_at"] for task in tasks)
    assert [shell("logs", str(number)).stdout for number in numbers] == [f"task {i}\n" for i in range(4)]


def test_hold_release_requeue_explain(shell: Shell) -> None:
    number = shell.json("submit", "--grace", "1s", "--", "sleep", "600")["job_id"]
    shell.until(number, "RUNNING")
    refused = shell("hold", str(number))
    assert (refused.returncode, f"requeue --hold {number}" in refused.stderr) == (1, True)
    stopped = shell("requeue", "--hold", str(number))
    assert "has reported no checkpoint" in stopped.stderr
    assert "of work on 1 GPU" in stopped.stderr
    shell.until(number, "HELD")
    told = shell("explain", str(number)).stdout
    assert "HELD: held" in told
    assert f"headway release {number}" in told
    answer = shell.json("explain", str(number))
    assert sum(answer["receipt_us"].values()) == answer["wait_us"]
    shell.json("release", str(number))
    shell.until(number, "RUNNING")
    shell.json("requeue", str(number))
    shell.until(number, "RUNNING", "PENDING")
    assert shell("cancel", str(number), "--wait").returncode == 0
    again = shell("cancel", str(number))
    assert (again.returncode, again.stderr) == (1, f"headway: job {number} has ended: it is CANCELLED\n")


def test_explain_says_what_is_kept_by_when_and_who_holds_it(shell: Shell) -> None:
    holder = shell.json("submit", "--gpus", "2", "--time-limit", "200s", "--grace", "1s", "--", "sleep", "600")[
        "job_id"
    ]
    shell.until(holder, "RUNNING")
    big = shell.json("submit", "--gpus", "4", "--nodes", "2", "--min-runtime", "5m", "--", "true")["job_id"]
    kept = wait_for(lambda: shell.json("explain", str(big))["reservation"])
    assert (kept["job_id"], sum(kept["nodes"].values())) == (big, 4)
    assert 0 < kept["in_s"] < 201
    assert [(each["job_id"], each["gpus"], each["why"]) for each in kept["holders"]] == [(holder, 2, "time_limit")]
    told = shell("explain", str(big)).stdout
    assert "kept for it" in told
    assert "at the latest" in told
    assert "its time limit is over" in told
    for number in (big, holder):
        shell("cancel", str(number), "--wait")


def test_minimum_run_times_are_checked(shell: Shell) -> None:
    for words, says in (
        (("serve", "--min-runtime", "soon"), "--min-runtime: 'soon' is not a time"),
        (("serve", "--min-runtime", "auto,=5m"), "names no queue"),
        (("submit", "--min-runtime", "soon", "--", "true"), "min_runtime"),
    ):
        done = shell(*words)
        assert done.returncode == 1, words
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


def test_nodes_tables_top_and_dry_run(shell: Shell) -> None:
    shell("nodes", "drain", "n001")
    assert shell.json("nodes")[1]["state"] in {"drained", "draining"}
    dry = shell("submit", "--dry-run", "--gpus", "2", "--", "true").stdout
    assert "n000" in dry
    assert "nothing was submitted" in dry
    assert shell.json("submit", "--dry-run", "--", "true")["starts_now"] is True
    shell("nodes", "resume", "n001")
    assert shell.json("nodes")[1]["state"] == "open"
    shell("submit", "--wait", "--", "true")
    table = shell("queue", "--all").stdout
    assert table.splitlines()[1].split()[:4] == ["JOB", "NAME", "USER", "STATE"]
    assert all(len(line) <= 100 for line in table.splitlines())
    assert "GPUs in use" in shell("top").stdout
    assert set(shell.json("top")) >= {"policy", "cluster", "counts", "nodes", "jobs"}


def test_replay_under_other_policies(shell: Shell) -> None:
    shell("submit", "--wait", "--", "sleep", "0.2")
    number = shell.json("submit", "--", "sleep", "600")["job_id"]
    shell.until(number, "RUNNING")
    assert shell("cancel", str(number), "--wait").returncode == 0
    answer = shell.json("replay", "--last", "1h", "--policy", "fifo,srtf")
    assert [outcome["name"] for outcome in answer["simulated"]] == ["tiresias-l?threshold=1000", "fifo", "srtf"]
    assert answer["averaged"] <= answer["jobs"]
    for outcome in answer["simulated"]:
        assert set(outcome["users"]) == set(answer["measured"]["users"])
        assert outcome["mean_s"] > 0
    assert any("cancelled" in line for line in answer["caveats"])
    assert "simulated fifo" in shell("replay", "--policy", "fifo").stdout


def test_bad_input_is_one_line_and_exit_1(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("run: x\ngpu: 3\n")
    (tmp_path / "broken.yaml").write_text("run: [\n")
    before = len(shell.json("history"))
    for words in (
        ("submit",),
        ("submit", "absent.yaml"),
        ("submit", "bad.yaml"),
        ("submit", "broken.yaml"),
        ("submit", "--gpus", "1000", "--", "true"),
        ("submit", "--array", "x", "--", "true"),
        ("submit", "--env", "X", "--", "true"),
        ("submit", "--after", "9999", "--", "true"),
        ("submit", "--wait", "--timeout", "soon", "--", "true"),
        ("submit", "--timeout", "5s", "--", "true"),
        ("submit", "--key", "", "--", "true"),
        ("queue", "--state", "DONE"),
        ("nodes", "remove", "n000"),
        ("replay", "--policy", "tiresis-l"),
        ("queue", "--server", "nowhere"),
        ("token", "make", "x", "--user", "ada", "--scope", "all"),
        ("serve", "--cluster", "2x2", "--port", "0"),
        ("serve", "--cluster", "2x2", "--port", "0", "--executor", "slurn"),
    ):
        done = shell(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), (words, done.stderr)
        assert done.stderr.startswith("headway: ")
    assert shell("submit", "--gpus", "0", "--", "true").returncode == 1
    assert len(shell.json("history")) == before  # nothing was submitted


def test_nobody_answers(shell: Shell, tmp_path: Path) -> None:
    done = shell("queue", env={"HEADWAY_API": "http://127.0.0.1:9", "HEADWAY_TOKEN": "x"})
    assert done.returncode == 1
    assert "no manager answers at http://127.0.0.1:9" in done.stderr


def test_the_owners_token_is_not_sent_elsewhere(shell: Shell) -> None:
    from headway.client.folder import find_manager

    url = (shell.data / "url").read_text().strip()
    assert find_manager(url, data=shell.data).token.startswith("hw-")
    assert find_manager("http://127.0.0.1:9", data=shell.data).token == ""


def test_tokens_for_others(shell: Shell) -> None:
    secret = shell.json("token", "make", "reader", "--user", "nobody", "--scope", "read")["token"]
    url = (shell.data / "url").read_text().strip()
    as_reader = {"HEADWAY_API": url, "HEADWAY_TOKEN": secret}
    assert json.loads(shell("queue", "--json", env=as_reader).stdout) == []
    assert "needs submit" in shell("submit", "--", "true", env=as_reader).stderr
    assert [row["name"] for row in shell.json("token", "list")] == ["reader"]
    shell("token", "revoke", "reader")
    assert "not known here" in shell("queue", env=as_reader).stderr


def test_a_jobs_token_ends_with_its_attempt(shell: Shell, tmp_path: Path) -> None:
    """The token of attempt 1 worked again as soon as the job was requeued."""
    script = 'echo "$HEADWAY_TOKEN" > new-$HEADWAY_ATTEMPT; mv new-$HEADWAY_ATTEMPT $HEADWAY_ATTEMPT; exec sleep 600'
    number = shell.json("submit", "--workdir", str(tmp_path), "--", "sh", "-c", script)["job_id"]

    def token(attempt: int) -> str:
        path = tmp_path / str(attempt)
        return wait_for(lambda: path.exists() and path.read_text().strip())

    def show(secret: str) -> Done:
        url = (shell.data / "url").read_text().strip()
        return shell("show", str(number), "--json", env={"HEADWAY_API": url, "HEADWAY_TOKEN": secret})

    first = token(1)
    assert show(first).returncode == 0
    assert shell("requeue", str(number), "--yes").returncode == 0
    second = token(2)
    assert show(second).returncode == 0
    refused = show(first)
    assert refused.returncode == 1
    assert f"attempt 1 of job {number} has ended, and its token with it" in refused.stderr
    assert shell("cancel", str(number), "--wait").returncode == 0
    assert shell("requeue", str(number), "--hold", "--yes").returncode == 0
    for secret in (first, second):
        assert "has ended, and its token with it" in show(secret).stderr
    shell("cancel", str(number))


def test_a_link_to_the_dashboard(shell: Shell) -> None:
    """For whoever has a token; it works once, and is for an address and not for a name."""
    from headway.client.client import Client

    url = (shell.data / "url").read_text().strip()
    link = shell("dashboard").stdout.strip()
    assert re.fullmatch(re.escape(url) + r"/\?[0-9a-f]{16}#code=hwc-[\w-]{43}", link)
    assert shell.json("dashboard")["url"] != link
    secret = shell.json("token", "make", "watcher", "--user", "nobody", "--scope", "read")["token"]
    theirs = json.loads(shell("dashboard", "--json", env={"HEADWAY_API": url, "HEADWAY_TOKEN": secret}).stdout)["url"]
    for each, user in ((link, own_account()[1]), (theirs, "nobody")):
        given = {"secret": each.partition("#code=")[2]}
        session = Client(url, "").transport.call("POST", "/v1/sign-in", body=given)["session"]
        assert Client(url, session).transport.call("GET", "/v1/me")["user"] == user
        with pytest.raises(ApiError, match="was used"):
            Client(url, "").transport.call("POST", "/v1/sign-in", body=given)
    named = shell("dashboard", env={"HEADWAY_API": url.replace("127.0.0.1", "localhost"), "HEADWAY_TOKEN": secret})
    assert (named.returncode, "give --server http://127.0.0.1:" in named.stderr) == (1, True)
    shell("token", "revoke", "watcher")


def test_serve_prints_a_link_on_a_terminal_only(tmp_path: Path) -> None:
    """A log would keep the code."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY")}
    command = [*HEADWAY, "serve", "--cluster", "1x1", "--port", "0", "--data", str(tmp_path / "data")]
    for terminal in (True, False):
        ours, theirs = pty.openpty() if terminal else os.pipe()
        process = subprocess.Popen(command, env=env, stdout=theirs, stderr=subprocess.DEVNULL)
        text = b""
        try:
            while b"Ctrl-C stops" not in text:
                assert process.poll() is None
                text += os.read(ours, 4096)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            os.close(ours)
            os.close(theirs)
        assert (b"#code=hwc-" in text) is terminal
        assert f"headway dashboard --data {tmp_path / 'data'}".encode() in text
