"""Queues files in YAML: teams, what each is guaranteed, and what it may use at most.

notice: 10m                       # borrowed GPUs are kept so long after they were asked back (default: 0)
half_life: 7d                     # past GPU time counts half in shares after this time (inf: it does not count; default: 7d)
horizon: 10m                      # present GPUs count in shares as if used for this time (default: 10m)
others: guests                    # the queue of jobs whose own is not here; without it they are refused
queues:
  research:
    weight: 2                     # its share beside its siblings (default: 1)
    guaranteed_gpus: 16           # it has them back within the notice (default: 0)
    priority: 0                   # larger is served first (default: 0)
    limits: {running: 10, waiting: 100, gpus: 32}
    per_user: {running: 2, waiting: 20, gpus: 8}
    users: [ada]                  # who may submit to it and to the queues below it (default: everybody)
    groups: [ml]                  # and members of these groups of the manager's machine
  vision: {parent: research, guaranteed_gpus: 8}
  speech: {parent: research, guaranteed_gpus: 8}
  guests: {}
reservations:                     # nodes kept for a queue (and those below it) for a time
  - {nodes: [n000, n001], queue: vision, from: 36h, to: 48h}     # in a simulation; a manager needs dates: 2027-01-31T08:00
"""

import math
from datetime import date, datetime
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headway.cluster.queues import HALF_LIFE_S, HORIZON_S, STRANGERS, Access, Booking, Queue, QueueLimits, Queues
from headway.core.tables.teams import NO_MOST
from headway.errors import BadInput, unknown
from headway.io.units import seconds
from headway.io.yaml_file import read_yaml

MOST_GPUS = 2**31 - 1
DEEPEST = 8  # queues above one another
LONGEST = 256  # characters of a name: a job can name no longer one
MOST_ACCOUNTS = 10_000  # users, or groups, of one queue
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6  # beyond, sums of shares are no longer exact


def _seconds(value: Any) -> float:
    try:
        return seconds(str(value))
    except BadInput as error:
        raise ValueError(str(error)) from None


def _half_life(value: Any) -> float:
    """Return a time in seconds that is more than 0; `inf`: infinity."""
    half_life_s = math.inf if str(value) == "inf" else _seconds(value)
    if half_life_s <= 0.0:
        raise ValueError("must be more than 0: write 7d, or inf for shares without memory")
    return half_life_s


def _horizon(value: Any) -> float:
    """Return a time in seconds that is more than 0."""
    horizon_s = _seconds(value)
    if horizon_s <= 0.0:
        raise ValueError("must be more than 0: write 10m")
    return horizon_s


Most = Annotated[int, Field(ge=0, le=MOST_GPUS, strict=True, examples=["10"])]
Seconds = Annotated[float, BeforeValidator(_seconds)]


def _moment(value: Any) -> tuple[float, bool]:
    """A date as seconds since 1970, local time unless it says otherwise; or a time in seconds."""
    if isinstance(value, str) and value[:4].isdigit() and "-" in value:
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.timestamp(), True
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day).timestamp(), True
    return _seconds(value), False


def moment(text: str, now: float) -> float:
    """A date as seconds since 1970; a time such as 36h counts from now."""
    try:
        at, dated = _moment(text)
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            f"{text!r} is neither a date, such as 2027-01-31T08:00, nor a time from now, such as 8h"
        ) from None
    return at if dated else now + at


Moment = Annotated[tuple[float, bool], BeforeValidator(_moment)]


class LimitsEntry(BaseModel):
    """What may be in use or wait at one time; what is not named is not limited."""

    model_config = ConfigDict(extra="forbid")
    running: Most | None = None
    waiting: Most | None = None
    gpus: Most | None = None

    def made(self) -> QueueLimits:
        """The limits as they are used."""
        return QueueLimits(*(NO_MOST if value is None else value for value in (self.running, self.waiting, self.gpus)))


def _account(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the name {value} is not text in YAML: write '{value}' in quotes")
    if not value or not value.isprintable() or len(value) > LONGEST:
        raise ValueError(f"{value[:LONGEST]!r} is not the name of a user or group")
    return value


def _accounts(value: Any) -> Any:
    """Refuse a key without a value: it would admit everybody."""
    if value is None:
        raise ValueError("the list is missing: write [] to admit only operators, or leave the key out")
    return value


Account = Annotated[str, BeforeValidator(_account)]
Accounts = Annotated[
    Annotated[list[Account], Field(max_length=MOST_ACCOUNTS)] | None, BeforeValidator(_accounts)
]  # None: the key is left out


class QueueEntry(BaseModel):
    """One queue."""

    model_config = ConfigDict(extra="forbid")
    parent: str = ""
    weight: Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False, examples=["2"])] = 1.0
    guaranteed_gpus: Annotated[int, Field(ge=0, le=MOST_GPUS, strict=True, examples=["8"])] = 0
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000, strict=True, examples=["1"])] = 0
    limits: LimitsEntry = LimitsEntry()
    per_user: LimitsEntry = LimitsEntry()
    users: Annotated[Accounts, Field(examples=["[ada]"])] = None
    groups: Annotated[Accounts, Field(examples=["[ml]"])] = None

    @property
    def access(self) -> Access | None:
        """Who may submit; None if the entry has neither users nor groups."""
        if self.users is None and self.groups is None:
            return None
        return Access(tuple(dict.fromkeys(self.users or ())), tuple(dict.fromkeys(self.groups or ())))


