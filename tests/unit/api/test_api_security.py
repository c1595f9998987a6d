"""What the API must refuse: strangers, wrong scopes, other people's jobs, paths and shell words in every field, broken bodies."""

import json
import os
from typing import Any

import pytest

READS = (
    "/v1/jobs",
    "/v1/jobs/1",
    "/v1/jobs/1/explain",
    "/v1/jobs/1/logs",
    "/v1/nodes",
    "/v1/queues",
    "/v1/status",
    "/metrics",
    "/v1/events",
    "/v1/workload",
)
CHANGES = (
    "/v1/jobs/1/cancel",
    "/v1/jobs/1/hold",
    "/v1/jobs/1/release",
    "/v1/jobs/1/requeue",
    "/v1/jobs/1/progress",
    "/v1/nodes/n000/drain",
    "/v1/nodes/n000/resume",
    "/v1/jobs",
    "/v1/dry-run",
)
# Words that a shell, a path or a terminal would take for more than text.
HOSTILE = (
    "; touch owned",
    "$(touch owned)",
    "`touch owned`",
    "| touch owned",
    "&& touch owned",
    "\n touch owned",
    "../../../etc/passwd",
    "-rf",
    "'\"\\",
    "\x1b[2J",
    "%s%n{0}",
    "ﷺ🙂",
)


@pytest.mark.parametrize("who", ["", "wrong"])
def test_strangers_reach_nothing(idle: Any, who: str) -> None:
    for method, paths in (("GET", READS), ("POST", CHANGES)):
        for path in paths:
            assert idle.ask(method, path, who).status_code in {401, 429}, path


def test_open_paths_tell_nothing_of_jobs(idle: Any) -> None:
    assert idle.ask("GET", "/healthz", "").json() == {"ok": True}
    assert idle.ask("GET", "/openapi.json", "").json()["info"]["title"] == "Headway"
    for path in ("/docs", "/redoc"):
        assert idle.ask("GET", path).status_code == 404
    secret = idle.submit("ada", name="not-for-all")
    assert "not-for-all" not in idle.ask("GET", "/", "").text  # a page that asks for a token
    idle.ask("POST", f"/v1/jobs/{secret}/cancel")


def test_a_reading_token_changes_nothing(idle: Any) -> None:
    number = idle.submit("ada")
    assert idle.ask("GET", f"/v1/jobs/{number}", "ada-reads").status_code == 200
    for path in CHANGES:
        path = path.replace("/1/", f"/{number}/")
        answer = idle.ask("POST", path, "ada-reads", json={"command": ["true"], "attempt": 1})
        assert answer.status_code in {403, 422}, path
    assert idle.ask("POST", f"/v1/jobs/{number}/progress", "ada-reads", json={"attempt": 1}).status_code == 403
    assert idle.job(number)["state"] == "PENDING"


def test_a_submitting_token_does_not_operate(idle: Any) -> None:
    for method, path in (("POST", "/v1/nodes/n000/resume"), ("POST", "/v1/nodes/n000/drain"), ("GET", "/v1/workload")):
        assert idle.ask(method, path, "ada").status_code == 403


def test_another_users_job_is_not_found(idle: Any) -> None:
    number = idle.submit("ada", name="secret")
    for method, path in (
        ("GET", ""),
        ("GET", "/explain"),
        ("GET", "/logs"),
        ("POST", "/cancel"),
        ("POST", "/hold"),
        ("POST", "/release"),
        ("POST", "/requeue"),
    ):
        answer = idle.ask(method, f"/v1/jobs/{number}{path}", "bob")
        missing = idle.ask(method, f"/v1/jobs/999999{path}", "bob")
        assert (answer.status_code, answer.json()["detail"].replace(str(number), "999999")) == (
            404,
            missing.json()["detail"],
        )
    assert idle.ask("POST", f"/v1/jobs/{number}/progress", "bob", json={"attempt": 1}).status_code == 404
    assert "secret" not in idle.ask("GET", "/v1/jobs?limit=1000", "bob").text
    assert idle.ask("GET", "/v1/jobs?user=nobody", "bob").json()["jobs"] == []
    assert idle.ask("GET", f"/v1/jobs/{number}", "ada").status_code == 200
    assert idle.ask("GET", f"/v1/jobs/{number}", "operator").status_code == 200
    assert idle.job(number)["state"] == "PENDING"


