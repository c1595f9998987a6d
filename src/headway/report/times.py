"""Times for people to read, in reports and in tables on the terminal."""

import math

# A time below the first is divided by the second and carries the third.
UNITS = ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172_800.0, 3600.0, "h"), (math.inf, 86_400.0, "d"))


def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 12.3 min, 5.2 h, 3.1 d."""
    scale, unit = next((scale, unit) for limit, scale, unit in UNITS if seconds < limit)
    return f"{seconds / scale:.0f} s" if unit == "s" else f"{seconds / scale:.1f} {unit}"
