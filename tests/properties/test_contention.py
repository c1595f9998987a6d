"""Shared links in the simulator: rates kept job by job equal rates worked out anew; both loops agree; nobody is left behind."""

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.core.engine import drive
from headway.core.tables.journal import journal
from headway.iteration.plans import BEST
from headway.job_state import JobState
from headway.network.fabric.model import Fabric
from headway.network.fabric.presets import PRESETS
from headway.network.sharing.links import new_links
from headway.network.sharing.rules import parse_network
from headway.network.sharing.slowdown import join
from headway.network.sharing.steps import ALL_TO_ALL, HALVING_DOUBLING, RING, STEP, steps_on, write_steps
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.models.communication import MOST_STEPS, draw
from headway.sim.models.contention import ranks_of
from headway.sim.models.network import NetworkModel
from headway.sim.run import Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.synthetic import synthetic
from headway.workloads.workload import workload

FABRIC = Fabric("small", "leaf-spine", tuple(server // 2 for server in range(12)), 4, 8)
POLICY = "tiresias-l?threshold=900"


def jobs_of(seed, count=60):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 4, 6, 8, 9, 10, 12, 16, 24], count)
    return workload("shared", np.cumsum(rng.exponential(25, count)), sizes, rng.uniform(20, 400, count))


def prepared(rule, seed, fabric=FABRIC, where="12x4", placement="spread"):
    setting = Setting(preemption_cost=3.0, seed=seed, network=NetworkModel(rule, fabric))
    jobs = jobs_of(seed)
    return jobs, setting, prepare(jobs, cluster(where), find_policy(POLICY), find_placement(placement), setting)


class Recomputed(SimulatedWorld):
    """A world that works every rate out anew, from all running jobs at once."""

    def __init__(self, engine, world, book, rule, jobs, seed):
        super().__init__(engine, world, book)
        self.sharing, self.seed, self.slowed = parse_network(rule), seed, 0
        self.traffic = draw(jobs, seed)

    def wait(self, until):
        self.compare()
        return super().wait(until)

    def compare(self):
        running = np.flatnonzero(self.state.jobs["state"] == JobState.RUNNING)
        links = new_links(FABRIC, self.sharing, self.seed, len(self.state.jobs), 1 << 16)
        links.jobs["duty"] = self.traffic.duty
        for j in running[::-1]:
            steps, order = np.zeros(MOST_STEPS, STEP), ranks_of(self.state, self.state.jobs[j])
            count = steps_on(self.traffic.pattern[j], order, 4, 10.0, steps)
            join(links, j, order, steps[:count])
        for j in running:
            expected = 1.0 / (1.0 + self.traffic.duty[j] * (links.jobs["factor"][j] - 1.0))
            assert self.state.jobs[j]["rate"] == pytest.approx(expected, rel=1e-9)
            self.slowed += expected < 1.0


@pytest.mark.parametrize("rule", ["ecmp", "balanced", "source", "ecmp?qps=4"])
def test_rates_kept_job_by_job_equal_rates_worked_out_anew(rule, rounds):
    for seed in range(rounds(1, 20)):
        jobs, _, (engine, world) = prepared(rule, seed)
        watched = Recomputed(engine, world, journal(engine.state, 1 << 16, False), rule, jobs, seed)
        drive(engine, watched)
        assert watched.slowed > 20, "hardly anybody shares a link: the run is too tame"
        assert (engine.state.jobs["state"] == JobState.COMPLETED).all()
        assert (world.links.directed["total"] == 0).all()
        assert (world.links.crowd == 0).all()
        assert (world.links.jobs["sends"] == 0).all()
        ran = engine.state.jobs["total"] / engine.state.jobs["gpus"]
        assert (ran >= jobs.duration_s * (1 - 1e-9)).all()
        assert ran.sum() > jobs.duration_s.sum()


FAILING = "failed=spine1@200+leaf0-spine3@700"


@pytest.mark.parametrize(
    "rule",
    [
        "ecmp",
        "balanced",
        "source",
        "spray",
        "ecmp?interleave=yes",
        "ecmp?exact=4",
        f"ecmp?{FAILING}",
        f"ecmp?exact=4&{FAILING}",
    ],
)
def test_both_loops_write_the_same_journal_on_shared_links(rule):
    jobs, setting, (engine, world) = prepared(rule, 4)
    book = journal(engine.state, 1 << 18, True)
    drive(engine, SimulatedWorld(engine, world, book))
    compiled = simulate_run(
        jobs, cluster("12x4"), find_policy(POLICY), find_placement("spread"), setting, keep_journal=True
    )
    assert book.rows[: int(book.counts["rows"][0])].tobytes() == compiled.entries.tobytes()
    assert (compiled.jobs["state"] == JobState.COMPLETED).all()
    assert (world.links.directed["load"] == 0).all()
    assert (world.links.directed["first_share"] == -1).all()


