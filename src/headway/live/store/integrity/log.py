"""The write-ahead log of the journal (`journal.db-wal`), read without SQLite.

SQLite takes the first frame with a wrong checksum for the end of the log, and deletes the log when it closes the database. One flipped
bit would drop every later commit, though these were acknowledged. The format: https://sqlite.org/fileformat.html#the_write_ahead_log
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HEADER, FRAME_HEADER = 32, 24
# The magic number of a log whose checksums read big-endian words; 0x377F0682: little-endian.
BIG_ENDIAN: Final = 0x377F0683
PAGE_SIZES: Final = tuple(1 << power for power in range(9, 17))
MOST_LOGS: Final = 1 << 16  # earlier logs whose frames may be left at the end of the file
AT_ONCE: Final = 1000  # frames whose checksums are computed together
PAGE_BYTES: Final = 4096  # SQLite's default
Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class LogFrame:
    """A page as a commit wrote it. The number of a page is not reliable if the frame is not intact."""

    page: int
    image: bytes
    intact: bool


@dataclass(frozen=True, slots=True)
class Log:
    """The frames of the log up to its last commit, the oldest first, and what is wrong with it (empty: nothing)."""

    frames: tuple[LogFrame, ...] = ()
    damage: str = ""
    page_bytes: int = PAGE_BYTES


def read_log(path: Path, with_frames: bool = False) -> Log:
    """Check the log beside a database, and return its frames if they are needed.

    A log that ends within a frame, or in frames of an earlier log, is intact: power was cut, or the log was begun anew.
    """
    try:
        raw = path.with_name(f"{path.name}-wal").read_bytes()
    except FileNotFoundError:
        return Log()
    if len(raw) < HEADER + FRAME_HEADER:
        return Log()
    header = np.frombuffer(raw, ">u4", 8)
    order = ">u4" if int(header[0]) == BIG_ENDIAN else "<u4"
    sums = _sums(np.frombuffer(raw, order, 6).reshape(1, 6), np.zeros((1, 2), np.uint32))
    header_intact = bool((sums[0] == header[6:]).all())
    size = int(header[2]) if int(header[2]) in PAGE_SIZES else PAGE_BYTES
    count = (len(raw) - HEADER) // (FRAME_HEADER + size)
    if not count:
        return Log(page_bytes=size)
    table = np.frombuffer(raw, np.uint8, count * (FRAME_HEADER + size), HEADER).reshape(count, FRAME_HEADER + size)
    heads = np.ascontiguousarray(table[:, :FRAME_HEADER]).view(">u4")
    salts = header[4:6] if header_intact else heads[0, 2:4]
    # The number of logs begun since: each adds one to the first salt.
    age = (int(salts[0]) - heads[:, 2].astype(np.int64)) % (1 << 32)
    own = (age == 0) | (age > MOST_LOGS) | (heads[:, 3] == salts[1])
    good = _intact_frames(table, heads, header[6:], order) & (heads[:, 2:4] == salts).all(axis=1)
    first_bad = int(np.argmin(good)) if not good.all() else count
    belonging = np.flatnonzero(own)
    if header_intact and not (belonging >= first_bad).any():
        last = _last_commit(heads[:first_bad])
        damage = ""
    else:
        end = int(belonging[-1]) + 1 if len(belonging) else 0
        last = _last_commit(heads[:end])
        last = end if not good[last:end].all() else last  # the mark of the last commit may be what was damaged
        where = f"frame {first_bad + 1} of {end}" if header_intact else "its header"
        damage = f"{where} of the write-ahead log {path.name}-wal fails its checksum"
    rows = [i for i in range(last) if own[i]]
    frames = (LogFrame(int(heads[i, 0]), table[i, FRAME_HEADER:].tobytes(), bool(good[i])) for i in rows)
    return Log(tuple(frames) if with_frames else (), damage, size)


def _last_commit(heads: NDArray[Any]) -> int:
    """Return the number of frames up to the last commit."""
    commits = np.flatnonzero(heads[:, 1])
    return int(commits[-1]) + 1 if len(commits) else 0


def _intact_frames(table: NDArray[np.uint8], heads: NDArray[Any], seed: NDArray[Any], order: str) -> NDArray[np.bool_]:
    """Return for every frame whether its checksum follows from the frame and the checksum stored before it."""
    stored = heads[:, 4:6].astype(np.uint32)
    before = np.vstack([seed.astype(np.uint32).reshape(1, 2), stored[:-1]])
    parts = []
    for begin in range(0, len(table), AT_ONCE):
        some = table[begin : begin + AT_ONCE]
        words = np.ascontiguousarray(np.hstack([some[:, :8], some[:, FRAME_HEADER:]])).view(order)
        parts.append((_sums(words, before[begin : begin + AT_ONCE]) == stored[begin : begin + AT_ONCE]).all(axis=1))
    return np.concatenate(parts)


def _sums(words: NDArray[Any], before: Words) -> Words:
    """Return SQLite's checksum of each row of words, each continued from a checksum.

    A step takes two words x, y: a += x + b, then b += y + a (modulo 2^32). It is linear, so all steps are one sum with constant weights.
    """
    x, weights = words[:, 0::2].astype(np.uint32), _weights(words.shape[1] // 2)
    both = x + words[:, 1::2].astype(np.uint32)
    columns = [
        before[:, 0] * weights[0, row, 0]
        + before[:, 1] * weights[0, row, 1]
        + (x * weights[1:, row, 0]).sum(axis=1, dtype=np.uint32)
        + (both * weights[1:, row, 1]).sum(axis=1, dtype=np.uint32)
        for row in (0, 1)
    ]
    return np.stack(columns, axis=1)


@cache
def _weights(steps: int) -> Words:
    """Return the powers of the matrix of one step (1 1; 1 2): number `steps` first, 0 last."""
    powers = np.zeros((steps + 1, 2, 2), np.uint32)
    powers[steps] = np.eye(2, dtype=np.uint32)
    step = np.array([[1, 1], [1, 2]], np.uint32)
    for i in range(steps - 1, -1, -1):
        powers[i] = powers[i + 1] @ step
    return powers
