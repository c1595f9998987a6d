"""The backfill reservation of the second implementation, and which jobs are late beside it."""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass

from tests.equivalence.exact import INF, Job, Place, Seconds
from tests.equivalence.exact_offers import Offers
from tests.equivalence.exact_placement import fits, minus, plus

PATIENCE = 64  # preemptible jobs pass until the reserving job has waited so many times the time to its bound


@dataclass
class Reservation:
    """A place, a bound (infinity: unknown), and the GPUs that remain beside the place on its nodes at the bound."""

    place: Place
    bound: Seconds
    beside: Place


class Backfill(Offers, ABC):
    """Offers beside the backfill reservation."""

    waiting: list[Job]  # jobs to visit
    reserving: Job | None = None
    reservation: Reservation | None = None
    passable = False  # whether the reservation is known not to be firm

    # Late jobs

    def beside(self, job: Job, room: list[int], starts: Seconds) -> list[int]:
        """Return the part of a room that a job may be offered that starts then."""
        eligible = self.eligible(job)
        offer = [gpus if eligible[node] else 0 for node, gpus in enumerate(room)]
        if not self.is_late(job, starts):
            return offer
        assert self.reservation is not None
        left = self.reservation.beside
        return [min(gpus, max(0, left.get(node, gpus))) for node, gpus in enumerate(offer)]

    def use_beside(self, job: Job, place: Place, starts: Seconds) -> None:
        """Count the GPUs that a late job gets on the nodes of the reservation."""
        if self.is_late(job, starts):
            assert self.reservation is not None
            for node in set(place) & set(self.reservation.beside):
                self.reservation.beside[node] -= place[node]

    def is_late(self, job: Job, starts: Seconds) -> bool:
        """Return whether a job that starts then may hold its GPUs beyond the bound of the reservation."""
        if self.reserving is None or not self.rules.reserves or self.accounts.within(job):
            return False
        preemptible = self.rules.preempts and self.rules.min_run(job) < INF
        if preemptible and (job.resume if job.attempts else 0) + self.rules.min_run(job) + job.save == 0:
            return False
        if self.reservation is None:
            if not self.could_have_place(job):
                return False
            self.passable = self.passable or (preemptible and not self.could_be_firm(self.reserving))
            if preemptible and self.passable:
                return False
            self.reservation = self.worked_out(self.reserving)
        bound = self.reservation.bound
        if bound == INF:
            return not preemptible
        if preemptible and not self.is_firm(self.reserving, bound):
            return False
        return max(self.gone_by(job, self.now), self.gone_by(job, starts)) > bound

    def is_firm(self, reserving: Job, bound: Seconds) -> bool:
        """Return whether the reserving job has waited so long for this bound that preemptible jobs do not pass it."""
        return self.now - reserving.queued >= PATIENCE * (bound - self.now)

    def could_be_firm(self, reserving: Job) -> bool:
        """Return whether running jobs leave enough GPUs early enough, by count alone."""
        if not self.is_firm(reserving, self.all_stopped()):
            return False
        running = [one for one in self.with_gpus if one not in self.started]
        stay = [one for one in running if not self.is_firm(reserving, self.had_by(one, reserving))]
        return sum(self.rules.nodes) - sum(one.gpus for one in stay) >= reserving.gpus

    def gone_by(self, job: Job, starts: Seconds) -> Seconds:
        """Return when a waiting job is gone if it starts then; infinity: unknown."""
        assert self.reserving is not None
        runs, min_run = starts + (job.resume if job.attempts else 0), self.rules.min_run(job)
        at = runs + max(0, job.limit - job.ran)
        if not self.rules.preempts or min_run == INF or job.queue != self.reserving.queue:
            return at
        then = copy(job)
        gone = self.next_look(runs + min_run, starts)
        ran = gone - runs
        then.left, then.ran_lately, then.served = job.left - ran, job.ran_lately + ran, job.served + ran * job.gpus
        then.first = min(job.first, starts)
        return min(at, gone + job.save) if self.rules.key(then) > self.order(self.reserving) else at

    def next_look(self, at: Seconds, now: Seconds) -> Seconds:
        """Return the first instant after `now` at which a minimum run time that is over at `at` is seen to be."""
        if not self.rules.dynamic or self.rules.quantum == INF:
            return at
        look = -(-at // self.rules.quantum) * self.rules.quantum
        return look if look > now else look + self.rules.quantum

    # The reservation

    def reserve(self, job: Job) -> None:
        """Give a refused job the backfill reservation, if its nodes could hold it when empty."""
        eligible = self.eligible(job)
        whole = [gpus if eligible[node] else 0 for node, gpus in enumerate(self.rules.nodes)]
        if self.reserving is None and self.placed(job, whole):
            self.reserving = job

    def worked_out(self, job: Job) -> Reservation:
        """Return the reservation: the shortest prefix of holders, by the time they are gone, that gives a place."""
        standing, eligible = self.standing_promises(), self.eligible(job)
        soon = minus(self.soon, *(one.promise for one in standing))
        holders = self.with_gpus + self.with_promise + standing
        times = {one.number: self.had_by(one, job) for one in holders}

        def rank(one: Job) -> tuple[Seconds, Seconds, int]:
            at = times[one.number]
            return at, self.will_run_from(one) if at == INF else 0, one.number

        holders.sort(key=rank)
        for count in range(len(holders) + 1):
            room = plus(soon, *map(self.gpus_of, holders[:count]))
            place = self.placed(job, [max(0, gpus) if eligible[node] else 0 for node, gpus in enumerate(room)])
            if place:
                bound = self.bound(job, holders[:count], times)
                if bound < INF:
                    gone = [one for one in holders if times[one.number] <= bound]
                    room = plus(soon, *map(self.gpus_of, gone))
                return Reservation(place, bound, {node: room[node] - gpus for node, gpus in place.items()})
        raise AssertionError("every GPU is free soon or held, and empty nodes could hold the job")

    def standing_promises(self) -> list[Job]:
        """Return the jobs not visited yet whose promises still stand, oldest first."""
        soon, standing = self.soon, []
        for job in sorted([job for job in self.waiting if job.promise], key=lambda job: job.promised):
            if fits(job.promise, soon):
                soon = minus(soon, job.promise)
                standing.append(job)
        return standing

    def gpus_of(self, job: Job) -> Place:
        """Return the GPUs that a job holds or was promised."""
        return job.place if job in self.with_gpus else job.promise

    def bound(self, job: Job, holders: list[Job], times: dict[int, Seconds]) -> Seconds:
        """Return the bound of a reservation that waits for these holders."""
        bound = max([self.all_stopped(), *(times[one.number] for one in holders)])
        preempted = [one for one in holders if self.can_be_outranked(one, job)]
        if self.rules.rent and preempted:
            bound = max(bound, self.rules.worth_at(job, preempted) + max(one.save for one in preempted))
        return bound

    def had_by(self, holder: Job, job: Job) -> Seconds:
        """Return when the GPUs of a holder can be had for the reserving job; infinity: unknown."""
        runs = self.will_run_from(holder)
        at = max(self.now, runs) + max(0, holder.limit - holder.ran)
        if self.can_be_outranked(holder, job):
            over = self.next_look(max(self.now, runs + self.rules.min_run(holder)), self.now)
            at = min(at, over + holder.save)
        if holder.until is not None:
            at = min(at, max(self.now, holder.until) + holder.save)
        elif self.can_be_reclaimed(holder, job):
            at = min(at, max(self.now + self.teams.notice, runs + 1) + holder.save)
        return at

    def will_run_from(self, holder: Job) -> Seconds:
        """Return when a job with GPUs or a promise runs, or will run."""
        if holder in self.with_gpus:
            return holder.runs_from
        return self.all_stopped() + (holder.resume if holder.attempts else 0)

    @abstractmethod
    def can_be_outranked(self, holder: Job, job: Job) -> bool:
        """Return whether the policy preempts the holder for the job, once its minimum run time is over."""

    @abstractmethod
    def can_be_reclaimed(self, holder: Job, job: Job) -> bool:
        """Return whether the holder's GPUs can be taken back for the job's guarantee."""

    @abstractmethod
    def could_have_place(self, job: Job) -> bool:
        """Return whether the job would get GPUs if there were no reservation."""
