"""The report is one whole page: no link outwards, every figure labelled, valid data, small whatever the trace."""

import json
import re

import numpy as np
import pytest

import headway
from headway.errors import BadInput
from headway.report import png
from headway.report.comparison import figures, report
from headway.report.figure import POINTS, cdf, colour, ratio_ticks, shortened, time_ticks
from headway.report.seeds import interval
from headway.workloads.workload import workload


@pytest.fixture(scope="module")
def compared():
    return headway.compare(
        "synthetic:tiresias-480?jobs=60", "15x4", ["fifo", "tiresias-l"], preemption_cost="30s", keep_journal=True
    )


@pytest.fixture(scope="module")
def page(compared):
    return report(compared.study())


def test_nothing_is_loaded_from_elsewhere(page):
    own = re.sub(r"<script>/\*\*.*?</script>", "", page, count=1, flags=re.S)  # plotly.js itself names its home page
    assert len(own) < len(page) / 2
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
    assert "http" not in own


def test_every_axis_has_a_title(compared):
    for figure in figures(compared.study()):
        axes = [value for name, value in figure.layout.items() if re.match(r"[xy]axis", name)]
        assert len(axes) >= 2
        assert all(axis["title"]["text"] for axis in axes), figure.name


def test_the_data_are_json_without_nan(page):
    text = re.search(r"id='figures'>(.*?)</script>", page, re.S)[1]
    assert len(json.loads(text)) >= 12


def test_the_table_holds_each_policy_against_the_first(page, compared):
    mean = [result.summary["jct_s"]["mean"] for result in compared]
    assert f"{mean[1] / mean[0]:.2f}x" in page
    assert "1.00x" in page


def test_a_name_cannot_break_out_of_the_page():
    jobs = workload("</script><script>alert(1)</script>", [0, 1], [1, 1], [5, 5], user=["</script>a", "b"])
    text = report(headway.compare(jobs, "1x1", ["fifo"], keep_journal=True).study())
    assert "<script>alert(1)" not in text
    assert "</script>a" not in text


def test_fairness_is_by_queue_where_there_are_queues():
    jobs = workload("q", range(6), [1] * 6, [50] * 6, queue=["a", "b"] * 3)
    study = headway.compare(jobs, "1x2", ["fifo", "las"], keep_journal=True).study()
    assert study.grouped_by == "queue"
    assert "slow-down" in [figure.name for figure in figures(study)]


def test_a_large_cluster_has_no_gantt_chart(compared):
    jobs = workload("wide", [0, 1], [1, 1], [5, 5])
    study = headway.compare(jobs, "40x8", ["fifo"], keep_journal=True).study()
    assert not any(figure.name.startswith("gantt") for figure in figures(study))
    assert sum(figure.name.startswith("gantt") for figure in figures(compared.study())) == 2


def test_gantt_bars_cover_all_gpu_time(compared):
    view = compared.study().views[1]
    area = float(np.dot(view.bars.gpus, view.bars.end_s - view.bars.start_s))
    assert area == pytest.approx(compared[1].run.held_gpu_s)


def test_a_cdf_is_thinned_but_keeps_its_ends():
    values = np.random.default_rng(0).lognormal(5, 2, 80_000)
    x, y = cdf(values)
    assert len(x) <= 2 * POINTS
    assert x[0] == pytest.approx(values.min(), rel=1e-4)
    assert (x[-1], y[-1]) == (pytest.approx(values.max(), rel=1e-4), 100.0)
    median = np.interp(50, y, x)
    assert median == pytest.approx(np.median(values), rel=0.02)


def test_a_cdf_of_one_job():
    assert cdf(np.array([3.0])) == ([3.0], [100.0])


def test_short_axes_still_have_ticks():
    inside = [value for value in time_ticks(70.0, 200.0)["tickvals"] if 70 <= value <= 200]
    assert len(inside) >= 3


@pytest.mark.parametrize("low", [0.0013, 0.9, 1.0, 3.7, 61.0, 3599.0, 90_000.0])
@pytest.mark.parametrize("times", [1.0, 1.02, 1.5, 3.0, 9.0, 40.0, 1e4])
@pytest.mark.parametrize("ticks", [time_ticks, ratio_ticks])
def test_every_log_axis_has_at_least_three_ticks(low, times, ticks):
    axis = ticks(low, low * times)
    first, last = (10**end for end in axis["range"])
    assert sum(first <= value <= last for value in axis["tickvals"]) >= 3
    assert len(set(axis["ticktext"])) == len(axis["ticktext"]) == len(axis["tickvals"]) < 20


def test_a_long_axis_has_a_tick_near_its_end():
    assert time_ticks(1.0, 8 * 3600.0)["ticktext"][-2:] == ["1 h", "5 h"]


def test_twelve_policies_have_twelve_colours():
    assert len({colour(place) for place in range(12)}) == 12


def test_names_that_begin_alike_are_told_apart():
    names = [f"team-vision-{k}-training" for k in range(3)] + ["short", "a" * 40]
    found = shortened(names, 16)
    assert len(set(found)) == 5
    assert found[3] == "short"
    assert shortened([*names[3:], "b" * 39 + "c"], 16) == [
        "short",
        "a" * 7 + "…" + "a" * 8,
        "b" * 7 + "…" + "b" * 7 + "c",
    ]


def test_gantt_charts_share_their_time(compared):
    ranges = [f.layout["xaxis"]["range"] for f in figures(compared.study()) if f.name.startswith("gantt")]
    assert len(ranges) == 2
    assert ranges[0] == ranges[1]


def test_bars_of_many_policies_are_labelled():
    jobs = workload("j", [0, 1], [1, 1], [5, 5])
    study = headway.compare(jobs, "1x1", ["fifo", "las", "srtf", "srsf"], keep_journal=True).study()
    (drawn,) = [figure for figure in figures(study) if figure.name == "preemptions"]
    assert drawn.layout["xaxis"]["ticktext"] == ["fifo", "las", "srtf", "srsf"]


def test_the_interval_is_students():
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.302653 / 3**0.5, rel=1e-5)  # t of 2 degrees at 97.5 %
    assert interval([7.0]).half is None


def test_a_folder_is_no_report(compared, tmp_path):
    with pytest.raises(BadInput, match="is a folder"):
        compared.report(tmp_path)


def test_a_full_disk_leaves_the_old_report_whole(compared, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(BadInput, match="No space left on device; the old file, if any, is unchanged"):
        compared.report(target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_without_a_browser_pictures_are_refused_with_the_way_out(compared, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(headway.errors.HeadwayError, match="needs Chromium or Chrome"):
        compared.png(tmp_path / "pictures")


def test_pictures_of_every_figure(compared, tmp_path):
    try:
        png.browser()
    except headway.errors.HeadwayError as error:
        pytest.skip(f"SKIPPED: {error}")
    paths = compared.png(tmp_path / "pictures")
    assert len(paths) == len(figures(compared.study()))
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_pictures_want_a_folder_or_a_png(compared, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(BadInput, match="is a file"):
        compared.png(file)
    assert file.read_text() == "mine"
