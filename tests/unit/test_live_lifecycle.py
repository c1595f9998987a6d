"""The life cycle of jobs without threads, executor or disk: facts go in, rows and effects are compared as values."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headway.cluster.named import cluster
from headway.core import events
from headway.core.engine import Event
from headway.job_state import JobState
from headway.live import executors
from headway.live.errors import WrongState
from headway.live.executors import Launch, Report
from headway.live.jobfile.spec import job_spec
from headway.live.manager import lifecycle
from headway.live.manager.lifecycle import LifecycleRules
from headway.live.manager.loop.recorder import Recorder
from headway.live.manager.outcome import Backoff
from headway.live.manager.steps import Fact, KeepProgress, Note, SetAlarm, StartAttempt, Step, Steps, StopAttempt
from headway.live.rows import Blocker
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job, JobProgress
from headway.live.store.snapshot import _parts, capture
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

HELD, DEPENDENCY, ARRAY, RETRY = (
    int(blocker) for blocker in (Blocker.HELD, Blocker.DEPENDENCY, Blocker.ARRAY_LIMIT, Blocker.RETRY_BACKOFF)
)
JOB_ROWS = {"Explained", "Deferred", "Crossed"}  # left out of the comparisons


def known(state: ClusterState) -> Any:
    """Return the content of a snapshot, column by column: a copy of a table may have other bytes between its columns."""
    content, tables = _parts(capture(state)())
    columns = {(name, column): tables[name][column] for name in tables for column in tables[name].dtype.names or [...]}
    return content, {name: column.tobytes() for name, column in columns.items()}


class Driven:
    """The life cycle on one node with two GPUs, driven by hand: each step is applied before the next one is asked for."""

    def __init__(self) -> None:
        self.state = ClusterState(cluster("1x2"), find_policy("fifo"), find_placement("consolidated"))
        self.recorder = Recorder(self.state, 0.0)
        self.rules = LifecycleRules(Backoff(10.0, 300.0))
        self.now = 0.0

    def take(self, steps: Iterable[Step]) -> list[Step]:
        """Apply steps as the engine's loop does, and return them."""
        seen: list[Step] = []

        def watched() -> Iterator[Step]:
            for step in steps:
                seen.append(step)
                yield step

        self.recorder.apply(watched(), self.now)
        return seen

    def rows(self, steps: Iterable[Step]) -> list[tuple[str, int, dict[str, Any]]]:
        """Apply steps; return the new rows."""
        before = len(self.recorder.round.rows)
        self.take(steps)
        rows = self.recorder.round.rows[before:]
        return [(row.kind, row.job, row.data) for row in rows if row.kind not in JOB_ROWS]

    def submit(self, *, array_id: int | None = None, index: int | None = None, **fields: Any) -> Job:
        spec = job_spec({"run": "true", "resources": {"accelerators": 1}, **fields})
        job = Job(len(self.state.jobs) + 1, "ann", spec, self.now, array_id, index)
        self.state.add(job)
        self.take(lifecycle.submitted(self.state, job))
        return job

    def decide(self) -> list[Step]:
        """Record the actions of one decision; return what is to be done about them."""
        effects: list[Step] = []
        for action in self.state.engine.decide(self.now).actions:
            self.take([action])
            effects += self.take(lifecycle.effects_of(self.state, action))
        return effects

    def run(self, job: Job) -> None:
        """Start a job, which reports that it runs."""
        self.decide()
        self.report(executors.STARTED, job)
        assert self.state.job_state(job) == JobState.RUNNING

    def reported(self, what: str, job: Job, at: float | None = None, **fields: Any) -> Steps:
        report = Report(what, job.id, self.state.attempt(job), **fields)
        return lifecycle.reported(self.state, report, at, self.now, self.rules)

    def report(self, what: str, job: Job, **fields: Any) -> list[tuple[str, int, dict[str, Any]]]:
        return self.rows(self.reported(what, job, **fields))

    def ring(self) -> list[tuple[str, int, dict[str, Any]]]:
        """Ring the alarms that are due."""
        rows = []
        while alarm := self.recorder.next_alarm(self.now):
            rows += self.rows(lifecycle.alarm_rang(self.state, alarm, self.now))
        return rows


