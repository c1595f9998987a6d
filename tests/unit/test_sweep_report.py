"""The report of a sweep: means over seeds, bands, heat maps."""

import pytest

from headway.errors import BadInput
from headway.report.png import file_names
from headway.report.sweep import Grid, figures, sweep_report
from headway.report.sweep import grid as grid_of
from headway.sim.experiment import options


def row(policy, load, seed, mean, cluster="15x4"):
    return {"policy": policy, "load": load, "seed": seed, "cluster": cluster, "jct_mean_s": mean, "trace": "t"}


def grid(rows, metric) -> Grid:
    return grid_of(rows, metric, list(options()))


ROWS = [
    row(policy, load, seed, base * load + seed)
    for policy, base in (("fifo", 1000.0), ("tiresias-l?threshold=1600", 300.0), ("tiresias-l?threshold=3200", 200.0))
    for load in (0.5, 1.0)
    for seed in (0, 1)
]


def test_what_varies_becomes_an_axis_and_options_too():
    found = grid(ROWS, "jct_mean_s")
    assert found.axes == {"load": [0.5, 1.0], "option:threshold": [1600.0, 3200.0]}
    assert found.lines == ("fifo", "tiresias-l")


def test_points_are_means_over_seeds_with_their_interval():
    point = grid(ROWS, "jct_mean_s").mean(line="fifo", load=0.5)
    assert point.mean == 500.5
    assert point.half == pytest.approx(12.7062 * 0.7071068 / 2**0.5, rel=1e-4)  # t of one degree at 97.5 %


def test_options_are_averaged_before_seeds():
    """Two thresholds must not pass for two more seeds."""
    point = grid(ROWS, "jct_mean_s").mean(line="tiresias-l", load=1.0)
    assert point.mean == pytest.approx(250.5)
    assert point.half == pytest.approx(6.353, rel=1e-3)


def test_lines_and_heat_maps_are_drawn():
    names = [figure.name for figure in figures(grid(ROWS, "jct_mean_s"))]
    assert "lines-load" in names
    assert "lines-threshold-0.5" in names
    assert "heat-load-policy" in names
    assert "heat-load-threshold-tiresias-l" in names


def test_every_panel_has_a_file_of_its_own():
    rows = [
        row(policy, load, 0, 100.0 * load, cluster) | {"placement": placement}
        for policy in ("fifo", "las?threshold=3", "las?threshold=4")
        for load in (0.5, 1.0)
        for cluster in ("15x4", "64x8")
        for placement in ("a/b", "a?b")  # alike as file names
    ]
    drawn = figures(grid(rows, "jct_mean_s"))
    names = file_names(drawn)
    assert len(set(names)) == len(names) == len(drawn)
    assert {"lines-load-15x4-a-b", "lines-load-15x4-a-b-2", "lines-load-64x8-a-b"} <= set(names)


def heat(rows, name):
    (figure,) = [figure for figure in figures(grid(rows, "jct_mean_s")) if figure.name == name]
    return figure.traces[0]


def test_heat_maps_have_no_empty_rows_and_say_800_not_800_0():
    """fifo has no threshold: its row would be empty; and a single row says no more than the line."""
    names = [figure.name for figure in figures(grid(ROWS, "jct_mean_s"))]
    assert "heat-threshold-policy" not in names
    assert heat(ROWS, "heat-load-threshold-tiresias-l")["y"] == ["1600", "3200"]
    some = [row("las", 0.5, 0, 9.0, "1x1"), row("las", 0.5, 0, 8.0, "2x1"), row("fifo", 0.5, 0, 7.0, "1x1")]
    some.append(row("tiresias-l", 0.5, 0, 7.0, "1x1") | {"network": "ecmp"})
    drawn = heat([r | {"network": r.get("network", "ideal")} for r in some], "heat-cluster-policy-ideal")
    assert (drawn["x"], drawn["y"]) == (["1x1", "2x1"], ["las", "fifo"])
    assert drawn["text"] == [["9 s", "8 s"], ["7 s", ""]]


def test_small_differences_are_not_painted_as_large_ones():
    rows = [row("fifo", load, 0, mean, cluster) for load, mean in ((0.5, 100.0), (0.9, 101.0)) for cluster in "ab"]
    drawn = heat(rows, "heat-load-cluster-fifo")
    assert drawn["zmax"] - drawn["zmin"] == pytest.approx(0.1)  # of the logarithm: a quarter
    values = [value for line in drawn["z"] for value in line]
    assert drawn["zmin"] < min(values)
    assert max(values) < drawn["zmax"]


def test_a_sweep_of_policies_alone_has_bars():
    rows = [row(policy, None, 0, 5.0) for policy in ("fifo", "las")]
    assert [figure.name for figure in figures(grid(rows, "jct_mean_s"))] == ["bars"]
    assert "Sweep x" in sweep_report("x", grid(rows, "jct_mean_s"))


def test_bands_stay_above_zero():
    rows = [row("fifo", load, seed, 10.0 + 1000 * seed) for load in (0.5, 1.0) for seed in (0, 1)]
    (figure,) = [figure for figure in figures(grid(rows, "jct_mean_s")) if figure.name == "lines-load"]
    assert min(figure.traces[0]["y"]) > 0


def test_an_unknown_metric_is_named_with_the_closest():
    with pytest.raises(BadInput, match="did you mean 'jct_mean_s'"):
        grid(ROWS, "jct_mean")


def test_nothing_finished_yet():
    with pytest.raises(BadInput, match="no finished cells"):
        grid([], "jct_mean_s")
