"""The machine of the twin: processes and clocks in virtual time, and everything that can go wrong with them."""

import random
from dataclasses import dataclass

from headway.live.executors import Stamp

MOST_CRASHES = 5


class Crash(BaseException):
    """The manager is gone, at this very point."""


@dataclass(slots=True)
class Process:
    """An attempt on the machine."""

    gpus: tuple[int, ...]
    began: float
    ends: float
    code: int
    boot: str
    over: float | None = None
    lost: bool = False
    signalled: bool = False
    honest: bool = False  # says how much is left of it


class Machine:
    """Where processes run and time passes; it outlives managers."""

    def __init__(self, seed: int) -> None:
        self.chance, self.time, self.booted, self.boot, self.wall_jump = random.Random(seed), 1000.0, 0.0, "boot-0", 1e9
        self.processes: dict[tuple[int, int], Process] = {}
        self.story: list[str] = []
        self.disk_full_until = -1.0
        self.crashes = 0
        self.odds = self.chance.choice([0.0, 0.002, 0.01])  # of a crash at a point where one may be
        self.calm = False  # at the end nothing goes wrong any more

    def tell(self, what: str) -> None:
        """One more line of the story."""
        self.story.append(f"{self.time:10.3f}  {what}")

    def monotonic(self) -> float:
        return self.time - self.booted

    def stamp(self, at: float, boot: str) -> Stamp:
        booted = self.booted if boot == self.boot else self.booted_before[boot]
        return Stamp(boot, at - booted, at + self.wall_jump)

    booted_before: dict[str, float] = {}  # noqa: RUF012

    def perhaps_crash(self, where: str) -> None:
        """A point at which a manager may die."""
        if not self.calm and self.crashes < MOST_CRASHES and self.chance.random() < self.odds:
            self.crash(where)

    def crash(self, where: str) -> None:
        self.crashes += 1
        self.tell(f"CRASH {where}")
        raise Crash(where)

    def alive(self) -> dict[tuple[int, int], Process]:
        return {key: process for key, process in self.processes.items() if process.over is None}

    def pass_time(self, until: float) -> None:
        """Let time pass; processes end on the way."""
        self.time = max(self.time, until)
        for key, process in self.alive().items():
            if process.ends <= self.time:
                process.over = process.ends
                self.tell(f"{key} ended: {'lost' if process.lost else process.code}")

    def reboot(self) -> None:
        """Everything dies; the monotonic clock begins anew."""
        for process in self.alive().values():
            process.over, process.lost = self.time, True
        self.booted_before = {**self.booted_before, self.boot: self.booted}
        self.booted, self.boot = self.time - 1.0, f"boot-{len(self.booted_before)}"
        self.tell("REBOOT")
