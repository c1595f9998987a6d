"""The queues of a live cluster: the row of each job in the engine's table of teams, and the usage and limits of its queue.

A job whose queue is not in the queues file (the file may have changed since it was accepted) has a row of its own, without a guarantee.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from headway.cluster.queues import QUEUE_FIELD, STRANGERS, Booking, Queue, QueueLimits, Queues
from headway.core.keys import usage_at
from headway.core.tables.teams import CLUSTER, Team
from headway.errors import BadInput, unknown
from headway.io.units import counted
from headway.live.errors import LimitReached, NotAdmitted, WrongState
from headway.live.jobfile.spec import JobSpec
from headway.live.state.engine import LiveEngine

SPARE_ROWS: Final = 16  # rows for users at first; a full table is doubled
HOUR_S: Final = 3600.0


def first_teams(queues: Queues | None) -> list[Team]:
    """Return the first rows of the table of teams: the queues, one row for jobs without a queue, and spare rows for users."""
    if queues is None:
        return []
    spare = SPARE_ROWS if any(queue.counts_users for queue in queues.queues) else 0
    return [*queues.teams(), Team(), *(Team() for _ in range(spare))]


def account_line(team: Any, weight: float, half_life_s: float, now: float) -> str:
    """Return a team's decayed GPU time, and this over its weight, in one line; empty: shares have no memory."""
    if half_life_s == math.inf:
        return ""
    gpu_h = float(usage_at(team, now, half_life_s)) / HOUR_S
    return (
        f"{gpu_h:.1f} GPU-h with a half-life of {half_life_s / HOUR_S:g} h, {gpu_h / weight:.1f} over weight {weight:g}"
    )


