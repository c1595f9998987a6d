"""The simulated world for the Python loop: the same kernels, called one by one."""

from collections.abc import Iterator

import numpy as np

from headway.core.engine import Cause, Disconnection, Engine, EngineAction, Event, PreemptionRetry, Recorded
from headway.core.events import DISCONNECTED, NO_JOB, RATED, STARTED
from headway.core.tables.actions import one_action
from headway.core.tables.journal import JournalTable, note, note_action, note_links, note_nobody, note_retry, note_why
from headway.sim.loop import any_fact
from headway.sim.world import break_links, learn, next_time, perform
from headway.sim.world_tables import WorldTables


class SimulatedWorld:
    """Fills the World protocol of core/engine.py."""

    def __init__(self, engine: Engine, world: WorldTables, journal: JournalTable) -> None:
        self.state, self.world, self.journal = engine.state, world, journal

    def wait(self, until: float) -> float | None:
        """Jump to the next moment."""
        if self.world.clock["done"][0] == len(self.state.jobs):
            return None
        now = float(next_time(self.state, self.world, float(until)))
        return None if now == np.inf else now

    def facts(self, now: float) -> Iterator[Event | Disconnection]:
        """The facts of this moment, each with its consequences once it is recorded."""
        while True:
            kind, j = any_fact(self.state, self.world, now)
            if kind < 0:
                return
            if kind == DISCONNECTED:
                break_links(self.state, self.world, j, now)
                yield Disconnection(int(self.world.outages["row"][j]), int(self.world.outages["mask"][j]))
                continue
            partner = int(self.state.jobs[j]["partner"])
            if kind != RATED:  # recorded once its new speed is known
                yield Event(int(kind), int(j))
            learn(self.state, self.world, self.journal, kind, j, partner, now)

    def perform(self, action: EngineAction, now: float) -> Iterator[Event]:
        """Schedule what follows from the action."""
        if perform(self.state, self.world, self.journal, action.kind, action.job, now):
            yield Event(STARTED, action.job)
            learn(self.state, self.world, self.journal, STARTED, action.job, -1, now)

    def note(self, event: Recorded, now: float) -> None:
        """Write the journal."""
        if isinstance(event, Cause):
            note_why(self.journal, event.group, event.why, now)
        elif isinstance(event, PreemptionRetry):
            note_retry(self.journal, event.at, now)
        elif isinstance(event, Disconnection):
            note_links(self.journal, event.leaf, event.mask, now)
        elif isinstance(event, EngineAction):
            given = one_action(event.kind, event.job, event.places, event.links, event.until)
            note_action(self.journal, self.state, given, 0, now)
        elif event.job == NO_JOB:
            note_nobody(self.journal, event.kind, now)
        else:
            note(self.journal, self.state, event.kind, event.job, now)
