"""Journals for tests, changed by hand."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headway.live.store.integrity.checksum import WIDTHS, checksum


@contextlib.contextmanager
def edited(data: Path) -> Iterator[sqlite3.Connection]:
    """A connection to change the journal of a stopped manager; afterwards the checksums of all rows are right."""
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as file:
        yield file
        for table in WIDTHS:
            file.create_function("checksum", -1, lambda *values, table=table: checksum(table, values))
            names = [name for _, name, *_ in file.execute(f"PRAGMA table_info({table})")][:-1]
            file.execute(f"UPDATE {table} SET checksum = checksum({', '.join(names)})")
        file.commit()


def ended_rows(data: Path) -> list[tuple[int, str]]:
    """Return number and state of the jobs in the table of finished jobs, the newest first."""
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as file:
        return file.execute("SELECT job, state FROM finished ORDER BY job DESC").fetchall()
