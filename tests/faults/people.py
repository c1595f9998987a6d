"""What people ask a manager for, and what they were told: that must hold, whatever happens."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.faults.machine import Machine
from tests.faults.one_thread import TwinWorld
from tests.faults.setting import Setting

from headway.errors import BadInput
from headway.live.errors import WrongState
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.store import journal as journals

ACTS = 20


class People:
    """Somebody who acts now and then, and remembers the answers."""

    def __init__(self, machine: Machine, setting: Setting) -> None:
        self.machine, self.setting = machine, setting
        self.acts_left, self.next_act = ACTS, machine.time
        self.asked: list[tuple[tuple[str, int], Future[None]]] = []
        self.asking = ("", 0)
        self.acknowledged: dict[int, str] = {}  # jobs by the name of what was submitted
        self.refused: set[str] = set()
        self.unanswered: list[tuple[str, str, dict[str, Any]]] = []
        self.must: dict[int, str] = {}  # what an acknowledged verb promises
        self.number = 0
        self.manager: Manager | None = None

    def act(self, at: "TwinWorld") -> None:
        """Something happens: people, or the world around the machine."""
        chance, machine = self.machine.chance, self.machine
        self.acts_left -= 1
        self.next_act = machine.time + chance.choice([0.0, 0.3, 2.0, 15.0]) * self.setting.scale
        machine.calm = not self.acts_left
        what = chance.choices(
            ["submit", "cancel", "hold", "release", "requeue", "drain", "resume", "full", "jump", "crash"],
            [10, 2, 2, 3, 2, 1, 2, 1, 1, 1],
        )[0]
        self._hear()
        if machine.calm:
            for node in at.state.cluster.nodes:
                self._verb(("resume", 0), lambda node=node: self._manager.resume(node))
            for job in at.state.active_jobs():
                self._verb(("release", job.id), lambda job=job: self._manager.release(job.id))
        elif what == "submit":
            self._submit()
        elif what == "full":
            machine.disk_full_until = machine.time + chance.choice([0.2, 3.0])
            machine.tell(f"the disk is full until {machine.disk_full_until:.3f}")
        elif what == "jump":
            machine.wall_jump += chance.choice([-86_400.0, 3600.0])
            machine.tell("the wall clock jumps")
        elif what == "crash":
            if machine.odds:
                machine.crash("while it waits")
        elif what in ("drain", "resume"):
            node = chance.choice(at.state.cluster.nodes[1:])
            self._verb((what, 0), lambda: getattr(self._manager, what)(node))
        elif self.acknowledged:
            job_id = chance.choice(sorted(self.acknowledged))
            optional = what in ("cancel", "requeue") and self.setting.chance.random() < self.setting.options
            options = [True] if optional else []  # --now, --hold
            self._verb((what, job_id), lambda: getattr(self._manager, what)(job_id, *options))

    @property
    def _manager(self) -> Manager:
        assert self.manager is not None
        return self.manager

    def _verb(self, name: tuple[str, int], ask: Callable[[], None]) -> None:
        self.asking = name
        self.machine.tell(f"someone asks: {name}")
        ask()

    def _submit(self) -> None:
        chance, self.number = self.machine.chance, self.number + 1
        array = chance.random() < 0.15
        spec: dict[str, Any] = {
            "name": f"s{self.number}",
            "run": "true",
            "num_nodes": chance.choice([1, 1, 1, 2]),
            "resources": {"accelerators": chance.choice([1, 1, 2])},
            "preemptible": chance.random() < 0.7,
            "preemption": {"grace": chance.choice([0, 2])},
            "retry": {"on": ["failure", "node_failure"], "max": 1},
            "after": [chance.choice(sorted(self.acknowledged))] if self.acknowledged and chance.random() < 0.15 else [],
            "array": "0-3%2" if array else None,
            "time_limit": chance.choice([None, None, 8 * self.setting.scale]),
        }
        kind = dict(self.setting.chance.choice(self.setting.kinds))
        spec["resources"]["type"] = kind.pop("type", "")
        self._send(f"s{self.number}", self.setting.chance.choice(self.setting.users), {**spec, **kind})

    def _send(self, name: str, user: str, spec: dict[str, Any]) -> None:
        """Submit with a key; whoever gets no answer tries again."""
        self.unanswered.append((name, user, spec))
        self.machine.tell(f"{user} submits {name}")
        with contextlib.suppress(journals.JournalFailed):
            try:
                ids = self._manager.submit(job_spec(spec), user, name)
                self.acknowledged |= dict.fromkeys(ids, name)
                self.machine.tell(f"{name} is accepted as {ids}")
            except (BadInput, WrongState) as error:
                self.refused.add(name)
                self.machine.tell(f"{name} is refused: {error}")
            self.unanswered.pop()

    def _try_again(self) -> None:
        for each in list(self.unanswered):
            self.unanswered.remove(each)
            self._send(*each)

    def _hear(self) -> None:
        """Which requests were answered with yes: those hold."""
        for (what, job), done in self.asked:
            if done.done() and done.exception() is None:
                self.machine.tell(f"done: {what} {job}")
                if what == "cancel":
                    self.must[job] = "CANCELLED"
                elif what in ("requeue", "release", "hold"):
                    self.must.pop(job, None)
        self.asked = [(name, done) for name, done in self.asked if not done.done()]
