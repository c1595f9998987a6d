"""Sweep files: the grid they describe, and one line for each mistake."""

import json

import pytest

from headway.errors import BadInput
from headway.sim.experiment import Experiment
from headway.sim.sweep import inputs as sweep_inputs
from headway.sim.sweep.cell import check, finished, key, rows
from headway.sim.sweep.file import cells, policy_specs, read_sweep

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


def test_every_field_is_one_value_or_a_list_and_entries_may_differ(tmp_path):
    more = "strict: [yes, no]\nfrom: [0, 1h]\nloads: 0.5\ncollective: none\n"
    text = LEAST.replace("synthetic:tiresias-480", "[a.csv, {trace: b.csv, from: 7d, load: [0.6, 0.7]}]") + more
    found = cells(read(tmp_path, text))
    assert [(cell.trace, cell.start, cell.load) for cell in found if cell.strict and cell.policy == "fifo"] == [
        ("a.csv", "0", 0.5),
        ("a.csv", "1h", 0.5),
        ("b.csv", "7d", 0.6),
        ("b.csv", "7d", 0.7),
    ]
    assert len(found) == 4 * 2 * 2


def test_an_edited_placement_from_outside_runs_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert edited(tmp_path / "edited_placement.py", "class Mine: x = 1\n", placement="edited_placement:Mine")


def test_numbers_may_stand_where_text_is_meant(tmp_path):
    (cell,) = cells(
        read(tmp_path, "traces: a.csv\nclusters: 1x1\npolicies: fifo\npreemption_cost: 30\nmin_runtime: 60\n")
    )
    assert (cell.preemption_cost, cell.min_runtime) == ("30", "60")


def test_networks_and_fabrics_are_axes(tmp_path):
    found = cells(read(tmp_path, LEAST + "network: [ideal, ecmp]\nfabric: [vclos-512, mine.yaml]\n"))
    assert [(cell.network, cell.fabric) for cell in found[::2]] == [
        ("ideal", "vclos-512"),
        ("ideal", "mine.yaml"),
        ("ecmp", "vclos-512"),
        ("ecmp", "mine.yaml"),
    ]
    assert {(cell.network, cell.fabric) for cell in cells(read(tmp_path, LEAST))} == {("ideal", None)}


def test_a_placement_may_bring_its_own_network(tmp_path):
    text = LEAST + "placements: [spread, {placement: vclos, network: isolated}]\nnetwork: [ecmp, source]\n"
    assert [(cell.placement, cell.network) for cell in cells(read(tmp_path, text))[::2]] == [
        ("spread", "ecmp"),
        ("spread", "source"),
        ("vclos", "isolated"),
    ]


def test_networks_that_cannot_be_are_told_before_the_first_cell(tmp_path):
    check(cells(read(tmp_path, LEAST.replace("15x4", "64x8") + "network: ecmp\nfabric: vclos-512\n")))
    for more, said in (
        ("network: ecmq\n", "did you mean 'ecmp'"),
        ("network: ecmp\n", "cluster 15x4 has no fabric"),
        ("network: ecmp\nfabric: vclos-51\n", "unknown fabric 'vclos-51'"),
        ("network: isolated\nfabric: vclos-512\n", "needs a placement that reserves links"),
        ("network: ecmp\nfabric: vclos-512\n", "they must be the same"),
    ):
        with pytest.raises(BadInput, match=said):
            check(cells(read(tmp_path, LEAST + more)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LEAST + "polices: [las]\n", "unknown key 'polices': did you mean 'policies'?"),
        (LEAST.replace("synthetic:tiresias-480", "[{trace: a, form: 7d}]"), "unknown key 'form': did you mean 'from'?"),
        (LEAST + "networks: ecmp\n", "unknown key 'networks': did you mean 'network'?"),
        (LEAST + "placements: [{placement: vclos, netwrok: ecmp}]\n", "unknown key 'netwrok': did you mean 'network'?"),
        (LEAST + "network: []\n", "network"),
        ("traces: a.csv\npolicies: fifo\n", "clusters is missing: a sweep needs traces, clusters"),
        (LEAST + "seeds: -1\n", "seeds"),
        (LEAST + "seeds: 0\n", "seeds: 0 is not a whole number from 1 to 10,000"),
        (LEAST + "loads: [0.5, 0]\n", "loads[1]"),
        (LEAST + "slowdown: some\n", "slowdown"),
        (LEAST + "collective: thems\n", "unknown collective 'thems': did you mean 'themis'"),
        (LEAST + "strict: maybe\n", "strict 'maybe' is neither yes nor no"),
        (LEAST + "preemption_cost: [none, dear]\n", "preemption_cost[1]: preemption cost 'dear' is not none, model"),
        (LEAST + "name: mine\n", "unknown key 'name'"),
        (LEAST.replace("tiresias-480", "tiresias-480?seed=5"), "leave out seed=, and write seeds"),
        (LEAST.replace("15x4", "15"), "cluster 15 is neither a name nor a path"),
        (LEAST.replace("[fifo, srtf]", "[]"), "policies"),
        (LEAST.replace("[fifo, srtf]", "[{threshold: 5}]"), "needs the key policy"),
        ("- a\n- b\n", "a sweep is a mapping of keys to values, such as policies: [fifo, tiresias-l]"),
        ("traces: [a\n", "line 2, column 1: not YAML"),
        (LEAST + "seeds: 2000000\n", "2000000 is not a whole number from 1 to 10,000"),
        (LEAST + "seeds: 10000\nloads: [" + "0.5, " * 99 + "0.5]\n", "cells"),
    ],
)
def test_mistakes_are_named(tmp_path, text, said):
    assert said in refused(tmp_path, text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="cannot read the sweep"):
        read_sweep(tmp_path / "none.yaml")


