"""The API's routes about jobs, over a real manager."""

import json
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from headway.live.errors import JournalFailed
from headway.live.http.logs import LogReader

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_job_runs_and_its_log_is_read(live: Any) -> None:
    number = live.submit(command=["echo", "hello $HOME; `id`"], name="hello")
    job = live.until(number, "COMPLETED", "FAILED")
    assert (job["state"], job["exit_code"], job["attempt"], job["name"], job["gpus"]) == ("COMPLETED", 0, 1, "hello", 1)
    assert job["submitted_at"] <= job["started_at"] <= job["ended_at"]
    assert live.ask("GET", f"/v1/jobs/{number}/logs").text == "hello $HOME; `id`\n"


def test_a_failure_keeps_its_exit_code(live: Any) -> None:
    job = live.until(live.submit(command=["sh", "-c", "echo bad >&2; exit 7"]), "FAILED", "COMPLETED")
    assert (job["state"], job["exit_code"]) == ("FAILED", 7)


def test_ranks_are_labelled_in_the_log_and_can_be_chosen(live: Any) -> None:
    number = live.submit(command=["sh", "-c", "echo rank $RANK of $WORLD_SIZE"], tasks_per_node=2)
    live.until(number, "COMPLETED")
    assert live.ask("GET", f"/v1/jobs/{number}/logs").text == "[0] rank 0 of 2\n[1] rank 1 of 2\n"
    assert live.ask("GET", f"/v1/jobs/{number}/logs?rank=1").text == "rank 1 of 2\n"
    assert live.ask("GET", f"/v1/jobs/{number}/logs?rank=9").text == ""


def test_following_a_log_ends_with_the_job_and_gives_every_line(live: Any) -> None:
    number = live.submit(command=["sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done; printf end"])
    assert live.ask("GET", f"/v1/jobs/{number}/logs?follow=true").text == "line 1\nline 2\nline 3\nline 4\nline 5\nend"


