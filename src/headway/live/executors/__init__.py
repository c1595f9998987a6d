"""Executors: how an action becomes processes. One folder per executor, found by its name (see `registry`).

An executor fills the hooks of `Executor`. It never raises for what happens to a job: that comes back as a Report. Every report names the
attempt that it is about, so that late or doubled ones can be dropped. Imports the job file, the records of jobs, and `cluster`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from headway.cluster.nodes import Cluster
from headway.live.jobfile.spec import JobSpec
from headway.live.state.records import Progress

STARTED, ENDED, PROGRESSED = "started", "ended", "progressed"


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt of one job, ready to be rendered."""

    job: int
    attempt: int
    user: str
    spec: JobSpec
    gpus: tuple[int, ...]  # in the order of ranks
    nodes: tuple[str, ...]  # of each GPU
    array_id: int | None = None
    array_index: int | None = None
    environment: dict[str, str] = field(default_factory=dict)  # HEADWAY_API, HEADWAY_TOKEN and the like
    prolog: str = ""  # programs of the operator's that run before and after it
    epilog: str = ""
    max_processes: int | None = None  # that it may have at once, with their threads; None: a default
    journal: str = ""  # the identity of the journal that the attempt belongs to
    links: tuple[tuple[int, int], ...] = ()  # (leaf, a bit per spine) that are the job's alone
    files: dict[str, str] = field(default_factory=dict)  # to be written to its folder: about its slice of a fabric


@dataclass(frozen=True, slots=True)
class Stamp:
    """When something happened on a machine: its monotonic clock during a boot, and its wall clock, which people may set."""

    boot: str
    monotonic: float
    wall: float


@dataclass(frozen=True, slots=True)
class Report:
    """Something that happened to an attempt."""

    what: str
    job: int
    attempt: int
    exit_code: int | None = None
    signalled: bool = False  # it was asked to stop before it ended
    lost: bool = False  # nobody knows how it ended: the machine or its shim died
    never_ran: bool = False  # lost before any rank was started
    refused: bool = False  # the machine could not start it: no memory, no disk
    message: str = ""
    progress: Progress | None = None
    at: Stamp | None = None  # when, if that is known better than by when it is reported
    trouble: str = ""  # went wrong beside it: for the operator


def not_started(launch: Launch, why: str) -> Report:
    """An attempt that was not even tried: its job is put back, and tried again later."""
    return Report(ENDED, launch.job, launch.attempt, never_ran=True, refused=True, message=why)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """How a node is now: why it takes no jobs (empty: it does), and how many of its GPUs others than Headway use."""

    node: str
    away: str = ""
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Discovery:
    """The nodes that an executor found, and a note for the person who did not declare any."""

    cluster: Cluster
    note: str = ""


class Executor(Protocol):
    """Starts, stops and watches attempts. A class of this kind is made with the manager's data folder: `Class(data)`."""

    def discover(self) -> Discovery:
        """The nodes to use where the operator declares none."""

    def check_user(self, user: str) -> None:
        """Raise BadInput for a user whose jobs could not be started here."""

    def open(self, wake: Callable[[], None]) -> None:
        """Begin to watch; call `wake` when a report is ready."""

    def start(self, launch: Launch) -> None:
        """Start all ranks or none; doing it twice for one attempt is harmless."""

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Signal all ranks, and kill what is left after the grace; doing it twice is harmless."""

    def adopt(self, job: int, attempt: int) -> None:
        """Watch an attempt that an earlier manager started, or report how it ended."""

    def reports(self) -> list[Report]:
        """What happened since the last call."""

    def logs(self, job: int, attempt: int) -> list[Path]:
        """The log of each rank, in order."""

    def close(self) -> None:
        """Stop watching; jobs go on."""


@runtime_checkable
class Notifies(Protocol):
    """The optional hook of executors that pass notices on to running jobs (headway.runtime.notice)."""

    def notify(self, job: int, attempt: int, until: float | None) -> None:
        """Tell an attempt when its GPUs are taken back, in seconds since 1970 (None: not any more); doing it twice is harmless."""


@runtime_checkable
class Shared(Protocol):
    """What an executor has besides, where Headway is not alone on its nodes."""

    def node_reports(self) -> list[NodeReport]:
        """How all nodes are, if that has changed since the last call; otherwise nothing."""

    def remarks(self) -> str:
        """What people should know while jobs wait; empty when there is nothing."""
