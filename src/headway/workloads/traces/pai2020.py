"""Alibaba PAI 2020 `pai_task_table.csv` (Weng et al., NSDI'22), published without a header line.

A job is all tasks of one name together, as they run together. Its user and its time of submission are in
`pai_job_table.csv`, read when it lies beside the task table; otherwise a job comes when its first task starts.
"""

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.workloads.parsing import Columns, Names, Options, Reader, Rows, Source, Workload, checked_workload
from headway.workloads.parsing.source import read_source

COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time"),
    *("end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
JOB_COLUMNS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
JOB_TABLES = ("pai_job_table.csv", "pai_job_table.csv.gz", "pai_job_table.csv.zst")
STATES = frozenset({"Terminated", "Failed", "Running", "Waiting"})


def _is_pai(source: Source, header: list[str]) -> bool:
    """By its columns, or without a header by a status in the fourth field."""
    return set(COLUMNS) <= set(header) or _headless(header, COLUMNS) or _headless(header, JOB_COLUMNS)


def _headless(header: list[str], columns: tuple[str, ...]) -> bool:
    return len(header) == len(columns) and header[3] in STATES


def read(source: Source, options: Options, *, strict: bool) -> Workload:
    """Read the task table and put the tasks of a job together."""
    header = source.header
    if len(header) == len(JOB_COLUMNS):
        raise BadInput(f"{source.name} is PAI's job table, which has no GPUs: give pai_task_table.csv beside it")
    table = Columns(source, COLUMNS if _headless(header, COLUMNS) else None)
    columns = table.read(("inst_num", "start_time", "end_time", "plan_gpu"), texts=("job_name",))
    table.refuse_negative(columns, "inst_num", "plan_gpu")
    table.refuse_wrong_gpus(columns, "inst_num")
    share = np.nan_to_num(columns["plan_gpu"]) / 100
    gpus = np.nan_to_num(columns["inst_num"]) * np.ceil(share)
    names, job = _numbered(columns["job_name"])
    first_row = np.full(len(names), len(job))
    np.minimum.at(first_row, job, np.arange(len(job)))
    jobs, starts_s, ends_s = len(names), columns["start_time"], columns["end_time"]
    ended = (gpus > 0) & ~np.isnan(starts_s) & ~np.isnan(ends_s)
    ran_s = _over_tasks(np.fmax, job, jobs, ends_s, ended) - _over_tasks(np.fmin, job, jobs, starts_s, ended)
    # A job begins with its first task that holds GPUs, whether or not it ended; with the first of all where none does.
    begin_s = _over_tasks(np.fmin, job, jobs, starts_s, gpus > 0)
    begin_s = np.where(np.isnan(begin_s), _over_tasks(np.fmin, job, jobs, starts_s, gpus >= 0), begin_s)
    submit_s, user, beside = _from_job_table(source, names, begin_s)
    rounded = int(((share % 1 != 0) & (gpus > 0)).sum())
    rows = Rows(
        source.name,
        lambda row: table.where(int(first_row[row])),
        Names("start_time", "inst_num", "end_time"),
        {
            "job_id": names,
            "submit_s": submit_s,
            "gpus": np.bincount(job, gpus, jobs).astype(np.float64),
            "duration_s": ran_s,
            "user": user,
        },
        (
            f"{rounded:,} tasks ask for a fraction of a GPU: every instance counts as a whole one",
            beside or "without pai_job_table.csv beside it jobs are submitted when they started: queueing is left out",
        ),
    )
    return checked_workload(rows, strict=strict, from_zero=True)


def _numbered(texts: NDArray[np.str_]) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """The different texts in order of appearance, and the number of each row's text."""
    seen: dict[str, int] = {}
    numbers = np.fromiter((seen.setdefault(text, len(seen)) for text in texts.tolist()), np.int64, len(texts))
    return np.array(list(seen)), numbers


def _over_tasks(
    which: np.ufunc, job: NDArray[np.int64], jobs: int, times_s: NDArray[np.float64], counted: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The first (np.fmin) or last (np.fmax) time of the counted tasks of each job; NaN where no such time is known."""
    found_s = np.full(jobs, np.nan)
    which.at(found_s, job[counted], times_s[counted])
    return found_s


def _from_job_table(
    source: Source, names: NDArray[np.str_], start_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.str_], str]:
    """Submission and user of each job from the job table, and what to say of it; without it, its start and nobody."""
    path = next((source.path.parent / name for name in JOB_TABLES if (source.path.parent / name).is_file()), None)
    if path is None:
        return start_s, np.full(len(names), ""), ""
    beside = read_source(str(path))
    headless = beside.header[:1] != [JOB_COLUMNS[0]]
    columns = Columns(beside, JOB_COLUMNS if headless else None).read(("start_time",), texts=("job_name", "user"))
    row_of = {name: row for row, name in enumerate(columns["job_name"].tolist())}
    row = np.array([row_of.get(name, -1) for name in names.tolist()])
    submit_s = np.where(row < 0, start_s, columns["start_time"][row])
    return submit_s, np.where(row < 0, "", columns["user"][row]), f"users and submissions are from {path.name}"


READER = Reader("Alibaba PAI 2020 task table", read, COLUMNS, test=_is_pai)
