"""Who may submit to which queue: users, groups, queues above, tokens bound to queues, and what passes the check."""

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.cluster import queues as cluster_queues
from headway.cluster.queues import Access, Queue, Queues
from headway.errors import BadInput
from headway.io.accounts import is_member, names_in_words
from headway.live.http.tokens import Scope, Tokens, make_token, stored_tokens

ADA, BOB = "nobody", "daemon"  # as in conftest.py
BOBS_GROUP = grp.getgrgid(pwd.getpwnam(BOB).pw_gid).gr_name
QUEUES = Queues(
    "q.yaml",
    (
        Queue("team", access=Access(users=(ADA,))),
        Queue("members", access=Access(groups=(BOBS_GROUP,))),
        Queue("closed", access=Access()),
        Queue("default"),
        Queue("vision", parent="team"),
        Queue("private", parent="team", access=Access(users=(BOB,))),
    ),
    others="members",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve_queues: Any) -> Iterator[Any]:
    with serve_queues(tmp_path_factory.mktemp("queues"), QUEUES) as found:
        yield found


@pytest.mark.parametrize(
    ("queue", "admitted"),
    [
        ("", {"ada", "bob"}),
        ("default", {"ada", "bob"}),
        ("vision", {"ada"}),  # as the queue above it
        ("private", set()),  # its own list, and that of the queue above it
        ("members", {"bob"}),
        ("a queue of no file", {"bob"}),  # goes to `members`
        ("closed", set()),
    ],
)
def test_a_queue_admits_who_its_file_names(served: Any, queue: str, admitted: set[str]) -> None:
    """Anyone could submit to any queue, and use what it is guaranteed."""
    for who in ("ada", "bob", "owner", "operator"):
        job = {"command": ["true"], "queue": queue}
        asked = [served.ask("POST", "/v1/jobs", who, json=job), served.ask("POST", "/v1/dry-run", who, json=job)]
        asked.append(served.ask("POST", "/v1/jobs", who, json={**job, "array": "0-2"}))
        if who in admitted | {"owner", "operator"}:
            assert [answer.status_code for answer in asked] == [201, 200, 201]
            continue
        assert [answer.status_code for answer in asked] == [403] * 3
        assert len({answer.json()["detail"] for answer in asked}) == 1


def test_a_refusal_says_which_queue_who_may_and_what_to_do(served: Any) -> None:
    def refused(queue: str, who: str) -> str:
        answer = served.ask("POST", "/v1/jobs", who, json={"command": ["true"], "queue": queue})
        return str(answer.json()["detail"])

    advice = "choose another (`headway queues` says who may submit where), or ask an operator"
    assert refused("vision", "bob") == (
        f"queue 'vision' is below 'team', which admits user {ADA}, and not {BOB}: {advice}"
    )
    assert refused("members", "ada") == f"queue 'members' admits group {BOBS_GROUP}, and not {ADA}: {advice}"
    assert refused("closed", "ada") == f"queue 'closed' admits only operators, and not {ADA}: {advice}"


def test_the_queues_tell_who_may_submit(served: Any) -> None:
    found = {
        each["name"]: (each["users"], each["groups"])
        for each in served.ask("GET", "/v1/queues", "bob").json()["queues"]
    }
    assert found["team"] == ([ADA], [])
    assert found["members"] == ([], [BOBS_GROUP])
    assert found["default"] == found["vision"] == (None, None)
    assert found["closed"] == ([], [])


def test_a_group_that_changes_counts_at_once(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"command": ["true"], "queue": "members"}
    assert served.ask("POST", "/v1/jobs", "ada", json=job).status_code == 403
    monkeypatch.setattr(cluster_queues, "is_member", lambda user, groups: True)
    assert served.ask("POST", "/v1/jobs", "ada", json=job).status_code == 201
    monkeypatch.setattr(cluster_queues, "is_member", lambda user, groups: False)
    assert served.ask("POST", "/v1/jobs", "bob", json=job).status_code == 403


