"""Tokens: who they are for, that files keep them from others, and that only hashes are stored."""

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from headway.errors import BadInput
from headway.io.accounts import own_account
from headway.live.http.server.sessions import MOST, Sessions
from headway.live.http.tokens import (
    Caller,
    Scope,
    Tokens,
    damage,
    job_secret,
    job_token,
    make_token,
    revoke_token,
    stored_tokens,
)


def test_the_owner_token_is_a_private_file_and_stays(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "data", "ada")
    path = tmp_path / "data" / "token"
    token = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tokens.caller(token) == Caller("owner", "ada", Scope.OPERATE)
    assert Tokens(tmp_path / "data", "ada").caller(token) is not None


def test_a_token_that_others_could_read_is_replaced(tmp_path: Path) -> None:
    Tokens(tmp_path, "ada")
    leaked = (tmp_path / "token").read_text().strip()
    os.chmod(tmp_path / "token", 0o644)
    tokens = Tokens(tmp_path, "ada")
    assert tokens.caller(leaked) is None
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_link_planted_as_token_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("hw-known\n")
    os.chmod(tmp_path / "known", 0o600)
    (tmp_path / "token").symlink_to(tmp_path / "known")
    assert Tokens(tmp_path, "ada").caller("hw-known") is None
    assert (tmp_path / "known").read_text() == "hw-known\n"


def test_made_tokens_work_at_once_are_hashed_and_can_be_revoked(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, "ada")
    secret = make_token(tmp_path, "laptop", "bob", Scope.SUBMIT)
    assert tokens.caller(secret) == Caller("laptop", "bob", Scope.SUBMIT)
    assert secret not in (tmp_path / "tokens.json").read_text()
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600
    assert [each.name for each in stored_tokens(tmp_path).values()] == ["laptop"]
    revoke_token(tmp_path, "laptop")
    assert tokens.caller(secret) is None


def test_bad_names_and_doubles_are_refused(tmp_path: Path) -> None:
    make_token(tmp_path, "one", "bob", Scope.READ)
    for name, user, words in (
        ("one", "bob", "already"),
        ("../x", "bob", "token name"),
        ("two", "b\nc", "user"),
        ("two", "-root", "user"),
    ):
        with pytest.raises(BadInput, match=words):
            make_token(tmp_path, name, user, Scope.READ)
    with pytest.raises(BadInput, match="scope job"):
        make_token(tmp_path, "two", "bob", Scope.JOB)
    with pytest.raises(BadInput, match="no token named 'three'"):
        revoke_token(tmp_path, "three")


def test_a_job_token_reaches_that_job_only(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, "ada", attempt_runs=lambda job_id, attempt: (job_id, attempt) == (7, 2))
    own = job_token(job_secret(tmp_path), 7, 2)
    caller = tokens.caller(own)
    assert caller is not None
    assert caller.sees(7, "bob")
    assert not caller.sees(8, "bob")
    assert not caller.scope.covers(Scope.READ)
    assert tokens.caller(own.replace("job-7-", "job-07-")) is None
    assert tokens.caller(own.replace("job-7-2-", "job-7-1-")) is None
    assert "not known" in tokens.why_not(own.replace("job-7-2-", "job-7-1-"))
    ended = job_token(job_secret(tmp_path), 7, 1)
    assert tokens.caller(ended) is None
    assert tokens.why_not(ended) == "attempt 1 of job 7 has ended, and its token with it"
    assert Tokens(tmp_path, "ada").caller(own) is None
    assert tokens.caller(own[:-1] + ("0" if own[-1] != "0" else "1")) is None


@pytest.mark.parametrize(
    "token",
    ["", " ", "hw-", "job-1-", "job-1-" + "0" * 64, "job-" + "9" * 400 + "-" + "0" * 64, "\u0661", "x" * 10_000],
)
def test_wrong_tokens_belong_to_nobody(tmp_path: Path, token: str) -> None:
    assert Tokens(tmp_path, "ada").caller(token) is None


def test_scopes_include_the_ones_before() -> None:
    order = [Scope.READ, Scope.SUBMIT, Scope.OPERATE]
    for i, scope in enumerate(order):
        assert [scope.covers(needed) for needed in order] == [j <= i for j in range(3)]
    assert not any(Scope.JOB.covers(needed) for needed in order)


def test_users_see_their_own_jobs_unless_they_operate() -> None:
    assert Caller("t", "ada", Scope.SUBMIT).sees(1, "ada")
    assert not Caller("t", "ada", Scope.SUBMIT).sees(1, "bob")
    assert Caller("t", "ada", Scope.OPERATE).sees(1, "bob")


def test_a_damaged_token_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("[{")
    with pytest.raises(BadInput, match=r"tokens\.json is damaged"):
        stored_tokens(tmp_path)


