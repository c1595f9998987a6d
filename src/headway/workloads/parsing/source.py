"""The text of a trace file: unpacked (gzip and Zstandard by their first bytes, not their name) and decoded."""

import contextlib
import csv
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from headway.errors import BadInput
from headway.io.files import TooLong, join_parts, open_file, read_rest
from headway.io.units import size_bytes

# The longest trace, unpacked: 17 million jobs as `trace generate` writes them (a million: 30 MB); the longest shared trace is 4 MB.
# Reading a valid trace takes seven times as much memory; one line of commas takes 22 times as much.
MAX_TRACE, MOST_BYTES = "HEADWAY_MAX_TRACE", 512 << 20
# Packed bytes to unpack at once: four can be a block of 128 KiB, so 1,024 unpack to at most 32 MiB.
ZSTD_STEP_BYTES = 1024
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZIP_MAGIC = b"PK\x03\x04"
TAR_MARK_AT = 257
# A JSON file may be one line of many megabytes.
LONGEST_HEADER = 10_000
FILLED = re.compile(r"\S[^\n]*")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Source:
    """A trace file that has been read: `name` is the path as the person wrote it, for messages."""

    name: str
    path: Path
    text: str

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without its end."""
        found = FILLED.search(self.text)
        return found[0].rstrip() if found else ""

    @property
    def header(self) -> list[str]:
        """The first line between commas."""
        with contextlib.suppress(csv.Error):
            fields = next(csv.reader([self.first_line[:LONGEST_HEADER]], skipinitialspace=True), [])
            return [column.strip() for column in fields]
        return []


def read_source(name: str, what: str = "a trace is a file or synthetic:NAME") -> Source:
    """Read, unpack and decode the file at `name`; `what` says what it should be if there is no such file."""
    path = Path(name)
    try:
        with open_file(path) as file:
            raw = _unpacked(name, file, _most_bytes())
    except TooLong as error:
        more = f"take a part of it, or allow more with {MAX_TRACE}=4GiB"
        raise BadInput(f"{name}: the trace is {error.strerror} once unpacked: {more}") from None
    except FileNotFoundError:
        raise BadInput(f"{name}: no such file; {what}") from None
    except IsADirectoryError:
        raise BadInput(f"{name} is a folder: give the path of a trace file") from None
    except (OSError, ValueError) as error:  # such as a name with a NUL byte
        raise BadInput(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if raw[TAR_MARK_AT:].startswith(b"ustar") or raw.startswith(ZIP_MAGIC):
        raise BadInput(f"{name}: an archive of files, not a trace: unpack it and give the file inside")
    text = _decoded(name, raw)
    if not text.strip():
        raise BadInput(f"{name}: the trace is empty: it needs at least one job")
    return Source(name, path, text)


def _most_bytes() -> int:
    """Return the longest trace that is read, unpacked."""
    text = os.environ.get(MAX_TRACE)
    try:
        return size_bytes(text) if text else MOST_BYTES
    except BadInput as error:
        raise BadInput(f"{MAX_TRACE}: {error}") from None


def _unpacked(name: str, file: BufferedReader, most_bytes: int) -> bytes:
    """Return the content of a trace file, unpacked up to the limit: 2 MB of gzip can be 2 GB."""
    magic = file.read(len(ZSTD_MAGIC))
    file.seek(0)
    if magic.startswith(GZIP_MAGIC):
        try:
            return read_rest(gzip.GzipFile(fileobj=file), most_bytes)
        except TooLong:
            raise
        except EOFError:
            raise BadInput(f"{name}: the gzip file is cut short: copy or download it again") from None
        except (OSError, zlib.error) as error:
            raise BadInput(f"{name}: the gzip file is damaged ({error}): copy or download it again") from None
    if magic == ZSTD_MAGIC:
        return join_parts(_zstd_parts(name, file), most_bytes)
    return read_rest(file, most_bytes)


def _zstd_parts(name: str, file: BufferedReader) -> Iterator[bytes]:
    """Yield the content of a Zstandard file in small parts."""
    import zstandard

    frame, packed = None, b""
    while packed := packed or file.read(ZSTD_STEP_BYTES):
        # One frame at a time: only its end says that nothing is missing.
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        try:
            yield frame.decompress(packed)
        except zstandard.ZstdError as error:
            raise BadInput(f"{name}: the zst file is damaged ({error}): copy or download it again") from None
        packed = frame.unused_data
        if frame.eof:
            frame = None
    if frame is not None:
        raise BadInput(f"{name}: the zst file is cut short: copy or download it again")


def _decoded(name: str, raw: bytes) -> str:
    """UTF-8 (a byte-order mark is dropped), or UTF-16 with its mark; anything else names the first bad line."""
    encoding = "utf-16" if raw.startswith(UTF16_MARKS) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        byte = raw[error.start]
        raise BadInput(
            f"{name}, line {line}: byte 0x{byte:02x} at position {column} is not {encoding.removesuffix('-sig')}: "
            "save the file in one encoding, UTF-8"
        ) from None
