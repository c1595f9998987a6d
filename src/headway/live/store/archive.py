"""Jobs as text: for snapshots, and for the table of finished jobs, from which one can be shown or recalled after it left the memory."""

import base64
import json
import sqlite3
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from headway.core.events import NOT_WAITING, REASONS
from headway.core.receipts import MICROSECONDS, final_receipts_us, receipt_us
from headway.core.tables.jobs import JOB
from headway.live.jobfile.spec import JobSpec
from headway.live.state.cluster import charged_gpu_h
from headway.live.state.records import Job
from headway.live.store.history import HistoryRow
from headway.live.store.integrity.checksum import WIDTHS, verified
from headway.live.store.integrity.convert import job_row
from headway.live.store.integrity.schema import FORMAT

if TYPE_CHECKING:
    from headway.live.state.cluster import ClusterState

_JOB = TypeAdapter(Job)
_TABLES = "finished JOIN jobs ON jobs.id = finished.job JOIN specs ON specs.id = jobs.spec"


@dataclass(frozen=True, slots=True)
class Archived:
    """A job that is over, as it was when it ended: its record, its row of the engine's table, and its receipt (core/receipts.py)."""

    job: Job
    row: Any
    receipt: NDArray[np.float64]
    rest: bytes  # the same in the table of finished jobs

    @property
    def text(self) -> str:
        """The same in a row of the journal."""
        job = self.job
        submitted = (
            job.user,
            job.spec.model_dump_json(exclude_defaults=True),
            job.submitted,
            job.array_id,
            job.array_index,
        )
        return as_json([base64.b64encode(self.rest).decode(), *submitted])

    @property
    def receipt_us(self) -> NDArray[np.int64]:
        """Whole microseconds by reason."""
        receipt: NDArray[np.int64] = final_receipts_us(self.row.reshape(1), self.receipt.reshape(-1, 1))[0]
        return receipt


def encode(job: Job) -> dict[str, Any]:
    """The record of a job, but for what was submitted: plain values that differ from those of a new one."""
    submitted = {"user", "spec", "submitted", "array_id", "array_index"}
    content: dict[str, Any] = _JOB.dump_python(job, exclude=submitted, exclude_defaults=True)
    return content


def decode(content: dict[str, Any], values: tuple[Any, ...]) -> Job:
    """The record again, with its user, spec, time of submission and array."""
    names = ("user", "spec", "submitted", "array_id", "array_index")
    return _JOB.validate_python({**content, **dict(zip(names, values, strict=True))})


def as_json(content: Any) -> str:
    """JSON of plain values; sets become lists."""
    return json.dumps(content, separators=(",", ":"), default=sorted)


def read_spec(text: str) -> tuple[JobSpec, str]:
    """A job file from the journal, and the name of the first field in it that this version does not know: a newer one wrote it."""
    try:
        return JobSpec.model_validate_json(text), ""
    except ValidationError as error:
        unknown = [each["loc"] for each in error.errors() if each["type"] == "extra_forbidden"]
        if not unknown:
            raise
    content = json.loads(text)
    for *above, name in unknown:
        part = content
        for key in above:
            part = part[key]
        part.pop(name, None)
    return JobSpec.model_validate(content), ".".join(map(str, unknown[0]))


def finished_row(state: "ClusterState", job: Job, now: float) -> tuple[HistoryRow, bytes]:
    """The row about a job that has just ended."""
    row, receipts = state.tables.jobs[job.row], receipt_us(state.tables, state.engine.options, job.row, now)
    waited_s = int(receipts.sum() - receipts[NOT_WAITING]) / MICROSECONDS
    rest = {
        "format": FORMAT,
        "job": encode(job),
        "row": row.tolist(),
        "receipt": state.tables.receipts[:, job.row].tolist(),
    }
    history_row = HistoryRow(
        job_id=job.id,
        user=job.user,
        queue=job.spec.queue,
        name=job.spec.name,
        state=job.final.name if job.final else "",
        submitted_at=job.submitted,
        started_at=job.first_started,
        ended_at=job.ended,
        nodes=job.ran_on,
        gpus=job.spec.gpus,
        wait_s=waited_s,
        gpu_hours=charged_gpu_h(row, job, now),
        preemptions=job.preemptions,
        exit_code=job.exit_code,
        message=job.message,
    )
    return history_row, zlib.compress(as_json(rest).encode(), 1)


def archived(connection: sqlite3.Connection, job_id: int) -> Archived | None:
    """A finished job by its number."""
    return next(page(connection, "finished.job = ?", [job_id], 1), None)


def page(
    connection: sqlite3.Connection,
    where: str,
    given: Collection[Any],
    limit: int,
    descending: bool = False,
    but: Collection[int] = (),
) -> Iterator[Archived]:
    """Finished jobs by number that fulfil a condition on the tables `finished` and `jobs`, but for some; at most `limit` (-1: all)."""
    order = "DESC" if descending else "ASC"
    sql = f"SELECT finished.*, jobs.*, specs.* FROM {_TABLES} WHERE {where} ORDER BY finished.job {order} LIMIT ?"
    specs: dict[str, JobSpec] = {}
    for row in connection.execute(sql, [*given, limit]):
        if row[0] in but:
            continue
        finished, jobs = WIDTHS["finished"] + 1, WIDTHS["jobs"] + 1
        *_, rest = verified("finished", row[:finished])
        _, user, submitted, _, array_id, array_index = verified("jobs", row[finished : finished + jobs])
        _, text = verified("specs", row[finished + jobs :])
        spec = specs[text] if text in specs else specs.setdefault(text, read_spec(text)[0])
        yield _revive(rest, (user, spec, submitted, array_id, array_index))


def _revive(rest: bytes, columns: tuple[Any, ...]) -> Archived:
    """A job from what was written at its end."""
    content = json.loads(zlib.decompress(rest))
    receipt, values = np.zeros(len(REASONS)), content["row"]
    row = np.array([tuple(values)], JOB) if content.get("format") == FORMAT else job_row(values)
    receipt[: len(content["receipt"])] = content["receipt"]  # what was written before lacks the last reasons
    return Archived(decode(content["job"], columns), row[0], receipt, rest)


def from_text(text: str) -> Archived:
    """The same from the text of it in the journal."""
    rest, user, spec, *others = json.loads(text)
    return _revive(base64.b64decode(rest), (user, JobSpec.model_validate_json(spec), *others))
