"""The text of a trace file: unpacked (gzip and Zstandard by their first bytes, not their name) and decoded."""

import contextlib
import csv
import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from headway.errors import BadInput

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
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{name}: no such file; {what}") from None
    except IsADirectoryError:
        raise BadInput(f"{name} is a folder: give the path of a trace file") from None
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror}") from None
    raw = _unpacked(name, raw)
    if raw[TAR_MARK_AT:].startswith(b"ustar") or raw.startswith(ZIP_MAGIC):
        raise BadInput(f"{name}: an archive of files, not a trace: unpack it and give the file inside")
    text = _decoded(name, raw)
    if not text.strip():
        raise BadInput(f"{name}: the trace is empty: it needs at least one job")
    return Source(name, path, text)


def _unpacked(name: str, raw: bytes) -> bytes:
    if raw.startswith(GZIP_MAGIC):
        try:
            return gzip.decompress(raw)
        except EOFError:
            raise BadInput(f"{name}: the gzip file is cut short: copy or download it again") from None
        except (OSError, zlib.error) as error:
            raise BadInput(f"{name}: the gzip file is damaged ({error}): copy or download it again") from None
    if raw.startswith(ZSTD_MAGIC):
        return _unpacked_zstd(name, raw)
    return raw


def _unpacked_zstd(name: str, raw: bytes) -> bytes:
    import zstandard

    parts = []
    while raw:
        # One frame at a time: only its end says that nothing is missing.
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(raw))
        except zstandard.ZstdError as error:
            raise BadInput(f"{name}: the zst file is damaged ({error}): copy or download it again") from None
        if not frame.eof:
            raise BadInput(f"{name}: the zst file is cut short: copy or download it again")
        raw = frame.unused_data
    return b"".join(parts)


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
