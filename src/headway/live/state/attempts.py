"""Minimum run times of live jobs, from the measured times of their stops and starts. Everything here follows from rows of the journal.

A job that is stopped before its first step has made no progress. So a job that reports progress keeps its GPUs until its first step, and
each attempt stopped without a new step doubles the next minimum. Both are bounded by STARTS_WITHIN_S, because a start may hang.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from headway.core.keys import AUTO_MULTIPLE
from headway.live.jobfile.spec import JobSpec

STARTS_WITHIN_S: Final = 600.0  # an attempt without a first step is protected for at most this time
# A policy ignores the remaining time of a job that needs more than this multiple of the steps it first reported, or runs for more than this
# multiple of the time that followed from its reports when it had run for SETTLED_S.
MOST_REVISED: Final = 2
SETTLED_S: Final = 600.0
SHORTEST_MIN_RUNTIME_S: Final = 1.0  # of auto, also before a measurement: starting and stopping processes takes time
MinRuntimes = Mapping[str, float | None]  # by queue, "" for all others; None is auto
AUTO: Final[MinRuntimes] = {"": None}
MOST_SPANS: Final = 32  # attempts of a job whose times are kept
# Seconds of one attempt, for replays: from Start until it ran; from then until the report arrived; from Stop until its end (-1: it was not
# stopped); from then until the report arrived.
Span = tuple[float, float, float, float]


def requested_min_runtime(spec: JobSpec, by_queue: MinRuntimes) -> float | None:
    """Return the minimum run time that a job sets, else its queue's, else the manager's; None is auto."""
    of_job = spec.preemption.min_runtime
    if of_job is None:
        return by_queue.get(spec.queue, by_queue.get(""))
    return None if of_job == "auto" else of_job


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of measured values. Jobs without a measurement share NOT_MEASURED: fewer objects for the garbage collector to visit."""

    total: float = 0.0
    count: int = 0

    def plus(self, value: float) -> "Mean":
        """Return the mean with one more value."""
        return Mean(self.total + value, self.count + 1)

    @property
    def value(self) -> float:
        """Return the mean; 0 while nothing was measured."""
        return self.total / self.count if self.count else 0.0


NOT_MEASURED: Final = Mean()


