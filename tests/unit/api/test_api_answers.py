"""What answers hold: problems, the spec, the place of a new job, filters by time and array, the newest first, verbs on many jobs."""

from typing import Any


def test_every_refusal_is_a_problem(idle: Any) -> None:
    for answer in (
        idle.ask("GET", "/v1/jobs/999999"),
        idle.ask("GET", "/v1/nowhere"),
        idle.ask("DELETE", "/v1/jobs"),
        idle.ask("GET", "/v1/jobs", ""),
        idle.ask("POST", "/v1/jobs", json={"command": 3}),
        idle.ask("POST", "/v1/jobs", json={"command": ["true"], "after": [999999]}),
    ):
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert problem["type"] == "about:blank"
        assert problem["title"]
        assert problem["detail"]
        assert problem["code"] in {"not_found", "method_not_allowed", "unauthorized", "bad_input"}


def test_what_is_wrong_is_said_in_plain_words(idle: Any) -> None:
    """A state was answered with a regular expression, and a body with words of pydantic."""

    def said(method: str, path: str, **given: Any) -> tuple[str, str]:
        problem = idle.ask(method, path, **given).json()
        return problem["detail"], problem["fields"].get("field", "")

    state = said("GET", "/v1/jobs?state=NOPE")
    assert state[0].endswith(
        "unknown state: write one of PENDING, HELD, STARTING, RUNNING, STOPPING, COMPLETED, FAILED, CANCELLED, TIMEOUT"
    )
    assert said("POST", "/v1/jobs", json=[1])[0] == "write a JSON object"
    assert said("POST", "/v1/dry-run", json=[1])[0] == "write a JSON object"
    assert said("POST", "/v1/jobs", json={"run": "x", "resources": 5}) == (
        "resources: write a JSON object",
        "resources",
    )
    words = "write a list of words, such as [python, train.py], or use run for a shell line"
    assert said("POST", "/v1/jobs", json={"command": "true"}) == (f"command: {words}", "command")
    assert said("POST", "/v1/jobs", json={"run": "x", "constraints": ["ib"]})[1] == "constraints"
    assert said("POST", "/v1/jobs", json={"run": "x", "resources": {"type": "b7"}})[1] == "resources.type"
    headers = {"content-type": "application/json"}
    assert said("POST", "/v1/jobs", content=b"{", headers=headers)[0].startswith("the body: not JSON (line 1, column 2")


def test_a_new_job_says_where_it_is_found(idle: Any) -> None:
    answer = idle.ask("POST", "/v1/jobs", json={"command": ["true"], "queue": "team-a"})
    found = idle.ask("GET", answer.headers["location"]).json()
    assert found["job_id"] == answer.json()["job_id"]
    assert found["spec"] == {"command": ["true"], "queue": "team-a"}


def test_values_of_the_environment_are_for_the_jobs_own_user(idle: Any) -> None:
    number = idle.submit("ada", envs={"KEY": "secret"})
    path = f"/v1/jobs/{number}"
    assert idle.ask("GET", path, "ada").json()["spec"]["envs"] == {"KEY": "secret"}
    seen = idle.ask("GET", path, "operator")
    assert seen.json()["spec"]["envs"] == {"KEY": "***"}
    assert "secret" not in seen.text


def test_the_newest_first_and_by_time(idle: Any) -> None:
    numbers = [idle.submit(name="timed") for _ in range(5)]
    newest = idle.ask("GET", "/v1/jobs?name=timed&newest=true&limit=2").json()
    assert [job["job_id"] for job in newest["jobs"]] == numbers[:2:-1]
    rest = idle.ask("GET", f"/v1/jobs?name=timed&newest=true&after_id={newest['next_after_id']}").json()
    assert [job["job_id"] for job in rest["jobs"]] == numbers[2::-1]
    at = idle.job(numbers[2])["submitted_at"]
    later = idle.ask("GET", f"/v1/jobs?name=timed&since={at}").json()["jobs"]
    assert [job["job_id"] for job in later] == numbers[2:]
    before = idle.ask("GET", f"/v1/jobs?name=timed&until={at}").json()["jobs"]
    assert [job["job_id"] for job in before] == numbers[:3]


def test_the_tasks_of_an_array_and_the_jobs_of_a_queue(idle: Any) -> None:
    first = idle.submit(array="0-20:5", queue="arrays")
    tasks = idle.ask("GET", f"/v1/jobs?array_id={first}").json()["jobs"]
    assert [task["array_index"] for task in tasks] == [0, 5, 10, 15, 20]
    assert len(idle.ask("GET", "/v1/jobs?queue=arrays").json()["jobs"]) == 5


def test_verbs_on_many_jobs(idle: Any) -> None:
    mine, other = [idle.submit("ada") for _ in range(3)], idle.submit("bob")
    answer = idle.ask("POST", "/v1/actions", "ada", json={"verb": "hold", "job_ids": [*mine, other, 10**6]}).json()
    assert [job["job_id"] for job in answer["jobs"]] == mine
    assert {job["state"] for job in answer["jobs"]} == {"HELD"}
    # Another user's job and one that is not there look the same.
    assert [(each["job_id"], each["status"]) for each in answer["refused"]] == [(other, 404), (10**6, 404)]
    assert idle.job(other)["state"] == "PENDING"
    again = idle.ask("POST", "/v1/actions", json={"verb": "requeue", "job_ids": mine}).json()
    assert [each["status"] for each in again["refused"]] == [409] * 3


def test_answers_are_described(idle: Any) -> None:
    paths = idle.ask("GET", "/openapi.json").json()["paths"]

    def answer(path: str, method: str = "get") -> str:
        content = paths[path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        return str(content.get("$ref", content)).rpartition("/")[2]

    assert answer("/v1/jobs/{job_id}/explain") == "Explanation"
    assert answer("/v1/dry-run", "post") == "DryRun"
    assert answer("/v1/status") == "Status"
    assert answer("/v1/workload") == "PastWork"
    assert answer("/v1/health") == "ManagerHealth"
