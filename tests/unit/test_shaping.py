"""Windows, samples, time and load scaling; and that a written trace reads back as it was."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cluster.named import cluster
from headway.errors import BadInput
from headway.workloads import shaping
from headway.workloads.load import load
from headway.workloads.synthetic import synthetic
from headway.workloads.workload import COLUMNS, workload
from headway.workloads.write import write_csv

TEN = workload("ten", np.arange(10) * 10.0, np.ones(10), np.full(10, 5.0))


def test_window_is_half_open_and_starts_at_zero() -> None:
    jobs = shaping.window(TEN, 20, 50)
    assert jobs.job_id.tolist() == ["2", "3", "4"]
    assert jobs.submit_s.tolist() == [0, 10, 20]
    assert jobs.duration_s.tolist() == [5, 5, 5]
    assert len(shaping.window(TEN, 25, float("inf"))) == 7


@pytest.mark.parametrize(("start", "end"), [(50, 20), (20, 20), (91, 100)])
def test_empty_windows_are_refused(start: float, end: float) -> None:
    with pytest.raises(BadInput):
        shaping.window(TEN, start, end)


def test_sample_is_seeded_and_keeps_the_order() -> None:
    jobs = synthetic("philly?jobs=1000")
    one, same, other = (shaping.sampled(jobs, 100, seed) for seed in (1, 1, 2))
    assert one.job_id.tolist() == same.job_id.tolist() != other.job_id.tolist()
    assert len(set(one.job_id.tolist())) == 100
    assert (np.diff(one.submit_s) >= 0).all()
    assert shaping.sampled(jobs, 1000, 0).job_id.tolist() == jobs.job_id.tolist()
    for count in (0, 1001):
        with pytest.raises(BadInput):
            shaping.sampled(jobs, count, 0)


def test_time_scale_keeps_the_load() -> None:
    jobs = synthetic("philly?jobs=1000")
    fast = shaping.scale_time(jobs, 1 / 60)
    assert fast.submit_s[-1] == pytest.approx(jobs.submit_s[-1] / 60)
    assert shaping.offered_load(fast, 512) == pytest.approx(shaping.offered_load(jobs, 512), rel=1e-6)
    assert (shaping.scale_time(jobs, 1e-12).duration_s > 0).all()


@pytest.mark.parametrize("load_factor", [0.1, 0.9, 3.0])
def test_load_changes_the_gaps_only(load_factor: float) -> None:
    jobs = synthetic("helios?jobs=1000")
    scaled = shaping.with_load(jobs, cluster("64x8"), load_factor)
    assert shaping.offered_load(scaled, 512) == pytest.approx(load_factor, rel=1e-6)
    assert (scaled.duration_s == jobs.duration_s).all()
    assert scaled.submit_s[0] == jobs.submit_s[0]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_bad_factors(value: float) -> None:
    with pytest.raises(BadInput):
        shaping.scale_time(TEN, value)
    with pytest.raises(BadInput):
        shaping.with_load(TEN, cluster("1x1"), value)


def test_offered_load_by_hand() -> None:
    assert shaping.work_gpu_s(TEN) == 50
    assert shaping.offered_load(TEN, 2) == 50 / (2 * 90)
    assert shaping.offered_load(TEN.take(np.arange(1)), 2) == float("inf")


def test_every_step_is_noted() -> None:
    jobs = shaping.sampled(shaping.scale_time(shaping.window(TEN, 0, 80), 2), 3, 0)
    assert len(jobs.caveats) == 3


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8).map(str.strip)
ROW = st.tuples(
    st.floats(0, 1e9, allow_subnormal=False),
    st.integers(1, 10_000_000),
    st.floats(1e-6, 1e9, allow_subnormal=False),
    TEXT,
    TEXT,
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=20), suffix=st.sampled_from([".csv", ".csv.gz", ".csv.zst"]))
def test_a_written_trace_reads_back_as_it_was(tmp_path_factory, rows, suffix) -> None:
    submit, gpus, duration, user, model = zip(*rows, strict=True)
    jobs = workload("w", submit, gpus, duration, user=user, model=model)
    path = tmp_path_factory.mktemp("w") / f"t{suffix}"
    write_csv(jobs, path)
    back = load(str(path), strict=True)
    for column in COLUMNS:
        assert getattr(back, column).tolist() == getattr(jobs, column).tolist()
    first = path.read_bytes()
    write_csv(back, path)
    assert path.read_bytes() == first


def test_one_job_has_no_gaps_to_scale() -> None:
    with pytest.raises(BadInput, match="one job is left"):
        shaping.with_load(TEN.take(np.arange(1)), cluster("15x4"), 0.5)
