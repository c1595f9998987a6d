"""Queues of teams, as a simulation and a manager use them: their shares, and the rows that jobs have in the engine's table of teams."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core.protocols import Policy
from headway.core.tables.state import BOOKING
from headway.core.tables.teams import CLUSTER, NO_MOST, Team
from headway.errors import BadInput, unknown
from headway.io.accounts import group_exists, is_member, names_in_words, user_exists

DEFAULT: Final = "default"  # the queue of jobs that name none
QUEUE_FIELD: Final = {"field": "queue"}  # of errors about the queue of a job
# Defaults of a queues file. Slurm has the same half-life. bench/shares.py: shares are off by 2 % at most, but for sjf (docs/queues.md).
HALF_LIFE_S: Final = 7 * 86400.0  # a week
HORIZON_S: Final = 600.0  # 10 minutes
STRANGERS: Final = "(no queue)"  # stands for jobs of queues that the file does not have


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What may be in use or wait at one time."""

    running: int = NO_MOST  # jobs
    waiting: int = NO_MOST  # jobs; a manager refuses more
    gpus: int = NO_MOST

    @property
    def given(self) -> dict[str, int]:
        """Those that are set, by name."""
        every = {"running": self.running, "waiting": self.waiting, "gpus": self.gpus}
        return {name: most for name, most in every.items() if most < NO_MOST}


@dataclass(frozen=True, slots=True)
class Access:
    """Who may submit to a queue: users by name, and members of groups of the manager's machine."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def admits(self, user: str) -> bool:
        """Return whether the user may submit; memberships in groups are looked up now."""
        return user in self.users or is_member(user, self.groups)

    def __str__(self) -> str:
        return names_in_words(self.users, self.groups) or "only operators"


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue: its share beside its siblings, its guarantee, its limits, and who may submit to it."""

    name: str
    parent: str = ""  # "": the cluster
    weight: float = 1.0
    guaranteed_gpus: int = 0
    priority: int = 0
    limits: QueueLimits = QueueLimits()
    per_user: QueueLimits = QueueLimits()
    access: Access | None = None  # None: all users whom the queues above it admit

    @property
    def counts_users(self) -> bool:
        """Whether the engine has to tell its users apart."""
        return self.per_user != QueueLimits()


@dataclass(frozen=True, slots=True)
class Booking:
    """Nodes kept for a queue for a time: seconds since 1970 where they were dates, otherwise since the trace's time 0."""

    nodes: tuple[str, ...]
    queue: str
    begin: float
    end: float
    dated: bool


