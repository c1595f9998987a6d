"""The engine as Python sees it: facts in, actions out. `drive` is the loop of every world that is not compiled."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from headway.core.compiler.address import by_address
from headway.core.decide import decide
from headway.core.deciding.reservation import PATIENCE, UNKNOWN_S, reserve_for_first
from headway.core.deciding.sizes import ALLOT_SIGNATURE, as_asked
from headway.core.events import DEFERRED, DISCONNECTED, EXPLAINED, NAMES, NO_JOB, REFITTED, STOP, TICKED
from headway.core.protocols import Placement, Policy, change_function, key_function, place_function, preempt_at_function
from headway.core.receipts import record_why
from headway.core.record import record, record_action, record_links, record_retry, refit_due
from headway.core.tables.actions import one_action
from headway.core.tables.options import CHANGE_SIGNATURE, KEY_SIGNATURE, PREEMPT_AT_SIGNATURE, Options
from headway.core.tables.scratch import PLACE_SIGNATURE, Scratch, new_scratch, room_for_actions
from headway.core.tables.state import State
from headway.core.timers import SOON_S, next_changed_why, tick_due, wake_at
from headway.errors import BadInput


@dataclass(frozen=True, slots=True)
class Event:
    """A fact about one job (past participle) that happened."""

    kind: int
    job: int


@dataclass(frozen=True, slots=True)
class EngineAction:
    """Something to do about one job (verb). `places` are (node, GPUs), `links` (leaf, mask); see core/tables/actions.py."""

    kind: int
    job: int
    places: tuple[tuple[int, int], ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    until: float = -np.inf

    def __str__(self) -> str:
        return f"{NAMES[self.kind]}({self.job})"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the waiting jobs of a class wait from now on: a fact about no job."""

    group: int
    why: int
    kind: int = EXPLAINED
    job: int = NO_JOB


@dataclass(frozen=True, slots=True)
class PreemptionRetry:
    """When a preemption that does not pay yet is to be tried again (infinity: never): a fact about no job."""

    at: float
    kind: int = DEFERRED
    job: int = NO_JOB


@dataclass(frozen=True, slots=True)
class Disconnection:
    """Links of a leaf that have failed (a bit per spine): a fact about no job."""

    leaf: int
    mask: int
    kind: int = DISCONNECTED
    job: int = NO_JOB


