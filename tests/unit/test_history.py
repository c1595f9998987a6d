"""The Gittins index from the hull against the plain maximum over every service quantum, on drawn samples."""

import numpy as np
import pytest
from tests.gittins import index_of

from headway.core.history import FEWEST_SAMPLES, add_sample, gittins, gittins_within, refresh, stale
from headway.core.tables.options import history


def brute_force(samples: np.ndarray, a: float, *, plotted: bool) -> float:
    """The definition: the best of all quanta that end at a sample."""
    ahead = np.sort(samples[samples > a]) - a
    n = len(ahead)
    found = [0.0]
    for k in range(1, n + 1):
        quantum = ahead[k - 1]
        if plotted:
            found.append(n * k / (ahead[:k].sum() + (n - k + 1) * quantum))
        else:
            done = ahead <= quantum  # ties included
            found.append(done.sum() / (ahead[done].sum() + (n - done.sum()) * quantum))
    return max(found)


def drawn(rng: np.random.Generator) -> np.ndarray:
    """Samples of one of several shapes: heavy tails, few values with many ties, nearly equal ones."""
    n = int(rng.integers(1, 60))
    shapes = (
        lambda: rng.pareto(1.1, n) * 100 + 1,
        lambda: rng.integers(1, 6, n).astype(float),
        lambda: rng.exponential(3600, n) + 1e-3,
        lambda: 1000 + rng.random(n),
    )
    return shapes[rng.integers(len(shapes))]()


def levels(samples: np.ndarray, rng: np.random.Generator) -> list[float]:
    """Service at which to ask: none, at a sample, just beside it (sums of samples cancel if nearer), anywhere, and beyond the largest."""
    some = rng.choice(samples, 3)
    return [0.0, *some, *(some * 0.999), *rng.uniform(0, samples.max(), 5), samples.max() + 1]


@pytest.mark.parametrize("plotted", [False, True], ids=["printed", "plotted"])
def test_the_hull_finds_the_best_quantum(plotted, rounds):
    for seed in range(rounds(200, 10_000)):
        rng = np.random.default_rng(seed)
        samples = drawn(rng)
        for a in levels(samples, rng):
            expected = brute_force(samples, a, plotted=plotted)
            assert index_of(samples, a, plotted) == pytest.approx(expected, rel=1e-6), (seed, a)


def test_within_a_fixed_quantum(rounds):
    for seed in range(rounds(200, 10_000)):
        rng = np.random.default_rng(seed)
        samples = drawn(rng)
        past = history(samples)
        refresh(past, False)
        for a in levels(samples, rng):
            horizon = float(rng.uniform(0.1, 2 * samples.max()))
            ahead = samples[samples > a] - a
            done = (ahead <= horizon).sum()
            expected = done / np.minimum(ahead, horizon).sum() if len(ahead) else 0.0
            found = gittins_within(past, a, horizon)
            near = np.isclose(
                samples, a + horizon, rtol=1e-12
            ).any()  # a + horizon rounds: the edge may fall either way
            assert near or found == pytest.approx(expected, rel=1e-6), (seed, a, horizon)


def test_a_longer_quantum_never_beats_the_index():
    rng = np.random.default_rng(7)
    samples = drawn(rng)
    past = history(samples)
    refresh(past, False)
    for a in levels(samples, rng):
        best = gittins(past, a, False)
        assert all(gittins_within(past, a, horizon) <= best * (1 + 1e-9) for horizon in rng.uniform(0.1, 1e5, 50))


def test_samples_added_one_by_one_are_the_samples_given_at_once():
    rng = np.random.default_rng(3)
    samples = rng.pareto(1.2, 80) * 10 + 1
    grown, given = history(None, 80), history(samples)
    for value in samples:
        add_sample(grown, value)
    refresh(grown, False)
    refresh(given, False)
    assert np.array_equal(grown.samples[:80], np.sort(samples))
    for a in (0.0, 5.0, 50.0, 500.0):
        assert gittins(grown, a, False) == gittins(given, a, False)


def test_too_few_jobs_that_ended_say_nothing_but_a_given_file_always_speaks():
    grown = history(None, FEWEST_SAMPLES)
    for value in range(1, FEWEST_SAMPLES + 1):
        refresh(grown, False)
        assert gittins(grown, 0.0, False) == gittins_within(grown, 0.0, 9.0) == 0.0
        add_sample(grown, float(value))
    refresh(grown, False)
    assert gittins(grown, 0.0, False) > 0
    assert index_of(np.array([5.0]), 0.0) == 0.2


def test_a_given_distribution_does_not_grow():
    given = history(np.array([1.0, 2.0, 3.0]))
    add_sample(given, 9.0)
    refresh(given, False)
    assert int(given.counts["fitted"][0]) == 3


def test_the_curve_is_drawn_again_when_the_samples_have_grown_by_a_hundredth():
    rng, past = np.random.default_rng(3), history(None, 1000)
    drawn, fits = rng.pareto(1.1, 1000) * 100 + 1, 0
    for n, sample in enumerate(drawn, 1):
        add_sample(past, sample)
        assert stale(past) == (int(past.counts["new"][0]) >= int(past.counts["fitted"][0]) / 100)
        if stale(past):
            refresh(past, False)
            fits += 1
            assert past.samples[:n].tolist() == sorted(drawn[:n])
    assert 100 < fits < 400


def test_beyond_the_largest_sample_nothing_is_known():
    assert index_of(np.array([4.0, 8.0]), 8.0) == 0.0
    assert index_of(np.array([4.0, 8.0]), 8.5, plotted=True) == 0.0
