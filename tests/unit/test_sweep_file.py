"""Sweep files: the grid they describe, and one line for each mistake."""

import json

import pytest

from headway.core.errors import BadInput
from headway.sim.sweep_cell import Cell, finished, key, rows
from headway.sim.sweep_file import cells, policy_specs, read_sweep

LEAST = "traces: synthetic:tiresias-480\nclusters: 15x4\npolicies: [fifo, srtf]\n"


def read(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return read_sweep(path)


def refused(tmp_path, text):
    with pytest.raises(BadInput) as caught:
        cells(read(tmp_path, text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_grid_is_the_product_of_all_lists(tmp_path):
    found = cells(read(tmp_path, LEAST + "loads: [0.5, 0.9]\nseeds: 3\nplacements: [consolidated, spread]\n"))
    assert len(found) == 2 * 2 * 3 * 2
    assert len(set(found)) == len(found)
    assert {cell.seed for cell in found} == {0, 1, 2}


def test_a_cell_named_twice_runs_once(tmp_path):
    assert len(cells(read(tmp_path, LEAST.replace("[fifo, srtf]", "[fifo, fifo]")))) == 1


def test_options_of_policies_are_part_of_the_grid():
    assert policy_specs({"policy": "tiresias-l", "threshold": [1600, 3200], "promote": 8}) == [
        "tiresias-l?threshold=1600&promote=8",
        "tiresias-l?threshold=3200&promote=8",
    ]
    assert policy_specs("fifo") == ["fifo"]


def test_traces_may_be_shaped(tmp_path):
    text = "traces:\n  - {trace: jobs.csv, from: 7d, to: 14d, sample: 100}\nclusters: 15x4\npolicies: fifo\n"
    (cell,) = cells(read(tmp_path, text))
    assert (cell.start, cell.end, cell.sample) == ("7d", "14d", "100")


def test_numbers_may_stand_where_text_is_meant(tmp_path):
    (cell,) = cells(
        read(tmp_path, "traces: a.csv\nclusters: 1x1\npolicies: fifo\npreemption_cost: 30\nmin_runtime: 60\n")
    )
    assert (cell.preemption_cost, cell.min_runtime) == ("30", "60")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LEAST + "polices: [las]\n", "unknown key 'polices': did you mean 'policies'?"),
        (LEAST.replace("synthetic:tiresias-480", "[{trace: a, form: 7d}]"), "unknown key 'form': did you mean 'from'?"),
        ("traces: a.csv\npolicies: fifo\n", "clusters is missing"),
        (LEAST + "seeds: -1\n", "seeds"),
        (LEAST + "loads: [0.5, 0]\n", "loads[1]"),
        (LEAST + "slowdown: some\n", "slowdown"),
        (LEAST.replace("[fifo, srtf]", "[]"), "policies"),
        (LEAST.replace("[fifo, srtf]", "[{threshold: 5}]"), "needs the key policy"),
        ("- a\n- b\n", "keys and values"),
        ("traces: [a\n", "is not YAML"),
        (LEAST + "seeds: 2000000\n", "cells"),
    ],
)
def test_mistakes_are_named(tmp_path, text, said):
    assert said in refused(tmp_path, text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="cannot read the sweep"):
        read_sweep(tmp_path / "none.yaml")


def cell(**changes):
    given = dict.fromkeys(("trace", "cluster", "policy", "placement"), "x")
    given |= {"load": None, "seed": 0, "preemption_cost": "none", "slowdown": "none", "min_runtime": "0"}
    return Cell(**(given | changes))


def test_the_name_of_a_result_changes_with_everything_it_follows_from(tmp_path):
    names = {key(cell()), key(cell(seed=1)), key(cell(load=0.5)), key(cell(policy="y")), key(cell(sample="10"))}
    assert len(names) == 5
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("1")
    two.write_text("2")
    assert key(cell(trace=str(one))) != key(cell(trace=str(two)))


def test_an_edited_policy_runs_again(tmp_path, monkeypatch):
    from headway.sim import sweep_cell

    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "edited_policy.py"
    source.write_text("class Mine: pass\n")
    before = key(cell(policy="edited_policy:Mine"))
    source.write_text("class Mine: x = 1\n")
    sweep_cell._digest.cache_clear()
    sweep_cell._source.cache_clear()
    assert key(cell(policy="edited_policy:Mine")) != before


def test_only_whole_files_count_as_finished(tmp_path):
    """What a killed writer leaves aside has another name."""
    done, half = cell(), cell(seed=1)
    folder = tmp_path / "cells"
    folder.mkdir()
    (folder / f"{key(done)}.json").write_text(json.dumps({"seed": 0}))
    (folder / f".{key(half)}.json.x7").write_text('{"se')
    assert finished([done, half], tmp_path) == {done}
    assert rows([half, done], tmp_path) == [{"seed": 0}]