@pytest.fixture
def driven() -> Driven:
    return Driven()


def test_a_job_is_submitted_started_and_ends(driven: Driven) -> None:
    job = driven.submit()
    launch = Launch(1, 1, "ann", job.spec, (0,), driven.state.cluster.nodes)
    assert driven.decide() == [StartAttempt(launch)]
    assert driven.report(executors.STARTED, job) == [("Started", 1, {})]
    over = {"exit_code": 0, "message": "", "state": "COMPLETED"}
    assert driven.report(executors.ENDED, job, exit_code=0) == [("Ended", 1, over)]
    assert driven.report(executors.ENDED, job, exit_code=0) == []  # said twice
    assert driven.recorder.round.effects == [StartAttempt(launch)]


def test_a_requeued_job_is_stopped_and_waits_again(driven: Driven) -> None:
    job = driven.submit()
    driven.run(job)
    steps = driven.take(lifecycle.requeue(driven.state, job))
    signal, grace_s = driven.state.how_to_stop(job)
    assert steps == [Fact(events.STOP, job.row, {"why": "requeue"}), StopAttempt(1, 1, signal, grace_s)]
    rows = driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    assert rows == [("Stopped", 1, {"exit_code": 143, "message": ""})]
    assert driven.state.job_state(job) == JobState.PENDING


def test_a_waiting_job_ends_when_it_is_cancelled_and_a_running_one_is_stopped(driven: Driven) -> None:
    waiting = driven.submit()
    assert driven.take(lifecycle.cancel(driven.state, waiting)) == [
        Fact(events.ENDED, waiting.row, {"message": "cancelled", "state": "CANCELLED"})
    ]
    running = driven.submit()
    driven.run(running)
    assert driven.take(lifecycle.cancel(driven.state, running, at_once=True)) == [
        Fact(events.STOP, running.row, {"why": "cancel", "now": True}),
        StopAttempt(2, 1, "SIGKILL", 0.0),
    ]


def test_a_held_job_waits_until_it_is_released(driven: Driven) -> None:
    job = driven.submit()
    assert driven.rows(lifecycle.hold(driven.state, job)) == [("Held", 1, {"blockers": HELD, "before": 0})]
    assert driven.decide() == []
    assert driven.rows(lifecycle.release(driven.state, job)) == [("Released", 1, {"before": HELD})]
    with pytest.raises(WrongState):
        driven.rows(lifecycle.release(driven.state, job))


def test_a_job_is_stopped_at_its_time_limit(driven: Driven) -> None:
    job = driven.submit(time_limit=60)
    driven.run(job)
    driven.now = 59.0
    assert driven.ring() == []
    driven.now = 60.0
    assert driven.ring() == [("Stop", 1, {"why": "timeout"})]
    rows = driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    assert [(kind, data["state"]) for kind, _, data in rows] == [("Ended", "TIMEOUT")]


def test_a_job_that_has_timed_out_gets_its_whole_time_limit_again_when_it_is_requeued(driven: Driven) -> None:
    """The time of its earlier attempts counted, so it was stopped as soon as it had started."""
    job = driven.submit(time_limit=60)
    column = float(driven.state.tables.jobs["limit"][job.row])
    for ran in (60.0, 120.0):
        driven.run(job)
        driven.now = ran - 1.0
        assert driven.ring() == []
        assert driven.state.run_s(job, driven.now) == ran - 1.0
        assert driven.state.tables.jobs["limit"][job.row] == column + ran - 60.0  # also for reservations
        driven.now = ran
        assert driven.ring() == [("Stop", 1, {"why": "timeout"})]
        driven.report(executors.ENDED, job, exit_code=143, signalled=True)
        assert driven.state.shown_state(job) == JobState.TIMEOUT
        driven.rows(lifecycle.requeue(driven.state, job))


