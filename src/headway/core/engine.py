"""The engine as Python sees it: facts in, actions out. `drive` is the loop of every world that is not compiled."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from headway.core.compiler.address import by_address
from headway.core.decide import ALLOT_SIGNATURE, as_asked, decide, wake_at
from headway.core.events import NAMES, RESIZE
from headway.core.protocols import Placement, Policy, change_function, key_function, place_function
from headway.core.record import record
from headway.core.tables.actions import ROWS, actions
from headway.core.tables.options import CHANGE_SIGNATURE, KEY_SIGNATURE, Options
from headway.core.tables.state import PLACE_SIGNATURE, State, room_for_actions
from headway.errors import BadInput


@dataclass(frozen=True, slots=True)
class Event:
    """A fact about one job (past participle) that happened."""

    kind: int
    job: int


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do about one job (verb). `places` are (node, GPUs), `links` (leaf, mask); see core/actions.py."""

    kind: int
    job: int
    places: tuple[tuple[int, int], ...] = ()
    links: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return f"{NAMES[self.kind]}({self.job})"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and whether to ask again at once (after a Resize: sizes come before seats)."""

    actions: tuple[Action, ...]
    again: bool


class World(Protocol):
    """Where facts come from and actions go."""

    def wait(self, until: float) -> float | None:
        """Wait for the next fact or for `until`; the time then, or None when all is over."""

    def facts(self, now: float) -> Iterable[Event]:
        """The facts due by now, in order; the engine records each before it asks for the next."""

    def perform(self, action: Action, now: float) -> Iterable[Event]:
        """Carry out a recorded action; yields what is a fact at once."""

    def note(self, kind: int, job: int, now: float) -> None:
        """Write down what was recorded."""


class Engine:
    """A state with the policy and the placement that decide on it."""

    def __init__(self, state: State, options: Options, policy: Policy, placement: Placement, seed: int = 0) -> None:
        if placement.needs_fabric and not len(state.leaves):
            raise BadInput(f"placement {placement.name} reserves links: it needs a fabric")
        self.state, self.options, self.seed, self.policy = state, options, seed, policy
        self.key = by_address(policy.key, key_function(policy.key), KEY_SIGNATURE)
        self.change = by_address(policy.change, change_function(policy.change), CHANGE_SIGNATURE)
        self.place = by_address(placement.place, place_function(placement.place), PLACE_SIGNATURE)
        self.allot = allot_function(policy.allot) if policy.allot else by_address(as_asked, as_asked.entry, ALLOT_SIGNATURE)
        self._out = room_for_actions(state)
        self._none = actions(1, 1, 1)

    def record(self, event: Event | Action, now: float) -> None:
        """Record one fact, or one action about to be performed."""
        places = self._none
        if isinstance(event, Action):
            places = self._row(event)
        record(self.state, self.options, self.key, self.change, event.kind, event.job, float(now), places, 0)

    def decide(self, now: float) -> Decision:
        """What to do now. Reads the state and changes nothing in it."""
        out = self._out
        decide(self.state, self.options, self.key, self.place, self.allot, self.seed, float(now), out)
        n = int(out.tally[ROWS])
        rows = out.rows[: n + 1]
        made = tuple(
            Action(
                int(rows["kind"][i]),
                int(rows["job"][i]),
                tuple((int(s["node"]), int(s["gpus"])) for s in out.seats[rows["seat_at"][i] : rows["seat_at"][i + 1]]),
                tuple((int(k["leaf"]), int(k["mask"])) for k in out.links[rows["link_at"][i] : rows["link_at"][i + 1]]),
            )
            for i in range(n)
        )
        return Decision(made, any(action.kind == RESIZE for action in made))

    def wake_at(self, now: float) -> float:
        """When to decide again though nothing happens."""
        return float(wake_at(self.state, self.options, float(now)))

    def _row(self, action: Action) -> Any:
        one = actions(1, max(1, len(action.places)), max(1, len(action.links)))
        for k, (node, gpus) in enumerate(action.places):
            one.seats[k] = (node, gpus)
        for k, (leaf, mask) in enumerate(action.links):
            one.links[k] = (mask, leaf)
        one.rows[0] = (action.kind, action.job, 0, 0)
        one.rows[1] = (0, 0, len(action.places), len(action.links))
        return one


# Numba pickles what compiled code calls back and copies that at every call: a number is small, the tables of an allotment are not.
_CALLED: WeakValueDictionary[int, Any] = WeakValueDictionary()
_NUMBERS = count()


def _call(number: int, state: State, now: float) -> None:
    _CALLED[number](state, now)


def allot_function(allot: Any) -> Any:
    """Call an elastic policy back from compiled code: it writes what jobs want, the others keep what they have."""
    from numba import njit, objmode

    number = next(_NUMBERS)
    _CALLED[number] = allot  # while the engine keeps its policy

    @njit(ALLOT_SIGNATURE)
    def call_back(state: State, now: float) -> None:
        with objmode():
            _call(number, state, now)

    return call_back


def drive(engine: Engine, world: World) -> None:
    """Wait for facts, record them, decide, perform: until the world is over."""
    wake = np.inf
    while (now := world.wait(wake)) is not None:
        for event in world.facts(now):
            engine.record(event, now)
            world.note(event.kind, event.job, now)
        again = True
        while again:
            decision = engine.decide(now)
            again = decision.again
            for action in decision.actions:
                engine.record(action, now)
                world.note(action.kind, action.job, now)
                for event in world.perform(action, now):
                    engine.record(event, now)
                    world.note(event.kind, event.job, now)
        wake = engine.wake_at(now)
