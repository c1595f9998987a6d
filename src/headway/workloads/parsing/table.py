"""A delimited file as columns: read in blocks, converted column by column; an error names file, line and column."""

import contextlib
import csv
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.workloads.parsing.source import Source
from headway.workloads.parsing.times import ABSENT, time_s, times_s

# Small blocks stay in the processor's cache: blocks of 4,096 rows are read 1.4 times as fast as blocks of 65,536.
BLOCK_ROWS = 4096
COMMENT = ";"
# What no job of any trace exceeds: larger values are mistakes, and the engine could not store them.
# More than the processors of any machine; the job table holds 32-bit numbers.
MOST_GPUS = 10_000_000


def plain(value: float) -> float | int:
    """A number as a person would write it: -1, not -1.0."""
    return int(value) if value % 1 == 0 else float(value)


def wrong_gpus(values: NDArray[np.float64]) -> tuple[int, str] | None:
    """The first row with a fraction of a GPU or too many GPUs, and what is wrong with it; absent values are not wrong."""
    known = np.nan_to_num(values)
    wrong = (known % 1 != 0) | (known > MOST_GPUS)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    what = f"is more than {MOST_GPUS:,} GPUs" if known[row] > MOST_GPUS else "is not a whole number of GPUs"
    return row, f"{plain(known[row])!r} {what}"


def _digits_only(values: Iterable[str]) -> bool:
    """Whether the numbers are in plain digits: Python also reads 1_0 and the digits of other scripts."""
    text = "".join(values)
    return text.isascii() and "_" not in text


def _number(text: str) -> float:
    if not _digits_only(text):
        raise ValueError(text)
    return float(text)