@dataclass(frozen=True, slots=True)
class Queues:
    """All queues, parents before their children."""

    name: str  # of the file
    queues: tuple[Queue, ...]
    notice_s: float = 0.0  # time from Notify until borrowed GPUs are taken back
    half_life_s: float = (
        math.inf
    )  # time after which past usage counts half in shares (infinity: only present usage counts)
    horizon_s: float = HORIZON_S  # time for which present usage counts in shares, beside past usage
    others: str = ""  # the queue of jobs whose own is not here; "": there is none
    bookings: tuple[Booking, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict, compare=False)  # of queues in the table of teams

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", {queue.name: row for row, queue in enumerate(self.queues, CLUSTER + 1)})

    def __getitem__(self, name: str) -> Queue:
        return self.queues[self.rows[name] - 1]

    @property
    def options(self) -> dict[str, Any]:
        """Return the engine's options that queues set. Every policy reserves, so that small jobs of others do not pass a large one."""
        horizon_s = self.horizon_s if self.half_life_s < math.inf else 1.0
        return {"notice": self.notice_s, "half_life": self.half_life_s, "horizon": horizon_s, "reserves": True}

    def find_for_trace(self, name: str, trace: str) -> Queue:
        """Return the queue of a job of a trace. An error names the trace and the fix."""
        try:
            return self.find(name)
        except BadInput as error:
            fix = "add it to the file, or name a queue for all others (others: NAME)"
            raise BadInput(f"{trace}: {error}; {fix}") from None

    def find(self, name: str) -> Queue:
        """The queue that a job goes to which names this one ("": none); BadInput where there is none."""
        wanted = name or (DEFAULT if DEFAULT in self.rows else "")
        if wanted not in self.rows:
            wanted = self.others
        if not wanted and not name:
            raise BadInput(f"the job names no queue: name one of {', '.join(self.leaves)} ({self.name})", QUEUE_FIELD)
        if not wanted:
            raise BadInput(f"{unknown('queue', name, self.leaves)} ({self.name})", QUEUE_FIELD)
        if wanted not in self.leaves:
            below = ", ".join(queue.name for queue in self.queues if queue.parent == wanted)
            raise BadInput(f"queue {wanted!r} has queues below it: name one of {below} ({self.name})", QUEUE_FIELD)
        return self[wanted]

    @property
    def leaves(self) -> list[str]:
        """The queues that jobs are in: those without queues below them."""
        above = {queue.parent for queue in self.queues}
        return [queue.name for queue in self.queues if queue.name not in above]

    def as_tree(self) -> list[Queue]:
        """All queues, each followed by those below it."""
        paths = {queue.name: [above.name for above in reversed(self.path(queue.name))] for queue in self.queues}
        return sorted(self.queues, key=lambda queue: [self.rows[name] for name in paths[queue.name]])

    def path(self, name: str) -> list[Queue]:
        """A queue and those above it, from the lowest on."""
        queues = []
        while name:
            queues.append(self[name])
            name = queues[-1].parent
        return queues

    def unknown_accounts(self) -> str:
        """Return a warning about admitted users and groups that this machine does not have; empty if it has all."""
        restricted = [queue.access for queue in self.queues if queue.access]
        users = dict.fromkeys(user for access in restricted for user in access.users if not user_exists(user))
        groups = dict.fromkeys(group for access in restricted for group in access.groups if not group_exists(group))
        missing = names_in_words([*users], [*groups])
        advice = "check the spelling, or create the accounts"
        return f"{self.name}: this machine has no {missing}: {advice}" if missing else ""

    def shares(self) -> dict[str, float]:
        """The share of the cluster that each queue asks for by its weight, level by level; "" is the cluster."""
        shares: dict[str, float] = {"": 1.0}
        for queue in self.queues:
            siblings = sum(other.weight for other in self.queues if other.parent == queue.parent)
            shares[queue.name] = shares[queue.parent] * queue.weight / siblings
        return shares

    def check_size(self, gpus: int, cluster: str) -> None:
        """Refuse guarantees that the cluster cannot give."""
        asked = sum(queue.guaranteed_gpus for queue in self.queues if not queue.parent)
        if asked > gpus:
            raise BadInput(
                f"{self.name}: the queues are guaranteed {asked} GPUs together, and {cluster} has {gpus}: guarantee fewer"
            )

    def booked(self, nodes: Sequence[str], dated: bool, missing: bool = False) -> NDArray[Any]:
        """The engine's table of nodes kept for queues, on a cluster with these nodes (`missing`: perhaps without some of those named).

        `dated`: times are dates, as a manager needs them.
        """
        rows = []
        for booking in self.bookings:
            if booking.dated != dated:
                wanted = "a date, such as 2027-01-31T08:00" if dated else "a time from the trace's time 0, such as 36h"
                raise BadInput(f"{self.name}: reservations.from and to: write {wanted}")
            for name in booking.nodes:
                if name not in nodes and missing:
                    continue
                if name not in nodes:
                    raise BadInput(f"{self.name}: reservations.nodes: {unknown('node', name, nodes)}")
                rows.append((booking.begin, booking.end, nodes.index(name), self.rows[booking.queue]))
        return np.sort(np.array(rows, BOOKING), order="begin")

    def largest_job(self, name: str, preemptible: bool, gpus: int) -> int:
        """Return the most GPUs that a job of this queue may request on a cluster with `gpus` GPUs, whatever runs there."""
        path = self.path(name)
        most = min(gpus, path[0].per_user.gpus, *(queue.limits.gpus for queue in path))
        if not all(limits.running for limits in (path[0].per_user, *(queue.limits for queue in path))):
            return 0
        if preemptible:
            return most
        # One that cannot be stopped gets what its queue is guaranteed, and what is guaranteed to nobody beside those above it.
        own = path[0].guaranteed_gpus
        for above, guaranteed in [*((queue.name, queue.guaranteed_gpus) for queue in path[1:]), ("", gpus)]:
            own += guaranteed - sum(queue.guaranteed_gpus for queue in self.queues if queue.parent == above)
        return min(most, own)

    def teams(self) -> list[Team]:
        """The rows of the table of teams for the queues."""
        return [
            Team(
                parent=self.rows.get(queue.parent, CLUSTER),
                weight=queue.weight,
                guarantee=queue.guaranteed_gpus,
                priority=queue.priority,
                most_gpus=queue.limits.gpus,
                most_running=queue.limits.running,
            )
            for queue in self.queues
        ]

    def team_of_user(self, queue: str) -> Team:
        """The row of one user of a queue that tells its users apart."""
        most = self[queue].per_user
        return Team(parent=self.rows[queue], most_gpus=most.gpus, most_running=most.running, of_user=True)


def refuse_teams(policy: Policy) -> None:
    """Refuse policies under which the GPUs of a team cannot be counted."""
    if policy.packs:
        raise BadInput(
            f"policy {policy.name} puts two jobs on one GPU: with queues, a GPU belongs to one team at a time"
        )
    if policy.allot is not None:
        raise BadInput(
            f"policy {policy.name} changes the sizes of jobs: with queues, a job has the GPUs that it asked for"
        )


def seat_in_teams(
    queues: Queues, queue: Iterable[str], user: Iterable[str], where: str
) -> tuple[list[Team], NDArray[np.int32], NDArray[np.str_]]:
    """The rows of the table of teams for the jobs of a trace; for each job its row, and the queue that it goes to."""
    teams, homes = queues.teams(), {}
    rows: list[int] = []
    names: list[str] = []
    for pair in zip(queue, user, strict=True):
        if pair not in homes:
            home = queues.find_for_trace(str(pair[0]), where)
            row = queues.rows[home.name]
            if home.counts_users:
                teams.append(queues.team_of_user(home.name))
                row = len(teams)
            homes[pair] = (row, home.name)
        rows.append(homes[pair][0])
        names.append(homes[pair][1])
    return teams, np.array(rows, np.int32), np.array(names)
