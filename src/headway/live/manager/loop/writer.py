"""Writes rounds to the journal. While the journal refuses, no effect is performed: rows wait, and `headway health` says so."""

import contextlib
import threading
from collections.abc import Callable
from time import perf_counter

from headway.live.errors import JournalFailed
from headway.live.manager.disk import Disk
from headway.live.manager.loop.recorder import JournalRound
from headway.live.measures import Measures
from headway.live.state.cluster import ClusterState
from headway.live.state.records import JournalRow
from headway.live.store.journal import Journal
from headway.live.store.snapshot import capture
from headway.live.store.snapshot_table import insert_snapshot


class RoundWriter:
    """Appends the rows of each round in one transaction."""

    def __init__(
        self, journal: Journal, measures: Measures, disk: Disk | None, last_seq: int, snapshot_seq: int
    ) -> None:
        self.journal, self.measures, self.disk = journal, measures, disk
        self.last_seq, self.snapshot_seq = (
            last_seq,
            snapshot_seq,
        )  # the last row, and the last row that a snapshot covers
        self.trouble = ""  # why the last round cannot be written
        self.committed = threading.Condition()  # notified after every round
        self.on_commit: Callable[[list[JournalRow]], None] = lambda rows: None  # called with the rows that were written

    def write(self, current: JournalRound, refused: Callable[[JournalFailed], bool]) -> bool:
        """Write a round and return True. If the journal refuses, call `refused`, which returns whether to try again."""
        snapshot = current.snapshot() if current.snapshot else None
        rows, written = current.journal_rows(), not current.rows
        while not written:
            began = perf_counter()
            try:
                self.last_seq = self.journal.append(rows, current.finished, snapshot)
                written = True
            except JournalFailed as error:
                snapshot = None  # without the snapshot the rows may fit; a later round takes another one
                self.trouble = str(error)
                if self.disk is not None:
                    self.disk.give_up_reserve()
                if not refused(error):
                    return False
            else:
                self.snapshot_seq = self.last_seq if snapshot else self.snapshot_seq
                self.on_commit(rows)
                self.measures.commits.add(perf_counter() - began)
        self.trouble = ""
        with self.committed:
            self.committed.notify_all()
        return True

    def save(self, state: ClusterState) -> None:
        """Write a snapshot, so that the next manager starts quickly."""
        if self.last_seq == self.snapshot_seq:
            return
        with contextlib.suppress(JournalFailed):
            snapshot, seq = capture(state)(), self.last_seq
            self.journal.commit(lambda connection: insert_snapshot(connection, seq, snapshot))
