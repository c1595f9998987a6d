"""The original Philly `cluster_job_log` (Jeon et al., ATC'19): a JSON list of jobs with their scheduling attempts."""

import datetime
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.core.errors import BadInput
from headway.sim.traces.rows import Rows, finished
from headway.sim.traces.source import Source
from headway.sim.traces.table import ABSENT
from headway.sim.workload import Workload

NAME = "Philly cluster_job_log"
COLUMNS: tuple[str, ...] = ()
OPTIONS: tuple[str, ...] = ()
EPOCH = datetime.datetime(1970, 1, 1)
KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")


def recognises(source: Source, header: list[str]) -> bool:
    """By being a JSON list; what else it should hold, the errors of `read` say."""
    return source.text[:1000].lstrip()[:1] in ("[", "{")


def read(source: Source, options: Mapping[str, str], *, strict: bool) -> Workload:
    """Read it; a job runs as long as its attempts together, on the GPUs of its largest attempt."""
    jobs = _parsed(source)
    ids, submit_s, gpus, duration_s = [], [], [], []
    for index, job in enumerate(jobs):
        _check_keys(source, job, index)
        ids.append(str(job["jobid"]))
        submit_s.append(_seconds(source, job, "submitted_time", job["submitted_time"]))
        gpus.append(max((_held(source, job, attempt) for attempt in job["attempts"]), default=0))
        duration_s.append(sum(_ran_s(source, job, attempt) for attempt in job["attempts"]))
    retried = sum(len(job["attempts"]) > 1 for job in jobs)
    rows = Rows(
        source.name,
        lambda row: f"line {_line(source, ids[row])}",
        ("submitted_time", "attempts", "attempts"),
        np.array(ids, np.str_),
        np.array(submit_s),
        np.array(gpus, np.float64),
        np.array(duration_s),
        user=np.array([str(job["user"]) for job in jobs]),
        queue=np.array([str(job["vc"]) for job in jobs]),
        caveats=(f"{retried:,} jobs were retried: their duration is the sum of their attempts, without the gaps",),
        column="key",
    )
    return finished(rows, strict=strict, from_zero=True)


def _parsed(source: Source) -> list[dict[str, Any]]:
    try:
        jobs = json.loads(source.text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{source.name}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise BadInput(f"{source.name}: not a job log: the JSON is nested too deeply") from None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise BadInput(f"{source.name}: {NAME} is a list of jobs, each with the keys {', '.join(KEYS)}")
    if not jobs:
        raise BadInput(f"{source.name}: the trace is empty: it needs at least one job")
    return jobs


def _check_keys(source: Source, job: dict[str, Any], index: int) -> None:
    missing = [key for key in KEYS if key not in job]
    if missing:
        raise BadInput(f"{source.name}: job {index + 1} has no key {missing[0]!r}; its keys are {', '.join(job)}")
    if not isinstance(job["attempts"], list) or not all(isinstance(attempt, dict) for attempt in job["attempts"]):
        raise _bad(source, job, "attempts", job["attempts"], "is not a list of attempts")


def _line(source: Source, job_id: str) -> int:
    """The line where a job's id stands; only errors ask."""
    return source.text.count("\n", 0, max(0, source.text.find(f'"{job_id}"'))) + 1


def _bad(source: Source, job: dict[str, Any], key: str, value: object, wanted: str) -> BadInput:
    line = _line(source, str(job["jobid"]))
    return BadInput(f"{source.name}, line {line}, key {key!r} of job {job['jobid']}: {value!r} {wanted}")


def _seconds(source: Source, job: dict[str, Any], key: str, value: object) -> float:
    """A time of the log in seconds; NaN where the log has none."""
    if value is None or value in ABSENT:
        return float("nan")
    try:
        stamp = datetime.datetime.fromisoformat(str(value)[:19])
    except ValueError:
        raise _bad(source, job, key, value, "is not a time such as 2017-10-07 01:04:03") from None
    return (stamp - EPOCH).total_seconds()


def _held(source: Source, job: dict[str, Any], attempt: dict[str, Any]) -> int:
    """GPUs that an attempt held over all its servers."""
    try:
        return sum(len(server["gpus"]) for server in attempt.get("detail") or ())
    except (TypeError, KeyError):
        raise _bad(source, job, "detail", attempt["detail"], "is not a list of servers with their gpus") from None


def _ran_s(source: Source, job: dict[str, Any], attempt: dict[str, Any]) -> float:
    """Run time of an attempt: 0 where its start or end is unknown (it failed to log, or still ran at the end)."""
    start = _seconds(source, job, "start_time", attempt.get("start_time"))
    end = _seconds(source, job, "end_time", attempt.get("end_time"))
    return end - start if end > start else 0.0
