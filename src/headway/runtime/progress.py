"""How far the job is, reported to the manager in a file in the job's folder.

Rank 0 reports for all, so every rank may call. The file holds everything reported so far and is replaced atomically; the manager reads it
from time to time and once more when the job ends, so nothing is lost while the manager is down.
"""

import atexit
import contextlib
import json
import time
from typing import Any

from headway.runtime.current_job import CurrentJob, current_job

EVERY_S = 0.1  # a step of a small model takes less: not every step is written

_known: dict[str, Any] = {}
_written_at = -1e9
_stale = False


def announce() -> None:
    """Inside a job: say that steps will be reported, so that it is not stopped before the first. What was reported already stays."""
    job = current_job()
    if job is not None and job.rank == 0 and job.writable is not None:
        with contextlib.suppress(OSError), open(job.writable / "report.json", "x", encoding="utf-8") as file:
            file.write("{}")


def report(step: int, total: int | None = None, loss: float | None = None) -> None:
    """Report that a step is done, of `total` steps, with this loss."""
    _update(step == total, step=int(step), total=total, loss=None if loss is None else float(loss))


def checkpointed(step: int) -> None:
    """The state after this step is saved: a preemption loses only what came after."""
    _update(True, checkpointed=int(step))


def _update(at_once: bool, **reported: Any) -> None:
    global _stale
    job = current_job()
    if job is None or job.rank != 0:
        return
    _known.update({name: value for name, value in reported.items() if value is not None})
    if not _stale:
        atexit.register(_report_last)
    _stale = True
    if at_once or time.monotonic() - _written_at >= EVERY_S:
        _write(job)


def _report_last() -> None:
    job = current_job()
    if job is not None and _stale:
        _write(job)


def _write(job: CurrentJob) -> None:
    """Write what is known; failures are silent, since a report must not end a training run."""
    global _written_at, _stale
    _written_at, _stale = time.monotonic(), False
    atexit.unregister(_report_last)
    job.write("report.json", json.dumps(_known))
