"""Dates and times of traces, such as `2017-10-07 01:04:03`, as seconds since 1970."""

import datetime
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Ways to write "no value" in the published traces.
ABSENT = frozenset({"", "None", "none", "null", "NULL", "nan", "NaN", "NaT"})
EPOCH = datetime.datetime(1970, 1, 1)
WHOLE = "0000-00-00 00:00:00"
# What may follow: parts of a second, and a time zone. Names of zones are left out: they say no offset.
TAIL = re.compile(r"(?:\.\d+)?\s*(?:Z|[A-Z]{2,5}|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?", re.ASCII)
PATTERN = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", re.ASCII)
MARKS = [place for place, mark in enumerate(WHOLE) if mark in "-:"]
CODES = np.array([ord(WHOLE[place]) for place in MARKS], np.uint32)


def time_s(text: str) -> float:
    """One time in seconds; ValueError where it is not whole."""
    if not PATTERN.fullmatch(text[: len(WHOLE)]):
        raise ValueError(text)
    stamp = datetime.datetime.fromisoformat(text[: len(WHOLE)])
    return (stamp - EPOCH).total_seconds() - _offset_s(text[len(WHOLE) :])


def times_s(values: Sequence[str]) -> NDArray[np.float64]:
    """A column of times at once, NaN for empty ones; ValueError where one is not whole or absent in another way."""
    texts = np.array(values, f"U{len(WHOLE)}")
    letters = texts.view(np.uint32).reshape(len(texts), -1)
    if not ((letters[:, MARKS] == CODES).all(axis=1) | (letters[:, 0] == 0)).all():
        raise ValueError("not all are whole times")
    stamps = texts.astype("datetime64[s]")
    tails = [value[len(WHOLE) :] for value in values]
    offsets = {tail: _offset_s(tail) for tail in set(tails)}
    seconds = np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64))
    if not any(offsets.values()):
        return seconds
    return seconds - np.fromiter((offsets[tail] for tail in tails), np.float64, len(tails))


def _offset_s(tail: str) -> float:
    """How far ahead of UTC the zone behind a time is."""
    match = TAIL.fullmatch(tail)
    if match is None:
        raise ValueError(tail)
    if match["sign"] is None:
        return 0.0
    ahead_s = 3600.0 * int(match["hours"]) + 60.0 * int(match["minutes"] or 0)
    return -ahead_s if match["sign"] == "-" else ahead_s