def test_a_job_that_is_requeued_while_it_runs_has_the_rest_of_its_time_limit(driven: Driven) -> None:
    job = driven.submit(time_limit=60)
    driven.run(job)
    driven.now = 40.0
    driven.take(lifecycle.requeue(driven.state, job))
    driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    driven.run(job)
    driven.now = 60.0
    assert driven.ring() == [("Stop", 1, {"why": "timeout"})]


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("why", ["cancelled", "stopped at its time limit"])
def test_a_job_that_is_about_to_end_is_neither_requeued_nor_held(driven: Driven, why: str, hold: bool) -> None:
    """A requeue of a job that was being cancelled did nothing, and was answered as done."""
    job = driven.submit(time_limit=60)
    driven.run(job)
    if why == "cancelled":
        driven.take(lifecycle.cancel(driven.state, job))
    else:
        driven.now = 60.0
        driven.ring()
    message = f"job 1 is being {why}: wait until it has ended; `headway requeue 1` runs it again then"
    for steps in (lifecycle.requeue(driven.state, job, hold), lifecycle.hold(driven.state, job)):
        with pytest.raises(WrongState) as refusal:
            driven.take(steps)
        assert str(refusal.value) == message
    driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    assert job.final in (JobState.CANCELLED, JobState.TIMEOUT)


def test_a_failed_job_is_tried_again_after_its_back_off(driven: Driven) -> None:
    job = driven.submit(retry={"max": 1, "on": ["failure"]})
    driven.run(job)
    blocked = {"blockers": RETRY, "before": 0, "not_before": 10.0}
    stopped = {"exit_code": 1, "message": "", "failures": 1}
    assert driven.report(executors.ENDED, job, exit_code=1) == [("Stopped", 1, stopped), ("Held", 1, blocked)]
    driven.now = 10.0
    assert driven.ring() == [("Released", 1, {"before": RETRY})]


def test_the_failure_of_a_job_cancels_a_chain_of_dependants(driven: Driven) -> None:
    first = driven.submit()
    driven.submit(after=["1"])
    driven.submit(after=["2"])
    driven.run(first)
    rows = driven.report(executors.ENDED, first, exit_code=1)
    assert [(kind, job, data["state"]) for kind, job, data in rows] == [
        ("Ended", 1, "FAILED"),
        ("Ended", 2, "CANCELLED"),
        ("Ended", 3, "CANCELLED"),
    ]


def test_the_end_of_a_job_releases_its_dependant(driven: Driven) -> None:
    first = driven.submit()
    driven.submit(after=["1"])
    driven.run(first)
    rows = driven.report(executors.ENDED, first, exit_code=0)
    assert rows[1:] == [("Released", 2, {"before": DEPENDENCY})]


def test_an_array_runs_as_many_tasks_as_its_limit_allows(driven: Driven) -> None:
    first, second = (driven.submit(array="0-1%1", array_id=1, index=index) for index in range(2))
    assert (first.blockers, second.blockers) == (0, ARRAY)
    driven.run(first)
    rows = driven.report(executors.ENDED, first, exit_code=0)
    assert rows[1:] == [("Released", 2, {"before": ARRAY})]


def test_a_start_sets_the_alarm_of_the_time_limit(driven: Driven) -> None:
    job = driven.submit(time_limit=60)
    driven.now = 5.0
    driven.decide()
    assert driven.take(driven.reported(executors.STARTED, job)) == [
        Fact(events.STARTED, job.row, {}),
        SetAlarm(65.0, "time_limit", 1, 1),
    ]


def test_an_end_that_is_heard_late_says_when_it_was_and_is_charged_until_then(driven: Driven) -> None:
    job = driven.submit()
    driven.run(job)
    driven.now, driven.rules = 100.0, replace(driven.rules, away=(20.0, 90.0))
    steps = driven.take(driven.reported(executors.ENDED, job, at=40.0, exit_code=0))
    over = {"exit_code": 0, "message": "", "at": 40.0, "away": 50.0, "state": "COMPLETED"}
    assert steps == [Fact(events.ENDED, job.row, over)]
    assert driven.state.run_s(job, driven.now) == 40.0


