"""The one table of the meaning of journal rows: the job's state and segment after the row, and a message for people.

`learn` (in the live loop and after a restart), the webhook, the trend, the timeline of a job and the dashboard all read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headway.job_state import JobState
from headway.live.state.records import BLOCKER_REASONS, CANCEL, HOLD, MIGRATE, PREEMPT, REQUEUE, TIME_UP, Blocker
from headway.reasons import BY_CODE

# Segments of a job's timeline. OVER: the job has ended, or is not submitted yet.
WAITING, STARTING, RUNNING, STOPPING, OVER = "waiting", "starting", "running", "stopping", ""
WITH_GPUS: Final = frozenset({STARTING, RUNNING, STOPPING})

STOP_MESSAGES: Final = {
    PREEMPT: "preempted",
    CANCEL: "cancelled",
    TIME_UP: "time is up",
    REQUEUE: "requeued",
    HOLD: "held",
    MIGRATE: "migrated",
}
# Rows that change the blockers of a job.
BLOCKED_KINDS: Final = frozenset({"Held", "Released", "Blocked"})
STOP_KINDS: Final = {"Stop": PREEMPT, "Resize": PREEMPT, "Migrate": MIGRATE}  # with the usual reason


@dataclass(frozen=True, slots=True)
class RowMeaning:
    """The meaning of a row for its job. None and empty values change nothing."""

    state: JobState | None = None
    segment: str | None = None
    message: str = ""
    blockers: Blocker | None = None  # of the job from now on
    stop_reason: str = ""  # why the job is being stopped from now on


NO_MEANING: Final = RowMeaning()
# By kind: the segment before the row, and the meaning of the row. Rows of an end and of blockers depend on their data.
ROWS: Final[Mapping[str, tuple[str, RowMeaning]]] = {
    "Submitted": (OVER, RowMeaning(JobState.PENDING, WAITING, "submitted")),
    "Start": (WAITING, RowMeaning(JobState.STARTING, STARTING, "GPUs given")),
    "Pack": (WAITING, RowMeaning(JobState.STARTING, STARTING, "GPUs shared with another job")),
    "Started": (STARTING, RowMeaning(JobState.RUNNING, RUNNING, "runs")),
    "Stop": (RUNNING, RowMeaning(JobState.STOPPING, STOPPING, "stopped")),
    "Resize": (RUNNING, RowMeaning(JobState.STOPPING, STOPPING, "stopped")),
    "Migrate": (RUNNING, RowMeaning(JobState.STOPPING, STOPPING, "migrated")),
    "Stopped": (STOPPING, RowMeaning(JobState.PENDING, WAITING, "its GPUs are free")),
    "Ended": (RUNNING, RowMeaning(None, OVER, "ended")),
}
MESSAGES: Final = {  # of rows that change neither state nor segment, and of rows about nodes
    "Crossed": "moved in the order",
    "Drained": "is drained",
    "Resumed": "takes jobs again",
    "Away": "takes no jobs",
    "Back": "takes jobs again",
    "DiskFull": "no node takes jobs: the disk is nearly full",
    "DiskFree": "nodes take jobs again: the disk has room",
}


def row_meaning(kind: str, data: Mapping[str, Any]) -> RowMeaning:
    """Return what a row of this kind with this data means for its job."""
    if kind in BLOCKED_KINDS:
        return _blocked(kind, data)
    _, meaning = ROWS.get(kind, (OVER, NO_MEANING))
    if kind == "Ended":
        state = JobState[data["state"]] if "state" in data else None
        message = f"{state.name if state else 'ended'}{': ' + data['message'] if data.get('message') else ''}"
        return RowMeaning(state, OVER, message)
    if kind in STOP_KINDS:
        reason = data.get("why") or STOP_KINDS[kind]
        message = STOP_MESSAGES.get(reason, meaning.message)
        return RowMeaning(meaning.state, meaning.segment, message, stop_reason=reason)
    if kind == "Asked":  # the reason of a stop under way has changed
        return RowMeaning(message=STOP_MESSAGES.get(data["why"], "stopped"), stop_reason=data["why"])
    return meaning if meaning is not NO_MEANING else RowMeaning(message=MESSAGES.get(kind, ""))


def segment_before(kind: str, data: Mapping[str, Any]) -> str:
    """Return the segment that a row of this kind ends. A job that ended without an exit code had no processes."""
    return WAITING if kind == "Ended" and "exit_code" not in data else ROWS[kind][0]


def _blocked(kind: str, data: Mapping[str, Any]) -> RowMeaning:
    """Return HELD or PENDING if a person's hold begins or ends; other blockers leave the state as it is."""
    after = Blocker(0 if kind == "Released" else int(data["blockers"]))
    before = Blocker(int(data.get("before", Blocker.HELD if kind == "Released" else 0)))
    if (after ^ before) & Blocker.HELD:
        held = bool(after & Blocker.HELD)
        state = JobState.HELD if held else JobState.PENDING
        return RowMeaning(state, message="held" if held else "released", blockers=after)
    added = [BY_CODE[BLOCKER_REASONS[blocker]].long for blocker in Blocker if blocker & after & ~before]
    return RowMeaning(message=", ".join(added) or ("released" if not after else ""), blockers=after)
