"""An executor on the machine of the twin. It sees to it that nothing is started twice, or where it should not be."""

import heapq
import math
from collections.abc import Callable
from typing import Any

from tests.faults.machine import Machine, Process
from tests.faults.setting import Setting
from tests.quiet import Quiet

from headway.live import executors
from headway.live.executors import Launch, Report
from headway.live.state.records import JobProgress

POLL_S = 0.5


class SimulatedExecutor(Quiet):
    """Runs attempts on the machine; a new one for every manager."""

    def __init__(self, machine: Machine, setting: Setting, on_disk: Callable[[int, int], bool]) -> None:
        self.machine, self.setting, self.on_disk, self.count = machine, setting, on_disk, 0
        self.watched: dict[tuple[int, int], bool] = {}  # whether Started was told
        self.calls: list[tuple[float, int, tuple[int, int]]] = []  # when an attempt is looked at
        self.ready: list[Report] = []

    def _call(self, key: tuple[int, int], at: float) -> None:
        """Its shim calls at a moment; a lost call is made good by the next look at all."""
        chance = self.machine.chance
        if chance.random() < 0.2 and not self.machine.calm:
            at += POLL_S * chance.random()
        self.count += 1
        heapq.heappush(self.calls, (at, self.count, key))

    def start(self, launch: Launch) -> None:
        machine, key = self.machine, (launch.job, launch.attempt)
        machine.perhaps_crash(f"before start {key}")
        assert self.on_disk(*key), f"{key} is started before the journal has it"
        for node in set(launch.nodes):
            assert self.setting.suits(node, launch.spec), f"{key} on {node}, which does not have what it asks for"
        if key not in machine.processes:
            for other, process in machine.alive().items():
                assert other[0] != launch.job, f"{key} is started while {other} runs"
                assert not set(process.gpus) & set(launch.gpus), f"{key} and {other} on one GPU"
            if machine.chance.random() < 0.03 and not machine.calm:
                machine.tell(f"start {key} refused")
                self.ready.append(Report(executors.ENDED, *key, lost=True, never_ran=True, refused=True))
                return
            lasts = machine.chance.choice([0.0, 0.05, 3.0, 10.0, 40.0]) * self.setting.scale
            code = machine.chance.choice([0, 0, 0, 0, 1])
            process = Process(launch.gpus, machine.time, machine.time + lasts, code, machine.boot)
            process.honest = self.setting.chance.random() < self.setting.honest
            process.lost = machine.chance.random() < 0.03 and not machine.calm
            machine.processes[key] = process
            machine.tell(f"start {key} on {launch.gpus}, for {lasts} s")
        self.adopt(*key)
        machine.perhaps_crash(f"after start {key}")

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        self.machine.perhaps_crash(f"before stop {(job, attempt)}")
        process = self.machine.processes.get((job, attempt))
        if process and process.over is None and not process.signalled:
            process.signalled, process.lost = True, False
            process.ends = min(
                process.ends, self.machine.time + min(grace_s, self.machine.chance.choice([0.0, 0.5, 3.0]))
            )
            self.machine.tell(f"stop {(job, attempt)}, which ends at {process.ends:.3f}")
            self._call((job, attempt), process.ends)

    def adopt(self, job: int, attempt: int) -> None:
        key = (job, attempt)
        process = self.machine.processes.get(key)
        self.watched.setdefault(key, False)
        self._call(key, self.machine.time)
        if process:
            self._call(key, process.ends)

    def reports(self) -> list[Report]:
        while self.calls and self.calls[0][0] <= self.machine.time:
            self._look(heapq.heappop(self.calls)[2])
        found, self.ready = self.ready, []
        if found and not self.machine.calm and self.machine.chance.random() < 0.1:
            found.append(self.machine.chance.choice(found))  # told twice
        return found

    def _look(self, key: tuple[int, int]) -> None:
        if key not in self.watched:
            return
        machine, process = self.machine, self.machine.processes.get(key)
        if process is None:
            del self.watched[key]
            self.ready.append(Report(executors.ENDED, *key, lost=True, never_ran=True))
            return
        if not self.watched[key]:
            self.watched[key] = True
            self.ready.append(Report(executors.STARTED, *key, at=machine.stamp(process.began, process.boot)))
        if process.over is None:
            if process.ends <= machine.time:
                machine.pass_time(machine.time)
            else:
                if machine.chance.random() < 0.3:
                    done, whole = machine.time - process.began, process.ends - process.began
                    said = (
                        JobProgress(int(done), int(whole) + 2)
                        if process.honest
                        else JobProgress(int(machine.time), 10**6)
                    )
                    self.ready.append(Report(executors.PROGRESSED, *key, progress=said))
                return
        del self.watched[key]
        how: dict[str, Any] = (
            {"lost": True} if process.lost else {"exit_code": 0 if process.signalled else process.code}
        )
        at = machine.stamp(process.over or process.ends, process.boot)
        self.ready.append(Report(executors.ENDED, *key, signalled=process.signalled, at=at, **how))

    def next_call(self) -> float:
        return self.machine.time if self.ready else self.calls[0][0] if self.calls else math.inf
