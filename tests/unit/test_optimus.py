"""optimus: the compiled fit and the shares by gain, against plain versions that are slow and easy to read."""

from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.core.engine import allot_function
from headway.core.events import STOPPED
from headway.core.tables.scratch import new_scratch
from headway.core.tables.state import new_state
from headway.job_state import JobState
from headway.placement.registry import find_placement
from headway.policies import optimus
from headway.policies.optimus import FIRST_GUESS_S, INTERVAL_S, Allotment, predict_left
from headway.policies.registry import find_policy
from headway.sim.api import simulate
from headway.sim.models import profiles
from headway.sim.models.loss_curves import LossCurves
from headway.sim.run import simulate_run
from headway.workloads.load import load

NODES = np.full(4, 4)  # 16 GPUs
SIZES = np.arange(17, dtype=np.int32)


def plainly_left(x, loss):
    """Least squares by NumPy, for each of the floors."""
    best, slope, offset = np.inf, 0.0, 1.0
    for floor in np.linspace(0.0, 0.95 * loss.min(), 12):
        b0, b1 = np.polyfit(x, 1.0 / (loss - floor), 1)
        error = np.sum((1.0 / np.maximum(b0 * x + b1, 1e-9) + floor - loss) ** 2)
        if b0 > 0.0 and error < best:
            best, slope, offset = error, b0, max(b1, 1e-9)
    # 0.1 z^2 - 0.8 z + 0.1 = 0: where a per cent more work improves the loss by a thousandth
    z = (0.8 + np.sqrt(0.6)) / 0.2
    return max(z * offset / slope - x[-1], 1.0) if slope > 0.0 else FIRST_GUESS_S


def plain_sizes(jobs, now, total, curves, scaling):
    """GPUs of every active job at an interval."""
    active = [
        j
        for j in range(len(jobs))
        if jobs["state"][j] in (JobState.PENDING, JobState.STARTING, JobState.RUNNING, JobState.STOPPING)
    ]
    served = sorted(active, key=lambda j: (jobs["first"][j], j))[:total]
    given = dict.fromkeys(active, 1)

    def left(j):
        done = jobs["done"][j] + (now - jobs["since"][j]) * jobs["rate"][j] * (jobs["state"][j] == JobState.RUNNING)
        if done < 60.0:
            return FIRST_GUESS_S
        x, loss = curves.reported(np.array([j]), np.array([done]))
        return plainly_left(x[0], loss[0])

    def saved(j):
        c, asked = scaling[jobs["model"][j]], jobs["asked"][j]
        alone = [g / (1 + c * (g - 1)) for g in (given[j], given[j] + 1, asked)]
        return lefts[j] * alone[2] * (1 / alone[0] - 1 / alone[1])

    lefts = {j: left(j) for j in served}
    gains = [(-saved(j), j) for j in served]
    heapify(gains)
    for _ in range(total - len(served)):
        if not gains:
            break
        j = heappop(gains)[1]
        given[j] += 1
        if given[j] < 2 * jobs["asked"][j]:
            heappush(gains, (-saved(j), j))
    return given