def test_following_goes_on_through_a_requeue(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "echo attempt $HEADWAY_ATTEMPT; if [ $HEADWAY_ATTEMPT = 1 ]; then sleep 600; fi"
    number = live.submit(command=["sh", "-c", words], preemption={"grace": 1})
    live.until(number, "RUNNING")
    read, follows = LogReader._read, threading.Event()

    def reads(reader: LogReader, last: bool) -> Any:
        parts, more = read(reader, last)
        if parts:
            follows.set()
        return parts, more

    monkeypatch.setattr(LogReader, "_read", reads)
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(lambda: live.ask("GET", f"/v1/jobs/{number}/logs?follow=true").text)
        assert follows.wait(PATIENCE_S)
        live.ask("POST", f"/v1/jobs/{number}/requeue")
        assert followed.result(PATIENCE_S) == "attempt 1\n\n--- attempt 2 ---\nattempt 2\n"
    assert live.ask("GET", f"/v1/jobs/{number}/logs?attempt=1").text == "attempt 1\n"


def test_a_long_log_comes_whole(live: Any) -> None:
    code = "import sys; sys.stdout.write('x' * 300_000 + '\\n' + 'y' * 200_000)"
    number = live.submit(command=[sys.executable, "-c", code])
    live.until(number, "COMPLETED")
    text = live.ask("GET", f"/v1/jobs/{number}/logs").text
    assert text == "x" * 300_000 + "\n" + "y" * 200_000


def test_cancel_hold_release_requeue(live: Any) -> None:
    number = live.submit(command=SLEEP, preemption={"grace": 1})
    live.until(number, "RUNNING")
    assert live.ask("POST", f"/v1/jobs/{number}/release").status_code == 409
    assert live.ask("POST", f"/v1/jobs/{number}/requeue").status_code == 200
    assert live.until(number, "RUNNING", "PENDING")["attempt"] in {1, 2}
    live.until(number, "RUNNING")
    refused = live.ask("POST", f"/v1/jobs/{number}/hold")
    assert (refused.status_code, refused.headers["content-type"]) == (409, "application/problem+json")
    assert f"requeue --hold {number}" in refused.json()["detail"]
    assert live.ask("POST", f"/v1/jobs/{number}/requeue?hold=true").json()["state"] in {"STOPPING", "HELD"}
    live.until(number, "HELD")
    assert live.ask("GET", f"/v1/jobs/{number}/explain").json()["reason"] == "held"
    assert live.ask("POST", f"/v1/jobs/{number}/release").json()["state"] in {"PENDING", "STARTING", "RUNNING"}
    live.until(number, "RUNNING")
    assert live.ask("POST", f"/v1/jobs/{number}/cancel?now=true").status_code == 200
    live.until(number, "CANCELLED")
    again = live.ask("POST", f"/v1/jobs/{number}/cancel")
    assert again.status_code == 409
    assert "CANCELLED" in again.json()["detail"]


def test_the_same_key_submits_once(idle: Any) -> None:
    asked = {"json": {"command": ["true"], "array": "0-2"}, "headers": {"Idempotency-Key": "k1"}}
    first = idle.ask("POST", "/v1/jobs", **asked).json()
    assert len(first["job_ids"]) == 3
    assert idle.ask("POST", "/v1/jobs", **asked).json() == first
    assert idle.ask("POST", "/v1/jobs", "ada", **asked).json() != first
    other = idle.ask("POST", "/v1/jobs", json={"command": ["false"]}, headers={"Idempotency-Key": "k1"})
    assert other.status_code == 409


def test_lists_are_filtered_and_paged(idle: Any) -> None:
    numbers = [idle.submit(name=f"page-{i % 2}") for i in range(7)]
    found: list[int] = []
    after = numbers[0] - 1
    while after is not None:
        page = idle.ask("GET", f"/v1/jobs?after_id={after}&limit=3&state=PENDING&state=HELD").json()
        found += [job["job_id"] for job in page["jobs"]]
        after = page["next_after_id"]
    assert found[:7] == numbers
    named = idle.ask("GET", f"/v1/jobs?name=page-1&after_id={numbers[0] - 1}").json()["jobs"]
    assert [job["job_id"] for job in named] == numbers[1::2]
    assert idle.ask("GET", "/v1/jobs?state=COMPLETED").json() == {"jobs": [], "next_after_id": None}
    assert idle.ask("GET", "/v1/jobs?state=DONE").status_code == 422
    assert idle.ask("GET", "/v1/jobs?limit=1001").status_code == 422


def test_explain_names_the_drained_nodes_and_its_receipt_sums(idle: Any) -> None:
    number = idle.submit(resources={"accelerators": 2})
    idle.manager.settle()
    answer = idle.ask("GET", f"/v1/jobs/{number}/explain").json()
    assert answer["reason"] == "node_down"
    assert sum(answer["receipt_us"].values()) == answer["wait_us"] > 0


def test_a_dry_run_submits_nothing(live: Any, idle: Any) -> None:
    before = live.ask("GET", "/v1/jobs?limit=1000").json()["jobs"]
    answer = live.ask("POST", "/v1/dry-run", json={"command": ["true"]}).json()
    assert answer["starts_now"] is True
    assert len(answer["nodes"]) == 1
    assert len(live.ask("GET", "/v1/jobs?limit=1000").json()["jobs"]) == len(before)
    assert idle.ask("POST", "/v1/dry-run", json={"command": ["true"]}).json()["starts_now"] is False


def test_nodes_are_drained_and_resumed(live: Any) -> None:
    assert live.ask("POST", "/v1/nodes/n001/drain").status_code == 204
    states = {node["name"]: node["state"] for node in live.ask("GET", "/v1/nodes").json()["nodes"]}
    assert states["n000"] == "open"
    assert states["n001"] in {"draining", "drained"}
    assert live.ask("POST", "/v1/nodes/n001/resume").status_code == 204
    assert live.ask("POST", "/v1/nodes/nowhere/drain").status_code == 404


def test_metrics_are_in_prometheus_format(live: Any) -> None:
    answer = live.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {}
    for line in answer.text.splitlines():
        if line.startswith("#"):
            assert line.split()[1] in {"HELP", "TYPE"}
        else:
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    assert values["headway_gpus"] == 4
    # A histogram ends with all that it counted, and nothing but counts of events is called _total.
    count = values["headway_decision_duration_seconds_count"]
    assert count == values['headway_decision_duration_seconds_bucket{le="+Inf"}'] > 0
    assert values['headway_job_wait_seconds_bucket{le="+Inf",queue="default"}'] >= 1
    gauges = re.findall(r"^# TYPE (\S+) gauge$", answer.text, re.M)
    assert not [name for name in gauges if name.endswith("_total")]
    assert values['headway_jobs{state="COMPLETED"}'] >= 1


def test_events_are_sent_as_they_happen_and_go_on_where_they_were(live: Any) -> None:
    number = live.submit(command=["true"])
    live.until(number, "COMPLETED")
    rows = _events(live, "/v1/events?after=0", stop=lambda row: row.get("job_id") == number and row["kind"] == "Ended")
    kinds = [row["kind"] for row in rows if row.get("job_id") == number]
    assert [kind for kind in kinds if kind in {"Submitted", "Start", "Started", "Ended"}] == [
        "Submitted",
        "Start",
        "Started",
        "Ended",
    ]
    meant = {row["kind"]: (row["state"], row["message"]) for row in rows if row.get("job_id") == number}
    assert meant["Start"] == ("STARTING", "GPUs given")
    assert meant["Ended"] == ("COMPLETED", "COMPLETED")
    assert [row["number"] for row in rows] == sorted({row["number"] for row in rows})
    middle = rows[len(rows) // 2]["number"]
    after = _events(live, "/v1/events", headers={"Last-Event-ID": str(middle)}, stop=lambda row: True)
    assert after[0]["number"] == middle + 1


def _events(live: Any, path: str, stop: Any, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Rows up to the first that `stop` accepts, read off the generator behind the route: a test client reads streams to their end."""
    import asyncio

    from headway.live.http.streams import server_sent
    from headway.live.http.tokens import Caller, Scope

    after = int((headers or {}).get("Last-Event-ID", 0))

    async def read() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async for part in server_sent(live.manager, Caller("t", "x", Scope.OPERATE), after):
            for line in part.decode().splitlines():
                if line.startswith("data: "):
                    rows.append(json.loads(line[6:]))
            if rows and stop(rows[-1]):
                return rows
        return rows

    return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


def test_a_journal_that_cannot_be_written_is_said_and_acknowledges_nothing(
    idle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the manager raises then (tests/faults fill the disk) reaches the client as 503, with its words."""

    def full(*given: Any) -> list[int]:
        raise JournalFailed("the journal cannot be written (disk full): nothing was accepted")

    monkeypatch.setattr(idle.manager, "submit_later", full)
    answer = idle.ask("POST", "/v1/jobs", json={"command": ["true"]})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "the journal cannot be written (disk full): nothing was accepted",
        "code": "journal_failed",
        "fields": {},
    }


def test_a_number_of_a_job_is_plain_digits(idle) -> None:
    number = idle.submit()
    assert idle.ask("GET", f"/v1/jobs/{number}").status_code == 200
    for word in (f"0{number}", f"+{number}", f" {number}", f"{number}.0", f"{number}_", f"0_{number}", "1_2", "\u0661"):
        assert idle.ask("GET", f"/v1/jobs/{word}").status_code == 422, word
