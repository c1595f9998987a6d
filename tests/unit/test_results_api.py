"""`headway.simulate` and `headway.compare` as a notebook uses them."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from tests.waiting import COMPILES_S

import headway
from headway.errors import BadInput, HeadwayError

TRACE = "synthetic:tiresias-480?jobs=40"


@pytest.fixture(scope="module")
def result():
    return headway.simulate(TRACE, "15x4", "tiresias-l")


def test_jobs_are_a_table_of_columns(result):
    assert list(result.jobs)[:3] == ["job_id", "user", "gpus"]
    assert result.jobs["jct_s"].mean() == pytest.approx(result.summary["jct_s"]["mean"])
    assert result.jobs.rows == 40


def test_jobs_as_arrow(result):
    pytest.importorskip("pyarrow")
    table = result.jobs.to_arrow()
    assert table.num_rows == 40
    assert table["jct_s"].to_pylist() == result.jobs["jct_s"].tolist()


@pytest.mark.parametrize(
    ("library", "call"), [("pandas", "to_pandas"), ("polars", "to_polars"), ("pyarrow", "to_arrow")]
)
def test_a_missing_library_is_named(result, library, call, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(HeadwayError, match=f"pip install {library}"):
        getattr(result.jobs, call)()


@pytest.mark.parametrize(("library", "call"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_data_frames(result, library, call):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"SKIPPED: {library} is not installed")
    frame = getattr(result.jobs, call)()
    assert list(frame.columns) == list(result.jobs)
    assert float(frame["jct_s"].mean()) == pytest.approx(result.summary["jct_s"]["mean"])


def test_tables_load_nothing_until_asked():
    """In a process of its own: other tests of this one may have loaded them."""
    script = (
        f"import sys, headway\nheadway.simulate({TRACE!r}, '15x4', 'fifo').jobs['jct_s']\n"
        "print({'pandas', 'polars'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=COMPILES_S, check=True
    )
    assert done.stdout.strip() == "set()"


def test_results_show_themselves_in_notebooks(result):
    assert "tiresias-l" in result._repr_html_()
    assert "more rows" in result.jobs._repr_html_()
    assert "mean JCT" in repr(result)


def test_a_result_without_journal_can_still_be_reported(result, tmp_path):
    assert not len(result.run.entries)
    result.report(tmp_path / "report.html")
    assert "tiresias-l" in (tmp_path / "report.html").read_text()
    assert np.array_equal(result.with_journal().run.jobs["end"], result.run.jobs["end"])


def test_a_comparison_is_a_list_of_results():
    found = headway.compare(TRACE, "15x4", ["fifo", "srtf", "las"])
    assert [r.summary["policy"] for r in found] == ["fifo", "srtf", "las"]
    assert len(found) == 3
    assert found[-1].summary["policy"] == "las"
    assert [r.summary["policy"] for r in found[1:]] == ["srtf", "las"]
    assert found.seeds == 1


def test_seeds_draw_synthetic_traces_anew_and_pair_the_ratios():
    found = headway.compare(TRACE, "15x4", ["fifo", "fifo", "srtf"], seeds=3)
    assert found.seeds == 3
    first, same, other = found.over_seeds()
    assert len(set(first["jct_mean_s"])) == 3
    assert same["ratio"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert other["ratio"]["low"] <= other["ratio"]["mean"] <= other["ratio"]["high"]
    assert first["jct_mean_s"][1] == headway.simulate(f"{TRACE}&seed=1", "15x4", "fifo").summary["jct_s"]["mean"]


def test_every_figure_has_its_interval_and_its_ratio_over_seeds():
    found = headway.compare(TRACE, "15x4", ["fifo", "srtf"], seeds=3)
    fifo, srtf = found.over_seeds()
    summaries = found.summaries
    for part in ("mean", "median", "p95", "p99", "max"):
        told = srtf["jct_s"][part]
        assert told["values"] == [summary["jct_s"][part] for summary in summaries[1]]
        assert told["mean"] == pytest.approx(np.mean(told["values"]))
        ratios = [a / b for a, b in zip(told["values"], fifo["jct_s"][part]["values"], strict=True)]
        half = 4.302653 * np.std(ratios, ddof=1) / 3**0.5  # Student's t of 2 degrees at 97.5 %
        assert told["ratio"]["mean"] == pytest.approx(np.mean(ratios))
        assert told["ratio"]["high"] == pytest.approx(np.mean(ratios) + half, rel=1e-5)
        assert fifo["jct_s"][part]["ratio"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert srtf["mean_jct_s"] == {part: srtf["jct_s"]["mean"][part] for part in ("mean", "low", "high")}
    assert srtf["ratio"] == srtf["jct_s"]["mean"]["ratio"]
    # fifo never preempts: there is nothing to hold the others against.
    assert srtf["preemptions"]["ratio"] is None
    assert srtf["preemptions"]["mean"] > 0


def test_the_report_holds_tails_against_the_first_over_seeds():
    from headway.report.comparison import report

    found = headway.compare(TRACE, "15x4", ["fifo", "srtf"], seeds=2, keep_journal=True)
    ratio = found.over_seeds()[1]["jct_s"]["p95"]["ratio"]
    half = (ratio["high"] - ratio["low"]) / 2
    page = report(found.study())
    assert f"{ratio['mean']:.2f}x <small>± {half:.2f}</small>" in page
    assert f"<h1>{TRACE}: " in page, "one seed's name stands for all"


def test_seeds_of_a_file_that_nothing_is_drawn_from_say_so(tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit_s,gpus,duration_s\na,0,1,10\nb,1,1,10\n")
    study = headway.compare(str(file), "1x1", ["fifo"], seeds=2).study()
    assert any("nothing in this study is drawn at random" in note for note in study.notes)


def test_no_seeds_are_refused():
    with pytest.raises(BadInput, match="whole number from 1"):
        headway.compare(TRACE, "15x4", ["fifo"], seeds=0)


def test_an_own_policy_as_an_object():
    class Widest:
        def key(self, job, now, options):
            return -job.gpus, job.submit

    found = headway.compare(TRACE, "15x4", ["fifo", Widest()])
    assert found[1].summary["policy"] == "Widest"
    assert found[1].summary["finished"] == 40


def test_a_policy_that_raises_ends_the_run_with_one_line():
    """Python that compiled code calls back cannot raise through it: the mistake must not pass for a result."""

    class Broken:
        def key(self, job, now, options):
            return [1.0, 2.0][int(job.gpus) + 5], 0

    with pytest.raises(
        HeadwayError, match=r"failed: IndexError: list index out of range \(.*test_results_api.py, line"
    ):
        headway.simulate(TRACE, "15x4", Broken())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"slowdown": None}, "unknown slowdown 'None'"),
        ({"placement": 3}, "3 is not a placement"),
        ({"seed": "a"}, "seed 'a' is not a whole number"),
        ({"seed": -1}, "seed -1 is not"),
        ({"seed": 2**63}, "is not a whole number from 0"),
        ({"preemption_cost": None}, "preemption cost None is not none, model or a time"),
        ({"preemption_cost": -1}, "preemption cost -1"),
        ({"min_runtime": "abc"}, "--min-runtime: 'abc' is not a time: write a number and a unit, such as 5m or 1h"),
        ({"network": 3}, "unknown network '3'"),
        ({"collective": None}, "unknown collective 'None'"),
        ({"fabric": 3}, "fabric 3 is neither a name nor a path"),
        ({"cluster": 15}, "cluster 15 is neither"),
        ({"trace": None}, "trace None is neither"),
    ],
)
def test_what_is_no_value_is_refused_in_words(given, words):
    with pytest.raises(BadInput) as raised:
        headway.simulate(**({"trace": TRACE, "cluster": "15x4"} | given))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("policies", "given", "words"),
    [
        ("fifo", {}, "policies is 'fifo': give a list"),
        ([], {}, "policies is empty"),
        (["fifo"], {"seeds": 2, "seed": 1}, "leave out --seed 1"),
        (["fifo"], {"seeds": 2, "trace": f"{TRACE}&seed=4"}, "leave out seed= in"),
        (["fifo"], {"seeds": "2"}, "seeds '2' is not a whole number from 1"),
    ],
)
def test_compare_refuses_what_it_would_ignore(policies, given, words):
    with pytest.raises(BadInput) as raised:
        headway.compare(given.pop("trace", TRACE), "15x4", policies, **given)
    assert words in str(raised.value)


def test_paths_and_numbers_are_accepted(tmp_path):
    trace, cluster = tmp_path / "jobs.csv", tmp_path / "lab.yaml"
    trace.write_text("job_id,submit_s,gpus,duration_s\na,0,1,100\nb,1,1,10\n")
    cluster.write_text("nodes: [{gpus: 1}]")
    paid = headway.simulate(trace, cluster, "srtf", preemption_cost=30, min_runtime=0.5, seed=np.int64(3))
    assert paid.summary["preemption_cost_s"] == 30
    assert headway.compare(trace, cluster, ["fifo"])[0].summary["finished"] == 2


def test_every_job_too_large_lists_them_and_the_fix(tmp_path):
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,2,100\nb,1,4,10\n")
    with pytest.raises(BadInput) as raised:
        headway.simulate(tmp_path / "jobs.csv", "1x1", "fifo")
    assert "every job is larger than 1x1 (1 GPU): a (2 GPUs), b (4 GPUs); take a larger cluster" in str(raised.value)


def test_a_key_that_turns_nan_later_is_named():
    """The check before the run sees one job only."""

    class Sometimes:
        def key(self, job, now, options):
            return float("nan") if job.gpus > 2 else 1.0, 0

    with pytest.raises(HeadwayError, match="does the policy's key return NaN"):
        headway.simulate(TRACE, "4x8", Sometimes())