def test_another_users_jobs_are_not_told_by_explain(idle: Any) -> None:
    secret = idle.submit("ada")
    mine = idle.submit("bob")
    assert secret in idle.ask("GET", f"/v1/jobs/{mine}/explain", "operator").json()["ahead"]
    assert secret not in idle.ask("GET", f"/v1/jobs/{mine}/explain", "bob").json()["ahead"]


def test_a_jobs_token_reaches_that_job_only(live: Any) -> None:
    own, other = live.submit("ada", command=["sleep", "600"], workdir="/"), live.submit("ada", hold=True)
    live.until(own, "STARTING", "RUNNING")
    live.job_token(own)
    assert live.ask("GET", f"/v1/jobs/{own}", "job").status_code == 200
    assert live.ask("POST", f"/v1/jobs/{own}/progress", "job", json={"attempt": 1, "step": 3}).status_code == 204
    assert live.ask("GET", f"/v1/jobs/{other}", "job").status_code == 404
    assert live.ask("POST", f"/v1/jobs/{other}/progress", "job", json={"attempt": 1}).status_code == 404
    for method, path in (
        ("GET", "/v1/jobs"),
        ("POST", "/v1/jobs"),
        ("GET", "/v1/nodes"),
        ("GET", "/metrics"),
        ("GET", "/v1/events"),
        ("POST", f"/v1/jobs/{own}/cancel"),
    ):
        assert (
            live.ask(method, path, "job", **({"json": {"command": ["id"]}} if method == "POST" else {})).status_code
            == 403
        ), path
    live.ask("POST", f"/v1/jobs/{own}/cancel")
    live.ask("POST", f"/v1/jobs/{other}/cancel")


def test_a_jobs_token_is_unknown_while_the_job_waits_and_in_every_later_attempt(live: Any) -> None:
    """A process that kept the token of attempt 1 acted for attempt 2."""
    number = live.submit("ada", command=["sleep", "600"], workdir="/", preemption={"grace": 0})
    live.until(number, "RUNNING")
    path, report = f"/v1/jobs/{number}", {"attempt": 2, "step": 1}
    first = live.job_token(number)
    assert live.ask("GET", path, "job").status_code == 200
    live.ask("POST", f"{path}/requeue?hold=true")
    live.until(number, "HELD")
    for attempt in (1, 2):  # the next attempt has no token before it starts
        live.job_token(number, attempt)
        assert live.ask("GET", path, "job").status_code == 401
    live.ask("POST", f"{path}/release")
    live.until(number, "STARTING", "RUNNING")
    assert live.ask("POST", f"{path}/progress", "job", json=report).status_code == 204
    live.tokens["job"] = first
    answer = live.ask("POST", f"{path}/progress", "job", json=report)
    assert answer.status_code == 401
    assert answer.json()["detail"].startswith(f"attempt 1 of job {number} has ended, and its token with it")
    live.ask("POST", f"{path}/cancel")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/../../etc/passwd",
        "/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/v1/jobs/1%00/logs",
        "/v1/jobs/-1/logs",
        "/v1/jobs/1e3",
        "/v1/jobs/99999999999999999999/logs",
        "/v1/nodes/..%2f..%2fx/drain",
    ],
)
def test_paths_lead_nowhere(idle: Any, path: str) -> None:
    for method in ("GET", "POST"):
        answer = idle.ask(method, path)
        assert answer.status_code in {404, 405, 422}
        assert "root:" not in answer.text