def test_a_key_given_twice_in_the_token_file_is_named(tmp_path: Path) -> None:
    row = '{"name": "a", "user": "ada", "user": "root", "scope": "read", "sha256": "0"}'
    (tmp_path / "tokens.json").write_text(f"[{row}]")
    with pytest.raises(BadInput, match="the key 'user' is there twice: keep one"):
        stored_tokens(tmp_path)


@pytest.mark.parametrize("text", ["[1", "[1]", '[{"name": 3}]', '{"a": "b"}', "\xff"])
def test_a_damaged_token_file_lets_the_owner_in_and_nobody_else(tmp_path: Path, text: str) -> None:
    """Every request with any other token ended in a traceback, and the manager started without a word."""
    tokens = Tokens(tmp_path, "ada")
    secret = make_token(tmp_path, "laptop", "bob", Scope.READ)
    assert tokens.caller(secret)
    (tmp_path / "tokens.json").unlink()
    (tmp_path / "tokens.json").write_text(text, encoding="latin-1")
    assert tokens.caller(secret) is None
    assert "damaged" in tokens.why_not(secret)
    assert str(tmp_path) not in tokens.why_not(secret)
    assert tokens.caller((tmp_path / "token").read_text().strip())
    assert "remove it and make the tokens again; until then only the owner" in damage(tmp_path)
    (tmp_path / "tokens.json").unlink()
    assert not damage(tmp_path)
    assert tokens.caller(make_token(tmp_path, "laptop", "bob", Scope.READ))


# ---- sessions of browsers


def test_a_code_signs_in_once_and_in_time(tmp_path: Path) -> None:
    now = [1000.0]
    tokens = Tokens(tmp_path, "ada", clock=lambda: now[0])
    owner = (tmp_path / "token").read_text().strip()
    code = tokens.make_code(owner)
    assert tokens.caller(code) is None, "a code is no token"
    session = tokens.sign_in(code)
    assert session is not None
    assert tokens.caller(session) == tokens.caller(owner)
    assert tokens.sign_in(code) is None
    late = tokens.make_code(session)
    now[0] += 600
    assert tokens.sign_in(late) is None
    assert tokens.caller(session) is not None
    tokens.sign_out(session)
    assert tokens.caller(session) is None
    assert tokens.why_not(session) == "the session has ended"


def test_codes_and_sessions_are_unknown_to_the_next_manager(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, "ada")
    owner = (tmp_path / "token").read_text().strip()
    code, session = tokens.make_code(owner), tokens.sign_in(owner)
    assert session is not None
    again = Tokens(tmp_path, "ada")
    assert (again.sign_in(code), again.caller(session), again.sign_in(session)) == (None, None, None)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert code.encode() not in kept
    assert session.encode() not in kept


def test_a_session_ends_with_its_token_and_not_with_another_of_the_same_name(tmp_path: Path) -> None:
    now = [1000.0]
    tokens, own = Tokens(tmp_path, "ada", clock=lambda: now[0]), own_account()[1]
    session = tokens.sign_in(make_token(tmp_path, "laptop", own, Scope.READ))
    assert session is not None
    assert tokens.caller(session) == Caller("laptop", own, Scope.READ)
    revoke_token(tmp_path, "laptop")
    make_token(tmp_path, "laptop", own, Scope.READ)
    assert tokens.caller(session) is None
    visit = tokens.sign_in(make_token(tmp_path, "visit", own, Scope.READ, expires=1060.0))
    assert visit is not None
    assert tokens.caller(visit) is not None
    now[0] = 1060.0
    assert tokens.caller(visit) is None


def test_codes_are_made_and_taken_at_once_in_several_threads() -> None:
    """A code is taken while those of the same token are counted."""
    sessions = Sessions(time.time)
    codes = [sessions.make_code("other") for _ in range(3)]
    takers: list[threading.Thread] = []

    class Compared(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            if not takers:
                takers.append(threading.Thread(target=sessions.take_code, args=(codes[0],)))
                takers[0].start()
                takers[0].join(0.2)  # without a lock, it ends here
            return str(self) == other

    sessions.make_code(Compared("token"))
    takers[0].join()
    assert [sessions.take_code(code) for code in codes] == [None, "other", "other"]


def test_a_token_holds_so_many_sessions_and_a_job_none(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, "ada")
    owner = (tmp_path / "token").read_text().strip()
    opened = [tokens.sign_in(owner) or "" for _ in range(MOST + 1)]
    assert [tokens.caller(each) is not None for each in opened] == [False] + [True] * MOST
    assert tokens.sign_in(job_token(job_secret(tmp_path), 7, 1)) is None
