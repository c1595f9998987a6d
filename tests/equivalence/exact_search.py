"""The one search of the second implementation: which jobs release GPUs for a waiting job, and what that gives."""

from dataclasses import dataclass, field

from tests.equivalence.exact import RUNNING, Job, Place, Seconds
from tests.equivalence.exact_backfill import Backfill
from tests.equivalence.exact_placement import at_least_0, fits, minus, plus

PREEMPT, RECLAIM, DEFRAGMENT = range(3)
STOP, MIGRATE = range(2)


@dataclass
class Plan:
    """What a probe found: a place for the waiting job, and a new place for each job that migrates."""

    place: Place
    starts: Seconds
    migrations: dict[int, Place] = field(default_factory=dict)  # by job; a job that keeps its GPUs has none


Listed = list[tuple[Job, int]]  # jobs that could release GPUs, and how; jobs to spare come first


class Search(Backfill):
    """Making room: preemption, reclaiming a guarantee and defragmentation are one search with three lists."""

    def make_room(self, job: Job, why: int) -> bool:
        """Promise the job a place that released jobs make. Return whether there is one."""
        released = self.least_set(job, self.listed(job, why))
        if not released and why == RECLAIM and self.rules.policy != "fifo":
            stops = self.listed(job, why)
            released = self.least_set(job, self.in_order(self.smaller(job, stops) + stops))
        if not released:
            return False
        if why != RECLAIM and not self.is_worth(job, [one for one, _ in released]):
            return False
        self.commit(job, released, why)
        return True

    # The lists

    def listed(self, job: Job, why: int) -> Listed:
        """Return the jobs that could release GPUs, in the order in which they are spared."""
        able = self.reclaimable(job) if why == RECLAIM else self.preemptable(job)
        stops = self.in_order([(one, STOP) for one in able])
        if why != DEFRAGMENT:
            return stops
        migrations = [(one, how) for one, how in self.smaller(job, stops) if self.has_had_min_run(one)]
        return self.in_order(migrations + stops)

    def in_order(self, listed: Listed) -> Listed:
        """Return a list in the policy's order."""
        return sorted(listed, key=lambda entry: self.order(entry[0]))

    def preemptable(self, job: Job) -> list[Job]:
        """Return the jobs that the policy lets the job preempt now."""
        return [one for one in self.with_gpus if self.has_had_min_run(one) and self.can_be_outranked(one, job)]

    def has_had_min_run(self, one: Job) -> bool:
        """Return whether a job may be preempted: it runs, its minimum run time is over, and it is not under notice."""
        if one.state != RUNNING or one.began >= self.now or one.until is not None:
            return False
        return self.rules.min_run_over(one) <= self.now

    def can_be_outranked(self, holder: Job, job: Job) -> bool:
        """Return whether the policy preempts the holder for the job, once its minimum run time is over."""
        if not self.rules.preempts or not holder.preemptible or self.order(holder) <= self.order(job):
            return False
        teams = self.teams.siblings(holder, job)
        if teams is None:
            return True
        theirs, ours = teams
        covering = self.coverage.get(holder.number, ("", False))[0]
        if covering and covering not in self.teams.path(job):
            return False
        if self.teams[theirs].priority != self.teams[ours].priority:
            return self.teams[theirs].priority < self.teams[ours].priority
        moved = max(holder.gpus, job.gpus)
        return self.accounts.share(theirs, -moved) >= self.accounts.share(ours, moved)

    def reclaimable(self, job: Job) -> list[Job]:
        """Return the jobs that hold GPUs of the guarantee that the job is within."""
        return [one for one in self.with_gpus if one.until is None and self.can_be_reclaimed(one, job)]

    def can_be_reclaimed(self, holder: Job, job: Job) -> bool:
        """Return whether the holder's GPUs can be taken back for the job's guarantee."""
        team = self.accounts.within(job)
        if not team or not holder.preemptible or holder not in self.with_gpus or holder in self.started:
            return False
        if team in self.teams.path(holder):
            return False
        return self.is_borrowed_from(holder, team)

    def is_borrowed_from(self, holder: Job, team: str) -> bool:
        """Return whether a job holds GPUs, at least in part, that no team covers but one above this team."""
        covering, wholly = self.coverage.get(holder.number, ("", False))
        return not wholly or covering in self.teams.above(team)[1:]

    def smaller(self, job: Job, but: Listed) -> Listed:
        """Return the running jobs with fewer GPUs than the job that may migrate, without those listed."""
        others = [one for one, _ in but]
        able = [one for one in self.with_gpus if one.state == RUNNING and one.preemptible and one.until is None]
        able = [one for one in able if one.gpus < job.gpus and one not in others and one not in self.started]
        return [(one, MIGRATE) for one in able]

    # The search

    def could_have_place(self, job: Job) -> bool:
        """Return whether the job would get GPUs if there were no reservation."""
        if self.placed_on_eligible(job, self.soon):
            return True
        stops = self.preemptable(job) if self.world.may_preempt else []
        if not stops or self.accounts.exceeded(job, False, stops):
            return False
        return bool(self.placed_on_eligible(job, plus(self.soon, *(one.place for one in stops))))

    def least_set(self, job: Job, listed: Listed) -> Listed:
        """Return the jobs to release: the last 1, 2, 4, ... until the job fits, then put back from the first; empty: none."""
        size = 1
        while not self.probe(job, listed[-size:]):
            if size >= len(listed):
                return []
            size = min(2 * size, len(listed))
        released = self.without_keepers(job, listed[-size:])
        for entry in list(released):
            others = [other for other in released if other is not entry]
            if self.probe(job, others):
                released = others
        return released if self.probe(job, released) else []

    def without_keepers(self, job: Job, released: Listed) -> Listed:
        """Return the jobs that a plan stops or migrates: jobs that keep their GPUs are not released."""
        plan = self.probe(job, released)
        assert plan is not None
        return [(one, how) for one, how in released if how == STOP or one.number in plan.migrations]

    def probe(self, job: Job, released: Listed) -> Plan | None:
        """Return a plan for the job with the GPUs of released jobs, within limits and beside the reservation."""
        stops = [one for one, how in released if how == STOP]
        if self.accounts.exceeded(job, False, stops):
            return None
        starts = max([self.all_stopped(), *(self.now + one.save for one, _ in released)])
        places = [one.place for one, _ in released]
        place = self.placed(job, self.beside(job, self.room(job, places), starts))
        if not place:
            return None
        plan = Plan(place, starts)
        left = minus(plus(self.soon, *places), place)
        for one in [one for one, how in released if how == MIGRATE]:
            there = self.new_place(one, left)
            if there is None:
                return None
            left = minus(left, there)
            if there != one.place:
                plan.migrations[one.number] = there
        return plan

    def new_place(self, one: Job, left: list[int]) -> Place | None:
        """Return the place of a migrating job: its own GPUs if they are left, GPUs free soon, or released ones."""
        if fits(one.place, left):
            return one.place
        soon = [min(gpus, free) for gpus, free in zip(left, self.soon, strict=True)]
        return self.placed_on_eligible(one, soon) or self.placed_on_eligible(one, left)

    def placed_on_eligible(self, one: Job, room: list[int]) -> Place | None:
        """Return a place on nodes that no advance reservation keeps from the job."""
        eligible = self.eligible(one)
        return self.placed(one, [gpus if eligible[node] else 0 for node, gpus in enumerate(at_least_0(room))])

    def is_worth(self, job: Job, released: list[Job]) -> bool:
        """Return whether releasing these jobs pays for itself by now; otherwise ask for a preemption point."""
        at = self.rules.worth_at(job, released)
        if at > self.now:
            self.world.wake_at = min(self.world.wake_at, at)
        return at <= self.now

    def commit(self, job: Job, released: Listed, why: int) -> None:
        """Perform a plan: a promise for the job, and Stop, Migrate or Notify for each released job."""
        plan = self.probe(job, released)
        assert plan is not None
        leaving = [(one, how) for one, how in released if how == STOP or one.number in plan.migrations]
        until = self.now
        if why == RECLAIM:
            until = max(max(self.now + self.teams.notice, one.runs_from + 1) for one, _ in leaving)
        self.use_beside(job, plan.place, plan.starts)
        for one, how in leaving:
            if until > self.now:
                self.notify(one, until, self.accounts.within(job))
                one.notice_with = job.number if plan.migrations else None
            elif how == STOP:
                self.stop(one)
        if until <= self.now:
            self.migrate([(one, plan.migrations[one.number]) for one, how in leaving if how == MIGRATE])
        self.promise(job, plan.place)