class LiveTeams:
    """Rows and counts of the queues. Without a queues file every job has the row of the cluster, and nothing is refused."""

    def __init__(self, queues: Queues | None, engine: LiveEngine) -> None:
        self.queues, self._engine = queues, engine
        self.users: dict[tuple[str, str], int] = {}  # rows by queue and user, in queues that count users
        self.reserved: list[Booking] = []  # advance reservations of operators
        self._active: Counter[tuple[str, str]] = Counter()  # active jobs by queue and user; "": all users

    @property
    def restricted(self) -> bool:
        """Return whether some queue admits only some users."""
        return self.queues is not None and any(queue.access for queue in self.queues.queues)

    def __bool__(self) -> bool:
        return self.queues is not None

    @property
    def bookings(self) -> tuple[Booking, ...]:
        """Return the advance reservations of the queues file and of operators."""
        if self.queues is None:
            return ()
        return (*self.queues.bookings, *(booking for booking in self.reserved if booking.queue in self.queues.rows))

    def book(self, nodes: Sequence[str], now: float) -> None:
        """Apply the advance reservations to these nodes of the cluster."""
        if self.queues is not None and (self.bookings or len(self._engine.state.bookings)):
            every = replace(self.queues, bookings=self.bookings)
            self._engine.book(every.booked(nodes, dated=True, missing=True), now)

    def check_booking(self, asked: Booking, now: float) -> None:
        """Refuse an advance reservation of an unknown queue, in the past, or of nodes that are reserved at that time."""
        if self.queues is None:
            raise WrongState("there are no queues to reserve nodes for: start the manager with --queues FILE")
        if asked.queue not in self.queues.rows:
            raise BadInput(f"{unknown('queue', asked.queue, self.queues.rows)} ({self.queues.name})")
        if asked.end <= max(asked.begin, now):
            raise BadInput("a reservation ends after it begins, and not in the past")
        for booking in self.bookings:
            both = sorted(set(booking.nodes) & set(asked.nodes))
            if both and booking.begin < asked.end and asked.begin < booking.end and booking.end > now:
                raise WrongState(
                    f"{both[0]} is kept for queue {booking.queue} at that time: choose another, or unreserve it first"
                )

    def check_unbook(self, nodes: Sequence[str]) -> None:
        """Refuse nodes without an advance reservation of an operator."""
        for node in nodes:
            if any(node in booking.nodes for booking in self.reserved):
                continue
            where = self.queues.name if self.queues else ""
            if any(node in booking.nodes for booking in self.bookings):
                raise WrongState(f"{node} is reserved in {where}: change it there, and restart the manager")
            raise WrongState(f"{node} is not reserved")

    def learn_bookings(self, data: Mapping[str, Any], now: float) -> None:
        """Add an advance reservation of nodes, or (without a queue) end those of these nodes."""
        nodes = tuple(data["nodes"])
        if "queue" in data:
            self.reserved = [booking for booking in self.reserved if booking.end > now]
            self.reserved.append(Booking(nodes, data["queue"], float(data["from"]), float(data["to"]), True))
            return
        fewer = [replace(old, nodes=tuple(name for name in old.nodes if name not in nodes)) for old in self.reserved]
        self.reserved = [booking for booking in fewer if booking.nodes]

    def queue_of(self, spec: JobSpec) -> Queue | None:
        """Return the queue of a job; None if the file has none for it."""
        if self.queues is None:
            return None
        try:
            return self.queues.find(spec.queue)
        except BadInput:
            return None

    def name_of(self, spec: JobSpec) -> str:
        """Return the name of a job's queue."""
        queue = self.queue_of(spec)
        return queue.name if queue else STRANGERS

    def row_of(self, spec: JobSpec, user: str, make: bool = False) -> int:
        """Return the row of a job; `make` gives a new user a row if the queue counts users."""
        queue = self.queue_of(spec)
        if self.queues is None:
            return CLUSTER
        if queue is None:
            return len(self.queues.queues) + 1
        row = self.queues.rows[queue.name]
        if not queue.counts_users:
            return row
        if (queue.name, user) not in self.users and make:
            self.users[queue.name, user] = len(self.queues.queues) + 2 + len(self.users)
            self._engine.set_team(self.users[queue.name, user], self.queues.team_of_user(queue.name))
        return self.users.get((queue.name, user), row)

    def label(self, row: int) -> list[str]:
        """Return the name of a row in the journal: the queue, and the user if the row is a user's."""
        assert self.queues is not None
        if row <= len(self.queues.queues):
            return [self.queues.queues[row - 1].name]
        return next((list(pair) for pair, mine in self.users.items() if mine == row), [STRANGERS])

    def row_named(self, label: list[str]) -> int | None:
        """Return the row of a name in the journal; None if there is no such row now."""
        if self.queues is None:
            return None
        if label == [STRANGERS]:
            return len(self.queues.queues) + 1
        return self.users.get((label[0], label[1])) if len(label) > 1 else self.queues.rows.get(label[0])

    def count(self, spec: JobSpec, user: str, change: int) -> None:
        """Change by `change` the number of active jobs of a user."""
        for queue in self.path(spec):
            self._active[queue.name, ""] += change
            self._active[queue.name, user] += change

    def path(self, spec: JobSpec) -> list[Queue]:
        """Return the queue of a job and the queues above it; []: the file has none for it."""
        queue = self.queue_of(spec)
        return self.queues.path(queue.name) if self.queues and queue else []

    def table(self, row: int) -> Any:
        """Return a row of the engine's table of teams."""
        return self._engine.state.teams[row]

    def used(self, queue: Queue) -> int:
        """Return the GPUs that jobs of a queue and the queues below it hold."""
        row = self.table(self.queues.rows[queue.name] if self.queues else CLUSTER)
        return int(row["used"] + row["leaving"])

    def account(self, queue: Queue, now: float) -> str:
        """Return the account of a queue in one line; empty: shares have no memory."""
        assert self.queues is not None
        return account_line(self.table(self.queues.rows[queue.name]), queue.weight, self.queues.half_life_s, now)

    def check(self, spec: JobSpec, gpus: int) -> None:
        """Refuse a job that its queue could never run on a cluster with this number of GPUs."""
        if self.queues is None:
            return
        queue = self.queues.find(spec.queue)
        most = self.queues.largest_job(queue.name, spec.may_preempt, gpus)
        if spec.gpus > most:
            whose = "" if spec.may_preempt else " to a job that cannot be preempted"
            raise BadInput(
                f"the job asks for {counted(spec.gpus, 'GPU')}, and queue {queue.name!r} gives at most {most}{whose}: "
                "it could never start",
                QUEUE_FIELD,
            )

    def check_access(self, spec: JobSpec, user: str, token_queues: Sequence[str]) -> None:
        """Refuse a job whose queue does not admit its user, or is not one of `token_queues` or below them (empty: all are).

        A job whose queue is not in the file is refused like a submission: BadInput.
        """
        path = self.queues.path(self.queues.find(spec.queue).name) if self.queues else []
        names = [queue.name for queue in path] or [spec.queue]
        if token_queues and not set(names) & set(token_queues):
            several = len(token_queues) > 1
            bound = f"queue{'s' if several else ''} {', '.join(token_queues)} and the queues below {'them' if several else 'it'}"
            raise NotAdmitted(f"this token submits only to {bound}: choose one with --queue, or use another token")
        closed = next((queue for queue in path if queue.access and not queue.access.admits(user)), None)
        if closed is not None:
            above = "" if closed is path[0] else f"is below {closed.name!r}, which "
            raise NotAdmitted(
                f"queue {names[0]!r} {above}admits {closed.access}, and not {user}: "
                "choose another (`headway queues` says who may submit where), or ask an operator"
            )

    def check_waiting(self, spec: JobSpec, user: str, more: int) -> None:
        """Refuse jobs beyond those that may wait in their queue."""
        for queue in self.path(spec):
            for who, limits in (("", queue.limits), (user, queue.per_user)):
                waiting = self.waiting(queue, who)
                if limits.waiting < waiting + more:
                    whose = f" of user {who}" if who else ""
                    raise LimitReached(
                        f"queue {queue.name!r} has {counted(waiting, 'waiting job')}{whose}, and may have {limits.waiting}: "
                        f"{'another' if more == 1 else f'{more} more'} cannot be accepted"
                    )

    def waiting(self, queue: Queue, user: str = "") -> int:
        """Return the number of jobs of a queue, or of one of its users, that have not ended and have no GPUs."""
        assert self.queues is not None
        row = self.users.get((queue.name, user)) if user else self.queues.rows[queue.name]
        active = self._active[queue.name, user]
        return active if row is None else active - int(self.table(row)["running"]) - int(self.table(row)["stopping"])

    def broken_limit(self, spec: JobSpec, user: str) -> tuple[Queue, str, QueueLimits, Any] | None:
        """Return the limit that blocks a job: its queue, its user ("": all), the limits, and the row of what is in use; or None."""
        assert self.queues is not None
        for queue in self.path(spec):
            pairs = [("", queue.limits, self.queues.rows[queue.name])]
            if (queue.name, user) in self.users:
                pairs.insert(0, (user, queue.per_user, self.users[queue.name, user]))
            for who, limits, row in pairs:
                has = self.table(row)
                gpus, jobs = int(has["used"] + has["leaving"]), int(has["running"] + has["stopping"])
                if gpus + spec.gpus > limits.gpus or jobs + 1 > limits.running:
                    return queue, who, limits, has
        return None
