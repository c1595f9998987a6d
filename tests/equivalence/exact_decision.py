"""A decision of the second implementation, stage by stage as docs/semantics.md has them."""

from typing import Any

from tests.equivalence.exact import INF, RUNNING, STOPPING, WAITING, Exact, Job, Place
from tests.equivalence.exact_placement import fits, minus, plus
from tests.equivalence.exact_search import DEFRAGMENT, PREEMPT, RECLAIM, Search

OWN_GUARANTEE, GUARANTEE_ABOVE, NO_GUARANTEE = range(3)
Row = tuple[str, str]  # a queue, and a user of it; "": all users


class Decision(Search):
    """One decision, performed as it is made."""

    def __init__(self, world: Exact) -> None:
        super().__init__(world)
        self.waiting: list[Job] = []  # jobs to visit
        self.refused: set[Any] = set()  # classes
        self.blocked: set[Row] = set()  # queues and users under fifo
        self.withdrawn = False  # whether a promise was
        self.unmet = False  # whether a job within a guarantee found no place

    def run(self) -> bool:
        """Make the decision. Return whether to decide again at once."""
        if self.world.may_preempt or not self.world.those(WAITING):
            self.world.wake_at = INF
        if self.world.may_preempt:
            self.vacate_reserved_nodes()
        self.honour_protected_promises()
        if not self.end_notices():
            return True
        self.waiting = [job for job in self.world.those(WAITING) if job not in self.with_promise]
        if not self.world.may_preempt:
            self.visit(within_only=True)
            self.honour_promises()
        self.visit()
        self.withdraw_promises()
        self.withdraw_notices()
        self.ask_to_defragment()
        unmet = self.unmet and (bool(self.started) or self.any_released)
        over = [job for job in self.under_notice() if self.world.notice_over(job) <= self.now]
        return bool(over) or ((self.withdrawn or unmet) and bool(self.teams.teams))

    # Stages around the visits

    def vacate_reserved_nodes(self) -> None:
        """Stop preemptible jobs of other teams on nodes whose reservation has begun; notify them before it begins."""
        for booking in self.teams.bookings:
            for job in [job for job in self.with_gpus if booking.node in job.place and job.preemptible]:
                if not self.is_of_others(job, booking) or booking.end <= self.now:
                    continue
                if booking.begin <= self.now:
                    if job.state == RUNNING and job.began < self.now:
                        self.stop(job)
                elif booking.begin - self.teams.notice <= self.now and job.until is None and job.state == RUNNING:
                    self.notify(job, booking.begin)

    def honour_protected_promises(self) -> None:
        """Start or keep protected promises, oldest first; then visit jobs within a guarantee that have a promise."""
        for job in self.promised(WAITING, STOPPING):
            if self.is_protected(job) and (job.state == STOPPING or not self.start_promised(job)):
                self.keep_if_it_stands(job)
        for job in self.promised(WAITING):
            if self.accounts.within(job):
                self.place(job)

    def is_protected(self, job: Job) -> bool:
        """Return whether no other job takes the promise: of a migration, or made at this instant."""
        if job.migrating:
            return True
        return bool(self.teams.teams) and job.promised_at == self.now

    def promised(self, *states: int) -> list[Job]:
        """Return the jobs with a promise that this decision has not kept yet, oldest first."""
        jobs = [job for job in self.world.those(*states) if job.promise and job not in self.with_promise]
        return sorted(jobs, key=lambda job: job.promised)

    def end_notices(self) -> bool:
        """Stop or migrate jobs whose notice is over and needed. Return False if a notice had to be withdrawn."""
        over = [
            job for job in self.needed_notices() if job.state == RUNNING and self.world.notice_over(job) <= self.now
        ]
        stops = [job for job in over if not job.notice_for or self.is_borrowed_from(job, job.notice_for)]
        for job in stops:
            self.stop(job)
        movers = sorted((job for job in over if job not in stops), key=self.order)
        soon, moves = plus(self.soon, *(job.place for job in movers)), []
        for job in movers:
            place = self.placed_on_eligible(job, soon)
            if place is None:
                self.withdraw_notice(job)
                return False
            soon = minus(soon, place)
            moves.append((job, place))
        self.migrate(moves)
        return True

    def needed_notices(self) -> list[Job]:
        """Return the jobs whose notice is needed: from the latest on, each is dropped that no promise needs."""
        noticed, needed = self.noticed, []
        for job in sorted(self.under_notice(), key=lambda job: (job.until, job.number), reverse=True):
            rest = minus(noticed, job.place)
            short = any(self.soon[node] + rest[node] < 0 for node in job.place)
            if short or not job.notice_for or job.notice_with in [one.number for one in self.with_promise]:
                needed.append(job)
            else:
                noticed = rest
        return needed

    def honour_promises(self) -> None:
        """Start or keep all other promises, oldest first: this is no preemption point."""
        for job in [job for job in self.promised(WAITING) if job in self.waiting]:
            if self.start_promised(job) or self.keep_if_it_stands(job):
                self.waiting.remove(job)

    def withdraw_promises(self) -> None:
        """Withdraw the promises that no stage kept."""
        for job in self.promised(WAITING, STOPPING):
            self.world.withdraw(job)
            self.withdrawn = True

    def withdraw_notices(self) -> None:
        """Withdraw the notices that are not needed."""
        needed = self.needed_notices()
        for job in self.under_notice():
            if job not in needed:
                self.withdraw_notice(job)

    def ask_to_defragment(self) -> None:
        """Ask for a preemption point when the first refused job has waited for defragment_after."""
        if self.reserving is not None and self.world.may_preempt:
            at = self.reserving.queued + self.rules.defragment_after
            if at > self.now:
                self.world.wake_at = min(self.world.wake_at, at)

    # Visits

    def visit(self, within_only: bool = False) -> None:
        """Visit waiting jobs in order, or only those within a guarantee that come first."""
        while job := self.candidate(""):
            if within_only and not self.accounts.within(job):
                return
            placed = self.place(job)
            self.waiting.remove(job)
            if not placed and self.refuse(job):
                return

    def candidate(self, team: str) -> Job | None:
        """Return the next job of a team; "": of the cluster."""
        jobs = [job for job in self.waiting if job.queue == team and not self.is_skipped(job)]
        if jobs:
            return min(jobs, key=lambda job: self.rank_in_queue(job, team))
        below = [(child, self.candidate(child.name)) for child in self.teams.children(team)]
        found = [(child, job) for child, job in below if job is not None]
        if not found:
            return None

        def rank(pair: tuple[Any, Job]) -> tuple[Any, ...]:
            child, job = pair
            share = self.accounts.share(child.name)
            return self.guarantee_rank(job, child.name), -child.priority, share, self.order(job)

        return min(found, key=rank)[1]

    def rank_in_queue(self, job: Job, queue: str) -> tuple[Any, ...]:
        """Return the rank of a job inside its queue."""
        if self.rules.policy == "fifo":
            return self.order(job)
        return self.guarantee_rank(job, queue), self.order(job)

    def guarantee_rank(self, job: Job, team: str) -> int:
        """Return whether a job is within a guarantee of the team or below it, or of a team above it."""
        within = self.accounts.within(job)
        if not within:
            return NO_GUARANTEE
        return OWN_GUARANTEE if team in self.teams.above(within) else GUARANTEE_ABOVE

    def is_skipped(self, job: Job) -> bool:
        """Return whether a job of its class was refused, or its queue is blocked."""
        rows = {(name, "") for name in self.teams.path(job)} | {(job.queue, job.user)}
        return self.job_class(job) in self.refused or bool(rows & self.blocked)

    def job_class(self, job: Job) -> Any:
        """Return what jobs have in common that are refused together."""
        return self.teams.row(job), job.gpus, job.nodes

    # The ladder

    def place(self, job: Job) -> bool:
        """Start the job, keep its promise, or promise it a place. Return whether one of these worked."""
        if not self.accounts.keeps_guarantees(job):
            return False
        if self.start_promised(job) or self.start_free(job) or self.keep_if_it_stands(job) or self.promise_soon(job):
            return True
        if self.world.may_preempt and self.rules.preempts and self.make_room(job, PREEMPT):
            return True
        if self.accounts.exceeded(job, stopping=False):
            return False
        if self.accounts.within(job) and self.make_room(job, RECLAIM):
            return True
        return self.may_defragment(job) and self.make_room(job, DEFRAGMENT)

    def start_promised(self, job: Job) -> bool:
        """Start the job on the GPUs of its promise, if all of them are free."""
        free = bool(job.promise) and fits(job.promise, self.free) and self.on_eligible(job, job.promise)
        if not free or not self.stands(job) or not self.may_start(job):
            return False
        self.start(job, job.promise)
        return True

    def start_free(self, job: Job) -> bool:
        """Start the job on free GPUs."""
        place = self.placed_free(job)
        if place:
            self.use_beside(job, place, self.now)
            self.start(job, place)
        return bool(place)

    def placed_free(self, job: Job) -> Place | None:
        """Return a place on free GPUs where the job may start, or None."""
        return self.placed(job, self.beside(job, self.free, self.now)) if self.may_start(job) else None

    def stands(self, job: Job) -> bool:
        """Return whether all GPUs of the job's promise are still free soon."""
        if not job.promise or not self.on_eligible(job, job.promise):
            return False
        noticed = bool(self.accounts.within(job)) and not job.migrating
        return all(
            gpus <= self.soon[node] + (self.noticed[node] if noticed else 0) for node, gpus in job.promise.items()
        )

    def keep_if_it_stands(self, job: Job) -> bool:
        """Keep the job's promise, if it stands and limits allow it."""
        if not self.stands(job) or not self.may_wait_for(job):
            return False
        self.keep(job)
        return True

    def promise_soon(self, job: Job) -> bool:
        """Promise the job GPUs that are free soon."""
        within = bool(self.accounts.within(job))
        if not self.world.those(STOPPING) and not (within and self.under_notice()):
            return False
        plan = self.probe(job, [])
        if plan is None:
            return False
        self.use_beside(job, plan.place, plan.starts)
        self.promise(job, plan.place)
        return True

    def may_defragment(self, job: Job) -> bool:
        """Return whether smaller jobs may migrate for this job: it is the first refused one, and has waited long."""
        if not self.world.may_preempt or self.reserving is not None:
            return False
        return self.now >= job.queued + self.rules.defragment_after

    # Refusals

    def refuse(self, job: Job) -> bool:
        """Note that the job found no place. Return whether no further job is visited."""
        pinned = not self.accounts.keeps_guarantees(job)
        self.unmet |= bool(self.accounts.within(job)) and not pinned and not self.accounts.exceeded(job, stopping=False)
        limits = self.accounts.exceeded(job, stopping=False)
        if self.rules.policy == "fifo":
            if not self.teams.teams:
                return True
            self.blocked |= set(limits) or {(job.queue, "")}
        if not pinned and not self.is_held_back(job):
            self.refused.add(self.job_class(job))
        if not pinned and not limits:
            self.reserve(job)
        return False

    def is_held_back(self, job: Job) -> bool:
        """Return whether only the backfill reservation keeps a job of a policy without preemption from free GPUs."""
        if self.rules.preempts or not self.is_late(job, self.now):
            return False
        eligible = self.eligible(job)
        return bool(self.placed(job, [gpus if eligible[node] else 0 for node, gpus in enumerate(self.free)]))
