"""Strict reading of JSON from outside: refuse in one line what is ambiguous or would fill the memory.

Python's own reader takes the last of two equal keys, NaN and infinities, numbers of any length and halves of characters; a file can say one
thing to one program and another to the next. Here all of that is an error that names the file.
"""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from headway.errors import BadInput
from headway.io.files import read_file, shown_size
from headway.io.units import a

# Far above any certificate (of 8,192 GPUs: 0.3 MB); once it is read, a file of this length is some 300 MB. Inventories may be longer.
MOST_BYTES = 8 << 20
# Digits of a number; 64-bit numbers have 19, and floats are written with at most 24 characters.
MOST_DIGITS = 32
# How much of a wrong text a message repeats.
LONGEST_SHOWN = 60


def read_json(path: str | Path, what: str = "certificate", most_bytes: int = MOST_BYTES) -> Any:
    """The plain data of a JSON file, or a refusal that names it; `what` the file should be."""
    try:
        raw = read_file(path, most_bytes)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse_json(raw, str(path), what, most_bytes)


def parse_json(text: bytes | str, where: str, what: str = "certificate", most_bytes: int | None = MOST_BYTES) -> Any:
    """Return the plain data of JSON text, of at most `most_bytes` (None: any length).

    `where` begins every message; `what` the text should be (empty: any JSON).
    """
    wrong = f"{where}: not {a(what)}" if what else where
    if most_bytes is not None and len(text) > most_bytes:
        raise BadInput(f"{wrong}: longer than {shown_size(most_bytes)}")
    try:
        return json.loads(
            text.decode("utf-8") if isinstance(text, bytes) else text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except UnicodeDecodeError:
        reason = "not UTF-8 text"
    except RecursionError:
        reason = "nested too deeply"
    except MemoryError:
        reason = "too large for the memory of this machine"
    except json.JSONDecodeError as error:
        reason = f"not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
    except _Refused as error:
        reason = str(error)
    raise BadInput(f"{wrong}: {reason}")


def shown(value: object) -> str:
    """A text or value from outside as one short line without control characters."""
    text = value if isinstance(value, str) else repr(value)
    cut = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    return cut if cut.isascii() and cut.isprintable() else ascii(cut)[1:-1]


class _Refused(Exception):
    """What of a text is legal JSON for some readers, and not for us."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Refused(f"the key {shown(twice)!r} is there twice: keep one")
    return content


def _integer(text: str) -> int:
    return int(_short(text))


def _float(text: str) -> float:
    value = float(_short(text))
    if not math.isfinite(value):
        raise _Refused(f"the number {shown(text)} is infinite here")
    return value


def _short(text: str) -> str:
    if len(text) > MOST_DIGITS:
        raise _Refused(f"a number of {len(text):,} characters ({shown(text)})")
    return text


def _constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a number")
