"""Read the rows of a journal from the pages of its file, without SQLite, even if its b-trees are broken.

A row is recognised by its checksum, which includes the name of its table. The format: https://sqlite.org/fileformat.html
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headway.live.store.integrity.checksum import WIDTHS, intact
from headway.live.store.integrity.log import PAGE_SIZES, Log, LogFrame

TABLE_LEAF, TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR = 13, 5, 10, 2
NO_ROWS: Final = (0, TABLE_INTERIOR)  # first bytes of pages that hold no row; 0: the rest of a long row, or a free page
MOST_SEARCHED: Final = 1000  # pages in which a row is searched at every byte: each takes some 20 ms
# Tables by the number of columns with the checksum; `keys` is stored like an index.
IN_TABLES: Final = {
    n: [t for t in WIDTHS if WIDTHS[t] + 1 == n and t != "keys"] for n in {w + 1 for w in WIDTHS.values()}
}
IN_INDEXES: Final = {WIDTHS["keys"] + 1: ["keys"]}
MOST_COLUMNS: Final = max(WIDTHS.values()) + 1
INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes by serial type
Row = tuple[str, tuple[Any, ...]]  # a table's name and its columns with the checksum


@dataclass(slots=True)
class Scan:
    """All rows that can be read, newest version first: pages of the log, the last commit first, then pages of the file."""

    path: Path
    log: Log
    size: int = 0
    searched: int = 0
    _images: dict[int, list[bytes]] = field(default_factory=dict)  # by page, of the log, the newest first

    def rows(self) -> Iterator[Row]:
        """Yield the rows; a table and key may occur again in older versions."""
        late: list[Row] = []  # found at places that the page does not name: perhaps an old version
        with open(self.path, "rb") as file:
            header = file.read(100)
            size = int.from_bytes(header[16:18], "big")
            self.size = self.log.page_bytes if self.log.frames or size not in PAGE_SIZES else size
            for frame in reversed(self.log.frames):
                self._images.setdefault(frame.page, []).append(frame.image)

            def page(number: int) -> bytes:
                if number in self._images:
                    return self._images[number][0]
                file.seek((number - 1) * self.size)
                return file.read(self.size)

            clean: set[int] = set()
            for frame in reversed(self.log.frames):
                if frame.page not in clean:
                    yield from self._scan(frame, page, clean, late)
            file.seek(0, 2)
            for number in range(1, file.tell() // self.size + 1):
                if number not in clean:
                    file.seek((number - 1) * self.size)
                    yield from self._scan(LogFrame(number, file.read(self.size), True), page, clean, late)
        yield from late

    def _scan(self, frame: LogFrame, page: Callable[[int], bytes], clean: set[int], late: list[Row]) -> Iterator[Row]:
        """Yield the rows of one page. It is clean if all of them can be read; otherwise older versions of it are read too."""
        image, begin = frame.image, 100 if frame.page == 1 else 0
        kind, problems = image[begin], 0
        if kind in NO_ROWS:
            clean |= {frame.page} if frame.intact else set()
            return
        if kind in (TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR):
            tables = IN_TABLES if kind == TABLE_LEAF else IN_INDEXES
            first = begin + (12 if kind == INDEX_INTERIOR else 8)
            for i in range(int.from_bytes(image[begin + 3 : begin + 5], "big")):
                at = int.from_bytes(image[first + 2 * i : first + 2 * i + 2], "big")
                values = cell(image, at + (4 if kind == INDEX_INTERIOR else 0), kind == TABLE_LEAF, page)
                if values is not None and (row := identified(values, tables)):
                    yield row
                else:
                    problems += values is None or len(values) in tables
        else:
            problems = 1
        if not problems and frame.intact:
            clean.add(frame.page)
        elif self.searched < MOST_SEARCHED:
            self.searched += 1
            for at in range(len(image) - 4):
                for in_table, tables in ((True, IN_TABLES), (False, IN_INDEXES)):
                    values = cell(image, at, in_table, page)
                    if values is not None and (row := identified(values, tables)):
                        late.append(row)


def identified(values: tuple[Any, ...], tables: dict[int, list[str]]) -> Row | None:
    """Return the row with the name of the table whose checksum it has."""
    return next(((table, values) for table in tables.get(len(values), ()) if intact(table, values)), None)


def cell(image: bytes, at: int, in_table: bool, page: Callable[[int], bytes]) -> tuple[Any, ...] | None:
    """Return the columns of the row that begins at a byte of a page; None if no row does. The row's number replaces a first NULL."""
    try:
        length, at = varint(image, at)
        number, at = varint(image, at) if in_table else (0, at)
        header, types, end = image[at], list[int](), at + 1
        if not 3 < header < min(length, 0x80):
            return None
        while end < at + header:
            kind, end = varint(image, end)
            types.append(kind)
        sizes = [INTEGERS.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0) for kind in types]
        if end != at + header or len(types) > MOST_COLUMNS or header + sum(sizes) != length:
            return None
        payload = _payload(image, at, length, in_table, page)
        return _columns(payload, header, types, sizes, number if in_table else None)
    except (IndexError, ValueError, struct.error):
        return None


def _columns(
    payload: bytes, at: int, types: Sequence[int], sizes: Sequence[int], number: int | None
) -> tuple[Any, ...]:
    values: list[Any] = []
    for kind, size in zip(types, sizes, strict=True):
        part = payload[at : at + size]
        at += size
        if kind in INTEGERS:
            values.append(int.from_bytes(part, "big", signed=True))
        elif kind == 7:
            values.append(struct.unpack(">d", part)[0])
        elif kind >= 12:
            values.append(part.decode() if kind % 2 else part)
        else:
            values.append({8: 0, 9: 1}.get(kind))
    if number is not None and values[0] is None:
        values[0] = number
    return tuple(values)


def _payload(image: bytes, at: int, length: int, in_table: bool, page: Callable[[int], bytes]) -> bytes:
    """Return the bytes of a row. A long row continues in a chain of overflow pages."""
    size = len(image)
    most = size - 35 if in_table else (size - 12) * 64 // 255 - 23
    if length <= most:
        if at + length > size:
            raise ValueError("beyond the page")
        return image[at : at + length]
    least = (size - 12) * 32 // 255 - 23
    local = least + (length - least) % (size - 4)
    local = local if local <= most else least
    parts, following = [image[at : at + local]], int.from_bytes(image[at + local : at + local + 4], "big")
    missing = length - local
    while missing > 0:
        rest = page(following) if following else b""
        if len(rest) != size:
            raise ValueError("the chain is broken")
        parts.append(rest[4 : 4 + missing])
        following, missing = int.from_bytes(rest[:4], "big"), missing - (size - 4)
    return b"".join(parts)


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the value of SQLite's variable-length integer, and the position after it."""
    value = 0
    for i in range(9):
        byte = raw[at + i]
        if i == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError("unreachable")