@dataclass(slots=True)
class Attempts:
    """Measured times and progress of the attempts of one job."""

    save: Mean = NOT_MEASURED  # seconds from Stop to Stopped
    resume: Mean = NOT_MEASURED  # seconds from Start to the first step
    launch: Mean = NOT_MEASURED  # of these, until Started: the job holds GPUs and does not run yet
    arrived_s: float = 0.0  # seconds from the submission until the engine recorded it
    spans: tuple[Span, ...] = ()  # of the first attempts
    reports: bool = False  # the job reports its progress
    silent: bool = False  # the job announced reports, but an attempt had no first step within STARTS_WITHIN_S
    furthest: int = -1  # the highest step that was reported
    total: int | None = None  # steps in all
    claimed: int | None = None  # the first value of `total`
    step_s: float | None = None  # seconds per step
    whole_s: float | None = None  # expected seconds of all attempts, as reported when the job had run for SETTLED_S
    wrong: bool = False  # the job runs for far longer than `whole_s`
    doubled_s: float = 0.0  # least minimum run time of the next attempt
    runs: bool = False  # an attempt is under way; the fields below are about it
    began: float = 0.0  # time of its Start
    first_step: int = 0  # the first step that it reported
    stepped: float | None = None  # time of its first step
    gained: bool = False  # it got beyond the highest step of earlier attempts
    stop_asked: float | None = None  # time of its Stop
    present: tuple[float, float] = (0.0, 0.0)  # the first two values of its span

    def start(self, now: float) -> None:
        """Begin an attempt."""
        self.began, self.runs, self.gained = now, True, False
        self.stepped = self.stop_asked = None

    def started(self, now: float, heard: float) -> None:
        """Note that the processes run since `now`, in a report received at `heard`. Without progress reports, this ends the start."""
        self.launch = self.launch.plus(now - self.began)
        self.present = (now - self.began, heard - now)
        if not self.reports:
            self.resume = self.resume.plus(now - self.began)

    def progressed(self, step: int | None, total: int | None, now: float, ran_s: float = 0.0) -> None:
        """Note progress that a job reported; it had run for `ran_s` seconds in all attempts."""
        self._note(step, total, now)
        left_s = self.left_s(None)
        if left_s is None:
            return
        if self.whole_s is None or ran_s <= SETTLED_S:
            self.whole_s = ran_s + left_s
        self.wrong |= ran_s + left_s > MOST_REVISED * self.whole_s

    def _note(self, step: int | None, total: int | None, now: float) -> None:
        self.total = total if total is not None else self.total
        self.claimed = self.claimed or self.total
        if step is None:
            self.reports |= not self.silent
            return
        self.reports, self.silent = True, False
        if self.stepped is None:
            if self.furthest < 0:
                self.resume = NOT_MEASURED  # what was measured until Started was not the whole start
            self.resume = self.resume.plus(now - self.began)
            self.stepped, self.first_step = now, step
        elif step > self.first_step and now > self.stepped:
            self.step_s = (now - self.stepped) / (step - self.first_step)
        if step > self.furthest:
            self.furthest, self.gained = step, True

    def stop(self, now: float) -> None:
        """Note that the attempt was asked to stop."""
        self.stop_asked = now

    def over(self, now: float, heard: float, preempted: bool) -> None:
        """End the attempt at `now`, in a report received at `heard`."""
        if len(self.spans) < MOST_SPANS:
            save = -1.0 if self.stop_asked is None else max(0.0, now - self.stop_asked)
            self.spans = (*self.spans, (*self.present, save, max(0.0, heard - now)))
        self.present = (0.0, 0.0)
        if self.waits_for_step and self.furthest < 0 and now - self.began >= STARTS_WITHIN_S:
            self.reports, self.silent = False, True
        if self.gained:
            self.doubled_s = 0.0
        elif preempted:
            least_s = max(self.doubled_s, AUTO_MULTIPLE * (self.save.value + self.resume.value), SHORTEST_MIN_RUNTIME_S)
            self.doubled_s = min(STARTS_WITHIN_S, 2.0 * least_s)
        if self.stop_asked is not None:
            self.save = self.save.plus(max(0.0, now - self.stop_asked))
        self.runs = False

    def stopping_s(self, now: float) -> float:
        """Return the seconds that the job has spent stopping, in all attempts."""
        present = now - self.stop_asked if self.runs and self.stop_asked is not None else 0.0
        return self.save.total + max(0.0, present)

    @property
    def waits_for_step(self) -> bool:
        """Return whether the attempt runs and has yet to report its first step."""
        return self.runs and self.reports and self.stepped is None

    def min_runtime(self, spec: JobSpec, requested: float | None, least_s: float = 0.0) -> float:
        """Return the minimum run time of the present or next attempt, before its costs are added; infinity: never preempted.

        `least_s` is the policy's minimum for jobs whose remaining time is unknown.
        """
        least = self.min_runtime_once_stepped(spec, requested, least_s)
        return max(least, STARTS_WITHIN_S) if self.waits_for_step else least

    def min_runtime_once_stepped(self, spec: JobSpec, requested: float | None, least_s: float = 0.0) -> float:
        """Return the minimum run time of an attempt that has reported its first step."""
        if not spec.may_preempt:
            return np.inf
        if requested is not None:
            return requested
        return max(self.doubled_s, SHORTEST_MIN_RUNTIME_S, least_s if self.believed_s is None else 0.0)

    @property
    def believed_s(self) -> float | None:
        """Return the remaining seconds that a policy may count on; None if the job has revised its steps or its time too far."""
        wrong = self.wrong or (self.total is not None and self.total > MOST_REVISED * (self.claimed or self.total))
        return None if wrong else self.left_s(None)

    def left_s(self, step: int | None) -> float | None:
        """Return the remaining seconds by the job's reports, or None; `step` is its last step, in the journal or not."""
        if self.total is None or self.step_s is None:
            return None
        return max(0.0, (self.total - max(self.furthest, step or 0)) * self.step_s)
