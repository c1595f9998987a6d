"""Tokens that end, and whose jobs a manager runs that is not root's."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.users.machine import headway

from headway.errors import BadInput
from headway.io import accounts
from headway.live.executors.common import account
from headway.live.executors.common.environment import environment_of, user_path
from headway.live.http.tokens import Scope, Tokens, make_token, stored_tokens

pytestmark = pytest.mark.xdist_group("live")


def test_tokens_expire(tmp_path: Path) -> None:
    now = [1000.0]
    tokens = Tokens(tmp_path, "root", clock=lambda: now[0])
    secret = make_token(tmp_path, "visit", accounts.own_account()[1], Scope.SUBMIT, expires=1060.0)
    lasting = make_token(tmp_path, "lasting", accounts.own_account()[1], Scope.READ)
    assert tokens.caller(secret) is not None
    now[0] = 1060.0
    assert tokens.caller(secret) is None
    assert "visit has expired" in tokens.why_not(secret)
    assert tokens.why_not("hw-else") == "the token is not known here"
    assert tokens.caller(lasting) is not None
    assert {each.name: each.expires for each in stored_tokens(tmp_path).values()} == {"visit": 1060.0, "lasting": None}
    rows = json.loads((tmp_path / "tokens.json").read_text())
    for row in rows:
        del row["expires"]  # as an earlier version wrote them
    (tmp_path / "tokens.json").write_text(json.dumps(rows))
    assert [each.expires for each in stored_tokens(tmp_path).values()] == [None, None]


def test_tokens_expire_by_the_command_line(tmp_path: Path) -> None:
    own = accounts.own_account()[1]
    made = headway("token", "make", "visit", "--user", own, "--expires", "30d", "--data", tmp_path, "--json")
    assert 29.9 < (json.loads(made.stdout)["expires"] - time.time()) / 86_400 < 30.1
    assert "expires 2" in headway("token", "list", "--data", tmp_path).stdout
    wrong = headway("token", "make", "other", "--user", own, "--expires", "soon", "--data", tmp_path)
    assert (wrong.returncode, "--expires" in wrong.stderr) == (1, True)
    taken = headway("token", "make", "owner", "--user", own, "--data", tmp_path)
    assert (taken.returncode, "already" in taken.stderr) == (1, True)


def test_a_token_for_a_user_who_does_not_exist_is_made_with_a_warning(tmp_path: Path) -> None:
    words = "this machine has no user 'no-such-user': create the account, or revoke the token (headway token revoke {})"
    made = headway("token", "make", "one", "--user", "no-such-user", "--scope", "read", "--data", tmp_path)
    assert (made.returncode, made.stderr) == (0, f"headway: {words.format('one')}\n")
    assert made.stdout.startswith("hw-")
    told = headway("token", "make", "two", "--user", "no-such-user", "--scope", "read", "--data", tmp_path, "--json")
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(told.stdout)["warning"] == words.format("two")
    own = accounts.own_account()[1]
    bound = ("--queue", "vision", "--queue", "speech")
    good = headway("token", "make", "three", "--user", own, *bound, "--data", tmp_path, "--json")
    assert (json.loads(good.stdout)["warning"], json.loads(good.stdout)["queues"]) == (None, ["vision", "speech"])
    assert "three  " in (listed := headway("token", "list", "--data", tmp_path).stdout)
    assert "does not expire  queues vision, speech" in listed


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on, this process is not root's."""

    def become() -> None:
        monkeypatch.setattr(accounts.os, "geteuid", lambda: 65534)

    return become


def test_without_root_tokens_of_others_may_only_read(tmp_path: Path, not_root: Callable[[], None]) -> None:
    not_root()
    own = accounts.own_account()[1]
    make_token(tmp_path, "mine", own, Scope.SUBMIT)
    make_token(tmp_path, "watch", "root", Scope.READ)
    for scope in (Scope.SUBMIT, Scope.OPERATE):
        with pytest.raises(BadInput, match=f"runs all jobs as {own}.*as root"):
            make_token(tmp_path, "theirs", "root", scope)


def test_without_root_jobs_of_others_are_refused(tmp_path: Path, not_root: Callable[[], None]) -> None:
    """Also with a token that was made before, or by hand."""
    from headway.live.executors.process.executor import ProcessExecutor

    executor = ProcessExecutor(tmp_path)
    not_root()
    executor.check_user(accounts.own_account()[1])
    with pytest.raises(BadInput, match="run the manager as root"):
        executor.check_user("root")


def test_a_real_user_who_is_not_root_is_refused_too(tmp_path: Path) -> None:
    """The same by a process that really is another user's."""
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only root becomes another user")
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            account.account_of("root")
        except BadInput as error:
            os.write(say, str(error).encode())
        os._exit(0)
    os.close(say)
    os.waitpid(child, 0)
    with open(hear, encoding="utf-8") as file:
        assert "runs all jobs as nobody" in file.read()


def test_other_users_get_their_own_path(tmp_path: Path) -> None:
    manager = {
        "PATH": "/root/bin:/sbin",
        "LD_LIBRARY_PATH": "/root/lib",
        "TMPDIR": "/root/tmp",
        "LANG": "C",
        "SECRET": "x",
    }
    assert environment_of(None, manager) == {key: manager[key] for key in manager if key != "SECRET"}
    assert environment_of(object(), manager) == {"LANG": "C", "PATH": user_path()}
    (tmp_path / "login.defs").write_text("# ENV_PATH x\nENV_SUPATH PATH=/sbin\nENV_PATH\tPATH=/usr/bin:/opt/bin\n")
    assert user_path(str(tmp_path / "login.defs")) == "/usr/bin:/opt/bin"
    assert user_path(str(tmp_path / "none")) == "/usr/local/bin:/usr/bin:/bin"