def test_groups_are_those_of_the_machine() -> None:
    for account in pwd.getpwall():
        gids = {group.gr_gid for group in grp.getgrall() if account.pw_name in group.gr_mem} | {account.pw_gid}
        for group in grp.getgrall():
            assert is_member(account.pw_name, ["no-such-group", group.gr_name]) == (group.gr_gid in gids)
    assert not is_member(ADA, [])
    assert not is_member("no-such-user", [BOBS_GROUP])


def test_two_names_of_one_gid_are_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first of them was found."""
    alias = grp.struct_group(("alias", "x", pwd.getpwnam(BOB).pw_gid, [BOB]))
    monkeypatch.setattr(grp, "getgrnam", lambda name: {"alias": alias}[name])
    assert Access(groups=("alias",)).admits(BOB)
    assert not Access(groups=("alias",)).admits(ADA)


def test_a_token_bound_to_queues_submits_only_there(served: Any) -> None:
    served.tokens["bound"] = make_token(served.data, "bound", ADA, Scope.SUBMIT, queues=["team"])
    for queue, status in (("vision", 201), ("default", 403), ("", 403), ("private", 403), ("no such", 403)):
        job = {"command": ["true"], "queue": queue}
        assert served.ask("POST", "/v1/jobs", "bound", json=job).status_code == status, queue
        assert served.ask("POST", "/v1/dry-run", "bound", json=job).status_code == (200 if status == 201 else 403)
    detail = served.ask("POST", "/v1/jobs", "bound", json={"command": ["true"]}).json()["detail"]
    assert detail == (  # `team` itself has queues below it, and takes no jobs
        "this token submits only to queue team and the queues below it: choose one with --queue, or use another token"
    )
    assert served.ask("GET", "/v1/me", "bound").json()["queues"] == ["team"]
    # It sees its user's jobs as before, and may cancel them; it may not put one back into another queue.
    number = served.submit("ada", hold=True)
    assert served.ask("GET", f"/v1/jobs/{number}", "bound").status_code == 200
    assert served.ask("POST", f"/v1/jobs/{number}/release", "bound").status_code == 403
    assert served.ask("POST", f"/v1/jobs/{number}/cancel", "bound").status_code == 200
    assert served.ask("POST", f"/v1/jobs/{number}/requeue", "bound").status_code == 403


def test_a_token_bound_to_queues_needs_no_queues_file(idle: Any) -> None:
    idle.tokens["bound"] = make_token(idle.data, "bound", ADA, Scope.SUBMIT, queues=["vision", "speech"])
    for queue, status in (("vision", 201), ("speech", 201), ("other", 403), ("", 403)):
        answer = idle.ask("POST", "/v1/jobs", "bound", json={"command": ["true"], "queue": queue})
        assert answer.status_code == status
    assert "submits only to queues vision, speech and the queues below them: choose one" in answer.json()["detail"]


def test_bound_tokens_are_kept_and_checked(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    secret = make_token(tmp_path, "bound", user, Scope.SUBMIT, queues=["b", "a", "b"])
    caller = Tokens(tmp_path, user).caller(secret)
    assert caller is not None
    assert caller.queues == ("b", "a")
    for scope in (Scope.READ, Scope.OPERATE):
        with pytest.raises(BadInput, match=f"scope {scope} cannot be bound to queues"):
            make_token(tmp_path, "other", user, scope, queues=["a"])
    for name in ("", "a\nb", "x" * 257):
        with pytest.raises(BadInput, match="a queue's name is 1 to 256 printable characters"):
            make_token(tmp_path, "other", user, Scope.SUBMIT, queues=[name])
    # As an earlier version wrote them.
    path = tmp_path / "tokens.json"
    path.write_text(path.read_text().replace('"queues"', '"more"'))
    assert [each.queues for each in stored_tokens(tmp_path).values()] == [()]


def test_who_loses_the_right_keeps_waiting_jobs_and_puts_none_back(tmp_path: Path, serve_queues: Any) -> None:
    def queues(*users: str) -> Queues:
        return Queues("q.yaml", (Queue("team", access=Access(users=users)), Queue("default")))

    with serve_queues(tmp_path, queues(ADA, BOB)) as served:
        waiting, held, ended = (served.submit("bob", queue="team", hold=hold) for hold in (False, True, False))
        served.ask("POST", f"/v1/jobs/{ended}/cancel", "bob")
    with serve_queues(tmp_path, queues(ADA)) as served:
        assert served.job(waiting)["state"] == "PENDING"
        assert served.ask("POST", f"/v1/jobs/{held}/release", "bob").status_code == 403
        for hold in ("false", "true"):
            answer = served.ask("POST", f"/v1/jobs/{ended}/requeue?hold={hold}", "bob")
            assert answer.status_code == 403
            assert answer.json()["detail"].startswith(f"queue 'team' admits user {ADA}, and not {BOB}: ")
        for verb, number in (("release", held), ("requeue", ended)):
            action = {"verb": verb, "job_ids": [number, waiting, 999]}
            refused = served.ask("POST", "/v1/actions", "bob", json=action).json()["refused"]
            assert [each["status"] for each in refused] == [403, 403, 404]
        assert served.job(held)["state"] == "HELD"
        assert served.job(ended)["state"] == "CANCELLED"
        # Holding and cancelling take nothing from the queue; an operator may do everything.
        assert served.ask("POST", f"/v1/jobs/{waiting}/hold", "bob").status_code == 200
        assert served.ask("POST", f"/v1/jobs/{held}/cancel", "bob").status_code == 200
        for verb, number in (("release", waiting), ("requeue", ended)):
            assert served.ask("POST", f"/v1/jobs/{number}/{verb}", "operator").status_code == 200


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        ((Queue("crew", access=Access(users=(ADA,))),), "unknown queue 'team': one of: crew (q.yaml)"),
        (
            (Queue("team", access=Access(users=(ADA,))), Queue("vision", parent="team")),
            "queue 'team' has queues below it: name one of vision (q.yaml)",
        ),
    ],
)
def test_a_job_of_a_queue_that_takes_no_more_jobs_is_not_put_back(
    tmp_path: Path, serve_queues: Any, later: tuple[Queue, ...], reason: str
) -> None:
    """Its user ran it again, outside all queues, though no queue admitted the user."""
    with serve_queues(tmp_path, Queues("q.yaml", (Queue("team"),))) as served:
        held, ended = (served.submit("bob", queue="team", hold=True) for _ in range(2))
        served.ask("POST", f"/v1/jobs/{ended}/cancel", "bob")
    with serve_queues(tmp_path, Queues("q.yaml", later)) as served:
        for verb, number in (("release", held), ("requeue", ended)):
            answer = served.ask("POST", f"/v1/jobs/{number}/{verb}", "bob")
            assert (answer.status_code, answer.json()["detail"]) == (422, reason)
            acted = served.ask("POST", "/v1/actions", "bob", json={"verb": verb, "job_ids": [number, 999]}).json()
            assert [(each["status"], each["detail"]) for each in acted["refused"]] == [
                (422, reason),
                (404, "there is no job 999"),
            ]
            assert served.ask("POST", f"/v1/jobs/{number}/{verb}", "operator").status_code == 200


@pytest.mark.parametrize(
    ("users", "groups", "words"),
    [
        ([], [], ""),
        (["ada"], [], "user ada"),
        (["ada", "bob"], ["ml"], "users ada, bob and group ml"),
        (["a", "b", "c", "d", "e", "f", "g", "h"], [], "users a, b, c, d, e, f and 2 more"),
    ],
)
def test_users_and_groups_in_words(users: list[str], groups: list[str], words: str) -> None:
    assert names_in_words(users, groups) == words
