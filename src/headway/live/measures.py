"""Measurements since the manager started: times of decisions, rounds and commits, waits of jobs, and errors."""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

# Upper bounds in seconds. Decisions take 40 us to some ms, a commit about one rotation of a disk, waits up to weeks.
QUICK: Final = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5)
WAITS: Final = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0)
MOST_QUEUES: Final = 50  # users may invent names of queues: the waits of further queues are counted together
OTHER_QUEUES: Final = "other"
NO_QUEUE: Final = "default"  # the queue of jobs that name none
KEPT: Final = 1000  # latest values, for percentiles
MOST_ERRORS: Final = 20


Count = TypeVar("Count", int, "Histogram")


class Histogram:
    """Values counted by upper bounds, and the latest of them."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.latest: deque[float] = deque(maxlen=KEPT)

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        self.latest.append(value)

    @property
    def count(self) -> int:
        """Return the number of values."""
        return sum(self.counts)

    def copied(self) -> "Histogram":
        """Return a copy of the counts, without the latest values. Another thread may add a value meanwhile."""
        return self + Histogram(self.bounds)

    def __add__(self, other: "Histogram") -> "Histogram":
        both = Histogram(self.bounds)
        both.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        both.total = self.total + other.total
        return both

    def cumulative(self) -> list[tuple[str, float]]:
        """Return pairs of an upper bound and the number of values up to it, as Prometheus expects."""
        buckets, so_far = [], 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            so_far += count
            buckets.append((bound, float(so_far)))
        return buckets


def folded(by_queue: Mapping[str, Count], public: Collection[str]) -> dict[str, Count]:
    """Return the counts with all queues that are not `public` added up as OTHER_QUEUES."""
    counts: dict[str, Count] = {}
    for name, count in by_queue.items():
        shown = name if name in public else OTHER_QUEUES
        counts[shown] = counts[shown] + count if shown in counts else count
    return counts


@dataclass(frozen=True, slots=True)
class Timing:
    """Count and mean of all values of a histogram, and percentiles of the latest."""

    count: int
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float


def timing(of: Histogram) -> Timing:
    """Return the figures of a histogram for `headway health`."""
    latest, count = sorted(of.latest), of.count
    if not latest:
        return Timing(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    p50, p95, p99 = (latest[min(len(latest) - 1, int(share * len(latest)))] for share in (0.5, 0.95, 0.99))
    return Timing(count, of.total / count, p50, p95, p99, latest[-1])


@dataclass(frozen=True, slots=True)
class Mishap:
    """An error: when it occurred last (seconds since 1970), and how often in a row."""

    time: float
    message: str
    times: int = 1


@dataclass(slots=True)
class Measures:
    """All measurements. The engine's thread writes them."""

    rounds: Histogram = field(default_factory=lambda: Histogram(QUICK))
    commits: Histogram = field(default_factory=lambda: Histogram(QUICK))
    waits: dict[str, Histogram] = field(default_factory=dict)  # until the first start, by queue
    mishaps: deque[Mishap] = field(default_factory=lambda: deque(maxlen=MOST_ERRORS))
    errors: int = 0
    failing: set[str] = field(default_factory=set)  # parts of the manager that fail now, such as the webhook
    behind_since: float | None = None  # the time of the oldest row that is not in the journal

    def waited(self, queue: str, seconds: float) -> None:
        """Count the wait of a job until its first start."""
        name = queue or NO_QUEUE
        name = name if name in self.waits or len(self.waits) < MOST_QUEUES else OTHER_QUEUES
        self.waits.setdefault(name, Histogram(WAITS)).add(seconds)

    def error(self, now: float, message: str) -> None:
        """Add an error, or count it if it repeats the last one."""
        self.errors += 1
        line = (message.strip().splitlines() or [""])[-1][:300]
        last = self.mishaps[-1] if self.mishaps else None
        if last and last.message == line:
            self.mishaps[-1] = Mishap(now, line, last.times + 1)
        else:
            self.mishaps.append(Mishap(now, line))
