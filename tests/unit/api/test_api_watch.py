"""Routes for whoever watches: what each caller sees of the GPUs and the queue, trends, stories, what would have been, and open files."""

from typing import Any

import pytest
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def busy(serve_apart: Any) -> Any:
    """Ada and Bob have two GPUs each, and a job of Ada's waits."""
    with serve_apart() as live:
        two = {"command": ["sleep", "600"], "workdir": "/", "resources": {"accelerators": 2}}
        ada, bob = live.submit("ada", name="hers", queue="team-a", **two), live.submit("bob", name="his", **two)
        live.until(ada, "RUNNING")
        live.until(bob, "RUNNING")
        held = {"ada": ada, "bob": bob, "waits": live.submit("ada", name="next", **two)}
        live.manager.settle()  # PENDING is also shown before the engine has recorded a job
        live.until(held["waits"], "PENDING")
        live.held = held
        yield live


def overview(served: Any, who: str = "owner") -> Any:
    return served.ask("GET", "/v1/overview", who).json()


def test_the_map_names_the_job_on_every_gpu(busy: Any) -> None:
    found = overview(busy)
    held = sorted(job for node in found["nodes"] for gpu in node["gpus"] for job in gpu)
    assert held == sorted([busy.held["ada"], busy.held["bob"]] * 2)
    assert (found["gpus"], found["gpus_busy"]) == (4, 4)
    assert [job["job_id"] for job in found["waiting"]] == [busy.held["waits"]]
    assert found["waiting"][0]["position"] == 1
    listed = busy.ask("GET", "/v1/jobs").json()["jobs"]
    assert {job["job_id"]: job["position"] for job in listed if job["position"]} == {busy.held["waits"]: 1}
    assert sum(found["reasons"].values()) == 1
    assert found["recording"] is None


def test_of_others_only_that_the_gpu_is_taken(busy: Any) -> None:
    found = overview(busy, "ada")
    held = sorted(job for node in found["nodes"] for gpu in node["gpus"] for job in gpu)
    assert held == [0, 0, busy.held["ada"], busy.held["ada"]]
    assert {job["name"] for job in found["jobs"]} == {"hers"}
    listed = busy.ask("GET", "/v1/queue", "bob").json()
    assert {job["name"] for job in listed["jobs"]} == {"his"}
    assert busy.ask("GET", "/v1/queue?text=hers", "bob").json()["matching"] == 0
    assert busy.ask("GET", f"/v1/jobs/{busy.held['ada']}/story", "bob").status_code == 404
    assert busy.ask("GET", "/v1/network", "bob").json()["jobs"][0]["name"] == "his"
    assert busy.ask("POST", "/v1/replay", "ada", json={"policies": ["fifo"]}).status_code == 403


def test_the_queue_is_filtered_sorted_and_cut(busy: Any) -> None:
    def ids(query: str) -> list[int]:
        return [job["job_id"] for job in busy.ask("GET", f"/v1/queue?{query}").json()["jobs"]]

    ada, bob, waits = busy.held["ada"], busy.held["bob"], busy.held["waits"]
    assert ids("") == [ada, bob, waits]
    assert ids("sort=name&descending=true") == [waits, bob, ada]
    assert ids("state=PENDING") == [waits]
    assert ids("state=PENDING&state=RUNNING&offset=1&limit=1") == [bob]
    assert ids("queue=team-a") == [ada]
    assert ids("text=HIS") == [bob]
    assert ids(f"text={waits}") == [waits]
    assert ids("user=nobody") == [ada, waits]
    page = busy.ask("GET", "/v1/queue?state=PENDING").json()
    assert (page["total"], page["matching"]) == (3, 1)
    assert sum(level["running"] for level in page["levels"]) == 2
    assert busy.ask("GET", "/v1/queue?sort=secret").status_code == 422


def test_a_story_has_phases_and_the_gpus_of_now(busy: Any) -> None:
    told = busy.ask("GET", f"/v1/jobs/{busy.held['ada']}/story").json()
    assert [phase["kind"] for phase in told["phases"]][-1] == "running"
    assert told["phases"][-1]["until"] is None
    assert sum(told["phases"][-1]["nodes"].values()) == 2
    assert len(told["gpus"]) == 2
    assert [mark["kind"] for mark in told["marks"]][:2] == ["submitted", "start"]


def test_the_trend_ends_with_what_is_true_now(busy: Any) -> None:
    before = busy.ask("GET", "/v1/trend?last_s=60&steps=3").json()  # reads the journal from its beginning
    assert len(before["running"]) == 3

    def now() -> dict[str, Any]:
        return busy.ask("GET", "/v1/trend?last_s=1&steps=1").json()

    expected = {"utilisation": [1.0], "running": [2.0], "waiting": [1.0]}
    wait_for(lambda: expected.items() <= now().items(), now)  # once it has been so for a second


def test_who_am_i(busy: Any) -> None:
    assert busy.ask("GET", "/v1/me", "ada").json() == {
        "name": "ada",
        "user": "nobody",
        "scope": "submit",
        "expires": None,
        "queues": [],
    }
    assert busy.ask("GET", "/v1/me", "").status_code == 401


def test_the_policies_can_be_listed(busy: Any) -> None:
    found = {each["name"]: each["oracle"] for each in busy.ask("GET", "/v1/policies").json()["policies"]}
    assert found["srtf"]
    assert not found["headway"]


def test_files_of_the_page_are_open_and_nothing_else(busy: Any) -> None:
    page = busy.ask("GET", "/", "")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    script = page.text.partition('src="')[2].partition('"')[0]
    found = busy.ask("GET", script, "")
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/javascript")
    assert "immutable" in found.headers["cache-control"]
    root = script.rpartition("/")[0]
    for path in ("/../__init__.py", "/%2e%2e/__init__.py", "/nothing.js", "/pages", ""):
        assert busy.ask("GET", root + path, "").status_code == 404, path
    assert busy.ask("GET", "/web/other/app.js", "").status_code == 404
    assert busy.ask("GET", "/v1/overview", "").status_code == 401


def test_what_would_have_been_is_computed_elsewhere(busy: Any) -> None:
    for number in busy.held.values():
        busy.ask("POST", f"/v1/jobs/{number}/cancel?now=true")
    busy.until(busy.submit("owner"), "COMPLETED")
    found = busy.ask("POST", "/v1/replay", json={"policies": ["fifo"]})
    assert found.status_code == 200, found.text
    names = [outcome["name"] for outcome in found.json()["simulated"]]
    assert names == ["tiresias-l?threshold=1000", "fifo"]
    assert len(found.json()["measured"]["percentiles_s"]) == 101
    assert busy.ask("POST", "/v1/replay", json={"policies": ["os:system"]}).status_code == 422
