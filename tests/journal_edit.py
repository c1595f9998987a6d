"""Journals for tests: changed by hand, and in the format of earlier versions."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headway.live.store.integrity.checksum import WIDTHS, checksum
from headway.live.store.integrity.schema import SCHEMA


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


def without_checksums(data: Path) -> None:
    """Turn a journal into one of the versions before checksums."""
    with contextlib.closing(sqlite3.connect(data / "journal.db")) as file:
        for (name,) in file.execute("SELECT name FROM sqlite_master WHERE name LIKE 'finished_by%'").fetchall():
            file.execute(f"DROP INDEX {name}")
        for statement in SCHEMA:
            kind, name = statement.split()[1:3]
            if kind == "TABLE":
                names = [column for _, column, *_ in file.execute(f"PRAGMA table_info({name})")][:-1]
                file.execute(f"ALTER TABLE {name} RENAME TO later_{name}")
                file.execute(statement.replace("checksum INTEGER NOT NULL, PRIMARY", "PRIMARY"))
                if name != "keys":
                    file.execute(f"ALTER TABLE {name} DROP COLUMN checksum")
                file.execute(f"INSERT INTO {name} SELECT {', '.join(names)} FROM later_{name}")
                file.execute(f"DROP TABLE later_{name}")
            else:
                file.execute(statement)
        file.execute("PRAGMA user_version = 0")
        file.commit()
