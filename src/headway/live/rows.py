"""The rows of the journal: their kinds, their fields, and one table of their meanings for jobs.

`learn` (in the live loop and after a restart), the webhook, the trend, the timeline of a job and the dashboard read the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Final

from headway.core.events import NAMES
from headway.job_state import JobState
from headway.reasons import BY_CODE

# ---- kinds

ENGINE_KINDS: Final = {name: kind for kind, name in enumerate(NAMES)}  # facts and actions that the engine records
# About a job. Asked: the reason of a stop under way has changed. Recalled: a retired job comes back, to be run again.
ASKED, BLOCKED, PROGRESSED, RECALLED = "Asked", "Blocked", "Progressed", "Recalled"
# About a node. Drained, Resumed: by an operator. Away, Back: by the executor. Taken: a number of its GPUs is used outside Headway.
DRAINED, RESUMED, AWAY, BACK, TAKEN = "Drained", "Resumed", "Away", "Back", "Taken"
DISK_FULL, DISK_FREE = "DiskFull", "DiskFree"  # no node takes jobs while the disk is nearly full
OPENED, CLOSING = "Opened", "Closing"  # from Closing until the next manager opens, no node takes jobs
RESERVED, UNRESERVED = "Reserved", "Unreserved"  # an advance reservation that an operator made, and its end
RETIRED = "Retired"  # ended jobs leave the memory, except the last ones
SALVAGED = "Salvaged"  # rows between the previous row and this one are lost; a note for people
JOB_KINDS: Final = frozenset({ASKED, BLOCKED, PROGRESSED, RECALLED})
NODE_KINDS: Final = frozenset({DRAINED, RESUMED, AWAY, BACK, TAKEN, DISK_FULL, DISK_FREE})
MANAGER_KINDS: Final = frozenset({OPENED, CLOSING, RESERVED, UNRESERVED, RETIRED, SALVAGED})
ALL_KINDS: Final = JOB_KINDS | NODE_KINDS | MANAGER_KINDS | ENGINE_KINDS.keys()

# ---- fields

BEFORE: Final = "before"  # of a row that changes the blockers of a job: its blockers until then
UNTIL: Final = "until"  # of Notify, Promise and Deferred: a time, null for infinity (core/tables/actions.py: ROW)
AWAY_S: Final = "away"  # of a start or an end: seconds by which its report was late because no manager ran
LATE: Final = "late"  # seconds since the engine was to be woken
ARCHIVED: Final = "archived"  # of Ended: the table of finished jobs has the job already
AWAY_SINCE: Final = "away_since"  # of Opened: when the manager before this one was last alive


class Blocker(IntFlag):
    """Reasons to withhold a job from the engine, one bit each, in the order in which `explain` names them."""

    HELD = 1
    DEPENDENCY = 2
    ARRAY_LIMIT = 4
    RETRY_BACKOFF = 8
    NODE_DOWN = 16  # the cluster has become smaller than the job


NO_BLOCKERS: Final = Blocker(0)
BLOCKER_REASONS: Final = {blocker: str(blocker.name).lower() for blocker in Blocker}  # codes in `reasons.py`

# Why a job is being stopped: preempted or migrated by the policy, at the request of a person, or at its time limit.
PREEMPT, CANCEL, TIME_UP, REQUEUE, HOLD, MIGRATE = "preempt", "cancel", "timeout", "requeue", "hold", "migrate"

# ---- what a row means

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
BLOCKED_KINDS: Final = frozenset({"Held", "Released", BLOCKED})
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
    DRAINED: "is drained",
    RESUMED: "takes jobs again",
    AWAY: "takes no jobs",
    BACK: "takes jobs again",
    DISK_FULL: "no node takes jobs: the disk is nearly full",
    DISK_FREE: "nodes take jobs again: the disk has room",
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
    if kind == ASKED:
        return RowMeaning(message=STOP_MESSAGES.get(data["why"], "stopped"), stop_reason=data["why"])
    return meaning if meaning is not NO_MEANING else RowMeaning(message=MESSAGES.get(kind, ""))


def segment_before(kind: str, data: Mapping[str, Any]) -> str:
    """Return the segment that a row of this kind ends. A job that ended without an exit code had no processes."""
    return WAITING if kind == "Ended" and "exit_code" not in data else ROWS[kind][0]


def _blocked(kind: str, data: Mapping[str, Any]) -> RowMeaning:
    """Return HELD or PENDING if a person's hold begins or ends; other blockers leave the state as it is."""
    after = Blocker(0 if kind == "Released" else int(data["blockers"]))
    before = Blocker(int(data.get(BEFORE, Blocker.HELD if kind == "Released" else 0)))
    if (after ^ before) & Blocker.HELD:
        held = bool(after & Blocker.HELD)
        state = JobState.HELD if held else JobState.PENDING
        return RowMeaning(state, message="held" if held else "released", blockers=after)
    added = [BY_CODE[BLOCKER_REASONS[blocker]].long for blocker in Blocker if blocker & after & ~before]
    return RowMeaning(message=", ".join(added) or ("released" if not after else ""), blockers=after)