def cell(**changes):
    return Experiment(**(dict.fromkeys(("trace", "cluster", "policy", "placement"), "x") | changes))


def test_the_name_of_a_result_changes_with_everything_it_follows_from(tmp_path):
    changes = {"seed": 1, "load": 0.5, "policy": "y", "sample": "10", "network": "ecmp", "fabric": "vclos-512"}
    assert len({key(cell()), *(key(cell(**{name: value})) for name, value in changes.items())}) == 7
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("1")
    two.write_text("2")
    assert key(cell(trace=str(one))) != key(cell(trace=str(two)))


def test_an_edited_fabric_runs_again(tmp_path):
    file = tmp_path / "fabric.yaml"
    file.write_text("leaves: 4")
    before = key(cell(fabric=str(file)))
    file.write_text("leaves: 8")
    sweep_inputs.forget()
    assert key(cell(fabric=str(file))) != before


def test_an_edited_policy_runs_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "edited_policy.py"
    source.write_text("class Mine: pass\n")
    before = key(cell(policy="edited_policy:Mine"))
    source.write_text("class Mine: x = 1\n")
    sweep_inputs.forget()
    assert key(cell(policy="edited_policy:Mine")) != before


def edited(file, text, **changes):
    """Whether a cell has another name after a file is rewritten."""
    before = key(cell(**changes))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    sweep_inputs.forget()
    return key(cell(**changes)) != before


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("dist.txt", {"policy": "gittins?distribution={}/dist.txt"}),
        ("speeds.csv", {"trace": "{}/jobs.csv?throughputs={}/speeds.csv"}),
        ("mine.yaml", {"trace": "synthetic:vclos?jobs=40&cluster={}/mine.yaml"}),
        ("simulation_throughputs.json", {"trace": "{}/jobs.csv"}),
        ("profiles/gavel_isolated_throughputs.csv", {"trace": "{}/jobs.csv?vc=a"}),
        ("pai_job_table.csv", {"trace": "{}/jobs.csv"}),
        ("table.txt", {"policy": "own_policy:Mine?table={}/table.txt"}),
    ],
)
def test_an_edited_file_behind_a_cell_runs_again(tmp_path, name, changes):
    (tmp_path / "jobs.csv").write_text("a")
    named = {key: value.replace("{}", str(tmp_path)) for key, value in changes.items()}
    assert edited(tmp_path / name, "1", **named)
    assert edited(tmp_path / name, "2", **named)
    assert not edited(tmp_path / name, "2", **named)
    assert not edited(tmp_path / "other.txt", "3", **named)


def test_an_edited_module_that_a_policy_imports_runs_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sweep_parts").mkdir()
    (tmp_path / "sweep_parts" / "__init__.py").write_text("")
    (tmp_path / "sweep_policy.py").write_text("import numpy, json\nfrom sweep_first import f\nclass Mine: pass\n")
    (tmp_path / "sweep_first.py").write_text("def f():\n    from sweep_parts.inner import g\n")
    (tmp_path / "sweep_parts" / "inner.py").write_text("g = 1\n")
    sweep_inputs.forget()
    assert len(sweep_inputs._sources("sweep_policy:Mine")) == 4
    given = {"policy": "sweep_policy:Mine"}
    assert edited(tmp_path / "sweep_parts" / "inner.py", "g = 2\n", **given)
    assert edited(tmp_path / "sweep_first.py", "f = 2\n", **given)
    assert not edited(tmp_path / "sweep_other.py", "f = 2\n", **given)


def test_a_damaged_file_is_not_finished(tmp_path):
    whole, *damaged = (cell(seed=seed) for seed in range(4))
    folder = tmp_path / "cells"
    folder.mkdir()
    (folder / f"{key(whole)}.json").write_text('{"seed": 0}')
    for one, left in zip(damaged, (b"", b'{"seed": 1, "jct', b"\0\xff"), strict=True):
        (folder / f"{key(one)}.json").write_bytes(left)
    assert finished([whole, *damaged], tmp_path) == {whole}
    assert rows([whole, *damaged], tmp_path) == [{"seed": 0}]


def test_only_whole_files_count_as_finished(tmp_path):
    """What a killed writer leaves aside has another name."""
    done, half = cell(), cell(seed=1)
    folder = tmp_path / "cells"
    folder.mkdir()
    (folder / f"{key(done)}.json").write_text(json.dumps({"seed": 0}))
    (folder / f".{key(half)}.json.x7").write_text('{"se')
    assert finished([done, half], tmp_path) == {done}
    assert rows([half, done], tmp_path) == [{"seed": 0}]
