"""Why jobs wait: the closed list of reasons, with their texts, and what ends a job's hold on GPUs. Standard library only.

The engine keeps the position of a reason in the list, journals and receipts keep its code: codes and their order stay as they are.
The command line, `explain`, the dashboard (`GET /v1/reasons`) and the table of docs/live.md take the texts from here.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: its code, a few words for a column, a sentence for the page and the docs, and what would end the wait."""

    code: str
    short: str
    long: str
    helps: str
    idle: str = ""  # why GPUs are idle while jobs wait for this reason; empty: `long`
    in_receipt: str = ""  # what a receipt counts under the reason, if that is more than `short`

    @property
    def remedies(self) -> tuple[str, ...]:
        """Return what would end the wait, in plain text."""
        return tuple(self.helps.replace("`", "").split("; "))


REASONS: Final = (
    Reason("held", "until it is released", "held until it is released", "`headway release JOB`"),
    Reason("dependency", "waits for another job", "waits for another job", "the jobs that it follows end"),
    Reason(
        "array_limit",
        "its array is at its limit",
        "its array runs as many as it may",
        "a task of the array ends; a higher limit after `%`",
    ),
    Reason("gpus", "too few are free", "waits for GPUs", "a job with GPUs ends", idle="too few for the waiting jobs"),
    Reason(
        "fragmentation",
        "free, but not together",
        "GPUs are free, but not together",
        "a job on a partly used node ends; smaller jobs migrate",
        idle="not together",
    ),
    Reason(
        "isolation",
        "no links for it alone",
        "GPUs are free, but no links of its own",
        "a job with links ends; `isolation: none` in its job file",
    ),
    Reason(
        "min_runtime",
        "others have minimum run times",
        "others finish their minimum run time first",
        "a minimum run time ends (`min_runtimes` in the JSON)",
    ),
    Reason(
        "backfill_reservation",
        "kept for a job before it",
        "GPUs are kept for a job before it",
        "that job starts; a time limit by which this job is gone in time",
        idle="kept for a job that comes first",
    ),
    Reason(
        "preempted",
        "made room for another",
        "gave way to another job",
        "a job with GPUs ends",
        idle="too few for the waiting jobs",
    ),
    Reason(
        "stopping",
        "others are stopping",
        "GPUs are being freed for it",
        "the jobs that stop have saved",
        in_receipt="it was saving, or others that made room for it",
    ),
    Reason(
        "node_down",
        "too few nodes take jobs",
        "nodes are drained, down or gone",
        "`headway nodes resume NODE`; room on a full disk; a larger cluster",
    ),
    Reason("retry_backoff", "tried again soon", "pauses before it is tried again", "the pause after a failure ends"),
    Reason(
        "quota",
        "a limit of its queue",
        "over its quota",
        "a job of its queue or user ends; a higher limit of the queue",
    ),
    Reason(
        "advance_reservation",
        "nodes kept for another queue",
        "nodes are kept for another queue",
        "the reservation ends; a time limit by which the job is gone before it",
        idle="kept for a queue",
    ),
    Reason(
        "notice",
        "borrowers return its GPUs",
        "borrowed GPUs are being returned to it",
        "the borrowers end or checkpoint earlier (`notices` in the JSON)",
    ),
)
CODES: Final = tuple(reason.code for reason in REASONS)
BY_CODE: Final = {reason.code: reason for reason in REASONS}
HOLDS: Final = {  # what ends a job's hold on GPUs that another job waits for, or why the end is not known
    "time_limit": "its time limit is over",
    "min_runtime": "its minimum run time is over and it has checkpointed",
    "notice": "its notice is over and it has checkpointed",
    "first_step": "it has reported a step (or its start has taken too long) and has checkpointed",
    "not_preemptible": "no time limit, cannot be preempted",
    "comes_first": "no time limit, comes first",
}


def short_text(code: str) -> str:
    """Return a reason in a few words; empty: the code is not in the list."""
    return BY_CODE[code].short if code in BY_CODE else ""


def receipt_text(code: str) -> str:
    """Return what a receipt counts under a reason; empty: the code is not in the list."""
    return (BY_CODE[code].in_receipt or BY_CODE[code].short) if code in BY_CODE else ""


def table() -> list[str]:
    """Return the table of reasons in Markdown, line by line, for docs/live.md."""
    rows = [f"| `{reason.code}` | {reason.long} | {reason.helps} |" for reason in REASONS]
    return ["| reason | meaning | what would help |", "|---|---|---|", *rows]
