"""Properties of the second implementation alone: they hold before it is compared with the engine.

A seed that fails is run again with `checked(with_teams(SEED)).found`.
"""

import math
from collections.abc import Callable

import pytest
from tests.equivalence.cases import Case, cluttered, drawn, with_nodes, with_teams
from tests.equivalence.exact_checks import checked

ALWAYS = ("GPU held twice", "limit exceeded", "user limit exceeded", "not the least set", "GPUs not used")
CHUNKS = 10
LATE_AT_MOST = 0.01  # of all waits within a guarantee: placement or a guarantee above is in the way


def is_flat(case: Case) -> bool:
    """Return whether no queue is below another."""
    return not any(team.parent for team in case.rules.teams.teams)


def seeds(chunk: int, total: int) -> range:
    """Return the seeds of a chunk."""
    return range(chunk * total // CHUNKS, (chunk + 1) * total // CHUNKS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("draw", [drawn, cluttered, with_nodes, with_teams])
def test_no_gpu_is_held_twice_no_limit_exceeded_and_every_job_ends(draw: Callable[[int], Case], chunk, rounds):
    """Also: every released set is the least, and the GPUs of every released job are used."""
    for seed in seeds(chunk, rounds(300 if draw is cluttered else 1000, 20_000)):
        found = [entry for entry in checked(draw(seed)).found if entry[0] in ALWAYS or entry[0].startswith("failed")]
        assert not found, (draw.__name__, seed, found)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_job_of_a_team_is_stopped_in_vain(chunk, rounds):
    """A job that others are stopped for has GPUs or a promise when the instant is over."""
    for seed in seeds(chunk, rounds(1000, 20_000)):
        found = [entry for entry in checked(with_teams(seed)).found if entry[0] == "stopped in vain"]
        assert not found, (seed, found)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_job_that_was_just_preempted_preempts_no_job(chunk, rounds):
    """Preemption stability, if only the number of GPUs counts and no job is promoted."""
    for seed in seeds(chunk, rounds(1000, 20_000)):
        case = drawn(seed)
        if not case.rules.consolidated and case.rules.promote == math.inf:
            assert "unstable" not in [name for name, *_ in checked(case).found], seed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_guarantee_is_met_within_the_notice_and_the_longest_save(chunk, rounds):
    """Always if only the number of GPUs counts and queues are flat; otherwise nearly always."""
    waits = late = 0
    for seed in seeds(chunk, rounds(1000, 20_000)):
        case = with_teams(seed)
        checks = checked(case)
        found = [entry for entry in checks.found if entry[0] == "guarantee late"]
        assert not found or case.rules.consolidated or not is_flat(case), (seed, found)
        waits, late = waits + checks.counts["owed"], late + len(found)
    assert late <= 1 + LATE_AT_MOST * waits


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_bound_of_a_backfill_reservation_is_kept(chunk, rounds):
    """Under backfill, if no job runs beyond its time limit."""
    for seed in seeds(chunk, rounds(4000, 60_000)):
        case = drawn(seed)
        limits = [min(row.limit, case.rules.limit) >= row.duration for row in case.rows]
        if case.rules.policy == "backfill" and all(limits):
            assert "bound not kept" not in [name for name, *_ in checked(case).found], seed
