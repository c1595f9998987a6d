"""Performs effects on the executor once their rows are in the journal, and keeps the ledger of links that jobs have alone."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from headway.errors import BadInput
from headway.live.executors import Executor, Launch, Report, not_started, start_failed
from headway.live.fabric.ledger import SliceLedger
from headway.live.fabric.slices import files_of, slice_of
from headway.live.manager.steps import AdoptAttempt, Effect, NotifyAttempt, StartAttempt, StopAttempt
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job

Environment = Callable[[Job, int], dict[str, str]]  # variables of an attempt, beside those of every job


class Performer:
    """The executor, and the ledger of links, as the loop uses them."""

    def __init__(self, state: ClusterState, executor: Executor, environment: Environment, identity: str) -> None:
        self.state, self.executor, self.environment = state, executor, environment
        self.identity = identity  # of the journal
        self._ledger: SliceLedger | None = None  # None: no links are reserved
        self._not_started: list[Report] = []  # ends of attempts that did not begin

    def open_ledger(self) -> None:
        """Enter the links that jobs hold already into a new ledger."""
        if self.state.site.fabric is not None and self.state.engine.uplinks:
            slices = [(job.id, job.seats, job.links) for job in self.state.active_jobs() if job.seats]
            self._ledger = SliceLedger(self.state.site.fabric, slices)

    def give_back(self, job_id: int) -> None:
        """Return the links of a job that has stopped."""
        if self._ledger is not None:
            self._ledger.give_back(job_id)

    def reports(self) -> list[Report]:
        """Return what happened to attempts since the last call."""
        ends, self._not_started = self._not_started, []
        return ends + self.executor.reports()

    def perform(self, effect: Effect, now: float) -> bool:
        """Perform one effect. Return False if an attempt could not be started; `reports` then returns its end."""
        match effect:
            case StartAttempt(launch):
                return self._start(launch)
            case AdoptAttempt(job, attempt):
                self.executor.adopt(job, attempt)
            case StopAttempt(job, attempt, signal, grace_s):
                self.executor.stop(job, attempt, signal, grace_s)
            case NotifyAttempt(job, attempt, until):  # jobs read the wall clock
                self.executor.notify(job, attempt, time.time() + until - now if until < math.inf else None)
        return True

    def _start(self, launch: Launch) -> bool:
        """Start an attempt. If the verifier refuses its slice, or the executor cannot start it, report its end."""
        environment = self.environment(self.state.jobs[launch.job], launch.attempt)
        try:
            launch = self._with_slice(replace(launch, environment=environment, journal=self.identity))
        except BadInput as error:
            self._not_started.append(not_started(launch, str(error)))
            return False
        try:
            self.executor.start(launch)
        except (BadInput, OSError) as error:
            self._not_started.append(start_failed(launch, error))
            return False
        return True

    def _with_slice(self, launch: Launch) -> Launch:
        """Add the certificate, routes and plan of an attempt on a fabric. This takes long, so the world's lock is free."""
        if (fabric := self.state.site.fabric) is None or self._ledger is None:
            return launch
        slice_of_job = slice_of(fabric, launch.spec, launch.gpus, launch.links)
        self._ledger.admit(launch.job, slice_of_job)
        environment = {**launch.environment, "HEADWAY_COLLECTIVE_PLAN": slice_of_job.plan}
        return replace(launch, environment=environment, files=files_of(fabric, slice_of_job))
