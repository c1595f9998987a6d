"""Properties that the second implementation has by itself, checked while it runs.

`violations(case)` returns what a run of the case violates. Nothing here is taken from the engine.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tests.equivalence.cases import Case, jobs_of
from tests.equivalence.exact import INF, RUNNING, STARTING, STOPPING, WAITING, Exact, Job, Place, Seconds
from tests.equivalence.exact_decision import Decision
from tests.equivalence.exact_search import MIGRATE, PREEMPT, STOP, Listed
from tests.equivalence.exact_teams import Accounts


class Checks:
    """The violations found so far, and what has to be remembered between decisions."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.found: list[tuple[str, Seconds, Any]] = []  # (property, time, job)
        self.counts: dict[str, int] = defaultdict(int)
        self.stopped: set[int] = set()  # preempted by the policy's order at this instant
        self.stopped_for: dict[int, int] = {}  # jobs that other jobs were released for at this instant
        self.owed_since: dict[int, Seconds] = {}
        self.bounds: dict[int, Seconds] = {}
        self.now: Seconds = -1

    def note(self, name: str, world: Exact, job: Any = None) -> None:
        """Add a violation."""
        self.found.append((name, world.now, job))

    def new_instant(self, world: Exact) -> None:
        """Forget what concerns the last instant only."""
        if world.now != self.now:
            self.now = world.now
            self.stopped, self.stopped_for = set(), {}

    def after_decision(self, world: Exact) -> None:
        """Check GPUs and limits."""
        holders = world.those(STARTING, RUNNING, STOPPING)
        for node, gpus in enumerate(world.rules.nodes):
            if sum(job.place.get(node, 0) for job in holders) > gpus:
                self.note("GPU held twice", world, node)
        for team in world.teams.teams:
            members = [job for job in holders if team.name in world.teams.path(job)]
            if exceeds(members, team.running, team.gpus):
                self.note("limit exceeded", world, team.name)
            for user in {job.user for job in members if job.queue == team.name}:
                own = [job for job in members if job.user == user and job.queue == team.name]
                if exceeds(own, team.user_running, team.user_gpus):
                    self.note("user limit exceeded", world, (team.name, user))

    def after_instant(self, world: Exact) -> None:
        """Check what has to hold when no round is left at this instant."""
        for number in self.stopped_for:
            job = world.jobs[number]
            if job.state not in (STARTING, RUNNING) and not job.promise:
                self.note("stopped in vain", world, number)
        self.check_guarantees(world)

    def check_guarantees(self, world: Exact) -> None:
        """Check that no job within a guarantee waits for longer than the bound."""
        if not world.teams.teams or world.teams.bookings:
            return
        longest = max(job.save for job in world.jobs) + max(job.resume for job in world.jobs)
        bound = world.teams.notice + longest + 1
        owed = {job.number for job in world.those(WAITING) if self.is_owed(world, job)}
        for number in [number for number in self.owed_since if number not in owed]:
            waited = world.now - self.owed_since.pop(number)
            if waited > bound:
                self.note("guarantee late", world, number)
        for number in owed:
            self.owed_since.setdefault(number, world.now)
            self.counts["owed"] += 1

    def is_owed(self, world: Exact, job: Job) -> bool:
        """Return whether a job is within a guarantee, limits allow it to start, and its queue is not blocked."""
        accounts = Accounts(world.teams, world.usage, sum(world.rules.nodes))
        accounts.used = [one for one in world.jobs if one.state in (STARTING, RUNNING) or one.migrating]
        accounts.used += [one for one in world.those(WAITING) if one.promise and one is not job and not one.migrating]
        accounts.leaving = world.those(STOPPING)
        if not accounts.within(job) or accounts.exceeded(job, True) or not accounts.keeps_guarantees(job):
            return False
        earlier = [one for one in world.those(WAITING) if one.queue == job.queue and one.number < job.number]
        return world.rules.policy != "fifo" or not earlier


def exceeds(members: Iterable[Job], running: float, gpus: float) -> bool:
    """Return whether these jobs exceed a limit."""
    jobs = list(members)
    return len(jobs) > running or sum(job.gpus for job in jobs) > gpus


class Checked(Decision):
    """A decision that checks its own searches."""

    checks: Checks

    def commit(self, job: Job, released: Listed, why: int) -> None:
        """Check that the set is the least, that its GPUs are used, and that no preempted job preempts in turn."""
        self.checks.counts["searches"] += 1
        plan = self.probe(job, released)
        assert plan is not None
        for entry in released:
            if self.probe(job, [other for other in released if other is not entry]):
                # With migrations the probe is not monotone: a job tried early may be put back once others are.
                name = "not the least set" + (" with migrations" if plan.migrations else "")
                self.checks.note(name, self.world, entry[0].number)
        for entry, how in released:
            used = any(node in place for place in (plan.place, *plan.migrations.values()) for node in entry.place)
            limit = self.accounts.exceeded(job, stopping=False)
            if how == STOP and not used and not limit:
                self.checks.note("GPUs not used", self.world, entry.number)
            if how == MIGRATE and entry.number not in plan.migrations:
                self.checks.counts["released but not migrated"] += 1
        if job.number in self.checks.stopped and why == PREEMPT:
            self.checks.note("unstable", self.world, job.number)
        super().commit(job, released, why)
        stopped = [one.number for one, _ in released if one.state == STOPPING]
        if stopped:
            self.checks.stopped_for[job.number] = why
        if why == PREEMPT:
            self.checks.stopped.update(stopped)

    def stop(self, job: Job) -> None:
        """Count the stop."""
        super().stop(job)
        self.checks.counts["stops"] += 1

    def start(self, job: Job, place: Place) -> None:
        """Check the bound of a backfill reservation; jobs ahead of others put off the bounds of these."""
        bound = self.checks.bounds.pop(job.number, INF)
        if bound < self.now:
            self.checks.note("bound not kept", self.world, job.number)
        self.put_off(job)
        super().start(job, place)

    def promise(self, job: Job, place: Place) -> None:
        """Put off the bounds of jobs that come after this one."""
        self.put_off(job)
        super().promise(job, place)

    def put_off(self, job: Job) -> None:
        """Forget the bounds of jobs that come after this one: it was placed before them."""
        for number in list(self.checks.bounds):
            if self.order(self.world.jobs[number]) > self.order(job):
                del self.checks.bounds[number]

    def reserve(self, job: Job) -> None:
        """Remember the bound of the reservation."""
        first = self.reserving is None
        super().reserve(job)
        if first and self.reservation is not None and self.reservation.bound < INF:
            self.checks.counts["bounds"] += 1
            self.checks.bounds.setdefault(job.number, self.reservation.bound)


@lru_cache(maxsize=4096)  # several tests look at the same cases
def checked(case: Case) -> Checks:
    """Run a case and return its checks."""
    checks, world = Checks(case), Exact(case.rules, jobs_of(case))

    def decide(world: Exact) -> bool:
        checks.new_instant(world)
        decision = Checked(world)
        decision.checks = checks
        again = decision.run()
        checks.after_decision(world)
        return again

    record = world.record_facts

    def record_and_check() -> bool:
        more = record()
        if not more and world.now == checks.now:
            checks.after_instant(world)
        return more

    world.record_facts = record_and_check  # type: ignore[method-assign]
    try:
        world.run(decide)
    except AssertionError as error:
        checks.note(f"failed: {error}", world)
    return checks
