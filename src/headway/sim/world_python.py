"""The simulated world for the Python loop: the same kernels, called one by one."""

from collections.abc import Iterator

import numpy as np

from headway.core.engine import Action, Engine, Event
from headway.core.events import STARTED
from headway.core.tables.journal import Journal, note
from headway.sim.loop import any_fact
from headway.sim.world import DONE, World, learn, next_time, perform


class SimulatedWorld:
    """Fills the World protocol of core/engine.py."""

    def __init__(self, engine: Engine, world: World, book: Journal) -> None:
        self.state, self.world, self.book = engine.state, world, book

    def wait(self, until: float) -> float | None:
        """Jump to the next moment."""
        if self.world.tally[DONE] == len(self.state.jobs):
            return None
        now = float(next_time(self.state, self.world, float(until)))
        return None if now == np.inf else now

    def facts(self, now: float) -> Iterator[Event]:
        """The facts of this moment, each with its consequences once it is recorded."""
        while True:
            kind, j = any_fact(self.state, self.world, now)
            if kind < 0:
                return
            partner = int(self.state.jobs[j]["partner"])
            yield Event(int(kind), int(j))
            learn(self.state, self.world, kind, j, partner, now)

    def perform(self, action: Action, now: float) -> Iterator[Event]:
        """Schedule what follows from the action."""
        if perform(self.state, self.world, action.kind, action.job, now):
            yield Event(STARTED, action.job)
            learn(self.state, self.world, STARTED, action.job, -1, now)

    def note(self, kind: int, job: int, now: float) -> None:
        """Write the journal."""
        note(self.book, self.state, now, kind, job)
