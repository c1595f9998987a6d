"""The trend is folded from the journal: what was before the first row follows from the rows, and a mean is a mean."""

import sqlite3

import numpy as np
import pytest

from headway.live.queries.trend import Fold, TrendRow, first_after, means
from headway.live.store.integrity.checksum import insertion, sealed
from headway.live.store.integrity.schema import prepare


def row(seq: int, time: float, kind: str, job: int, **data: object) -> TrendRow:
    return TrendRow(seq, time, kind, job, data)


ROWS = [
    row(1, 10.0, "Submitted", 1),
    row(2, 10.0, "Start", 1, places=[[0, 2]]),
    row(3, 20.0, "Submitted", 2),
    row(4, 30.0, "Stop", 1),
    row(5, 32.0, "Stopped", 1),
    row(6, 32.0, "Start", 2, places=[[0, 2]]),
    row(7, 40.0, "Ended", 2, state="COMPLETED", exit_code=0),
    row(8, 40.0, "Start", 1, places=[[0, 2]]),
    row(9, 60.0, "Ended", 1, state="FAILED", exit_code=1),
]


def folded(rows: list[TrendRow], at: float, active: dict[int, tuple[str, int]] | None = None) -> Fold:
    fold = Fold()
    fold.begin(at, rows, active or {}, {1: 2, 2: 2})
    for each in rows:
        fold.take(each)
    return fold


def test_means_are_exact() -> None:
    found = means(np.array([0.0, 10.0, 15.0]), np.array([0.0, 4.0, 2.0]), np.array([0.0, 10.0, 20.0, 30.0]))
    assert found.tolist() == [0.0, 3.0, 2.0]


def test_a_whole_life() -> None:
    trend = folded(ROWS, 0.0).trend(0.0, 60.0, 6, gpus=4)
    assert trend.utilisation == (0.0, 0.5, 0.5, 0.5, 0.5, 0.5)
    assert trend.running == (0.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert trend.waiting == (0.0, 0.0, 1.0, 1.0, 0.0, 0.0)
    assert trend.completed == (0, 0, 0, 0, 1, 0)
    assert trend.failed == (0, 0, 0, 0, 0, 1)


@pytest.mark.parametrize("cut", [i for i in range(1, len(ROWS)) if ROWS[i].time > ROWS[i - 1].time])
def test_beginning_later_gives_the_same_from_there_on(cut: int) -> None:
    """What a job did before the first row is known from the row itself, or from what it does now."""
    first = (ROWS[cut - 1].time + ROWS[cut].time) / 2
    whole, part = folded(ROWS, 0.0), folded(ROWS[cut:], first)
    assert part.trend(first, 60.0, 5, 4) == whole.trend(first, 60.0, 5, 4)


def test_jobs_without_rows_count_as_they_are_now() -> None:
    fold = folded(ROWS[2:3], 20.0, {7: ("runs", 3), 8: ("waits", 1), 2: ("waits", 2)})
    trend = fold.trend(20.0, 30.0, 1, gpus=4)
    assert (trend.utilisation, trend.running, trend.waiting) == ((0.75,), (1.0,), (2.0,))


def test_a_job_cancelled_while_it_waited_never_ran() -> None:
    fold = folded([row(1, 5.0, "Ended", 3, state="CANCELLED", message="cancelled")], 0.0)
    trend = fold.trend(0.0, 10.0, 2, gpus=4)
    assert trend.waiting == (1.0, 0.0)
    assert trend.running == (0.0, 0.0)


def test_what_is_old_is_forgotten_but_for_its_last_value() -> None:
    fold = folded(ROWS, 0.0)
    before = fold.trend(35.0, 60.0, 5, 4)
    fold.forget(35.0)
    assert fold.times[0] <= 35.0
    assert len(fold.times) < len(ROWS)
    assert fold.trend(35.0, 60.0, 5, 4) == before


def test_the_first_row_after_a_time_is_found_by_halving() -> None:
    file = sqlite3.connect(":memory:", isolation_level=None)
    prepare(file)
    assert first_after(file, 1.0) <= 1
    for seq in range(3, 40):
        file.execute(insertion("events"), sealed("events", (seq, float(seq // 3), "Start", 1, 1, "{}")))
    for time in (0.0, 1.0, 4.0, 4.5, 12.9):
        assert first_after(file, time) == min(seq for seq in range(3, 40) if seq // 3 >= time)
    assert first_after(file, 99.0) == 40
