"""The journal, the world and the clock of a manager in one thread and in virtual time, and how they take the place of the real ones."""

import contextlib
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.faults.machine import MOST_CRASHES, Machine

from headway.core.engine import Event
from headway.live.manager import clock, manager, recovery
from headway.live.manager.loop import recorder
from headway.live.manager.loop.inbox import ManagerRequest
from headway.live.manager.loop.world import LiveWorld
from headway.live.state import demands
from headway.live.state import engine as live_engine
from headway.live.store import journal as journals

if TYPE_CHECKING:
    from tests.faults.people import People

MOST_DEMANDS = 3


class OneThread(journals.Journal):
    """The journal without a thread of its own, on a disk that may be slow or full, of a manager that may die before and after a write."""

    machine: Machine

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        connection.execute("PRAGMA synchronous=OFF")  # the machine does not lose power, only the manager dies
        return connection

    def _begin(self) -> None: ...

    def _end(self) -> None: ...

    def commit_later(
        self, write: Callable[[sqlite3.Connection], Any], after: Callable[[Any], None] | None = None
    ) -> Future[Any]:
        machine, done = self.machine, Future[Any]()
        machine.perhaps_crash("before a write")
        if not machine.calm and machine.chance.random() < 0.02:
            machine.pass_time(machine.time + machine.chance.choice([0.01, 0.2, 2.0]))  # a slow disk
        if machine.time < machine.disk_full_until and not machine.calm:
            done.set_exception(journals.journal_error(sqlite3.OperationalError("database or disk is full"), self.path))
            return done
        if not machine.calm and machine.crashes < MOST_CRASHES and machine.chance.random() < machine.odds:
            self._commit([journals._Work(write, None, done)])
            machine.crash("after a write, before anybody was told")
        self._commit([journals._Work(write, after, done)])
        return done

    def abandon(self) -> None:
        """What remains of a manager that died: nothing."""
        for connection in (self._connection, self._reader):
            connection.close()
        self._resources.close()
        os.close(self._lock_file)


class TwinWorld(LiveWorld):
    """The live world, but for sleeping: it jumps to the next moment, and lets people act then."""

    twin: "People"

    def ask(self, act: Callable[[float], Iterator[Event]]) -> None:
        """People do not wait for an answer: they look for it later."""
        request = ManagerRequest(act)
        self.inbox.requests.append(request)
        self.twin.asked.append((self.twin.asking, request.done))

    def wait_for_decision(self) -> None:
        """Return at once: the loop runs later, in this thread."""

    def _sleep(self, until: float, always: bool = False) -> None:
        machine, twin = self.twin.machine, self.twin
        executor: Any = self.performer.executor
        wait_s = max(0.0, until - self.clock()) if until < math.inf else math.inf
        acts = twin.next_act if twin.acts_left else math.inf
        if always:  # the journal is to be tried again
            machine.pass_time(machine.time + wait_s)
            return
        moment = min(machine.time + wait_s, executor.next_call(), acts)
        if math.isinf(moment):
            self.inbox.closing = True
            return
        machine.pass_time(moment)
        if twin.acts_left and twin.next_act <= machine.time:
            twin.act(self)
        self.inbox.closing = self.inbox.closing or (
            not twin.acts_left and not self.state.active and not self.inbox.requests
        )


@contextlib.contextmanager
def in_one_thread(people: "People") -> Iterator[None]:
    """Put the clock, the journal and the world of the twin in the place of the real ones."""
    machine = people.machine
    OneThread.machine, TwinWorld.twin = machine, people
    fake_time = SimpleNamespace(monotonic=machine.monotonic, time=lambda: machine.time + machine.wall_jump)
    no_thread = SimpleNamespace(
        Lock=threading.Lock,
        Thread=lambda **given: SimpleNamespace(start=lambda: None, join=lambda: None, is_alive=lambda: True),
    )
    changes: list[tuple[Any, str, Any]] = [
        (clock, "time", fake_time),
        (clock, "boot_id", lambda: machine.boot),
        (manager, "LiveWorld", TwinWorld),
        (manager, "threading", no_thread),
        (recovery, "Journal", OneThread),
        (recorder, "KEPT_FINISHED", 3),
        (demands, "MOST_DEMANDS", MOST_DEMANDS),
        (recorder, "ROWS_PER_SNAPSHOT", 40),
        (live_engine, "FIRST_ROOM", 16),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in changes]
    try:
        for where, name, value in changes:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)
