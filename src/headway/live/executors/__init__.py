"""Executors start, watch and stop attempts of jobs. One package per executor, found by its name (`registry`); they share `common`.

An executor is a subclass of `Executor`. What happens to an attempt is returned as a `Report` and never raised. A report names its attempt,
so that the manager can drop late and repeated reports. Imports the job file, the records of jobs, `cluster` and `network`.
"""

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headway.cluster.nodes import Cluster
from headway.errors import BadInput
from headway.findings import Finding
from headway.io.accounts import own_account
from headway.live.executors.common.folders import journal_of, write_notice
from headway.live.jobfile.spec import JobSpec
from headway.live.state.records import JobProgress
from headway.live.state.records import NodeReport as NodeReport  # part of what an executor returns
from headway.network.fabric.model import Fabric

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
    prolog: str = ""  # programs of the operator that run before and after the ranks
    epilog: str = ""
    max_processes: int | None = None  # processes and threads at once; None: a default
    journal: str = ""  # the identity of the journal that the attempt belongs to
    links: tuple[tuple[int, int], ...] = ()  # (leaf, a bit per spine) that only this job uses
    files: dict[str, str] = field(default_factory=dict)  # by name: files of its slice of a fabric, for its folder


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time on one machine: by the monotonic clock of a boot, and by the wall clock, which people may set."""

    boot: str
    monotonic: float
    wall: float


@dataclass(frozen=True, slots=True)
class Report:
    """A report about an attempt: it has started, ended, or made progress."""

    what: str  # STARTED, ENDED or PROGRESSED
    job: int
    attempt: int
    exit_code: int | None = None
    signalled: bool = False  # the attempt was asked to stop before it ended
    lost: bool = False  # its outcome is unknown: the machine or the shim died
    never_ran: bool = False  # it ended before any rank was started
    refused: bool = False  # the machine could not start it: no memory, no disk
    message: str = ""
    progress: JobProgress | None = None
    at: Stamp | None = None  # None: when it is reported
    trouble: str = ""  # another error, for the operator


def stray(job: int, end: str = "") -> str:
    """Return the line of `Executor.strays` for a job; `end` is a command that ends it, if there is one."""
    line = f"job {job} still runs, and its GPUs count as free here, because the journal lost it"
    return f"{line}; `{end}` ends it" if end else line


def not_started(launch: Launch, why: str) -> Report:
    """Return the end of an attempt that did not begin: the job waits, and is tried again later.

    The manager reports this, and `start_failed`, for a `start` that fails. An executor that starts attempts later, in a thread of its
    own, calls them itself.
    """
    return Report(ENDED, launch.job, launch.attempt, lost=True, never_ran=True, refused=True, message=why)


def start_failed(launch: Launch, error: BadInput | OSError) -> Report:
    """Return the end of an attempt whose `start` raised: final after BadInput; after an OSError the job is tried again."""
    if isinstance(error, BadInput):
        return Report(ENDED, launch.job, launch.attempt, exit_code=127, message=str(error))
    return not_started(launch, f"cannot start: {error.strerror or str(error) or type(error).__name__}")


@dataclass(frozen=True, slots=True)
class Discovery:
    """The nodes that an executor discovered, and a note for the operator, who declared none."""

    cluster: Cluster
    note: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Features of an executor. A request for a missing feature is refused, never ignored."""

    copies_output: bool = False  # copies logs to the `output` of a job file
    numbers_gpus: bool = False  # the nodes are parts of one machine, and jobs know GPUs by their numbers there
    enforced: frozenset[str] = frozenset()  # limits of a job file that the executor enforces: cpus, memory, processes
    log_cap: bool = False  # obeys `cap_logs`
    hooks: bool = False  # runs `Launch.prolog` and `Launch.epilog`
    process_limit: bool = False  # applies `Launch.max_processes`

    def refuse(self, executor: str, *, hooks: bool = False, log_cap: bool = False, process_limit: bool = False) -> None:
        """Raise BadInput for the first of these features that the operator set and the executor lacks."""
        if hooks and not self.hooks:
            raise BadInput(f"--prolog and --epilog: the executor {executor} does not run them: leave them out")
        if log_cap and not self.log_cap:
            raise BadInput(f"--log-cap: the executor {executor} does not limit logs: leave it out")
        if process_limit and not self.process_limit:
            raise BadInput(f"--max-processes: the executor {executor} does not limit processes: leave it out")


