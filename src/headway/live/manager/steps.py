"""The values that the life cycle yields. Each is applied before the next one is taken (`loop/recorder.py: Recorder.take`).

An `Event` or `Fact` is recorded by the engine. A `Note` is a row of the journal that the engine does not record. Attempts are started,
stopped and notified once the journal has the rows of the round.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.engine import Event, Recorded
from headway.live.executors import Launch
from headway.live.state.records import JobProgress


@dataclass(frozen=True, slots=True)
class Fact(Event):
    """A fact for the engine, with the data of its journal row."""

    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """A journal row that the engine does not record. `job` is a job's number, or 0; `attempt` defaults to its present attempt."""

    kind: str
    job: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class KeepProgress:
    """Store the progress that a job reported; not every report becomes a journal row."""

    job: int
    progress: JobProgress


@dataclass(frozen=True, slots=True, order=True)
class SetAlarm:
    """Look at a job again at a time that the engine's timers do not know: its time limit, or the end of its back-off."""

    at: float
    why: str
    job: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class LogError:
    """Note an error for the operator, in `headway health`."""

    message: str


@dataclass(frozen=True, slots=True)
class AdoptAttempt:
    """Watch an attempt that an earlier manager started."""

    job: int
    attempt: int


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Start the processes of an attempt."""

    launch: Launch


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Send the ranks of an attempt a signal, and kill them after the grace."""

    job: int
    attempt: int
    signal: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class NotifyAttempt:
    """Announce to the ranks when their GPUs are taken back, by the manager's clock (infinity: the notice is withdrawn)."""

    job: int
    attempt: int
    until: float


Effect = AdoptAttempt | StartAttempt | StopAttempt | NotifyAttempt
Step = Recorded | Note | KeepProgress | SetAlarm | LogError | Effect
Steps = Iterator[Step]
