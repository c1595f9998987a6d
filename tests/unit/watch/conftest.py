"""A small simulated run with its journal, for the tests of the player."""

import pytest

from headway.player.film import Film
from headway.sim.api import simulate


@pytest.fixture(scope="session")
def film() -> Film:
    """Sixty jobs on sixteen GPUs, with preemptions."""
    found = simulate(
        "synthetic:tiresias-480?jobs=60", cluster="4x4", policy="tiresias-l", skip_impossible=True, keep_journal=True
    )
    assert found.summary["preemptions"] > 0
    return Film(found)