class Executor(ABC):
    """Starts, stops and watches attempts. The manager creates an executor with the data folder: `Class(data)`.

    A class that takes options is created as `Class(data, options)` (see `registry`). The constructor changes nothing outside the object;
    `open` does. A subclass defines `start`, `stop` and `adopt`, and calls `tell` with what happens to its attempts.
    """

    capabilities = Capabilities()  # `open` may set another value, if `enforced` depends on the machine
    fabric: Fabric | None = None  # the network between the nodes, if the executor knows it
    journals: tuple[str, ...] | None = None  # identities of the journals whose attempts may be adopted; None: any

    def __init__(self, data: Path) -> None:
        self.data = data.resolve()
        self.runs = self.data / "runs"
        self._reports: deque[Report] = deque()  # appending and popping are safe between threads
        self._wake: Callable[[], None] = lambda: None

    # ---- every executor defines these

    @abstractmethod
    def start(self, launch: Launch) -> None:
        """Start all ranks or none; starting an attempt twice is harmless. BadInput or OSError: nothing runs (`start_failed`)."""

    @abstractmethod
    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Signal all ranks, and kill the processes that are left after the grace; stopping twice is harmless."""

    @abstractmethod
    def adopt(self, job: int, attempt: int) -> None:
        """Watch an attempt that an earlier manager started, or report its end."""

    # ---- the folder of an attempt, and its reports

    def folder(self, job: int, attempt: int) -> Path:
        """Return the folder of an attempt."""
        return self.runs / str(job) / str(attempt)

    def is_foreign(self, job: int, attempt: int) -> bool:
        """Return whether the folder of an attempt belongs to a journal that is not one of `journals`."""
        owner = journal_of(self.folder(job, attempt))
        return self.journals is not None and owner is not None and owner not in self.journals

    def tell(self, report: Report) -> None:
        """Add a report, and wake the manager."""
        self._reports.append(report)
        self._wake()

    # ---- optional: these have a default

    def open(self, wake: Callable[[], None]) -> None:
        """Make the folder of runs and remember `wake`, which `tell` calls. An executor that watches starts its thread after this."""
        self.runs.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._wake = wake

    def close(self) -> None:  # noqa: B027
        """Stop watching; jobs go on."""

    def reports(self) -> list[Report]:
        """Return the reports since the last call."""
        return [self._reports.popleft() for _ in range(len(self._reports))]

    def logs(self, job: int, attempt: int) -> list[Path]:
        """Return the log of each rank, in order: `rank-N.log` in the folder of the attempt."""
        paths = self.folder(job, attempt).glob("rank-*.log")
        return sorted(paths, key=lambda path: int(path.stem.removeprefix("rank-")))

    def notify(self, job: int, attempt: int, until: float | None) -> None:
        """Write when the GPUs of an attempt are taken back, in seconds since 1970, to its folder; None removes the notice."""
        with contextlib.suppress(OSError):
            write_notice(self.folder(job, attempt), until)

    def discover(self) -> Discovery:
        """Return the nodes to use if the operator declares none; BadInput if the executor cannot find nodes."""
        raise BadInput("this executor does not find nodes: declare them with --cluster")

    def check_user(self, user: str) -> None:
        """Raise BadInput for a user whose jobs must not be started here. The default accepts only the manager's own user.

        A job of another user would have the rights of the manager's account, which may be root. An executor that runs jobs as their users
        overrides this (`common/account.py`).
        """
        own = own_account()[1]
        if user != own:
            raise BadInput(f"this executor runs all jobs as {own}: jobs of {user!r} would have the rights of {own}")

    def cap_logs(self, most_bytes: int) -> None:  # noqa: B027
        """Keep at most this much of each log; called only if the capability `log_cap` is declared."""

    def node_reports(self) -> list[NodeReport]:
        """Return the state of all nodes if one has changed since the last call; otherwise nothing."""
        return []

    def remarks(self) -> list[str]:
        """Return remarks that `explain` adds for every waiting job, such as an outage."""
        return []

    def strays(self) -> list[str]:
        """Return the attempts that run and that no journal has, one line each for the operator."""
        return []

    def checks(self) -> list[Finding]:
        """Return findings about this machine for `headway doctor`. The executor is not open; change nothing."""
        return []

    def warnings(self) -> list[str]:
        """Return warnings for the operator after `open`, one line each."""
        return []