@pytest.mark.parametrize("query", ["attempt=../../x", "rank=../0", "attempt=-1", "rank=1.5", "attempt=99999999999999"])
def test_log_requests_take_numbers_only(idle: Any, query: str) -> None:
    number = idle.submit()
    assert idle.ask("GET", f"/v1/jobs/{number}/logs?{query}").status_code == 422


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_stay_words(live: Any, word: str, tmp_path: Any) -> None:
    """In every field: the job runs as written, or is refused by name; nothing else is run, written or left."""
    before = set(os.listdir(os.getcwd()))
    fields: dict[str, Any] = {
        "name": word,
        "queue": word,
        "envs": {"WORD": word},
        "command": ["printf", "%s", word],
        "workdir": str(tmp_path),
    }
    number = live.submit(**fields)
    job = live.until(number, "COMPLETED", "FAILED")
    assert job["state"] == "COMPLETED", job["message"]
    assert (job["name"], job["queue"]) == (word, word)
    assert live.ask("GET", f"/v1/jobs/{number}/logs").text.removesuffix("\n") == word.removesuffix("\n")
    for field in ("array", "time_limit", "workdir", "tasks_per_node", "preemption", "checkpoint", "after", "resources"):
        answer = live.ask("POST", "/v1/jobs", json={"command": ["true"], field: word})
        if answer.status_code == 201:
            assert live.until(answer.json()["job_id"], "COMPLETED", "FAILED")["state"] in {"COMPLETED", "FAILED"}
        else:
            assert answer.status_code == 422, answer.text
    assert live.ask("POST", "/v1/jobs", json={"command": ["true"], "envs": {word: "x"}}).status_code == 422
    assert set(os.listdir(os.getcwd())) == before
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("field", ["name", "queue", "run", "workdir"])
def test_zero_bytes_are_refused(idle: Any, field: str) -> None:
    body = {"command": ["true"], field: "a\0b"} if field != "run" else {"run": "a\0b"}
    assert idle.ask("POST", "/v1/jobs", json=body).status_code == 422
    assert idle.ask("POST", "/v1/jobs", json={"command": ["a\0b"]}).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"3",
        b'"x"',
        b"{}",
        b'{"command": []}',
        b'{"command": [""]}',
        b'{"command": "ls"}',
        b'{"command": ["a"], "run": "b"}',
        b'{"command": ["a"], "gpus": 1}',
        b'{"command": ["a"], "num_nodes": NaN}',
        b'{"command": ["a"], "resources": {"cpus": Infinity}}',
        b'{"command": ["a"], "resources": {"accelerators": 0}}',
        b'{"command": ["a"], "num_nodes": 1e999}',
        b'{"run": "\\ud800"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"command": ["a"], "array": "0-999999999"}',
        b'{"command": ["a"], "num_nodes": 100000}',
        b'{"command": ["a"], "after": [999999999]}',
        b'{"command": ["a"], "array": "9-1"}',
        b'{"command": ["a"], "preemption": {"signal": "SIGKILL"}}',
    ],
)
def test_malformed_bodies_are_refused_in_one_line(idle: Any, body: bytes) -> None:
    answer = idle.ask("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "bad_input"
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "key"),
    [
        ("POST", "/v1/jobs", b'{"command": ["true"], "command": ["id"]}', "command"),
        ("POST", "/v1/jobs", b'{"command": ["true"], "resources": {"cpus": 1, "cpus": 99}}', "cpus"),
        ("POST", "/v1/jobs", b'{"command": ["true"], "envs": {"A": "1", "\\u0041": "2"}}', "A"),
        ("POST", "/v1/dry-run", b'{"command": ["true"], "gpus": 1, "gpus": 2}', "gpus"),
        ("POST", "/v1/actions", b'{"verb": "hold", "verb": "cancel", "job_ids": [1]}', "verb"),
        ("POST", "/v1/jobs/1/progress", b'{"attempt": 1, "attempt": 2}', "attempt"),
        ("POST", "/v1/reservations", b'{"nodes": ["n000"], "queue": "a", "queue": "b", "from": 0, "to": 1}', "queue"),
        ("POST", "/v1/replay", b'{"policies": ["fifo"], "policies": ["las"]}', "policies"),
    ],
)
def test_a_key_given_twice_is_refused(idle: Any, method: str, path: str, body: bytes, key: str) -> None:
    """The last value won: a program before the manager that reads the first saw another request."""
    answer = idle.ask(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"] == f"the body: the key {key!r} is there twice: keep one"


def test_an_error_about_one_field_names_it(idle: Any) -> None:
    def field(method: str, path: str, **given: Any) -> Any:
        answer = idle.ask(method, path, **given)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_input"), answer.text
        return answer.json()["fields"].get("field")

    job = {"command": ["true"]}
    assert field("POST", "/v1/jobs", json={**job, "num_nodes": "x"}) == "num_nodes"
    assert field("POST", "/v1/jobs", json={**job, "resources": {"cpus": -1}}) == "resources.cpus"
    assert field("POST", "/v1/jobs", json={**job, "after": [99]}) == "after"
    assert field("POST", "/v1/jobs", json={**job, "output": "%Z"}) == "output"
    assert field("POST", "/v1/jobs", json=job, headers={"Idempotency-Key": "k" * 300}) == "Idempotency-Key"
    assert field("GET", "/v1/jobs?limit=0") == "limit"
    assert field("GET", f"/v1/jobs/{idle.submit()}/logs?resume=x") == "resume"
    assert field("POST", "/v1/jobs", json={"num_nodes": "x", "name": 3}) is None


def test_a_key_for_another_job_has_a_code_of_its_own(idle: Any) -> None:
    keyed = {"headers": {"Idempotency-Key": "one"}}
    assert idle.ask("POST", "/v1/jobs", json={"command": ["true"]}, **keyed).status_code == 201
    answer = idle.ask("POST", "/v1/jobs", json={"command": ["false"]}, **keyed)
    assert (answer.status_code, answer.json()["code"]) == (409, "key_reused")


def test_headers_above_the_limit_are_refused(idle: Any) -> None:
    """Headers that came in one piece were accepted up to twice the limit."""
    assert idle.ask("GET", "/v1/jobs", headers={"X-Long": "x" * 100_000}).status_code == 200
    answer = idle.ask("GET", "/v1/jobs", headers={"X-Long": "x" * (1 << 17)})
    assert (answer.status_code, answer.json()["code"]) == (431, "request_header_fields_too_large")


def test_bodies_above_the_limit_are_cut_off(idle: Any) -> None:
    answer = idle.ask("POST", "/v1/jobs", content=json.dumps({"run": "x" * 2_000_000}))
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403)],
)
def test_web_pages_reach_nothing_even_with_a_token(idle: Any, headers: dict[str, str], status: int) -> None:
    for path in ("/v1/jobs", "/healthz"):
        assert idle.ask("GET", path, headers=headers).status_code == status
    answer = idle.ask("POST", "/v1/jobs", headers=headers, json={"command": ["true"]})
    assert answer.status_code == status
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


