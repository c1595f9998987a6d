"""Parsing and printing of quantities with units: `30s`, `15m`, `1GB`, `800Gbps`. Sizes: GB = 10^9, GiB = 2^30."""

import math
import re
from collections.abc import Iterable, Sequence

from headway.errors import BadInput
from headway.io.numbers import NUMBER

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
GBPS = {"Mbps": 1e-3, "Gbps": 1.0, "Tbps": 1e3}

# 30,000 years: dates as seconds since 1970 stay far below, and seconds stay exact to the millisecond.
MOST_S = 1e12
_QUANTITY = re.compile(rf"\s*({NUMBER})\s*([A-Za-z]*)\s*", re.ASCII)


def _parse(
    text: str, units: dict[str, float] | dict[str, int], what: str, bare: float | None, most: float = math.inf
) -> float:
    """Return a number with one of `units`; without a unit it is multiplied by `bare` (None: a unit is required)."""
    such = "5m or 1h" if what == "time" else f"5{next(reversed(units))}"
    how = f"write a number and a unit, such as {such}; units: {', '.join(units)}"
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r} is not a {what}: {how}")
    number, unit = float(match[1]), match[2]
    scale = bare if not unit else units.get(unit)
    if scale is None:
        raise BadInput(f"{text!r} {'has no unit' if not unit else f'has the unknown unit {unit!r}'}: {how}")
    value = number * scale
    if not (0 <= value <= most and math.isfinite(value)):
        bounds = f"from 0 to {most:g} seconds" if math.isfinite(most) else "of at least 0, and finite"
        raise BadInput(f"{text!r} must be {a(what)} {bounds}")
    return value


def seconds(text: str, option: str = "", most: float = MOST_S) -> float:
    """Return `90`, `90s`, `15m`, `24h`, `7d` in seconds; `option` begins the message if it is none of these."""
    try:
        return _parse(text, SECONDS, "time", 1.0, most)
    except BadInput as error:
        raise BadInput(f"{option}: {error}" if option else str(error)) from None


def nanoseconds(text: str) -> float:
    """`700ns`, `1.7us` in nanoseconds; the unit is required."""
    return _parse(text, NANOSECONDS, "latency", 0.0 if text.strip() == "0" else None)


def size_bytes(text: str) -> int:
    """`1GB`, `100MiB` in bytes; the unit is required, and the result must be whole."""
    value = _parse(text, BYTES, "size", None)
    if value != int(value):
        raise BadInput(f"{text!r} is not a whole number of bytes")
    return int(value)


def gbps(text: str) -> float:
    """`800Gbps` in gigabits per second; the unit is required."""
    return _parse(text, GBPS, "bandwidth", None)


def counted(number: int, what: str) -> str:
    """`1 job`, `2 jobs`, `1,200 GPUs`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def within(seconds: float) -> str:
    """`in 3.5 h`: a time from now on."""
    for size, unit, word in ((172_800, 86_400, "d"), (7200, 3600, "h"), (120, 60, "min")):
        if seconds >= size:
            return f"in {seconds / unit:.1f} {word}"
    return f"in {max(0.0, seconds):.0f} s"


def listed(parts: Sequence[object], most: int = 8) -> str:
    """`a, b and c`, or `a, b and 3 more`."""
    *first, last = [str(part) for part in parts[:most]] or [""]
    if len(parts) > most:
        first, last = [*first, last], f"{len(parts) - most} more"
    return f"{', '.join(first)} and {last}" if first else last


def ranges(numbers: Iterable[int], most: int = 6) -> str:
    """`3, 5-9, 12`: as few words as possible, and no more than `most` of them."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")


def a(what: str) -> str:
    """`a fabric`, `an inventory`."""
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
