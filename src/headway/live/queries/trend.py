"""The trend: GPUs in use, running, waiting and ended jobs over time, computed from the journal's rows.

The journal is read once for the last day and then goes on from where it was. What was true before the first row that is read follows from
those rows (a job that stops was running) and, for jobs without any, from what is true now.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.job_state import JobState
from headway.live.queries.answers import Trend
from headway.live.rows import OVER, ROWS, STARTING, WAITING, WITH_GPUS, row_meaning, segment_before
from headway.live.state.cluster import ClusterState
from headway.live.store.integrity.checksum import verified
from headway.live.store.journal import Journal

KEPT_S = 86_400.0
MOST_ROWS = 400_000  # of one reading: what is older is left out
TRIES, PAUSE_S = 50, 0.01
RUNS, WAITS = "runs", "waits"
Active = Mapping[int, tuple[str, int]]  # what each job of now does, and its GPUs
SQL = f"SELECT * FROM events WHERE seq > ? AND kind IN ({', '.join('?' * len(ROWS))}) ORDER BY seq"


def _what(segment: str) -> str:
    """Return RUNS if a job in this segment has GPUs, WAITS if it waits, or an empty text."""
    return RUNS if segment in WITH_GPUS else WAITS if segment == WAITING else ""


@dataclass(frozen=True, slots=True)
class TrendRow:
    """One row of the journal, as far as it matters here."""

    seq: int
    time: float
    kind: str
    job: int
    data: Mapping[str, Any]

    @property
    def gpus(self) -> int:
        """Return the GPUs that a start takes."""
        return sum(int(gpus) for _, gpus in self.data.get("places", ()))

    @property
    def before(self) -> str:
        """Return what the job did before the row."""
        return _what(segment_before(self.kind, self.data))


@dataclass(slots=True)
class Fold:
    """Step functions of time: each list has a value for every moment in `times`, which holds from then on."""

    gpus_of: dict[int, int] = field(default_factory=dict)  # by job that runs
    waits: set[int] = field(default_factory=set)
    times: list[float] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    ended: list[tuple[float, bool]] = field(default_factory=list)
    in_use: int = 0

    def begin(self, at: float, rows: Iterable[TrendRow], active: Active, sizes: Mapping[int, int]) -> None:
        """Set the state before these rows; `active`: what the jobs of now do, and their GPUs; `sizes`: GPUs of the jobs of all rows."""
        first: dict[int, TrendRow] = {}
        for row in rows:
            first.setdefault(row.job, row)
        did = {job: row.before for job, row in first.items()}
        did |= {job: what for job, (what, _) in active.items() if job not in first}
        for job, what in did.items():
            self._change(job, what, active[job][1] if job in active else sizes.get(job, 0))
        self._note(at)

    def take(self, row: TrendRow) -> None:
        """Add one row."""
        if row.kind == "Ended":
            self.ended.append((row.time, row.data.get("state") == JobState.COMPLETED.name))
        segment = row_meaning(row.kind, row.data).segment
        if segment in (STARTING, WAITING, OVER):  # in others the job keeps its GPUs
            self._change(row.job, _what(segment), row.gpus)
            self._note(row.time)

    def _change(self, job: int, what: str, gpus: int) -> None:
        self.waits.discard(job)
        self.in_use -= self.gpus_of.pop(job, 0)
        if what == WAITS:
            self.waits.add(job)
        elif what == RUNS:
            self.gpus_of[job] = gpus
            self.in_use += gpus

    def _note(self, at: float) -> None:
        for values, value in (
            (self.times, at),
            (self.busy, self.in_use),
            (self.running, len(self.gpus_of)),
            (self.waiting, len(self.waits)),
        ):
            values.append(value)  # type: ignore[arg-type]

    def forget(self, before: float) -> None:
        """Drop what is older, but for the values at that time."""
        drop = int(np.searchsorted(self.times, before, side="right")) - 1
        if drop > len(self.times) // 2:
            for values in (self.times, self.busy, self.running, self.waiting):
                del values[:drop]
            self.ended = [end for end in self.ended if end[0] >= before]

    def trend(self, first: float, last: float, steps: int, gpus: int) -> Trend:
        """Return the trend in equal steps, from the first known time at the earliest."""
        first = min(max(first, self.times[0]), last - 1e-3)
        edges = np.linspace(first, last, steps + 1)
        times = np.array(self.times)
        busy, running, waiting = (
            means(times, np.array(v, float), edges) for v in (self.busy, self.running, self.waiting)
        )
        done = [np.histogram([at for at, ok in self.ended if ok == good], edges)[0] for good in (True, False)]
        return Trend(
            first,
            last,
            (last - first) / steps,
            tuple(np.minimum(busy / gpus, 1.0).round(4).tolist()),
            tuple(running.round(3).tolist()),
            tuple(waiting.round(3).tolist()),
            tuple(done[0].tolist()),
            tuple(done[1].tolist()),
        )


def means(times: NDArray[Any], values: NDArray[Any], edges: NDArray[Any]) -> NDArray[Any]:
    """Return the mean between each two edges of a quantity that has `values[i]` from `times[i]` on."""
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    at = np.clip(np.searchsorted(times, edges, side="right") - 1, 0, None)
    total = area[at] + values[at] * np.maximum(edges - times[at], 0.0)
    return np.asarray(np.diff(total) / np.diff(edges))


class Watch:
    """The trend of a journal, which catches up with it whenever it is asked.

    `look` returns what the jobs of now do, and whether the journal has all of that.
    """

    def __init__(self, journal: Journal, look: Callable[[], tuple[Active, bool]]) -> None:
        self.journal, self.look, self.seq = journal, look, -1
        self.fold = Fold()
        self._lock = threading.Lock()

    def trend(self, now: float, last_s: float, steps: int, gpus: int) -> Trend:
        """Return the trend of the last `last_s` seconds on a cluster with this many GPUs."""
        with self._lock:
            if self.seq < 0:
                self._begin(now)
            else:
                self._read(self.seq)
            self.fold.forget(now - KEPT_S)
            return self.fold.trend(now - last_s, now, steps, gpus)

    def _begin(self, now: float) -> None:
        active = self._settled()
        low = self.journal.read(lambda file: first_after(file, now - KEPT_S))
        rows = self.journal.read(lambda file: read(file, low - 1))
        first = rows[0].time if rows else now
        sizes = self.journal.read(lambda file: _sizes(file, {row.job for row in rows}))
        self.fold.begin(min(first, now), rows, active, sizes)
        for row in rows:
            self.fold.take(row)
        self.seq = rows[-1].seq if rows else low - 1

    def _settled(self) -> Active:
        """Return what the jobs of now do, when the journal has all of it; the rows that follow are read then."""
        for _ in range(TRIES):
            active, written = self.look()
            if written:
                break
            time.sleep(PAUSE_S)
        return active

    def _read(self, after: int) -> None:
        for row in self.journal.read(lambda file: read(file, after)):
            self.fold.take(row)
            self.seq = row.seq


def active_now(state: ClusterState) -> Active:
    """Return what the jobs that have not ended do, with their GPUs."""
    jobs = [(job, state.job_state(job).has_processes) for job in state.active_jobs() if job.known]
    return {job.id: (RUNS if runs else WAITS, job.spec.gpus) for job, runs in jobs}


def _sizes(file: sqlite3.Connection, jobs: set[int]) -> dict[int, int]:
    """Return the GPUs of jobs that have ended, by number."""
    rows = file.execute("SELECT * FROM finished WHERE job >= ?", [min(jobs, default=0)])
    return {row[0]: int(verified("finished", row)[9]) for row in rows if row[0] in jobs}


def first_after(file: sqlite3.Connection, time_s: float) -> int:
    """Return the number of the first row at or after a time, by bisection: times rise with numbers."""
    low, high = (int(bound or 0) for bound in file.execute("SELECT min(seq), max(seq) FROM events").fetchone())
    high += 1
    while low < high:
        middle = (low + high) // 2
        row = file.execute("SELECT * FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", [middle]).fetchone()
        low, high = (middle + 1, high) if row and verified("events", row)[1] < time_s else (low, middle)
    return low


def read(file: sqlite3.Connection, after: int) -> list[TrendRow]:
    """Return the rows after a number that change the trend, at most the newest MOST_ROWS."""
    last = int(file.execute("SELECT max(seq) FROM events").fetchone()[0] or 0)
    stored = file.execute(SQL, [max(after, last - MOST_ROWS), *ROWS])
    rows = (verified("events", row) for row in stored)
    return [TrendRow(seq, at, kind, job, json.loads(data)) for seq, at, kind, job, _, data in rows]
