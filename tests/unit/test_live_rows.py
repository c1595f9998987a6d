"""One table says what a journal row means: the webhook, the trend and the timeline of a job agree."""

from typing import Any

import pytest

from headway.job_state import JobState
from headway.live.notify.webhook import event_of, state_of
from headway.live.queries.story import tell
from headway.live.queries.trend import Fold, TrendRow
from headway.live.rows import ENGINE_KINDS, ROWS, WITH_GPUS, Blocker, row_meaning
from headway.live.state.records import JournalRow

HELD, DEPENDENCY = int(Blocker.HELD), int(Blocker.DEPENDENCY)
ENDED = {"state": "FAILED", "exit_code": 1}


def sent(kind: str, **data: Any) -> tuple[str, str]:
    row = JournalRow(1.0, kind, 1, 1, data)
    state = state_of(row)
    return state, event_of(row, state) if state else ""


def told(*rows: tuple[float, str, dict[str, Any]]) -> tuple[list[tuple[str, str]], list[str]]:
    """The phases (kind, why) and the marks of a job."""
    phases, marks = tell([(at, kind, 1, data) for at, kind, data in rows], 0.0, ["node1"])
    return [(phase.kind, phase.why) for phase in phases], [mark.words for mark in marks]


def test_a_resized_job_is_sent_to_the_webhook() -> None:
    assert sent("Resize") == ("STOPPING", "Resize")
    assert sent("Migrate") == ("STOPPING", "Migrate")


def test_a_hold_of_a_job_with_a_dependency_is_marked_as_a_hold() -> None:
    both = {"blockers": HELD | DEPENDENCY, "before": DEPENDENCY}
    rows = (
        (0.0, "Submitted", {}),
        (0.0, "Held", {"blockers": DEPENDENCY, "before": 0}),
        (1.0, "Blocked", both),
        (2.0, "Blocked", {"blockers": DEPENDENCY, "before": HELD | DEPENDENCY}),
    )
    assert told(*rows)[1] == ["submitted", "waits for another job", "held", "released"]
    assert sent("Blocked", **both) == ("HELD", "Held")


def test_a_cancelled_job_that_was_being_preempted_is_shown_as_cancelled() -> None:
    rows = ((0.0, "Submitted", {}), (0.0, "Start", {}), (1.0, "Started", {}), (5.0, "Stop", {}))
    phases, marks = told(*rows, (6.0, "Asked", {"why": "cancel"}))
    assert phases[-2:] == [("stopping", "preempted"), ("stopping", "cancelled")]
    assert marks[-2:] == ["preempted", "cancelled"]


@pytest.mark.parametrize("kind", ROWS)
def test_the_state_the_segment_and_the_trend_agree(kind: str) -> None:
    data = ENDED if kind == "Ended" else {}
    meaning = row_meaning(kind, data)
    assert kind in ENGINE_KINDS
    assert meaning.state is not None
    assert meaning.state.has_processes == (meaning.segment in WITH_GPUS)
    assert meaning.state.final == (meaning.segment == "")
    assert sent(kind, **data)[0] == meaning.state.name
    fold, row = Fold(), TrendRow(1, 1.0, kind, 1, data)
    fold.begin(0.0, [row], {}, {1: 2})
    fold.take(row)
    assert (1 in fold.gpus_of) == meaning.state.has_processes
    assert (1 in fold.waits) == (meaning.state == JobState.PENDING)
