"""The facts of an explanation, one class per kind. `text.py` makes sentences of them. Times are seconds since 1970."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from headway.job_state import JobState
from headway.live.queries.borrowing import Notice, Promised
from headway.live.queries.reservations import Holder, Reserved


class Plain(Enum):
    """Facts without values."""

    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    CANCELLING = auto()
    TIME_UP = auto()  # it is being stopped at its time limit
    STOPPING_OTHERS = auto()  # jobs are being stopped for it
    TOO_COSTLY = auto()  # jobs later in the order could be preempted, but that costs more than it has waited for
    UNGUARANTEED = auto()  # it runs on GPUs that are guaranteed to no queue, and keeps them


@dataclass(frozen=True, slots=True)
class Remark:
    """A text from outside the explanation, such as that Slurm does not answer, or that a disk is nearly full."""

    text: str
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The job has ended."""

    state: JobState
    message: str


@dataclass(frozen=True, slots=True)
class Needs:
    """The GPUs and nodes that the job asks for, and the nodes that meet its constraints."""

    gpus: int
    nodes: int  # 0: any number
    per_node: int  # GPUs on each node; 0: any number
    constraints: str  # GPU type and features; empty: none
    eligible: int  # nodes
    cluster: int  # nodes


# ---- jobs that are not offered to the engine


@dataclass(frozen=True, slots=True)
class Held:
    """The job is on hold."""

    job: int


@dataclass(frozen=True, slots=True)
class Follows:
    """The job waits for other jobs to end."""

    jobs: tuple[tuple[str, tuple[int, ...]], ...]  # by how they must end: a kind of `after`, or singleton


@dataclass(frozen=True, slots=True)
class ArrayLimit:
    """The array of the job runs as many tasks as it may."""

    tasks: int


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """The job failed, or could not be started, and is tried again."""

    failures: int
    message: str
    until: float


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The cluster has become too small for the job."""

    job: int
    needs: Needs
    gpus: int  # of eligible nodes


# ---- jobs that wait for GPUs


@dataclass(frozen=True, slots=True)
class Behind:
    """GPUs that become free are offered to the job with the backfill reservation first."""

    reservation: Reserved
    fits_beside: bool  # GPUs of other nodes are too few for that job, and enough for this one


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """The GPUs that are free for the job, and what would free more."""

    needs: Needs
    numbers: Mapping[str, float]  # of the explanation
    preempted: bool
    scattered: bool  # enough are free, but not together
    strict: bool  # the placement takes no more nodes than needed
    migrates_from: float | None  # from then on smaller jobs may migrate to make room; None: never
    behind: Behind | None


@dataclass(frozen=True, slots=True)
class InOrder:
    """The policy blocks at the head of the line, and other jobs are ahead."""

    policy: str
    ahead: int
    fits: bool


@dataclass(frozen=True, slots=True)
class MinRuntimesLeft:
    """Jobs later in the order may be preempted once their minimum run times are over."""

    holders: tuple[Holder, ...]
    helps: bool  # their GPUs would not be offered to another job first


@dataclass(frozen=True, slots=True)
class KeptForIt:
    """GPUs are kept for the job: it is the first that finds no place."""

    reservation: Reserved
    demotes: bool  # jobs lose their place in the order by running


@dataclass(frozen=True, slots=True)
class KeptForOther:
    """GPUs that are free are kept for a job before this one."""

    reservation: Reserved
    time_limit: float  # seconds with which the job could pass; 0: no time limit helps
    checkpoints: bool  # a job with a checkpoint folder could pass


@dataclass(frozen=True, slots=True)
class NodesKept:
    """An advance reservation keeps nodes for another queue."""

    nodes: tuple[str, ...]
    queue: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Drained:
    """Too few nodes take jobs."""

    needs: Needs
    gpus: int  # of eligible nodes that take jobs
    nodes: int  # that take jobs and have as many GPUs as the job asks for on each node
    drained: tuple[str, ...]


# ---- links


@dataclass(frozen=True, slots=True)
class LinksInUse:
    """The links of a running job."""

    leaves: tuple[str, ...]  # switches above its nodes
    own: tuple[tuple[str, tuple[str, ...]], ...]  # leaf, and the switches that its links lead to; (): none of its own
    isolation: str  # that its job file asks for; `none`: it does not
    placement: str  # that gives every job links of its own; empty: jobs may share links


@dataclass(frozen=True, slots=True)
class NoLinks:
    """GPUs are free, but not with links for the job alone."""

    gpus: int
    free: int
    drained: tuple[str, ...]  # nodes
    isolation: str  # that its job file asks for; `none`: it does not
    placement: str  # that gives every job links of its own; empty: jobs may share links


# ---- queues


@dataclass(frozen=True, slots=True)
class QueueGone:
    """The queue of the job is not in the queues file."""

    queue: str


@dataclass(frozen=True, slots=True)
class QueueShare:
    """The use of a queue's guarantee, with the queues below it."""

    queue: str
    used: int
    guaranteed: int
    promised: int  # GPUs under notice that are promised to other jobs, if these keep the job out of the guarantee
    served_first: bool  # the guarantee has room for the job
    unplaceable: bool  # it has, but preemptions and migrations make no place for the job on nodes
    account: str  # GPU time of the job's queue; empty: shares have no memory


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A limit of the queue, or of one user in it, keeps the job waiting."""

    queue: str
    user: str  # empty: the limit of the whole queue
    limit: int
    used: int
    gpus: int  # that the job asks for; 0: the limit is a number of jobs


@dataclass(frozen=True, slots=True)
class OverGuarantee:
    """Jobs that the queue counts first leave too little for the job."""

    queue: str
    preemptible: bool  # the job
    promised: bool  # GPUs under notice are promised to jobs of the queue


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """The GPUs of a running job are part of the guarantee of a queue."""

    queue: str


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A running job has GPUs beyond the guarantee of its queue."""

    queue: str
    used: int
    guaranteed: int
    unused: tuple[tuple[str, int], ...] | None  # other queues, and unused GPUs of their guarantees; None: under notice
    notice_s: float


ForGpus = (FreeGpus | InOrder | MinRuntimesLeft | KeptForIt) | (KeptForOther | NodesKept | Promised)
OfQueue = (QueueGone | QueueShare | OverLimit | OverGuarantee) | (Guaranteed | Borrowed | Notice)
Fact = (
    (Plain | Remark | Ended | Held | Follows | ArrayLimit | RetryBackoff | TooLarge | Drained)
    | (LinksInUse | NoLinks)
    | ForGpus
    | OfQueue
)
