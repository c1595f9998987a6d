"""The outcome of an attempt for its job, and when the job is tried again: pure rules over a record and a report."""

from dataclasses import dataclass
from typing import Any

from headway.job_state import JobState
from headway.live.executors import Report
from headway.live.rows import CANCEL, HOLD, NO_BLOCKERS, TIME_UP, Blocker
from headway.live.state.records import Job


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between tries: doubled each time, up to a bound (Kubernetes: 10 s, doubled, at most 300 s)."""

    first_s: float = 10.0
    most_s: float = 300.0

    def after(self, failures: int) -> float:
        """Return the seconds to wait after a number of failures."""
        return min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 60))


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """The outcome of an attempt: the job ends in `state`, or waits again with `blockers` if `state` is None."""

    state: JobState | None
    data: dict[str, Any]
    blockers: Blocker = NO_BLOCKERS
    not_before: float = 0.0


def outcome(job: Job, report: Report, now: float, backoff: Backoff) -> AttemptOutcome:
    """Return whether a job whose attempt is over has ended or waits again."""
    data: dict[str, Any] = {"exit_code": report.exit_code, "message": report.message}
    hold_blocker = Blocker.HELD if job.stop_reason == HOLD else NO_BLOCKERS
    clean = report.exit_code == 0 and not report.lost
    if job.stop_reason == CANCEL:
        return AttemptOutcome(JobState.CANCELLED, {**data, "message": "cancelled"})
    if job.stop_reason == TIME_UP:
        limit = job.spec.time_limit
        message = f"ran longer than {'the policy allows' if limit is None else f'its time limit of {limit:g} s'}"
        return AttemptOutcome(JobState.TIMEOUT, {**data, "message": message})
    if job.stop_reason and (report.signalled or report.lost):
        # A job that has saved its state may exit with 0, and a shell with 143. Only reported steps show that it has completed.
        if clean and job.progress.finished:
            return AttemptOutcome(JobState.COMPLETED, data)
        return AttemptOutcome(None, data, hold_blocker)
    if clean:
        return AttemptOutcome(JobState.COMPLETED, data)
    if report.signalled and not job.stop_reason:
        return AttemptOutcome(None, data)  # stopped by a manager whose journal is lost: the job has not failed
    if report.never_ran:
        # No rank ran, so the job has not failed. If the machine lacks memory or disk, it gets time to recover.
        if report.refused:
            return AttemptOutcome(None, data, hold_blocker | Blocker.RETRY_BACKOFF, now + backoff.first_s)
        return AttemptOutcome(None, data, hold_blocker)
    kind = "node_failure" if report.lost else "failure"
    if kind in job.spec.retry.on and job.failures < job.spec.retry.max:
        failures = job.failures + 1
        data["failures"] = failures
        return AttemptOutcome(None, data, hold_blocker | Blocker.RETRY_BACKOFF, now + backoff.after(failures))
    if hold_blocker:
        return AttemptOutcome(None, data, hold_blocker)
    message = report.message or f"exited with code {report.exit_code}"
    if kind in job.spec.retry.on and job.spec.retry.max:
        message += f", after {job.failures} retries"
    return AttemptOutcome(JobState.FAILED, {**data, "message": message})
