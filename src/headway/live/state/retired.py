"""Retired jobs: what stays in memory of them (how each ended, and totals), and the text from which one can be recalled.

The text is in the journal's table of finished jobs, and records of jobs are in snapshots in the same form.
"""

import base64
import json
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from headway.core.receipts import final_receipts_us
from headway.core.tables.jobs import JOB
from headway.core.tables.state import State
from headway.job_state import JobState
from headway.live.jobfile.spec import JobSpec
from headway.live.state.records import Job

_JOB = TypeAdapter(Job)


@dataclass(slots=True)
class Past:
    """The retired jobs: how each ended (one byte), and totals."""

    finals: bytearray = field(default_factory=bytearray)  # by number: how the job ended; 0: not retired
    counts: Counter[str] = field(default_factory=Counter)  # retired jobs by state
    preemptions: int = 0
    arrays: dict[int, int] = field(default_factory=dict)  # tasks of arrays of which every task is retired

    def final_of(self, job_id: int) -> JobState | None:
        """Return how a retired job ended; None for any other job."""
        state = self.finals[job_id] if 0 < job_id < len(self.finals) else 0
        return JobState(state) if state else None

    def retire(self, job: Job) -> None:
        """Count a job that has ended among the retired ones."""
        assert job.final, job
        if job.id >= len(self.finals):
            self.finals.extend(bytes(job.id + 1 - len(self.finals)))
        self.finals[job.id] = job.final
        self.counts[job.final.name] += 1
        self.preemptions += job.preemptions

    def recall(self, job: Job) -> None:
        """Remove a job from the retired jobs."""
        assert job.final, job
        self.finals[job.id] = 0
        self.counts[job.final.name] -= 1
        self.preemptions -= job.preemptions


@dataclass(frozen=True, slots=True)
class Archived:
    """A job as it was at its end: its record, its row of the engine's table, and its receipt (core/receipts.py)."""

    job: Job
    row: Any
    receipt: NDArray[np.float64]
    rest: bytes  # the same as the table of finished jobs stores it (`content`)

    @property
    def text(self) -> str:
        """Return the job as text for a row of the journal."""
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
        """Return the microseconds of the wait by reason."""
        receipt: NDArray[np.int64] = final_receipts_us(self.row.reshape(1), self.receipt.reshape(-1, 1))[0]
        return receipt


def encode(job: Job) -> dict[str, Any]:
    """Return the record of a job as plain values, without its submission and without defaults."""
    submitted = {"user", "spec", "submitted", "array_id", "array_index"}
    content: dict[str, Any] = _JOB.dump_python(job, exclude=submitted, exclude_defaults=True)
    return content


def decode(content: dict[str, Any], values: tuple[Any, ...]) -> Job:
    """Return the record of `encode`; `values` are user, spec, time of submission and array."""
    names = ("user", "spec", "submitted", "array_id", "array_index")
    return _JOB.validate_python({**content, **dict(zip(names, values, strict=True))})


def as_json(content: Any) -> str:
    """Return plain values as JSON; sets become lists."""
    return json.dumps(content, separators=(",", ":"), default=sorted)


def content(tables: State, job: Job) -> bytes:
    """Return the bytes from which `revive` makes a job that has just ended; its submission is in other columns."""
    rest = {
        "job": encode(job),
        "row": tables.jobs[job.row].tolist(),
        "receipt": tables.receipts[:, job.row].tolist(),
    }
    return zlib.compress(as_json(rest).encode(), 1)


def revive(rest: bytes, columns: tuple[Any, ...]) -> Archived:
    """Return a job from its `content` and the columns of its submission."""
    content = json.loads(zlib.decompress(rest))
    row = np.array([tuple(content["row"])], JOB)
    return Archived(decode(content["job"], columns), row[0], np.array(content["receipt"]), rest)


def from_text(text: str) -> Archived:
    """Return a job from `Archived.text`."""
    rest, user, spec, *others = json.loads(text)
    return revive(base64.b64decode(rest), (user, JobSpec.model_validate_json(spec), *others))