Recorded = Event | EngineAction | Cause | PreemptionRetry | Disconnection


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions to perform, findings about waiting jobs to record, and whether to decide again at once (core/decide.py says when)."""

    actions: tuple[EngineAction, ...]
    findings: tuple[Cause | PreemptionRetry, ...]
    again: bool


@dataclass(frozen=True, slots=True)
class BackfillReservation:
    """What is kept for the first waiting job that found no place: (node, GPUs), and by when they are free (infinity: not known).

    `gone_by` is when those who pass have to be gone, and `free_by` has for each job with GPUs that is not being stopped by when they can be
    had for the waiting one (infinity: not known). `firm`: it has waited so long that jobs which can be stopped do not pass it either.
    """

    job: int
    places: tuple[tuple[int, int], ...]
    bound: float
    gone_by: float
    free_by: dict[int, float]
    firm: bool


class World(Protocol):
    """Where facts come from and actions go."""

    def wait(self, until: float) -> float | None:
        """Wait for the next fact, at most until `until`; returns the time then, or None when the world is over."""

    def facts(self, now: float) -> Iterable[Recorded]:
        """The facts due by now, in order; each is recorded before the next is asked for."""

    def perform(self, action: EngineAction, now: float) -> Iterable[Recorded]:
        """Carry out a recorded action; yields what is a fact at once."""

    def note(self, event: Recorded, now: float) -> None:
        """Write down what was recorded."""


class Engine:
    """A state with the policy and the placement that decide on it."""

    def __init__(self, state: State, options: Options, policy: Policy, placement: Placement) -> None:
        if placement.needs_fabric and not len(state.leaves):
            raise BadInput(f"placement {placement.name} reserves links: it needs a fabric")
        self.state, self.options, self.policy = state, options, policy
        self.key = by_address(policy.key, key_function(policy.key), KEY_SIGNATURE)
        follow = change_function(policy.change, policy.ended)
        self.change = by_address(policy.ended or policy.change, follow, CHANGE_SIGNATURE)
        self.preempt_at = by_address(policy.preempt_at, preempt_at_function(policy.preempt_at), PREEMPT_AT_SIGNATURE)
        self.place = by_address(placement.place, place_function(placement.place), PLACE_SIGNATURE)
        self.allot = (
            allot_function(policy.allot) if policy.allot else by_address(as_asked, as_asked.entry, ALLOT_SIGNATURE)
        )
        self.make_scratch()

    @property
    def parts(self) -> tuple[Any, ...]:
        """The tables and the functions, in the order in which a compiled loop takes them."""
        return self.state, self.options, self.key, self.change, self.preempt_at, self.place, self.allot

    def make_scratch(self) -> None:
        """Make room for what a decision works on and writes; to be called again when the tables have grown."""
        self.scratch, self.out = new_scratch(self.state), room_for_actions(self.state, self.options.elastic)

    def record(self, event: Recorded, now: float) -> None:
        """Record one fact, or one action about to be performed."""
        if isinstance(event, Cause):
            record_why(self.state, event.group, event.why, float(now))
            return
        if isinstance(event, PreemptionRetry):
            record_retry(self.state, float(event.at))
            return
        if isinstance(event, Disconnection):
            record_links(self.state, event.leaf, event.mask, float(now))
            return
        how = (self.state, self.options, self.key, self.change)
        if event.kind < STOP:
            record(*how, event.kind, event.job, float(now))
            return
        action = event if isinstance(event, EngineAction) else EngineAction(event.kind, event.job)
        row = one_action(action.kind, action.job, action.places, action.links, action.until)
        record_action(*how, row, 0, float(now))

    def own_facts(self, wake: float, now: float) -> list[int]:
        """What the engine itself finds before it decides: a quantum is over, the finished jobs are to be fitted again."""
        ticked = [TICKED] if tick_due(self.state, self.options, float(wake), float(now)) else []
        return ticked + ([REFITTED] if refit_due(self.state, self.options) else [])

    def decide(self, now: float) -> Decision:
        """What to do now. Reads the state and changes nothing in it."""
        self._decide(now)
        actions = self._made()
        return Decision(actions, (*self._causes(), *self._retries()), bool(self.out.counts["repeat"][0]))

    def _retries(self) -> Iterator[PreemptionRetry]:
        at = float(self.out.counts["retry_at"][0])
        if at != float(self.state.counts["retry_at"][0]):
            yield PreemptionRetry(at)

    def _causes(self) -> Iterator[Cause]:
        i = next_changed_why(self.state, self.scratch, 0)
        while i >= 0:
            c = int(self.state.classes["open"][i])
            yield Cause(c, int(self.scratch.classes["why"][c]))
            i = next_changed_why(self.state, self.scratch, i + 1)

    def _decide(self, now: float) -> None:
        how = (self.key, self.preempt_at, self.place, self.allot)
        decide(self.state, self.options, *how, self.scratch, float(now), self.out)

    def _made(self) -> tuple[EngineAction, ...]:
        """The actions that were written."""
        out, n = self.out, int(self.out.counts["rows"][0])
        rows = out.rows[: n + 1]
        return tuple(
            EngineAction(
                int(rows["kind"][i]),
                int(rows["job"][i]),
                tuple((int(s["node"]), int(s["gpus"])) for s in out.seats[rows["seat_at"][i] : rows["seat_at"][i + 1]]),
                tuple((int(k["leaf"]), int(k["mask"])) for k in out.links[rows["link_at"][i] : rows["link_at"][i + 1]]),
                float(rows["until"][i]),
            )
            for i in range(n)
        )

    def reservation(self, now: float) -> BackfillReservation | None:
        """What is kept for the first waiting job that finds no place now. Who asks changes nothing, nor when to decide again."""
        self._decide(now)
        how = (self.key, self.preempt_at, self.place)
        holders = reserve_for_first(self.state, self.options, *how, self.scratch, self.out)
        if holders < 0:
            return None
        promise = self._made()[-1]
        walk = self.scratch.walk[0]
        running = {int(j) for j in self.state.run[: int(self.state.counts["running"][0])]}
        free_by = {
            int(job["what"]): float(job["at"]) if job["at"] < UNKNOWN_S else np.inf
            for job in self.scratch.listed[:holders]
            if int(job["what"]) in running
        }
        bound = float(walk["bound"])
        firm = now - float(self.state.jobs["queued"][promise.job]) >= PATIENCE * (bound - now)
        return BackfillReservation(promise.job, promise.places, float(walk["bound_with_passes"]), bound, free_by, firm)

    def wake_at(self, now: float) -> float:
        """Return when to decide again even if nothing happens."""
        return float(wake_at(self.state, self.options, self.out, float(now)))


# Numba pickles what compiled code calls back and copies that at every call: a number is small, the tables of an allotment are not.
_CALLED: WeakValueDictionary[int, Any] = WeakValueDictionary()
_NUMBERS = count()


def _call(number: int, state: State, scratch: Scratch, now: float) -> None:
    _CALLED[number](state, scratch, now)


def allot_function(allot: Any) -> Any:
    """Call an elastic policy back from compiled code: it writes what jobs want, the others keep what they have."""
    from numba import njit, objmode

    number = next(_NUMBERS)
    _CALLED[number] = allot  # while the engine keeps its policy

    @njit(ALLOT_SIGNATURE)
    def call_back(state: State, scratch: Scratch, now: float) -> None:
        with objmode():
            _call(number, state, scratch, now)

    return call_back


MOST_HURRIED = 100_000
NO_PROGRESS = (
    "no progress: the policy's `change` or `preempt_at`, or the placement's `again`, keeps requesting an immediate wake-up; "
    "return a time later than now, or infinity"
)


class Hurry:
    """Counts rounds in a row for which the engine was woken right after the round before: a policy may keep requesting that."""

    def __init__(self) -> None:
        self.rounds, self.last = 0, -np.inf

    def count(self, wake: float, now: float) -> None:
        """Count one round; raise ValueError if time hardly moves on."""
        self.rounds = self.rounds + 1 if wake <= now and wake < self.last + SOON_S else 0
        self.last = now
        if self.rounds > MOST_HURRIED:
            raise ValueError(NO_PROGRESS)


def drive(engine: Engine, world: World) -> None:
    """Wait for facts, record them, decide, perform: until the world is over."""
    wake, hurry = np.inf, Hurry()
    while (now := world.wait(wake)) is not None:
        hurry.count(wake, now)
        for event in world.facts(now):
            engine.record(event, now)
            world.note(event, now)
        for kind in engine.own_facts(wake, now):
            engine.record(Event(kind, NO_JOB), now)
            world.note(Event(kind, NO_JOB), now)
        again = True
        while again:
            decision = engine.decide(now)
            again = decision.again
            for finding in decision.findings:
                engine.record(finding, now)
                world.note(finding, now)
            for action in decision.actions:
                engine.record(action, now)
                world.note(action, now)
                for event in world.perform(action, now):
                    engine.record(event, now)
                    world.note(event, now)
        wake = engine.wake_at(now)
