"""The transitions of an attempt on Slurm and of its parts: every state with every observation, without Slurm."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headway.live.executors.slurm.states import (
    ACCEPTED,
    APART_S,
    GONE_S,
    KILL_S,
    LINGER_S,
    OVER_STATES,
    ROWS,
    ActionAnswer,
    AttemptAction,
    AttemptState,
    AttemptTransition,
    Claim,
    PartState,
    Sight,
    Slurm,
    Withdrawal,
    Word,
    step,
    step_attempt,
)

P, A = PartState, AttemptAction
FLAGS = (False, True)
LIVE = sorted(set(P) - OVER_STATES, key=lambda state: state.name)
TO_SLURM = {A.SUBMIT, A.SIGNAL, A.KILL, A.CANCEL}


def sights() -> Iterator[Sight]:
    """Return every observation; a number stands for all between two limits."""
    overtimes = (None, -1.0, 0.0, KILL_S)
    ages = (0.0, LINGER_S, GONE_S)
    return itertools.starmap(Sight, itertools.product(Slurm, Word, Claim, Withdrawal, FLAGS, FLAGS, overtimes, ages))


@functools.cache
def transitions() -> list[tuple[PartState, Sight, AttemptTransition]]:
    """Return every state and observation that has a transition."""
    return [(state, sight, row) for sight in sights() for state in P if (row := step(state, sight)) is not None]


def outcomes(state: PartState, row: AttemptTransition) -> set[PartState]:
    """Return the states that may follow, one for each answer."""
    return {row.after(state, answer) for answer in ActionAnswer}


def run(state: PartState, *news: Sight) -> tuple[PartState, list[AttemptAction]]:
    """Return the state after these observations, and the actions, if all of them are carried out."""
    actions: list[AttemptAction] = []
    for sight in news:
        row = step(state, sight)
        if row is not None:
            state = row.after(state, ActionAnswer.DONE)
            actions += [row.action] if row.action else []
    return state, actions


# ---- what holds for every state and every observation


def test_what_holds_for_every_state_and_observation() -> None:
    for state, sight, row in transitions():
        unsent, unanswered = row.after(state, ActionAnswer.NOT_SENT), row.after(state, ActionAnswer.UNANSWERED)
        assert unsent is state, f"{state} {sight}: it changes though nothing was sent"
        if row.action is None:
            assert row.to not in (None, state), f"{state} {sight}: a row that does nothing"
        if row.action is A.SUBMIT:
            assert state is P.PREPARED
            assert (sight.stop, sight.withdrawal) == (False, Withdrawal.NONE), f"{sight}: submitted though given up"
        else:
            assert unanswered is state, f"{state} {sight}: what Slurm did not answer is not due again"
        if row.action in (A.SIGNAL, A.KILL):
            assert sight.stop, f"{state} {sight}"
        if row.action in TO_SLURM - {A.SUBMIT}:
            assert state in ACCEPTED | OVER_STATES, f"{state} {sight}: a request about a job that Slurm has not"
        if row.action is A.CANCEL and state not in OVER_STATES | {P.WITHDRAWN}:
            assert sight.stop or sight.withdrawal is Withdrawal.LATE, f"{state} {sight}: cancelled without need"
        if state in OVER_STATES:
            assert (outcomes(state, row), row.action) == ({state}, A.CANCEL), f"{sight}: what is over begins again"
            assert sight.slurm in (Slurm.WAITS, Slurm.HOLDS)


def test_every_row_applies_to_something_and_every_state_has_a_way_in_and_out() -> None:
    assert {id(row) for row in ROWS} == {id(row) for _, _, row in transitions()}
    ways = {(state, after) for state, _, row in transitions() for after in outcomes(state, row) - {state}}
    assert {after for _, after in ways} == set(P) - {P.ADOPTED}, "an attempt begins prepared or adopted"
    assert {before for before, _ in ways} == set(LIVE)


@pytest.mark.parametrize("claim", [claim for claim in Claim if claim is not Claim.UNREAD])
@pytest.mark.parametrize("answer", [ActionAnswer.DONE, ActionAnswer.REFUSED])
@pytest.mark.parametrize("stop", [None, 0.0])
@pytest.mark.parametrize("state", LIVE)
def test_every_state_ends_once_the_slurm_job_is_gone(
    state: PartState, claim: Claim, answer: ActionAnswer, stop: float | None
) -> None:
    """Polls that do not find it, looks that find nothing new, time that passes."""
    for _ in range(10):
        for sight in (Sight(Slurm.MISSING, claim=claim), Sight(claim=claim, age_s=GONE_S)):
            row = step(state, replace(sight, overtime_s=stop))
            state = row.after(state, answer) if row else state
    assert state in OVER_STATES


@pytest.mark.parametrize("state", LIVE)
def test_every_state_ends_once_slurm_says_so(state: PartState) -> None:
    for _ in range(10):
        for sight in (Sight(Slurm.ENDED), Sight(claim=Claim.JOB, age_s=LINGER_S)):
            row = step(state, sight)
            state = row.after(state, ActionAnswer.DONE) if row else state
    assert state is P.OVER


def test_nothing_is_submitted_after_an_attempt_was_given_up() -> None:
    given_up = {row.action for _, sight, row in transitions() if sight.stop or sight.withdrawal is not Withdrawal.NONE}
    assert A.SUBMIT not in given_up
    revoked = {state for state, _, row in transitions() if row.action is A.FORBID for state in [row.to]}
    assert revoked <= OVER_STATES, "a part that no Slurm job may run is not over"


def test_what_may_be_in_slurm_is_submitted_again_only_if_a_poll_did_not_find_it() -> None:
    for state, sight, row in transitions():
        if P.PREPARED in outcomes(state, row) - {state}:
            assert (state, sight.slurm, sight.claim) == (P.SUBMITTED, Slurm.MISSING, Claim.NONE)


# ---- the ways of an attempt

WAITS, HOLDS, GOOD, UP = Sight(Slurm.WAITS), Sight(Slurm.HOLDS), Sight(word=Word.GOOD), Sight(up=True)


def stopped(overtime_s: float, **news: object) -> Sight:
    return Sight(up=True, overtime_s=overtime_s, **news)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "news", "state", "actions"),
    [
        pytest.param(P.PREPARED, [Sight(), WAITS, HOLDS, HOLDS, GOOD], P.OVER, [A.SUBMIT], id="a good end"),
        pytest.param(P.RUNNING, [Sight(word=Word.BAD), Sight(Slurm.ENDED)], P.OVER, [], id="a bad end: Slurm says why"),
        pytest.param(P.RUNNING, [Sight(word=Word.BAD)], P.DONE, [], id="a bad end: the verdict is due"),
        pytest.param(P.DONE, [Sight(word=Word.BAD, age_s=LINGER_S)], P.OVER, [], id="a bad end: no verdict in time"),
        pytest.param(P.PREPARED, [Sight(overtime_s=-9.0)], P.LOST, [], id="stopped before it was submitted"),
        pytest.param(P.QUEUED, [Sight(overtime_s=-9.0)], P.STOPPING, [A.CANCEL], id="stopped before its ranks are up"),
        pytest.param(
            P.RUNNING,
            [stopped(-9.0), stopped(-8.0), stopped(0.0), stopped(1.0), stopped(KILL_S), stopped(KILL_S)],
            P.CANCELLING,
            [A.SIGNAL, A.KILL, A.CANCEL],
            id="signal, SIGKILL, cancellation: each once",
        ),
        pytest.param(
            P.RUNNING, [stopped(900.0)] * 3, P.CANCELLING, [A.SIGNAL, A.KILL, A.CANCEL], id="a restart misses no stage"
        ),
        pytest.param(P.RUNNING, [stopped(-1.0, word=Word.BAD)], P.OVER, [], id="whoever was asked to stop may say 1"),
        pytest.param(
            P.QUEUED,
            [Sight(late=True), *[Sight(Slurm.WAITS, withdrawal=Withdrawal.LATE)] * 2],
            P.WITHDRAWN,
            [A.WITHDRAW, A.CANCEL, A.CANCEL],
            id="late: cancelled at every poll",
        ),
        pytest.param(P.RUNNING, [Sight(withdrawal=Withdrawal.REFUSED)], P.OVER, [], id="another part was refused"),
        pytest.param(P.ENDING, [Sight(claim=Claim.NONE)], P.OVER, [A.FORBID], id="over before it began"),
        pytest.param(P.ENDING, [Sight(word=Word.BAD)], P.OVER, [], id="a bad end that Slurm has confirmed"),
        pytest.param(P.ENDING, [Sight(claim=Claim.JOB)], P.ENDING, [], id="its files may be seen later"),
        pytest.param(
            P.ENDING, [Sight(Slurm.REPLACED), HOLDS], P.RUNNING, [], id="another Slurm job has claimed the part"
        ),
        pytest.param(P.SUBMITTED, [WAITS], P.QUEUED, [], id="an answer was lost: a poll finds the job"),
        pytest.param(
            P.SUBMITTED,
            [Sight(Slurm.MISSING, claim=Claim.NONE), Sight()],
            P.QUEUED,
            [A.SUBMIT],
            id="an answer was lost: it was not accepted",
        ),
        pytest.param(
            P.SUBMITTED, [Sight(Slurm.MISSING, claim=Claim.JOB)], P.MISSING, [], id="an answer was lost: it ran"
        ),
        pytest.param(P.ADOPTED, [Sight(Slurm.MISSING, claim=Claim.NONE)], P.LOST, [A.FORBID], id="adopted: never sent"),
        pytest.param(
            P.ADOPTED,
            [Sight(Slurm.MISSING, claim=Claim.REVOKED)],
            P.LOST,
            [],
            id="adopted: given up by a manager before",
        ),
        pytest.param(P.MISSING, [HOLDS], P.RUNNING, [], id="it is back"),
        pytest.param(P.OVER, [WAITS, Sight(Slurm.ENDED)], P.OVER, [A.CANCEL], id="a submission that turns up too late"),
    ],
)
def test_the_way_of_a_part(first: PartState, news: list[Sight], state: PartState, actions: list[AttemptAction]) -> None:
    assert run(first, *news) == (state, actions)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (ActionAnswer.DONE, P.QUEUED),
        (ActionAnswer.REFUSED, P.LOST),
        (ActionAnswer.UNANSWERED, P.SUBMITTED),
        (ActionAnswer.NOT_SENT, P.PREPARED),
    ],
)
def test_a_submission_by_its_answer(answer: ActionAnswer, state: PartState) -> None:
    row = step(P.PREPARED, Sight())
    assert row is not None
    assert row.after(P.PREPARED, answer) is state


@pytest.mark.parametrize(("state", "due"), [(P.RUNNING, A.SIGNAL), (P.STOPPING, A.KILL), (P.KILLING, A.CANCEL)])
def test_a_request_that_slurm_did_not_answer_stays_due(state: PartState, due: AttemptAction) -> None:
    for answer in (ActionAnswer.UNANSWERED, ActionAnswer.NOT_SENT) * 3:
        row = step(state, stopped(900.0))
        assert row is not None
        assert (row.action, row.after(state, answer)) == (due, state)


# ---- the attempt


def test_what_an_attempt_reports() -> None:
    """Each start and each end is reported once, in this order, for every sequence of what its parts and its ranks do."""
    seen = set()
    parts = [(a, b) for a in (P.RUNNING, P.OVER, P.LOST) for b in (P.RUNNING, P.OVER)]
    moments = list(itertools.product(parts, FLAGS, FLAGS, (0.0, APART_S)))
    for moment in itertools.product(moments, repeat=2):
        state, actions = AttemptState.STARTING, list[AttemptAction]()
        for part_states, up, stop, apart_s in (*moment, *moment):
            for _ in range(3):
                transition = step_attempt(state, part_states, up=up, stop=stop, apart_s=apart_s)
                if transition is None or transition[1] is A.STOP:
                    break
                state, action = transition
                actions.append(action)
        assert actions in ([], [A.REPORT_START], [A.REPORT_END], [A.REPORT_START, A.REPORT_END])
        assert (state is AttemptState.OVER) == (A.REPORT_END in actions)
        seen.add(tuple(actions))
    assert len(seen) == 4


def test_parts_without_the_others_are_stopped() -> None:
    parts = (P.OVER, P.RUNNING)
    for state in (AttemptState.STARTING, AttemptState.RUNNING):
        assert step_attempt(state, parts, up=False, stop=False, apart_s=APART_S / 2) is None
        assert step_attempt(state, parts, up=False, stop=True, apart_s=APART_S) is None
        assert step_attempt(state, parts, up=False, stop=False, apart_s=APART_S) == (state, A.STOP)
