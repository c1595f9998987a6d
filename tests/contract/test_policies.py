"""The contract of every registered policy under every placement: nothing held twice, every job ends, the ledger is whole."""

import numpy as np
import pytest

import headway.policies
from headway.cluster.named import cluster
from headway.core.engine import Event
from headway.core.events import NO_JOB, START, STOP
from headway.errors import BadInput
from headway.job_state import JobState
from headway.placement import TABLE as PLACEMENTS
from headway.placement.registry import find_placement
from headway.policies import MODULES as POLICIES
from headway.policies.registry import find_policy, listed, meanings
from headway.sim.api import simulate
from headway.sim.run import Run, Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.load import load
from headway.workloads.workload import workload

PLACED = [name for name in PLACEMENTS if "vclos" not in name] + ["consolidated?strict=no"]
ORACLES = {"sjf", "srtf", "srsf"}
SETTINGS = {
    "free": Setting(),
    "fixed": Setting(preemption_cost=30.0, seed=1),
    "costly": Setting(preemption_cost=None, slowdown=True, min_runtime=90.0, seed=2),
}


def run_of(policy: str, placement: str, setting: Setting, seed: int = 1, jobs: int = 90) -> Run:
    """A small run with its journal."""
    return simulate_run(
        load(f"synthetic:tiresias-480?jobs={jobs}&seed={seed}"),
        cluster("5x4+6x2"),
        find_policy(policy),
        find_placement(placement),
        setting,
        keep_journal=True,
    )


@pytest.mark.parametrize("setting", list(SETTINGS))
@pytest.mark.parametrize("placement", PLACED)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_no_gpu_is_held_twice_and_every_job_ends(check_seats, policy, placement, setting):
    run = run_of(policy, placement, SETTINGS[setting])
    check_seats(run)
    assert (run.jobs["state"] == JobState.COMPLETED).all()
    assert np.isfinite(run.jobs["end"]).all()
    assert (run.jobs["end"] >= run.jobs["submit"]).all()
    if not run.policy.allot and not run.policy.packs and not SETTINGS[setting].slowdown:
        # Undisturbed, a job's service is its length times its GPUs, however often it was stopped.
        assert run.jobs["total"] == pytest.approx(run.workload.duration_s * run.workload.gpus, rel=1e-6)


@pytest.mark.parametrize("placement", PLACED)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_the_same_seed_gives_the_same_journal(policy, placement):
    one, two = (run_of(policy, placement, SETTINGS["costly"]) for _ in range(2))
    assert one.entries.tobytes() == two.entries.tobytes()
    assert one.seats.tobytes() == two.seats.tobytes()


@pytest.mark.parametrize("setting", ["free", "costly"])
@pytest.mark.parametrize("placement", PLACED)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_deciding_again_changes_nothing_and_the_ledger_is_whole_at_the_end(policy, placement, setting):
    jobs, where = load("synthetic:tiresias-480?jobs=24&seed=9"), cluster("3x4+2x2")
    engine, world = prepare(jobs, where, find_policy(policy), find_placement(placement), SETTINGS[setting])
    simulated = SimulatedWorld(engine, world, _book(engine))
    wake = np.inf
    while (now := simulated.wait(wake)) is not None:
        for event in simulated.facts(now):
            engine.record(event, now)
        for kind in engine.own_facts(wake, now):
            engine.record(Event(kind, NO_JOB), now)
        again = True
        while again:
            decision = engine.decide(now)
            again = decision.again
            for action in decision.actions:
                engine.record(action, now)
                for event in simulated.perform(action, now):
                    engine.record(event, now)
        # Where stops are weighed, what one job frees may make another's stops worth their cost.
        assert engine.decide(now).actions == () or engine.options.weighs
        wake = engine.wake_at(now)
    state = engine.state
    assert (state.jobs["state"] == JobState.COMPLETED).all()
    assert state.nodes["free"].tolist() == list(where.gpus)
    assert (state.nodes["stopping"] == 0).all()
    assert (state.seats["holder"] == -1).all()
    assert [int(state.counts[name][0]) for name in ("running", "waiting", "stopping")] == [0, 0, 0]
    assert state.counts["free_gpus"][0] == where.total