@pytest.mark.parametrize("rule", ["ecmp", "source", "ecmp?exact=4"])
def test_both_loops_write_the_same_journal_where_some_hold_links_and_others_share(rule):
    setting = Setting(preemption_cost=3.0, seed=5, network=NetworkModel(rule, FABRIC), plan=BEST)
    given = jobs_of(5), cluster("12x4"), find_policy("headway"), find_placement("joint?patience=8"), setting
    engine, world = prepare(*given)
    book = journal(engine.state, 1 << 18, True)
    drive(engine, SimulatedWorld(engine, world, book))
    compiled = simulate_run(*given, keep_journal=True)
    assert book.rows[: int(book.counts["rows"][0])].tobytes() == compiled.entries.tobytes()
    assert (compiled.jobs["state"] == JobState.COMPLETED).all()
    assert compiled.starts["isolated"] > 3
    assert compiled.starts["shared"] > 3
    assert (world.links.directed["first_share"] == -1).all()
    assert (engine.state.leaves["free"] == (1 << FABRIC.uplinks) - 1).all()


def test_rails_and_packed_jobs_can_share_links():
    rail = Fabric("rails", "rail", tuple(server // 4 for server in range(12)), 4, 8)
    setting = Setting(network=NetworkModel("ecmp", rail))
    run = simulate_run(jobs_of(2), cluster("12x4"), find_policy("gandiva"), find_placement("spread"), setting)
    assert (run.jobs["state"] == JobState.COMPLETED).all()


def test_steps_are_those_of_the_pattern():
    steps = np.zeros(MOST_STEPS, STEP)
    for ranks in (2, 8, 24, 160):
        assert write_steps(RING, ranks, 1, steps) == 1
        count = write_steps(ALL_TO_ALL, ranks, 8, steps)
        assert count == min(ranks - 1, MOST_STEPS)
        assert len(set(steps["amount"][:count].tolist())) == count
        assert steps["amount"][:count].min() == 1
        assert steps["amount"][:count].max() == ranks - 1
        assert steps["weight"][:count].sum() == pytest.approx(1.0)
    assert write_steps(HALVING_DOUBLING, 16, 8, steps) == 4
    assert steps["weight"][:4].sum() == pytest.approx(1.0)
    assert write_steps(HALVING_DOUBLING, 24, 8, steps) == 2, (
        "not a power of two: a ring, inside servers and between them"
    )


def test_patterns_and_shares_are_those_of_the_paper():
    rng = np.random.default_rng(0)
    sizes = rng.choice([4, 6], 4000)
    models = np.where(rng.random(4000) < 0.5, "ResNet50", "")
    pattern, part = draw(workload("x", np.arange(4000.0), sizes, np.ones(4000), model=models), 0)
    assert (pattern[sizes == 6] != HALVING_DOUBLING).all()
    assert (pattern[sizes == 4] == HALVING_DOUBLING).mean() == pytest.approx(0.5, abs=0.05)
    assert (part[models == "ResNet50"] == 0.04).all()
    assert (part[models == ""] == 0.35).mean() == pytest.approx(0.25, abs=0.04)
    assert part.min() >= 0.04
    assert part.max() <= 0.35


def test_in_vclos_tpu_the_large_models_and_no_others_run_all_to_all():
    jobs = synthetic("vclos-tpu?jobs=5000")
    pattern, part = draw(jobs, 0)
    moe, power = jobs.model == "MoE", (jobs.gpus & (jobs.gpus - 1)) == 0
    assert ((pattern == ALL_TO_ALL) == moe).all()
    assert (part[moe] == 0.348).all()
    assert part[~moe].max() < 0.25
    assert part[~moe].min() >= 0.02
    for kind, expected in ((HALVING_DOUBLING, 0.5), (RING, 0.2), (ALL_TO_ALL, 0.3)):
        assert (pattern[power] == kind).mean() == pytest.approx(expected, abs=0.03)
    assert (pattern[~power] == RING).all()


def test_the_presets_have_a_fabric_of_the_size_of_their_cluster():
    for gpus in (512, 2048, 4096, 8192):
        where = cluster(f"vclos-{gpus}")
        for fabric in (PRESETS[f"vclos-{gpus}"](), PRESETS[f"ocs-vclos-{gpus}"]()):
            assert fabric.servers == len(where.gpus)
            assert fabric.gpus == where.total