class ReservationEntry(BaseModel):
    """Nodes kept for a queue for a time."""

    model_config = ConfigDict(extra="forbid")
    nodes: Annotated[list[str], Field(min_length=1, examples=["[n000, n001]"])]
    queue: Annotated[str, Field(examples=["research"])]
    begin: Annotated[Moment, Field(alias="from", examples=["36h"])]
    end: Annotated[Moment, Field(alias="to", examples=["48h"])]


def _entries(value: Any) -> Any:
    """The queues of a file: one with nothing behind its colon has the defaults."""
    if not isinstance(value, dict):
        return value
    for name in value:
        if not isinstance(name, str):
            raise ValueError(f"the name {name} is not text in YAML: write '{name}' in quotes")
    return {name: {} if entry is None else entry for name, entry in value.items()}


class QueuesFile(BaseModel):
    """A queues file."""

    model_config = ConfigDict(extra="forbid")
    notice: Seconds = 0.0
    half_life: Annotated[float, BeforeValidator(_half_life)] = HALF_LIFE_S
    horizon: Annotated[float, BeforeValidator(_horizon)] = HORIZON_S
    others: str = ""
    reservations: list[ReservationEntry] = []
    queues: Annotated[
        dict[str, QueueEntry],
        BeforeValidator(_entries),
        Field(min_length=1, examples=["{research: {guaranteed_gpus: 8}}"]),
    ]


def queues_from(path: str | PathLike[str]) -> Queues:
    """The queues that a YAML file describes."""
    file = read_yaml(Path(path), QueuesFile, "queues file")
    try:
        names = _sorted(file)
        queues = tuple(_queue(name, file.queues[name]) for name in names)
        bookings = tuple(_booking(entry, file.queues) for entry in file.reservations)
        result = Queues(str(path), queues, file.notice, file.half_life, file.horizon, file.others, bookings)
        _check_bookings(result)
        _check_guarantees(result)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    if result.others and result.others not in result.leaves:
        raise BadInput(f"{path}: others: {unknown('queue', result.others, result.leaves)}")
    return result


def _queue(name: str, entry: QueueEntry) -> Queue:
    most = entry.limits.made()
    if entry.guaranteed_gpus > most.gpus:
        raise BadInput(
            f"queue {name!r} is guaranteed {entry.guaranteed_gpus} GPUs and limited to {most.gpus}: raise the limit"
        )
    return Queue(
        name,
        parent=entry.parent,
        weight=entry.weight,
        guaranteed_gpus=entry.guaranteed_gpus,
        priority=entry.priority,
        limits=most,
        per_user=entry.per_user.made(),
        access=entry.access,
    )


def _booking(entry: ReservationEntry, queues: dict[str, QueueEntry]) -> Booking:
    (begin, dated), (end, also) = entry.begin, entry.end
    if entry.queue not in queues:
        raise BadInput(f"reservations.queue: {unknown('queue', entry.queue, queues)}")
    if dated != also:
        raise BadInput("reservations: from and to are both dates, or both times from the trace's time 0 such as 36h")
    if end <= begin:
        raise BadInput("reservations: `to` must be later than `from`")
    return Booking(tuple(entry.nodes), entry.queue, begin, end, dated)


def _check_bookings(queues: Queues) -> None:
    """A node is kept for one queue at a time."""
    spans = sorted((node, one.begin, one.end) for one in queues.bookings for node in one.nodes)
    for (node, _, end), (other, begin, _) in pairwise(spans):
        if node == other and begin < end:
            raise BadInput(f"reservations: node {node!r} is reserved twice at the same time")


def _sorted(file: QueuesFile) -> list[str]:
    """The names of the queues, parents before their children, otherwise as in the file."""
    depth: dict[str, int] = {}
    for name, entry in file.queues.items():
        if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > LONGEST:
            raise BadInput(
                f"queue {name[:LONGEST]!r}: a name is at most {LONGEST} printable characters without spaces around them"
            )
        if name == STRANGERS:
            raise BadInput(
                f"queue {name!r}: this stands for jobs of queues that are not in the file: choose another name"
            )
        above, steps = entry.parent, 0
        while above:
            if above not in file.queues:
                raise BadInput(f"queues.{name}.parent: {unknown('queue', above, file.queues)}")
            above, steps = file.queues[above].parent, steps + 1
            if steps > DEEPEST:
                raise BadInput(f"queues.{name}.parent: more than {DEEPEST} queues are above it, or it is above itself")
        depth[name] = steps
    return sorted(depth, key=lambda name: depth[name])


def _check_guarantees(queues: Queues) -> None:
    """Queues below another are guaranteed no more than it is."""
    for queue in queues.queues:
        below = [other for other in queues.queues if other.parent == queue.name]
        asked = sum(other.guaranteed_gpus for other in below)
        if asked > queue.guaranteed_gpus:
            raise BadInput(
                f"the queues below {queue.name!r} are guaranteed {asked} GPUs together, and {queue.name!r} itself "
                f"{queue.guaranteed_gpus}: set its guaranteed_gpus to {asked} at least"
            )
        if below and queue.counts_users:
            raise BadInput(
                f"queue {queue.name!r} has queues below it: limits per_user belong to those that jobs are in"
            )