def draw_jobs(jobs, random, now):
    """A job table in the middle of a run."""
    n = len(jobs)
    jobs["state"] = random.choice(
        [JobState.PENDING, JobState.STARTING, JobState.RUNNING, JobState.STOPPING, JobState.COMPLETED], n
    )
    jobs["state"][random.integers(n // 2, n + 1) :] = JobState.FUTURE  # jobs come in their order
    jobs["asked"] = jobs["gpus"] = random.integers(1, 9, n)
    jobs["model"] = random.integers(0, len(profiles.TABLE), n)
    started = jobs["state"] >= JobState.STARTING
    jobs["attempt"] = started
    jobs["first"] = np.where(started, random.uniform(0, now, n).round(-1), np.inf)
    jobs["since"] = random.uniform(0, now, n)
    jobs["done"] = random.choice([0.0, 50.0, 1000.0, 30000.0], n) * started


@pytest.mark.parametrize("seed", range(40))
def test_the_fit_is_that_of_least_squares(seed):
    curves = LossCurves(np.full(10, 20000.0), seed)
    done = np.random.default_rng(seed).uniform(60.0, 20000.0, 10)
    for x, loss in zip(*curves.reported(np.arange(10), done), strict=True):
        assert predict_left(x, loss) == pytest.approx(plainly_left(x, loss), rel=1e-6)


def test_a_clean_curve_is_predicted_to_its_end():
    """Without noise and step, the work left is what is left, whatever the floor."""
    curves = LossCurves(np.full(3, 10000.0), 0)
    curves.noise[:], curves.step_at[:], curves.floor[:] = 0.0, np.inf, 0.0
    x, loss = curves.reported(np.arange(3), np.array([1000.0, 4000.0, 9000.0]))
    assert [predict_left(*reports) for reports in zip(x, loss, strict=True)] == pytest.approx([9000.0, 6000.0, 1000.0])


def test_a_curve_that_rises_gives_no_prediction():
    x = np.linspace(0.0, 1000.0, 20)
    assert predict_left(x, 1.0 + x / 1000.0) == FIRST_GUESS_S


@pytest.mark.parametrize("seed", range(60))
def test_shares_are_those_of_the_plain_version(seed):
    random, now = np.random.default_rng(seed), 100 * INTERVAL_S
    n = int(random.choice([6, 20, 60]))  # fewer active jobs than GPUs, about as many, more
    state = new_state(n, NODES)
    draw_jobs(state.jobs, random, now)
    curves, scaling = LossCurves(random.uniform(100.0, 50000.0, n), seed), profiles.column("scaling")
    allot, scratch = Allotment(n, INTERVAL_S, curves.reported, scaling, SIZES), new_scratch(state)
    allot(state, scratch, now)
    expected = plain_sizes(state.jobs, now, 16, curves, scaling)
    assert {j: int(scratch.jobs["want"][j]) for j in expected} == expected
    allot(state, scratch, now)  # deciding again changes nothing
    assert {j: int(scratch.jobs["want"][j]) for j in expected} == expected
    # Later, some are over, some have started: the list that is kept stays right.
    ended = random.random(n) < 0.3
    state.jobs["state"][ended & (state.jobs["state"] != JobState.FUTURE)] = JobState.COMPLETED
    begun = (random.random(n) < 0.5) & (state.jobs["state"] == JobState.PENDING)
    state.jobs["first"][begun] = now + random.integers(0, 600, int(begun.sum()))
    state.jobs["state"][begun], state.jobs["attempt"][begun] = JobState.STARTING, 1
    allot(state, scratch, now + INTERVAL_S)
    expected = plain_sizes(state.jobs, now + INTERVAL_S, 16, curves, scaling)
    assert {j: int(scratch.jobs["want"][j]) for j in expected} == expected


def test_between_intervals_only_jobs_that_never_ran_change():
    state = new_state(4, NODES)
    scratch = new_scratch(state)
    state.jobs["state"] = [JobState.PENDING, JobState.PENDING, JobState.PENDING, JobState.FUTURE]
    state.jobs["asked"] = 3
    allot = Allotment(4, INTERVAL_S, LossCurves(np.full(4, 1e4), 0).reported, profiles.column("scaling"), SIZES)
    allot(state, scratch, 7.0)
    assert scratch.jobs["want"].tolist()[:3] == [1, 1, 1]
    state.jobs["state"][0], state.jobs["attempt"][:2], allot.wants["want"] = JobState.RUNNING, 1, 3
    scratch.jobs["want"] = -7  # nothing in the scratch matters between decisions
    allot(state, scratch, 8.0)
    assert scratch.jobs["want"].tolist()[:3] == [3, 3, 1]
    state.jobs["state"][3] = JobState.PENDING
    allot(state, scratch, 600.0)
    assert scratch.jobs["want"].tolist() == plain_list(state, 600.0)
    assert scratch.jobs["want"][3] > 1
    allot(state, scratch, 601.0)  # had more, and found no place for it: back to one
    assert scratch.jobs["want"].tolist()[2:] == [1, 1]


def plain_list(state, now):
    given = plain_sizes(state.jobs, now, 16, LossCurves(np.full(4, 1e4), 0), profiles.column("scaling"))
    return [given[j] for j in range(4)]


def test_sizes_without_a_slice_are_rounded_down():
    state = new_state(2, NODES)
    scratch = new_scratch(state)
    state.jobs["state"], state.jobs["asked"] = JobState.PENDING, 8
    powers = (2 ** np.floor(np.log2(np.maximum(SIZES, 1)))).astype(np.int32)
    Allotment(2, INTERVAL_S, LossCurves(np.full(2, 1e4), 0).reported, profiles.column("scaling"), powers)(
        state, scratch, 0.0
    )
    assert scratch.jobs["want"].tolist() == [8, 8]
    state.jobs["asked"] = [3, 8]
    Allotment(2, INTERVAL_S, LossCurves(np.full(2, 1e4), 0).reported, profiles.column("scaling"), powers)(
        state, scratch, 0.0
    )
    assert scratch.jobs["want"].tolist() == [4, 8]  # of 6 and 10


def test_compiled_code_calls_the_very_object():
    """Numba would call a pickled copy of it: slow with large tables, and what it learns would be lost."""

    class Counts:
        calls = 0

        def __call__(self, state, scratch, now):
            self.calls += 1
            scratch.jobs["want"] = 5

    allot, state = Counts(), new_state(1, NODES)
    scratch = new_scratch(state)
    compiled = allot_function(allot)
    for _ in range(3):
        compiled(state, scratch, 1.0)
    assert allot.calls == 3
    assert scratch.jobs["want"].tolist() == [5]


def test_fits_are_made_once_a_moment(monkeypatch):
    asked = []

    class Watched(LossCurves):
        def reported(self, ids, done):
            asked.extend(ids.tolist())
            return super().reported(ids, done)

    monkeypatch.setattr("headway.sim.run.LossCurves", Watched)
    jobs = load("synthetic:tiresias-480?jobs=60&seed=3")
    run = simulate_run(jobs, cluster("15x4"), find_policy("optimus"), find_placement("consolidated"))
    intervals = run.jobs["end"].max() / INTERVAL_S
    assert 0 < max(asked.count(j) for j in set(asked)) <= intervals


def test_a_policy_of_ones_own_may_resize_jobs():
    """An elastic policy is anything that makes allot(state, scratch, now): here, half of what was asked for."""

    def halves(jobs, interval_s, reports, scaling, sizes):
        def allot(state, scratch, now):
            scratch.jobs["want"] = np.maximum(state.jobs["asked"] // 2, 1)

        return allot

    jobs = load("synthetic:tiresias-480?jobs=40&seed=3")
    policy = replace(optimus.make(), allot=halves)
    run = simulate_run(jobs, cluster("15x4"), policy, find_placement("consolidated"))
    assert run.jobs["gpus"].tolist() == np.maximum(jobs.gpus // 2, 1).tolist()
    assert (run.jobs["state"] == JobState.COMPLETED).all()


@pytest.mark.parametrize(("spec", "interval_s"), [("optimus", 600), ("optimus?quantum=900", 900)])
def test_sizes_of_running_jobs_change_at_the_quantum_also_with_a_minimum_run_time(spec, interval_s):
    run = simulate(
        "synthetic:tiresias-480?jobs=60",
        "4x4",
        spec,
        min_runtime=90,
        preemption_cost="none",
        skip_impossible=True,
        keep_journal=True,
    ).run
    stops = run.entries[run.entries["kind"] == STOPPED]["time"]  # this policy stops jobs only to resize them
    assert len(stops) > 10
    assert not (stops % interval_s).any()
