"""The original Philly `cluster_job_log` (Jeon et al., ATC'19): a JSON list of jobs with their scheduling attempts."""

import json
import re
from typing import Any, NamedTuple

import numpy as np

from headway.errors import BadInput
from headway.io.json_file import parse_json
from headway.workloads.parsing import Names, Options, Reader, Rows, Source, Workload, checked_workload
from headway.workloads.parsing.times import ABSENT, time_s

KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")


def _is_json(source: Source, header: list[str]) -> bool:
    """By being a JSON list or mapping; if it holds something else than jobs, `read` says so."""
    return source.text[:1000].lstrip()[:1] in ("[", "{")


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read it; a job runs as long as its attempts together, on the GPUs of its largest attempt."""
    jobs = _parsed(source)
    places = [LogPlace(source, job, index) for index, job in enumerate(jobs)]
    for place in places:
        _check_keys(place)
    columns = {
        "job_id": [str(job["jobid"]) for job in jobs],
        "user": [str(job["user"]) for job in jobs],
        "queue": [str(job["vc"]) for job in jobs],
        "submit_s": [_seconds(place, "submitted_time", place.job["submitted_time"]) for place in places],
        "gpus": [max((_held(place, one) for one in place.job["attempts"]), default=0) for place in places],
        "duration_s": [sum(_ran_s(place, one) for one in place.job["attempts"]) for place in places],
    }
    retried = sum(len(job["attempts"]) > 1 for job in jobs)
    rows = Rows(
        source.name,
        lambda row: f"line {_line(source, row)}",
        Names("submitted_time", "attempts", "attempts"),
        {name: np.array(column) for name, column in columns.items()},
        caveats=(f"{retried:,} jobs were retried: their duration is the sum of their attempts, without the gaps",),
        column="key",
    )
    return checked_workload(rows, strict=strict, from_zero=True)


def _parsed(source: Source) -> list[dict[str, Any]]:
    jobs = parse_json(source.text, source.name, "job log", most_bytes=None)
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise BadInput(f"{source.name}: Philly cluster_job_log is a list of jobs, each with the keys {', '.join(KEYS)}")
    if not jobs:
        raise BadInput(f"{source.name}: the trace is empty: it needs at least one job")
    return jobs


class LogPlace(NamedTuple):
    """Where a job is in the log, for messages."""

    source: Source
    job: dict[str, Any]
    number: int

    def bad(self, key: str, value: object, wanted: str) -> BadInput:
        """The error for one value of the job."""
        where = f"{self.source.name}, line {_line(self.source, self.number)}, key {key!r} of job {self.job['jobid']}"
        return BadInput(f"{where}: {value!r} {wanted}")


def _check_keys(place: LogPlace) -> None:
    source, job, number = place
    missing = [key for key in KEYS if key not in job]
    if missing:
        problem = f"job {number + 1} has no key {missing[0]!r}; its keys are {', '.join(job)}"
        raise BadInput(f"{source.name}, line {_line(source, number)}: {problem}")
    if not isinstance(job["attempts"], list) or not all(isinstance(attempt, dict) for attempt in job["attempts"]):
        raise place.bad("attempts", job["attempts"], "is not a list of attempts")


def _line(source: Source, index: int) -> int:
    """The line of a job's id, or where the job begins if it has none; the text is read again, since only errors need it."""
    decoder, at = json.JSONDecoder(), source.text.index("[") + 1
    for _ in range(index):
        at = decoder.raw_decode(source.text, _next_value(source.text, at))[1]
    begin = _next_value(source.text, at)
    end = decoder.raw_decode(source.text, begin)[1]
    found = re.compile(r'"jobid"\s*:').search(source.text, begin, end)
    return source.text.count("\n", 0, found.start() if found else begin) + 1


def _next_value(text: str, at: int) -> int:
    """Where the next value of a list begins: after blanks and the comma."""
    while text[at] in " \t\r\n,":
        at += 1
    return at


def _seconds(place: LogPlace, key: str, value: object) -> float:
    """A time of the log in seconds; NaN where the log has none."""
    if value is None or (isinstance(value, str) and value.strip() in ABSENT):
        return float("nan")
    try:
        return time_s(str(value).strip())
    except ValueError:
        raise place.bad(key, value, "is not a time such as 2017-10-07 01:04:03") from None


def _held(place: LogPlace, attempt: dict[str, Any]) -> int:
    """GPUs that an attempt held over all its servers."""
    servers = attempt.get("detail") or []
    if not isinstance(servers, list) or not all(
        isinstance(server, dict) and isinstance(server.get("gpus"), list) for server in servers
    ):
        raise place.bad("detail", servers, "is not a list of servers with their lists of gpus")
    return sum(len(server["gpus"]) for server in servers)


def _ran_s(place: LogPlace, attempt: dict[str, Any]) -> float:
    """Run time of an attempt: 0 where its start or end is unknown (it failed to log, or still ran at the end)."""
    start = _seconds(place, "start_time", attempt.get("start_time"))
    end = _seconds(place, "end_time", attempt.get("end_time"))
    return end - start if end > start else 0.0


READER = Reader("Philly cluster_job_log", read, test=_is_json)