def test_progress_is_kept_at_once_and_written_now_and_then(driven: Driven) -> None:
    job = driven.submit()
    driven.run(job)

    def says(step: int, at: float) -> list[Step]:
        driven.now = at
        return driven.take(lifecycle.progressed(driven.state, job, JobProgress(step), at))

    def written(step: int) -> Note:
        return Note("Progressed", 1, {"step": step})

    crossed = Event(events.CROSSED, job.row)
    assert says(1, 1.0) == [KeepProgress(1, JobProgress(1)), written(1), crossed]
    assert says(2, 10.0) == [KeepProgress(1, JobProgress(2))]
    assert job.progress == JobProgress(2)
    assert says(3, 11.0) == [KeepProgress(1, JobProgress(3)), written(3)]
    driven.report(executors.ENDED, job, exit_code=1)
    assert job.noted_at is None  # the next attempt says it at once


def test_a_job_held_while_it_stops_and_released_before_it_has_stopped_waits(driven: Driven) -> None:
    job = driven.submit()
    driven.run(job)
    driven.take(lifecycle.requeue(driven.state, job))
    assert driven.rows(lifecycle.hold(driven.state, job)) == [("Asked", 1, {"why": "hold"})]
    assert driven.rows(lifecycle.release(driven.state, job)) == [("Asked", 1, {"why": "requeue"})]
    rows = driven.report(executors.ENDED, job, exit_code=0, signalled=True)
    assert [kind for kind, _, _ in rows] == ["Stopped"]
    assert driven.state.shown_state(job) == JobState.PENDING


def test_steps_that_nobody_applies_change_nothing(driven: Driven) -> None:
    """The life cycle only reads: the first step of each input leaves state and records as they were."""
    job = driven.submit(retry={"max": 1, "on": ["failure"]})
    other = driven.submit(after=["1"])
    driven.run(job)
    driven.report(executors.PROGRESSED, job, progress=JobProgress(1))
    before = known(driven.state)
    for steps in (
        driven.reported(executors.ENDED, job, at=1.0, exit_code=1),
        driven.reported(executors.PROGRESSED, job, progress=JobProgress(2)),
        lifecycle.cancel(driven.state, job),
        lifecycle.cancel(driven.state, other),
        lifecycle.hold(driven.state, other),
        lifecycle.requeue(driven.state, job),
        lifecycle.alarms(driven.state, job, 0.0),
    ):
        next(iter(steps), None)
    assert known(driven.state) == before


def test_jobs_that_are_being_stopped_keep_their_reason_when_the_manager_closes(driven: Driven) -> None:
    """A hold and a time limit were overwritten: the next manager ran the jobs again."""
    held, late = driven.submit(), driven.submit(time_limit=60)
    for job in (held, late):
        driven.run(job)
    driven.take(lifecycle.requeue(driven.state, held, hold=True))
    driven.now = 60.0
    driven.ring()
    assert driven.rows(lifecycle.closed(driven.state)) == [("Closing", 0, {})]
    for job in (held, late):
        driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    assert [driven.state.shown_state(job).name for job in (held, late)] == ["HELD", "TIMEOUT"]


def test_running_jobs_are_requeued_when_the_manager_closes(driven: Driven) -> None:
    job, waiting = driven.submit(), driven.submit(resources={"accelerators": 2})
    driven.run(job)
    assert driven.rows(lifecycle.closed(driven.state)) == [("Closing", 0, {}), ("Stop", 1, {"why": "requeue"})]
    driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    assert driven.decide() == []
    assert [driven.state.shown_state(each).name for each in (job, waiting)] == ["PENDING", "PENDING"]