def test_users_that_do_not_exist_run_nothing_as_root(idle: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only a manager run by root looks users up")
    from headway.live.http.tokens import Scope, make_token

    idle.tokens["ghost"] = make_token(idle.data, "ghost", "no-such-user", Scope.SUBMIT)
    answer = idle.ask("POST", "/v1/jobs", "ghost", json={"command": ["true"]})
    assert answer.status_code == 422
    assert "no-such-user" in answer.json()["detail"]


def test_under_root_a_job_is_its_users_and_cannot_read_the_managers_files(serve_apart: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: only a manager run by root runs jobs as other users")
    with serve_apart() as served:
        words = "id -un; for f in token job-secret tokens.json journal.db; do cat $DATA/$f; done; ls $DATA; env"
        number = served.submit("ada", command=["sh", "-c", words], envs={"DATA": str(served.data)}, workdir="/")
        served.until(number, "COMPLETED", "FAILED")
        log = served.ask("GET", f"/v1/jobs/{number}/logs", "ada").text
        assert log.splitlines()[0] == "nobody"
        assert log.count("Permission denied") == 5
        secrets = [served.tokens["owner"], (served.data / "job-secret").read_text().strip()]
        assert not any(secret in log for secret in secrets)
        assert f"HEADWAY_JOB_ID={number}" in log