def _book(engine):
    from headway.core.tables.journal import journal

    return journal(engine.state, 1 << 16, False)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ORACLES])
def test_only_declared_oracles_know_the_work_left(policy):
    """The engine of any other policy is never told: the column stays NaN, and filling it with nonsense changes nothing."""
    assert not find_policy(policy).oracle
    jobs, where = load("synthetic:tiresias-480?jobs=60&seed=4"), cluster("8x4")
    plain = simulate_run(jobs, where, find_policy(policy), find_placement("consolidated"), keep_journal=True)
    assert np.isnan(plain.jobs["left"]).all()
    engine, world = prepare(jobs, where, find_policy(policy), find_placement("consolidated"), Setting())
    if find_policy(policy).reports:
        return  # it reads the column where jobs report
    engine.state.jobs["left"] = np.random.default_rng(0).uniform(-1e6, 1e6, len(jobs))
    from headway.core.engine import drive
    from headway.core.tables.journal import journal

    book = journal(engine.state, 1 << 20, True)
    drive(engine, SimulatedWorld(engine, world, book))
    assert book.rows[: int(book.counts["rows"][0])].tobytes() == plain.entries.tobytes()


@pytest.mark.parametrize("policy", ["tiresias-l", "tiresias-g", "las", "2d-las", "gittins", "srtf"])
def test_with_a_quantum_nothing_happens_but_at_arrivals_ends_and_its_multiples(policy):
    run = run_of(f"{policy}?quantum=50", "consolidated", Setting())
    acts = run.entries[np.isin(run.entries["kind"], (START, STOP))]["time"]
    moments = np.concatenate([run.workload.submit_s, run.jobs["end"]])
    assert (np.isin(acts, moments) | (acts % 50 == 0)).all()
    assert (acts % 50 == 0).any()


def test_the_oracles_are_those_declared():
    assert {name for name in POLICIES if find_policy(name).oracle} == ORACLES


WEIGHTED = """
from typing import Annotated, Any

from headway.core.protocols import Policy
from headway.io.options import Option, number, show_number

SUMMARY = "first come, first served, with a head start for small jobs"
HEAD_START = 0
HeadStart = Annotated[float, Option("seconds that a job comes later for each GPU", number, show_number)]


def key(job: Any, now: float, options: Any) -> tuple[float, float]:
    return job.submit + options.parameters[HEAD_START] * job.gpus, 0.0


def make(head_start: HeadStart = 60.0) -> Policy:
    return Policy("weighted", key, preempts=False, parameters=(head_start,))
"""


def test_an_option_touches_the_file_of_its_policy_alone(tmp_path, monkeypatch):
    (tmp_path / "weighted_policy.py").write_text(WEIGHTED)
    monkeypatch.setattr("headway.policies.__path__", [*headway.policies.__path__, str(tmp_path)])
    monkeypatch.setitem(POLICIES, "weighted", "weighted_policy")
    listed.cache_clear()
    assert listed()["weighted"].defaults == {"head_start": "60"}
    assert meanings()["head_start"] == "seconds that a job comes later for each GPU"
    listed.cache_clear()
    with pytest.raises(BadInput, match="head_start=x must be a number above 0"):
        find_policy("weighted?head_start=x")
    with pytest.raises(BadInput, match="did you mean 'head_start'"):
        find_policy("weighted?head_starts=3")
    jobs = workload("three", [0.0, 1.0, 2.0], [4, 4, 1], [100.0, 10.0, 10.0])
    large_first, small_first = (
        simulate(jobs, "1x4", spec).jobs["end_s"].tolist() for spec in ("weighted?head_start=0.1", "weighted")
    )
    assert large_first == [100.0, 110.0, 120.0]
    assert small_first == [100.0, 120.0, 110.0]
