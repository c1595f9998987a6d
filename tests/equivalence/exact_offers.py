"""Offers of a decision of the second implementation: GPUs free now, free soon and under notice, and who gets them."""

from tests.equivalence.exact import RUNNING, STARTING, STOPPING, WAITING, Exact, Job, Place, Seconds
from tests.equivalence.exact_placement import (
    at_least_0,
    consolidated,
    equal_parts,
    fewest,
    fits,
    minus,
    plus,
    spread,
)
from tests.equivalence.exact_teams import Accounts, Booking


class Offers:
    """GPUs that a decision can give, and the accounts of teams. Decisions are performed as they are made."""

    def __init__(self, world: Exact) -> None:
        self.world, self.rules, self.teams, self.now = world, world.rules, world.teams, world.now
        held = [job.place for job in world.those(STARTING, RUNNING, STOPPING)]
        self.free = minus(list(self.rules.nodes), *held)
        self.soon = plus(self.free, *(job.place for job in world.those(STOPPING)))  # below 0: covered by notices
        self.noticed = plus([0] * len(self.free), *(job.place for job in self.under_notice()))
        self.with_gpus = world.those(STARTING, RUNNING)  # with those that this decision starts, without released jobs
        self.with_promise: list[Job] = []  # jobs whose promise this decision made or kept
        self.free_of_promise: dict[int, Place] = {}  # the free GPUs of these promises
        self.keys = {job.number: self.rules.key(job) for job in world.jobs}  # the order as of now
        self.accounts = Accounts(world.teams, world.usage, sum(self.rules.nodes))
        migrating = [job for job in world.those(STOPPING, WAITING) if job.migrating]
        self.accounts.used = self.with_gpus + migrating
        self.accounts.leaving = [job for job in world.those(STOPPING) if not job.migrating]
        self.accounts.promised = [job for job in world.those(WAITING) if job.promise and not job.migrating]
        self.coverage = self.accounts.coverage(self.order)
        self.started: list[Job] = []  # by this decision
        self.any_released = False  # whether this decision stops, migrates or notifies a job

    def order(self, job: Job) -> tuple[Seconds, ...]:
        """Return the job's key, smallest first."""
        return self.keys[job.number]

    def under_notice(self) -> list[Job]:
        """Return the jobs under notice."""
        return [job for job in self.world.those(STARTING, RUNNING) if job.until is not None]

    def placed(self, job: Job, offer: list[int]) -> Place | None:
        """Return the place that the placement chooses from an offer, or None."""
        if job.nodes:
            return equal_parts(offer, job.gpus, job.nodes, not self.rules.consolidated)
        if self.rules.consolidated:
            return consolidated(offer, job.gpus, fewest(self.rules.nodes, job.gpus))
        return spread(offer, job.gpus)

    # Nodes of advance reservations

    def eligible(self, job: Job) -> list[bool]:
        """Return for each node whether no advance reservation keeps it from a job that starts now."""
        return [not self.is_kept_from(job, node) for node in range(len(self.rules.nodes))]

    def is_kept_from(self, job: Job, node: int) -> bool:
        """Return whether an advance reservation of another team keeps the node from a job that starts now."""
        bookings = [booking for booking in self.teams.bookings if booking.node == node]
        if not bookings:
            return False
        runs = self.now + (job.resume if job.attempts else 0)
        gone = runs + min(max(0, job.limit - job.ran), self.rules.min_run(job))
        return any(
            booking.end > self.now
            and (booking.begin <= self.now or gone > booking.begin)
            and self.is_of_others(job, booking)
            for booking in bookings
        )

    def is_of_others(self, job: Job, booking: Booking) -> bool:
        """Return whether an advance reservation is for a team that the job does not belong to."""
        return booking.queue not in self.teams.path(job)

    def on_eligible(self, job: Job, place: Place) -> bool:
        """Return whether all nodes of a place are eligible."""
        eligible = self.eligible(job)
        return all(eligible[node] for node in place)

    # Rooms

    def room(self, job: Job, released: list[Place]) -> list[int]:
        """Return the GPUs free soon for a job: GPUs under notice count for a job within a guarantee only."""
        soon = plus(self.soon, *released)
        if self.accounts.within(job):
            soon = [gpus + noticed for gpus, noticed in zip(soon, self.noticed, strict=True)]
        return at_least_0(soon)

    def all_stopped(self) -> Seconds:
        """Return when all stopping jobs have stopped."""
        return max([self.now, *(job.due for job in self.world.those(STOPPING))])

    def may_start(self, job: Job) -> bool:
        """Return whether limits and guarantees allow the job to start now."""
        return not self.accounts.exceeded(job, stopping=True) and self.accounts.keeps_guarantees(job)

    def may_wait_for(self, job: Job) -> bool:
        """Return whether limits and guarantees allow a promise to the job."""
        return not self.accounts.exceeded(job, stopping=False) and self.accounts.keeps_guarantees(job)

    # Actions

    def start(self, job: Job, place: Place) -> None:
        """Start a job on free GPUs."""
        assert fits(place, self.free)
        self.free, self.soon = minus(self.free, place), minus(self.soon, place)
        self.world.start(job, place)
        self.started.append(job)
        self.with_gpus.append(job)
        self.use(job)

    def keep(self, job: Job) -> None:
        """Set the job's promise aside; it takes free GPUs first."""
        self.free_of_promise[job.number] = {node: min(gpus, self.free[node]) for node, gpus in job.promise.items()}
        self.free = minus(self.free, self.free_of_promise[job.number])
        self.soon = minus(self.soon, job.promise)
        self.with_promise.append(job)
        self.use(job)

    def put_back(self, job: Job) -> None:
        """Return the GPUs of a promise that was set aside."""
        self.free = plus(self.free, self.free_of_promise.pop(job.number))
        self.soon = plus(self.soon, job.promise)
        self.with_promise.remove(job)

    def use(self, job: Job) -> None:
        """Count the job as used."""
        if job not in self.accounts.used:
            self.accounts.used.append(job)

    def promise(self, job: Job, place: Place) -> None:
        """Promise GPUs to a job."""
        self.world.promise(job, place)
        self.keep(job)

    def release(self, job: Job) -> None:
        """Turn the GPUs of a job that is stopped or migrated into GPUs free soon."""
        self.any_released = True
        self.soon = plus(self.soon, job.place)
        if job.until is not None:
            self.noticed = minus(self.noticed, job.place)
        self.with_gpus.remove(job)

    def stop(self, job: Job) -> None:
        """Stop a running job."""
        self.release(job)
        self.world.stop(job)
        self.accounts.used.remove(job)
        self.accounts.leaving.append(job)

    def migrate(self, moves: list[tuple[Job, Place]]) -> None:
        """Migrate jobs, all of which release their GPUs before any gets its new place."""
        for job, _ in moves:
            self.release(job)
        for job, place in moves:
            self.world.migrate(job, place)
            self.keep(job)

    def notify(self, job: Job, until: Seconds, team: str = "") -> None:
        """Put a job under notice for a team's guarantee, or for an advance reservation."""
        self.any_released = True
        self.noticed = plus(self.noticed, job.place)
        self.world.notify(job, until, team)

    def withdraw_notice(self, job: Job) -> None:
        """Withdraw a notice."""
        self.noticed = minus(self.noticed, job.place)
        self.world.notify(job, None)