@pytest.mark.parametrize(
    ("how", "blockers"),
    [
        ({"exit_code": 1}, HELD | RETRY),
        ({"lost": True}, HELD),
        ({"lost": True, "never_ran": True, "refused": True}, HELD),
        ({"exit_code": None, "never_ran": True}, HELD),
        ({"exit_code": 143, "signalled": True}, HELD),
    ],
)
def test_a_job_that_fails_while_it_is_requeued_with_hold_is_held(
    driven: Driven, how: dict[str, Any], blockers: int
) -> None:
    job = driven.submit(retry={"max": 1, "on": ["failure", "node_failure"]})
    driven.run(job)
    driven.take(lifecycle.requeue(driven.state, job, hold=True))
    driven.report(executors.ENDED, job, **how)
    assert int(job.blockers) == blockers
    driven.now = 10.0
    driven.ring()
    assert driven.state.shown_state(job) == JobState.HELD
    driven.rows(lifecycle.release(driven.state, job))
    assert driven.state.job_state(job) == JobState.PENDING


def test_an_attempt_that_was_stopped_before_it_started_gives_back_no_service(driven: Driven) -> None:
    """Its job was credited with the time from the end of the attempt to its stop, though it was charged for none."""
    job = driven.submit()
    driven.decide()
    driven.now = 105.0
    driven.take(lifecycle.requeue(driven.state, job))
    driven.now = 106.0
    driven.take(driven.reported(executors.ENDED, job, at=101.0, exit_code=143, signalled=True))
    assert driven.state.service_gpu_s(job, driven.now) == 0.0
    assert float(driven.state.tables.jobs["service"][job.row]) == 0.0


def test_a_report_from_after_the_round_began_counts_from_the_round(driven: Driven) -> None:
    """Rounds have one time, and executors stamp reports that they make meanwhile with a later one."""
    job = driven.submit()
    driven.decide()
    driven.now = 10.0
    driven.take(driven.reported(executors.STARTED, job, at=10.5))
    assert (job.started, driven.state.service_gpu_s(job, 10.0)) == (10.0, 0.0)
    driven.now = 20.0
    driven.take(driven.reported(executors.ENDED, job, at=20.5, exit_code=0))
    assert (job.ended, driven.state.service_gpu_s(job, 20.0)) == (20.0, 10.0)


def test_service_is_charged_for_exactly_what_ran_whatever_is_heard_late(driven: Driven) -> None:
    job = driven.submit()
    driven.now = 100.0
    driven.decide()
    driven.now = 110.0
    driven.take(driven.reported(executors.STARTED, job, at=102.0))
    driven.now = 120.0
    driven.take(lifecycle.requeue(driven.state, job))
    driven.now = 130.0
    driven.take(driven.reported(executors.ENDED, job, at=115.0, exit_code=143, signalled=True))
    assert driven.state.service_gpu_s(job, 130.0) == 13.0
    driven.decide()
    driven.now = 140.0
    driven.take(lifecycle.requeue(driven.state, job))  # before it has started
    driven.now = 150.0
    driven.take(driven.reported(executors.ENDED, job, at=131.0, exit_code=143, signalled=True))
    assert driven.state.service_gpu_s(job, 150.0) == 13.0


def test_progress_of_an_attempt_that_is_over_changes_nothing(driven: Driven) -> None:
    job = driven.submit()
    driven.run(job)
    driven.take(lifecycle.requeue(driven.state, job))
    saved = JobProgress(7, checkpointed=7)
    assert driven.take(lifecycle.job_reported(driven.state, 1, 1, {"step": 7, "checkpointed": 7}, 0.0)) == [
        KeepProgress(1, saved),
        Note("Progressed", 1, {"step": 7, "checkpointed": 7}),
    ]  # it saves while it stops
    driven.report(executors.ENDED, job, exit_code=143, signalled=True)
    before = known(driven.state)
    assert driven.take(lifecycle.job_reported(driven.state, 1, 1, {"step": 8}, 1.0)) == []
    assert driven.report(executors.PROGRESSED, job, progress=JobProgress(8)) == []
    assert known(driven.state) == before
    assert job.progress == saved
