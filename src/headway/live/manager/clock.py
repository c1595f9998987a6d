"""The clock of a manager: seconds since 1970 that never go backwards and never jump.

People and NTP set wall clocks; attained service must not jump with them. So the wall clock is read once, and the monotonic clock gives the
time since then. The journal keeps the offset between the two clocks. A manager that restarts on the same boot uses the same offset: jobs
that ran while no manager ran are charged for exactly the seconds they ran.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from headway.live.executors import Stamp

MOST_BOOTS = 8  # earlier boots whose stamps can be read
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the identity of this boot of the machine; empty if the system has none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, when called. `offset` turns the monotonic clock into seconds since 1970."""

    offset: float
    boot: str
    before: tuple[tuple[str, float], ...] = ()  # earlier boots with their offsets, the latest first

    def __call__(self) -> float:
        return self.offset + time.monotonic()

    def saved(self) -> str:
        """Return the clock as text for `resume_clock`."""
        return json.dumps({"offset": self.offset, "boot": self.boot, "before": self.before})

    def when(self, stamp: Stamp) -> float:
        """Return the time of a stamp from this machine; by its wall clock if its boot is not known."""
        for boot, offset in ((self.boot, self.offset), *self.before):
            if boot and boot == stamp.boot:
                return offset + stamp.monotonic
        return min(stamp.wall, self())


def resume_clock(saved: str | None, last: float) -> Clock:
    """Return the clock of the last manager; after a reboot, a clock that starts at the wall clock, but not before `last`."""
    boot, before = boot_id(), json.loads(saved) if saved else {}
    same_boot = boot and before.get("boot") == boot
    offset = float(before["offset"]) if same_boot else time.time() - time.monotonic()
    earlier = [(str(name), float(of)) for name, of in before.get("before", ())]
    if before and not same_boot:
        earlier.insert(0, (str(before.get("boot", "")), float(before["offset"])))
    return Clock(max(offset, last - time.monotonic()), boot, tuple(earlier[:MOST_BOOTS]))
