"""Queues that admit only some users, as people meet them on the command line."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.test_live_cli import HEADWAY, Shell
from tests.waiting import PATIENCE_S

from headway.io.accounts import own_account

QUEUES = """
others: guests
queues:
  team: {users: [nobody, adda], groups: [no-such-group]}
  vision: {parent: team}
  guests: {}
  default: {}
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    data, home = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("home")
    person = Shell(data, home)
    (home / "queues.yaml").write_text(QUEUES)
    command = [*HEADWAY, "serve", "--cluster", "1x2", "--queues", "queues.yaml", "--port", "0", "--json"]
    with (home / "errors").open("w") as errors:
        server = subprocess.Popen(command, env=person.env, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=home)
    try:
        for line in server.stdout or ():
            if line.rstrip() == "}":
                break
        yield person
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def user(shell: Shell) -> dict[str, str]:
    """The environment of a user who submits, and does not operate."""
    secret = shell.json("token", "make", "user", "--user", own_account()[1])["token"]
    return {"HEADWAY_API": (shell.data / "url").read_text().strip(), "HEADWAY_TOKEN": secret}


def test_unknown_accounts_are_told_when_the_manager_starts(shell: Shell) -> None:
    warnings = [line for line in (shell.home / "errors").read_text().splitlines() if "queues.yaml" in line]
    assert warnings == [
        "headway: queues.yaml: this machine has no user adda and group no-such-group: "
        "check the spelling, or create the accounts"
    ]


def test_every_way_to_submit_is_refused_alike(shell: Shell, user: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --partition=vision\ntrue\n")
    for words in (
        ("submit", "--queue", "vision", "--", "true"),
        ("submit", "--queue", "vision", "--dry-run", "--", "true"),
        ("submit", "--queue", "vision", "--array", "0-3", "--", "true"),
        ("submit", str(script)),
        ("shell", "--queue", "vision"),
    ):
        done = shell(*words, env=user)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), (words, done)
        named = "queue 'vision' is below 'team', which admits users nobody, adda and group no-such-group, and not "
        assert f"{named}{own_account()[1]}: choose another" in done.stderr
    for words in ((), ("--queue", "guests"), ("--queue", "anything")):
        assert shell("submit", *words, "--", "true", env=user).returncode == 0
    # The owner operates, and may submit: the same user may not release or requeue that job with the other token.
    job = shell.json("submit", "--queue", "vision", "--hold", "--", "true")["job_id"]
    for words in (("release", str(job)), ("requeue", str(job)), ("release", str(job), str(job))):
        done = shell(*words, env=user)
        assert (done.returncode, "is below 'team', which admits" in done.stderr) == (1, True), (words, done)
    assert shell("release", str(job)).returncode == 0


def test_the_queues_say_who_may_submit_at_80_columns(shell: Shell, user: dict[str, str]) -> None:
    shown = shell("queues", env={**user, "COLUMNS": "80"}).stdout
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "team admits users nobody, adda and group no-such-group" in re.sub(r"\s+", " ", shown)
    assert "guests admits" not in shown
    found = {
        each["name"]: (each["users"], each["groups"]) for each in json.loads(shell("queues", "--json", env=user).stdout)
    }
    assert found["team"] == (["nobody", "adda"], ["no-such-group"])
    assert found["guests"] == (None, None)


def test_a_bound_token_on_the_command_line(shell: Shell) -> None:
    made = shell.json("token", "make", "bound", "--user", own_account()[1], "--queue", "guests", "--queue", "default")
    bound = {"HEADWAY_API": (shell.data / "url").read_text().strip(), "HEADWAY_TOKEN": made["token"]}
    assert shell("submit", "--queue", "guests", "--", "true", env=bound).returncode == 0
    assert shell("submit", "--", "true", env=bound).returncode == 0  # goes to `default`
    refused = shell("submit", "--queue", "vision", "--", "true", env=bound)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "this token submits only to queues guests, default and the queues below them" in refused.stderr
    assert shell.json("token", "list")[-1]["queues"] == ["guests", "default"]
