"""The Python loop and the compiled loop write the same journal, row by row and byte by byte."""

from dataclasses import replace

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.cluster.queues import Limits, Queue, Queues
from headway.core.engine import drive
from headway.core.tables.journal import journal
from headway.placement import TABLE as PLACEMENTS
from headway.placement.registry import find_placement
from headway.policies import TABLE as POLICIES
from headway.policies.registry import find_policy
from headway.sim.run import Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.load import load

COSTLY = Setting(preemption_cost=None, slowdown=True, min_runtime=120.0, seed=3)


@pytest.mark.parametrize("setting", [Setting(free_moves=True), COSTLY], ids=["free", "costly"])
@pytest.mark.parametrize("policy", list(POLICIES))
def test_both_loops_write_the_same_journal_under_every_policy(policy, setting):
    compare(policy, "consolidated?strict=no" if policy == "gandiva" else "consolidated", setting)


@pytest.mark.parametrize("placement", [name for name in PLACEMENTS if "vclos" not in name])
def test_both_loops_write_the_same_journal_under_every_placement(placement):
    compare("tiresias-l?promote=4", placement, COSTLY)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_buffer_that_fills_up_changes_nothing(policy, monkeypatch):
    """The compiled loop stops in the middle of a moment: what it goes on with is that moment, and no end of a quantum."""
    monkeypatch.setattr("headway.sim.run.JOURNAL_ROWS", 1)
    compare(policy, "consolidated?strict=no" if policy == "gandiva" else "consolidated", Setting(free_moves=True))


QUEUES = Queues(
    "two", (Queue("a", guaranteed_gpus=12, per_user=Limits(gpus=16)), Queue("b", weight=2.0, guaranteed_gpus=6)), 300.0
)


@pytest.mark.parametrize("policy", ["fifo", "headway", "tiresias-l", "gittins"])
def test_both_loops_write_the_same_journal_with_queues(policy):
    compare(policy, "consolidated", replace(COSTLY, queues=QUEUES))


def compare(policy: str, placement: str, setting: Setting) -> None:
    """Run 120 jobs of the testbed mix through both loops."""
    jobs, where = load("synthetic:tiresias-480?jobs=120&seed=5"), cluster("6x4+4x2")
    if setting.queues:
        jobs = replace(jobs, queue=np.where(np.arange(len(jobs)) % 3, "a", "b"), gpus=np.minimum(jobs.gpus, 16))
    found_policy, found_placement = find_policy(policy), find_placement(placement)
    compiled = simulate_run(jobs, where, found_policy, found_placement, setting, keep_journal=True)
    engine, world = prepare(jobs, where, found_policy, found_placement, setting)
    book = journal(engine.state, 1 << 20, True)
    drive(engine, SimulatedWorld(engine, world, book))
    rows = book.rows[: int(book.counts["rows"][0])]
    assert len(rows) == len(compiled.entries)
    for column in rows.dtype.names:
        assert np.array_equal(rows[column], compiled.entries[column]), column
    for pool in ("seats", "places", "links"):
        kept = getattr(book, pool)[: int(book.counts[pool][0])]
        assert kept.tobytes() == getattr(compiled.journal, pool).tobytes(), pool
    assert rows.tobytes() == compiled.entries.tobytes()
