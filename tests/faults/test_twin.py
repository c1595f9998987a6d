"""Seeded rounds of the deterministic twin: 300 of them, 10,000 under HEADWAY_LONG=1; HEADWAY_SEED=N runs one."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.twin import Twin

PARTS = 10  # of the rounds, so that a failing one is found in its place


def round_of(seed: int, plain: bool = False) -> Twin:
    """One round; its story is in the error if it fails."""
    shared = Path("/dev/shm")
    data = Path(tempfile.mkdtemp(prefix="headway-twin-", dir=shared if shared.is_dir() else None))
    twin = Twin(seed, data, plain)
    try:
        twin.run()
    except BaseException as error:
        story = "\n".join(twin.machine.story)
        raise AssertionError(
            f"seed {seed} ({twin.setting.policy}): {type(error).__name__}: {error}\n{story}"
        ) from error
    finally:
        shutil.rmtree(data, ignore_errors=True)
    return twin


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_or_doubled_whatever_goes_wrong(part: int, rounds: Callable[[int, int], int]) -> None:
    seed = os.environ.get("HEADWAY_SEED")
    every = range(part, rounds(300, 10_000), PARTS) if seed is None else [int(seed)]
    crashes = sum(round_of(each).machine.crashes for each in every)
    assert crashes or seed is not None


@pytest.mark.parametrize("seed", [2783, 5481])
def test_rounds_that_failed_once(seed: int) -> None:
    """A job that was held while it was stopping, and released before it had stopped, stayed held for ever."""
    round_of(seed, plain=True)


def test_a_round_with_jobs_that_follow_one_that_runs_again() -> None:
    """After a restart, one that had been let go was cancelled while it ran."""
    round_of(203034)
