"""tiresias-l?threshold=auto: the bounds follow from the jobs that ended, and jobs are in the queue of their attained service."""

import numpy as np
import pytest

from headway.cluster.named import cluster
from headway.core.events import REFITTED
from headway.core.operations import refit_thresholds
from headway.core.tables.options import history
from headway.core.tables.options import options as with_defaults
from headway.errors import BadInput
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, prepare, simulate_run
from headway.workloads.load import load

LOAD = 0.9


def fitted(samples: list[float], queues: int) -> list[float]:
    past = history(None, len(samples) + 1)
    past.samples[: len(samples)] = np.sort(samples)
    past.counts[0] = (len(samples), 0, 1)
    bounds = np.array([*(1e9 + i for i in range(queues - 1)), np.inf])
    refit_thresholds(past, bounds)
    return bounds[:-1].tolist()


def naive(samples: list[float]) -> float:
    """The bound with the least mean wait, by the formulas of decision 0115, each bound tried by itself."""
    sizes = np.array(samples)
    rate = LOAD / sizes.mean()

    def wait(bound: float) -> float:
        part, early = np.minimum(sizes, bound), sizes <= bound
        first = rate * (part**2).mean() / 2 / (1 - rate * part.mean())
        second = rate * (sizes**2).mean() / 2 / (1 - LOAD) / (1 - rate * part.mean())
        return float(early.mean() * first + (1 - early.mean()) * second)

    return float(min(sorted(sizes), key=wait))


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_the_best_of_all_by_the_stated_formula(seed):
    samples = np.random.default_rng(seed).lognormal(6, 2, 200).tolist()
    assert fitted(samples, 2) == [naive(samples)]
    first, second = fitted(samples, 3)
    assert first == naive(samples)
    assert second - first == pytest.approx(naive([size - first for size in samples if size > first]))


def test_two_sizes_are_told_apart_and_few_samples_change_nothing():
    assert fitted([10.0] * 90 + [10_000.0] * 10, 2) == [10.0]
    assert fitted([10.0] * 29, 2) == [1e9]
    rises = fitted([10.0] * 90 + [10_000.0] * 10, 4)
    assert rises == sorted(set(rises))


def test_bounds_are_fitted_as_jobs_end_and_the_mean_falls():
    jobs, where = load("synthetic:tiresias-480?jobs=300&seed=2"), cluster("10x4")
    setting = Setting(preemption_cost=None, min_runtime=None)
    auto = find_policy("tiresias-l?threshold=auto")
    done = simulate_run(jobs, where, auto, find_placement("consolidated"), setting, keep_journal=True)
    assert (done.entries["kind"] == REFITTED).sum() > 10
    engine, _ = prepare(jobs, where, auto, find_placement("consolidated"), setting)
    assert engine.options.fits
    assert engine.options.thresholds.tolist() == [3200.0, np.inf]  # until thirty jobs have ended
    assert not with_defaults().fits


def test_what_cannot_be_fitted_is_refused():
    for spec, words in (
        ("tiresias-l?threshold=auto&queues=1", "queues=1 has no threshold"),
        ("tiresias-l?threshold=auto&thresholds=3:4", "leave out thresholds=3:4"),
        ("tiresias-l?threshold=cars", "threshold=cars"),
    ):
        with pytest.raises(BadInput, match=words):
            find_policy(spec)
