"""Response types for monitoring, of a live cluster or a recorded run: plain data. Times are seconds since 1970, or those of the trace."""

from dataclasses import dataclass, field

from headway.client.job import JobView

HIDDEN = 0  # instead of the number of a job that is not the caller's to see


@dataclass(frozen=True, slots=True)
class Recording:
    """That this is a finished run, which can be looked at as of any time between two: give `at` with a question."""

    first: float
    last: float
    title: str


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node, and for each of its GPUs the jobs that hold it (0: somebody else's; none: free)."""

    name: str
    state: str
    gpus: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at one moment: who holds which GPU, who waits first and for what, and what is wrong."""

    now: float
    last_event: int  # the number of the journal's last row: ask /v1/events for what comes after
    policy: str
    placement: str
    cluster: str
    trouble: str
    gpus: int
    gpus_busy: int
    counts: dict[str, int]
    nodes: tuple[GpuNode, ...]
    jobs: tuple[JobView, ...]  # those on GPUs
    waiting: tuple[JobView, ...]  # the first of those that wait, in the policy's order
    reasons: dict[str, int]  # how many wait for what
    longest_wait_s: float
    recording: Recording | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A priority queue: jobs with this much attained service, in GPU-seconds (no upper bound: None)."""

    level: int
    from_gpu_s: float
    to_gpu_s: float | None
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Jobs that have not ended: `matching` of `total` pass the filter, and these are the ones from `offset` on."""

    now: float
    total: int
    matching: int
    offset: int
    jobs: tuple[JobView, ...]
    levels: tuple[Level, ...]
    users: tuple[str, ...]
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """How it went, in equal steps from `first` to `last`: means of each step, and how many jobs ended in it."""

    first: float
    last: float
    step_s: float
    utilisation: tuple[float, ...]
    running: tuple[float, ...]
    waiting: tuple[float, ...]
    completed: tuple[int, ...]
    failed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a job's life: waiting, starting, running or stopping. `links` are named leaf-spine."""

    kind: str
    attempt: int
    since: float
    until: float | None
    nodes: dict[str, int] = field(default_factory=dict)  # GPUs by node
    links: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a job at one moment."""

    time: float
    kind: str
    attempt: int
    words: str


@dataclass(frozen=True, slots=True)
class Story:
    """The life of a job so far, from its rows of the journal; `gpus` are those it holds now, as node:GPU in the order of ranks."""

    job_id: int
    now: float
    phases: tuple[Phase, ...]
    marks: tuple[Mark, ...]
    gpus: tuple[str, ...] = ()
    whole: bool = True  # False: it has more rows than are read


@dataclass(frozen=True, slots=True)
class Uplink:
    """A link between a leaf and a spine that jobs use. `load` counts the flows on it at their worst moment; above 1 they contend."""

    leaf: int
    spine: int
    jobs: tuple[int, ...]
    alone: bool  # it is reserved for its one job
    load: int = 1


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit through an optical switch, from a leaf to a spine (-1: not known)."""

    switch: int
    leaf: int
    spine: int
    job_id: int


@dataclass(frozen=True, slots=True)
class NetworkView:
    """The fabric and who uses which of its links now. `kind` is that of the fabric; none: the switches are not known."""

    now: float
    kind: str
    name: str
    sharing: str  # how jobs share links, in words
    leaves: tuple[tuple[str, ...], ...]  # the nodes of each leaf
    spines: int
    links: tuple[Uplink, ...]
    circuits: tuple[Circuit, ...]
    jobs: tuple[JobView, ...]
