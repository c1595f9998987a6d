"""What tables show stays whole on a narrow terminal, and counts in plain English."""

import io
from typing import Any

import pytest
from rich.console import Console

from headway.cli.operate.history import history_table
from headway.cli.tables.job_details import dry_run_lines, explanation, job_table
from headway.cli.tables.jobs import header, script
from headway.cli.tables.live import queue_view, top_view
from headway.client.job import JobView
from headway.report.comparison import report
from headway.sim.api import compare
from headway.workloads.workload import workload


def test_the_numbers_of_a_receipt_are_shown_whole_on_80_columns() -> None:
    """They were cut to `2.49…`, under the words `the sum, exactly`."""
    answer = {
        "job_id": 1,
        "state": "HELD",
        "reason": "held",
        "message": "it is held until it is released",
        "numbers": {
            "gpus_asked": 8.0,
            "gpus_total": 8.0,
            "gpus_free": 6.0,
            "most_free_on_a_node": 4.0,
            "queue_level": 0.0,
            "service_gpu_s": 330.0,
        },
        "ahead": [],
        "would_change": [],
        "wait_us": 2_512_000,
        "receipt_us": {"held": 2_490_000, "stopping": 19_000, "gpus": 3_000},
    }
    told = io.StringIO()
    Console(file=told, width=80).print(explanation(answer))
    lines = [" ".join(line.split()) for line in told.getvalue().splitlines()]
    for row in ("held 2.490 s", "stopping 0.019 s", "gpus 0.003 s", "waited 2.512 s"):
        assert any(line.startswith(row) for line in lines), told.getvalue()
    assert max(map(len, told.getvalue().splitlines())) <= 80


def test_a_job_that_stops_is_not_shown_with_a_reason_to_wait() -> None:
    """It had the words of a job that waits for others: others are stopping."""
    for state, shown in (("STOPPING", False), ("PENDING", True)):
        job = JobView(1, "train", "ada", state, 1, "", 1.0, 1.0, 0, reason="stopping")
        lines = shown_on(80, job_table(job))
        assert any("others are stopping" in line for line in lines) == shown


def shown_on(width: int, what: object) -> list[str]:
    told = io.StringIO()
    Console(file=told, width=width).print(what)
    return told.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_headings_of_history_are_whole_at_any_width(width: int) -> None:
    """At 80 columns they were `SUBMIT…`; now whole columns are left out."""
    row = {"job_id": 123_456, "user": "somebody", "name": "train-a-large-model", "state": "COMPLETED", "queue": ""}
    row |= {"submitted_at": 1.8e9, "started_at": 1.8e9, "wait_s": 86_400.0, "gpus": 512, "gpu_hours": 1234.5}
    row |= {"preemptions": 3, "exit_code": 143, "nodes": ["n000", "n001", "n002"]}
    head, line, *_ = shown_on(width, history_table([row], width))
    assert "…" not in head
    assert "1,23" in line  # GPU-hours
    assert ("NODES" in head) == (width >= 100)
    assert [name for name in ("JOB", "STATE", "WAITED", "RAN", "GPUS", "GPU-H") if name not in head.split()] == []
    assert shown_on(width, history_table([], width))[-1].startswith("0 jobs")


def test_a_script_is_shown_line_by_line_without_control_characters() -> None:
    """Newlines were shown as replacement characters."""
    assert script("#!/bin/sh\n\tsleep 1\nwait\n") == "#!/bin/sh\n        sleep 1\nwait"
    assert script("echo \x1b[2J") == "echo \N{REPLACEMENT CHARACTER}[2J"
    assert script("\n".join("abc" for _ in range(30))).endswith("abc\n… (10 more lines; --json has all)")


class Others:
    """A manager with jobs of other users, which it counts and does not show."""

    def status(self) -> dict[str, object]:
        return {"counts": {"PENDING": 2, "RUNNING": 1}, "cluster": {"name": "1x4", "gpus": [4]}, "policy": "fifo"}

    def nodes(self) -> list[dict[str, object]]:
        return [{"name": "n000", "gpus": 4, "free": 3, "state": "open", "jobs": []}]

    def jobs(self, **given: object) -> list[object]:
        return []


def test_jobs_that_one_may_not_see_are_not_promised() -> None:
    """It said `and 3 more (--limit shows more)`."""
    client: Any = Others()
    words = "\n".join(shown_on(100, queue_view(client, user=None, states=None, name=None, limit=50)))
    assert "more" not in words
    assert "more" not in "\n".join(shown_on(100, top_view(client, 40)))


def test_one_gpu_and_one_job_are_not_counted_as_many() -> None:
    status = {"counts": {}, "cluster": {"gpus": [1], "name": "1x1"}, "policy": "fifo"}
    assert header(status, [{"free": 1}]).plain == "fifo on 1x1: 0 of 1 GPU in use, 0 running, 0 waiting"
    answer = {"gpus": 1, "message": "would start on n000 after stopping 1 job to make room", "preempts": [3]}
    assert "from job 3, which saves its state and continues later" in dry_run_lines(answer)[1]
    answer["preempts"] = [3, 4]
    assert "from jobs 3, 4, which save their state and continue later" in dry_run_lines(answer)[1]


def test_a_report_counts_in_plain_english() -> None:
    jobs = workload("one", [0, 0], [1, 2], [10, 10])
    page = report(compare(jobs, "1x1", ["fifo"], skip_impossible=True).study())
    assert "one: 1 job on 1x1 (1 GPU)" in page
    assert "1 job left out: too large to ever run here" in page