class Columns:
    """The header of a delimited file, and its columns on demand; `header` is given for files that have none."""

    def __init__(self, source: Source, header: Sequence[str] | None = None, delimiter: str = ",") -> None:
        self.source = source
        self.delimiter = delimiter
        self.headless = header is not None
        self.header = list(header or map(str.strip, next(self._filled(self._csv()), [])))

    def _csv(self) -> Any:
        if self.delimiter == ",":
            return csv.reader(io.StringIO(self.source.text, newline=""), skipinitialspace=True)
        blanks = self.delimiter == " "
        # Only comma-separated files quote; a run of blanks counts as one, and a tab is a blank.
        lines = io.StringIO(self.source.text.replace("\t", " ") if blanks else self.source.text, newline="")
        return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE, skipinitialspace=blanks)

    def _filled(self, reader: Iterable[list[str]]) -> Iterator[list[str]]:
        """The rows without blank lines and comments (of the Standard Workload Format)."""
        if self.delimiter != " ":
            return (row for row in reader if len(row) > 1 or (row and row[0].strip()))
        bare = (row[:-1] if row and row[-1] == "" else row for row in reader)
        return (row for row in bare if row and not row[0].startswith(COMMENT))

    def _rows(self, reader: Iterable[list[str]]) -> Iterator[list[str]]:
        """The data rows, without the header."""
        rows = self._filled(reader)
        if not self.headless:
            next(rows, None)
        return rows

    def line(self, row: int) -> int:
        """The line where a data row begins; found by reading again, since only errors need it."""
        begins = 1

        def counted() -> Iterator[list[str]]:
            """The rows; a quoted value may span several lines."""
            nonlocal begins
            reader = self._csv()
            for values in reader:
                yield values
                begins = reader.line_num + 1

        with contextlib.suppress(csv.Error):
            next(islice(self._rows(counted()), row, None), None)
        return begins

    def where(self, row: int) -> str:
        """The place of a data row in messages."""
        return f"line {self.line(row)}"

    def require(self, *names: str) -> None:
        """Refuse a file without one of these columns, or with two of one name."""
        missing = [name for name in names if name not in self.header]
        if missing:
            raise BadInput(
                f"{self.source.name}: no column {' or '.join(repr(name) for name in missing)}; "
                f"the columns are {', '.join(self.header)}"
            )
        twice = [name for name in names if self.header.count(name) > 1]
        if twice:
            raise BadInput(f"{self.source.name}, line 1, column {twice[0]!r}: it is there twice: rename or remove one")

    def bad(self, row: int, column: str, problem: str) -> BadInput:
        """The error for one column of one row."""
        return BadInput(f"{self.source.name}, {self.where(row)}, column {column!r}: {problem}")

    def refuse_negative(self, columns: Mapping[str, NDArray[Any]], *names: str) -> None:
        """Refuse a value below zero in one of these columns."""
        for name in names:
            if (columns[name] < 0).any():
                row = int(np.argmax(columns[name] < 0))
                raise self.bad(row, name, f"{plain(columns[name][row])!r} is negative: it must be 0 or more")

    def refuse_wrong_gpus(self, columns: Mapping[str, NDArray[Any]], name: str) -> None:
        """Refuse a fraction of a GPU, or too many, for a reader that computes with them before the rows are checked."""
        found = wrong_gpus(columns[name])
        if found is not None:
            raise self.bad(found[0], name, found[1])

    def read(
        self, numbers: Iterable[str] = (), times: Iterable[str] = (), texts: Iterable[str] = ()
    ) -> dict[str, NDArray[Any]]:
        """These columns as arrays: numbers and times in seconds (absent is NaN), and texts."""
        kinds = (
            dict.fromkeys(numbers, self._number) | dict.fromkeys(times, self._time) | dict.fromkeys(texts, self._text)
        )
        self.require(*kinds)
        places = {name: self.header.index(name) for name in kinds}
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in kinds}
        rows, done = self._rows(self._csv()), 0
        while block := self._block(rows, done):
            columns = list(zip(*block, strict=True))
            for name, convert in kinds.items():
                parts[name].append(convert(columns[places[name]], name, done))
            done += len(block)
        if not done:
            raise BadInput(f"{self.source.name}: the trace is empty: it has a header but no jobs")
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    def _block(self, rows: Iterator[list[str]], done: int) -> list[list[str]]:
        try:
            block = list(islice(rows, BLOCK_ROWS))
        except csv.Error as error:
            raise BadInput(f"{self.source.name}: not a CSV file after line {self.line(done)}: {error}") from None
        width = len(self.header)
        if block and set(map(len, block)) != {width}:
            row, values = next((index, row) for index, row in enumerate(block) if len(row) != width)
            raise self._wrong_width(done + row, values)
        return block

    def _wrong_width(self, row: int, values: list[str]) -> BadInput:
        found, width = len(values), len(self.header)
        column = repr(self.header[found]) if found < width else str(width + 1)
        what = "has no value" if found < width else "is one too many"
        quote = "; is a quote not closed?" if any("\n" in value for value in values) else ""
        counts = f"{found} values for {width} columns"
        return BadInput(f"{self.source.name}, line {self.line(row)}, column {column}: {what}: {counts}{quote}")

    def _number(self, values: Sequence[str], name: str, done: int) -> NDArray[np.float64]:
        try:
            if not _digits_only(values):
                raise ValueError("a number that only Python would read")
            numbers = np.array(values, np.float64)
        except ValueError:
            numbers = self._slow(values, name, done, _number, "is not a number")
        if not np.isfinite(numbers).all():
            for row in np.flatnonzero(~np.isfinite(numbers)).tolist():
                if values[row].strip() not in ABSENT:
                    raise self.bad(done + row, name, f"{values[row]!r} is not a finite number")
        return numbers

    def _time(self, values: Sequence[str], name: str, done: int) -> NDArray[np.float64]:
        """Dates and times such as `2017-10-07 01:04:03` as seconds since 1970."""
        with warnings.catch_warnings():
            # NumPy warns where it reads a time zone inside the 19 characters: then the time is not whole.
            warnings.simplefilter("error", UserWarning)
            try:
                return times_s(values)
            except (ValueError, UserWarning):
                return self._slow(values, name, done, time_s, "is not a time such as 2017-10-07 01:04:03")

    def _slow(
        self, values: Sequence[str], name: str, done: int, convert: Callable[[str], float], wanted: str
    ) -> NDArray[np.float64]:
        """A column value by value: absent ones become NaN, the first bad one is named."""
        numbers = np.full(len(values), np.nan)
        for index, value in enumerate(values):
            text = value.strip()
            if text in ABSENT:
                continue
            try:
                numbers[index] = convert(text)
            except (ValueError, UserWarning):
                raise self.bad(done + index, name, f"{value!r} {wanted}") from None
        return numbers

    def _text(self, values: Sequence[str], name: str, done: int) -> NDArray[np.str_]:
        return np.array([value.strip() for value in values], np.str_)
