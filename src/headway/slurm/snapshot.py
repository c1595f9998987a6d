"""A snapshot of Slurm: its nodes and jobs at one time, independent of its version and of the means of access."""

from dataclasses import dataclass, field

RESERVED = frozenset({"MAINT", "MAINTENANCE", "RESERVED", "RES"})
# Words of a node's state after which nothing can be started there (sinfo, "NODE STATE CODES").
AWAY = frozenset(
    {
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "FAIL",
        "FAILING",
        "ERROR",
        "UNKNOWN",
        "FUTURE",
        "NO_RESPOND",
        "NOT_RESPONDING",
    }
    | RESERVED
    | {"REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "PERFCTRS"}
    | {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWERED_OFF", "INVAL", "INVALID", "INVALID_REG"}
)
# A job in one of these states holds what it was given.
HOLDING = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"}
)
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
# States after which nobody knows what the job's processes did (squeue, "JOB STATE CODES").
BROKEN = frozenset({"NODE_FAIL", "BOOT_FAIL"})


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node; `state` is in Slurm's words, `reason` what its operator wrote."""

    name: str
    address: str
    gpus: int
    gpu_type: str = ""
    gpus_used: int = 0  # as Slurm counts them, which may be more than its jobs hold
    cpus: int = 1
    memory_mb: int = 0
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    state: tuple[str, ...] = ("IDLE",)
    reason: str = ""

    @property
    def away(self) -> bool:
        """Whether nothing can be started there now: down, drained, reserved."""
        return any(word in AWAY for word in self.state)


@dataclass(frozen=True, slots=True)
class Share:
    """What a job holds on one node."""

    gpus: int = 0
    cpus: int = 0
    memory_mb: int = 0


ANYBODY = -1


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job; times are seconds since 1970, 0 when there is none."""

    id: int
    state: str
    comment: str = ""
    name: str = ""
    user: str = ""
    uid: int = ANYBODY  # where Slurm does not say whose it is
    partition: str = ""
    reason: str = ""
    shares: dict[str, Share] = field(default_factory=dict)
    node_count: int = 1
    gpus: int = 0  # of all nodes together, as asked for
    exit_code: int = 0
    submitted: float = 0.0
    eligible: float = 0.0  # when nothing but resources kept it from starting
    started: float = 0.0
    ended: float = 0.0
    limit_s: float | None = None
    nice: int = 0
    priority: int = 0
    restarts: int = 0
    array: int = 0  # the array that it is a task of; 0: none
    het: int = 0  # the heterogeneous job that it is a part of, by the number of its first part; 0: none

    @property
    def one(self) -> int:
        """The job with which it starts, or does not start, as one: the heterogeneous job, or itself."""
        return self.het or self.id

    @property
    def alone(self) -> str:
        """How a request names this job and no other: what is asked for by the number of the first part goes to all parts."""
        return f"{self.id}+0" if self.het == self.id else str(self.id)

    @property
    def holds(self) -> bool:
        """Whether it has nodes."""
        return self.state in HOLDING

    @property
    def waits(self) -> bool:
        """Whether it is yet to be started."""
        return self.state in WAITING

    @property
    def could_start(self) -> bool:
        """Whether nothing but room keeps it from starting: no hold, dependency, limit or later beginning."""
        return self.waits and not self.held and self.reason in ("", "None", "Priority", "Resources")

    @property
    def held(self) -> bool:
        """Whether somebody holds it back."""
        return self.waits and self.priority == 0


@dataclass(frozen=True, slots=True)
class SlurmSnapshot:
    """All jobs that Slurm still knows, by number, and all nodes in Slurm's order."""

    jobs: dict[int, SlurmJob]
    nodes: tuple[SlurmNode, ...]
