"""The Python loop and the compiled loop write the same journal, row by row and byte by byte."""

from dataclasses import replace

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.cluster.queues import Queue, QueueLimits, Queues
from headway.core.engine import drive
from headway.core.events import DISCONNECTED, STOP, STOPPED
from headway.core.tables.journal import journal
from headway.iteration.plans import BEST, NO_PLAN
from headway.network.fabric.model import Fabric
from headway.placement import TABLE as PLACEMENTS
from headway.placement.registry import find_placement
from headway.policies import MODULES as POLICIES
from headway.policies.registry import find_policy
from headway.sim.models.network import NetworkModel
from headway.sim.run import Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.load import load

COSTLY = Setting(preemption_cost=None, slowdown=True, min_runtime=120.0, seed=3)


@pytest.mark.parametrize("setting", [Setting(), COSTLY], ids=["free", "costly"])
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
    compare(policy, "consolidated?strict=no" if policy == "gandiva" else "consolidated", Setting())


QUEUES = Queues(
    "two",
    (Queue("a", guaranteed_gpus=12, per_user=QueueLimits(gpus=16)), Queue("b", weight=2.0, guaranteed_gpus=6)),
    300.0,
)


@pytest.mark.parametrize("policy", ["fifo", "headway", "tiresias-l", "gittins"])
def test_both_loops_write_the_same_journal_with_queues(policy):
    compare(policy, "consolidated", replace(COSTLY, queues=QUEUES))


FABRIC = Fabric("small", "leaf-spine", (0, 0, 0, 1, 1, 1, 2, 2, 3, 3), 4, 8)
FAILED = "?failed=leaf1-spine2+leaf0-spine1@2h+leaf2-spine3@3h"


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias-l?promote=4"])
@pytest.mark.parametrize(("network", "placement"), [("ecmp", "spread"), ("isolated", "vclos"), ("source", "joint")])
def test_both_loops_write_the_same_journal_where_links_fail(policy, network, placement):
    setting = replace(
        COSTLY, network=NetworkModel(network + FAILED, FABRIC), plan=BEST if placement == "joint" else NO_PLAN
    )
    rows = compare(policy, placement, setting)
    assert [int(row["gpus"]) for row in rows if row["kind"] == DISCONNECTED] == [1, 0, 2]


def test_jobs_stop_when_links_fail_that_they_hold():
    network = NetworkModel("isolated" + FAILED.replace("leaf0-spine1@2h", "spine0@2h+spine1@2h"), FABRIC)
    rows = compare("fifo", "vclos", replace(COSTLY, network=network))
    assert (rows["kind"] == STOPPED).any()
    assert not (rows["kind"] == STOP).any()


def compare(policy: str, placement: str, setting: Setting) -> np.ndarray:
    """Run 120 jobs of the testbed mix through both loops. Return the rows of the journal."""
    jobs, where = load("synthetic:tiresias-480?jobs=120&seed=5"), cluster("6x4+4x2")
    if setting.network.fabric:
        jobs = replace(jobs, gpus=np.minimum(jobs.gpus, 8))  # larger slices are impossible once links have failed
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
    return rows
