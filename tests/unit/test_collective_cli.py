"""`headway collective`: its JSON, its files, its errors, and the example."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli import main as command_line
from headway.cli.main import app

ROOT = Path(__file__).parents[2]
RUN = ["collective", "--topology", "3D-SW_SW_SW_hetero", "--size", "100MB"]


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["headway", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    captured = capsys.readouterr()
    return stopped.value.code, captured.out, captured.err


@pytest.mark.parametrize("scheduler", ["baseline", "themis", "best"])
def test_json_is_the_contract_and_the_plan_file_replays(scheduler, tmp_path):
    file = tmp_path / "plan.json"
    row = json.loads(run(*RUN, "--scheduler", scheduler, "--plan", str(file), "--json"))
    wanted = {"topology", "size_bytes", "chunks", "scheduler", "intra", "time_s", "ideal_s", "limit_s", "utilisation"}
    assert wanted | {"per_dimension"} <= set(row)
    assert row["utilisation"] == row["ideal_s"] / row["time_s"]
    assert row["size_bytes"] == 10**8
    assert row["chunks"] <= 64 if scheduler == "best" else row["chunks"] == 64
    assert len(row["per_dimension"]) == 3
    plan = json.loads(file.read_text())
    assert sum(chunk["bytes"] for chunk in plan["chunks"]) == 10**8
    assert len(plan["chunks"]) == row["chunks"]
    again = json.loads(run("collective", "--topology", "3D-SW_SW_SW_hetero", "--replay", str(file), "--json"))
    assert again["time_s"] == row["time_s"]


def test_chunks_auto_may_use_up_to_256():
    row = json.loads(run(*RUN, "--chunks", "auto", "--bandwidth-bound", "--json"))
    assert 64 < row["chunks"] <= 256
    assert row["limit_s"] / row["time_s"] > 0.995


def test_compare_averages_over_topologies():
    told = json.loads(run("collective", "compare", "--size", "1GB", "--bandwidth-bound", "--json"))
    methods = ["baseline", "themis-fifo", "themis-scf", "best", "baseline@64", "themis-fifo@64", "themis-scf@64"]
    assert [mean["method"] for mean in told["mean"]] == methods
    assert [mean["against"] for mean in told["mean"]] == ["baseline"] * 4 + ["baseline@64"] * 3
    assert len(told["rows"]) == 42
    assert told["mean"][0]["speedup"] == told["mean"][4]["speedup"] == 1.0
    assert told["mean"][3]["of_limit"] > 0.985


def test_limit_names_what_is_under_provisioned():
    told = json.loads(run("collective", "limit", "--topology", "dgx-rail-spine", "--budget", "2000Gbps", "--json"))
    assert [row["under_provisioned"] for row in told["per_dimension"]] == [False, True, True]
    assert sum(row["split_gbps"] for row in told["per_dimension"]) == pytest.approx(2000)
    assert not told["balanced"]
    assert "balanced" in run("collective", "limit", "--topology", "2D-SW_SW")
    a2a = json.loads(run("collective", "limit", "--topology", "2D-SW_SW", "--collective", "all-to-all", "--json"))
    assert a2a["limit_s"] == pytest.approx(63 / 64 / 100)


def test_tables_are_for_people():
    assert "utilisation" in run(*RUN)
    assert "mean utilisation" in run("collective", "compare", "--topology", "2D-SW_SW", "--size", "10MB")
    assert "speed-up" in run("collective", "iteration", "resnet-50", "--topology", "2D-SW_SW", "--chunks", "4")
    rows = json.loads(run("collective", "iteration", "dlrm", "--topology", "2D-SW_SW", "--json"))["rows"]
    assert len(rows) == 7
    quickest = {row["method"]: row["time_s"] for row in rows}
    # With the number of chunks that suits it, the baseline is several times as quick as with 64: no gain of 7x is left.
    assert quickest["baseline"] / quickest["best"] < 1.2 < quickest["baseline@64"] / quickest["baseline"]


def test_a_long_name_leaves_the_numbers_their_room():
    """On 80 columns a network in shorthand once left no room for a single number."""
    three = "switch:16:1200Gbps:700ns,switch:8:800Gbps:1700ns,switch:8:800Gbps:1700ns"
    told = run("collective", "iteration", "dlrm", "--topology", three, "--chunks", "4")
    assert "1.00x" in told
    assert "baseline@4" in told
    assert "themis-scf@4" in told
    compared = run("collective", "compare", "--topology", three, "--schedulers", "baseline,best", "--size", "10MB")
    assert compared.count("%") >= 4


def test_a_fixed_number_of_chunks_is_named_in_the_method():
    line = (
        "collective",
        "compare",
        "--topology",
        "2D-SW_SW",
        "--size",
        "100MB",
        "--schedulers",
        "baseline@8,themis-scf@8",
    )
    told = json.loads(run(*line, "--json"))
    assert [(row["chunks"], row["method"]) for row in told["rows"]] == [(8, "baseline@8"), (8, "themis-scf@8")]


def test_links_are_planned_and_written(tmp_path):
    file = tmp_path / "plan.json"
    line = ("collective", "links", "ring:4:800Gbps", "--fault", "0-1:0.5", "--plan", str(file))
    told = json.loads(run(*line, "--json"))
    assert told["bound_s"] <= told["time_s"] <= told["unaware_s"]
    assert json.loads(file.read_text())["ranks"] == ["0", "1", "2", "3"]
    assert "cannot run now" in run("collective", "links", "ring:4:800Gbps", "--fault", "0-1:0")


def test_the_command_line_works_without_optional_packages():
    without = "import sys; sys.modules['headway_wiring'] = None; from headway.cli.main import main; main()"
    line = [sys.executable, "-c", without, "collective"]
    assert "No such command 'links'" in subprocess.run([*line, "links", "x"], capture_output=True, text=True).stderr
    limit = subprocess.run([*line, "limit", "--topology", "2D-SW_SW", "--size", "1GB"], capture_output=True, text=True)
    assert (limit.returncode, limit.stderr) == (0, "")


def test_the_bound_of_an_all_to_all_through_switches_is_over_the_given_paths(tmp_path):
    """Two switches offer two paths between any two ranks: the planner's choice among them limits its bound."""
    file = tmp_path / "two-paths.yaml"
    ends = [(rank, switch) for rank in "abcd" for switch in ("s", "t")]
    rows = "".join(f"  - {{from: {a}, to: {b}, bandwidth: 100Gbps, both: true}}\n" for a, b in ends)
    file.write_text(f"ranks: [a, b, c, d]\nswitches: [s, t]\nlinks:\n{rows}")
    line = ("collective", "links", str(file), "--collective", "all-to-all", "--size", "1MB")
    assert "bound over the given paths" in " ".join(run(*line).split())
    assert "given paths" in json.loads(run(*line, "--json"))["bound_note"]
    assert "bound_note" not in json.loads(run("collective", "links", str(file), "--size", "1MB", "--json"))


def test_together_tells_when_each_ends():
    requests = ("all-reduce:100MB", "all-gather:10MB:10us:5")
    told = json.loads(run("collective", "together", *requests, "--topology", "2D-SW_SW", "--json"))
    assert set(told["end_s"]) == {"baseline", "themis-fifo", "themis-scf", "best"}
    assert max(told["end_s"]["best"]) <= min(max(ends) for ends in told["end_s"].values())
    assert "all-gather" in run("collective", "together", *requests, "--topology", "2D-SW_SW")


def test_faults_slow_a_plan_that_does_not_know():
    healthy, ill = (json.loads(run(*RUN, *more, "--json")) for more in ((), ("--degrade", "3:0.5")))
    assert ill["time_s"] > healthy["time_s"]
    late = json.loads(run(*RUN, "--straggler", "2", "--json"))
    assert late["time_s"] == pytest.approx(2 * healthy["time_s"], rel=1e-6)


def test_several_chunks_in_flight_are_played_step_by_step():
    """Four chunks in flight hide delays, though not as if each phase were one block of bytes with its delay behind it."""
    once, four = (json.loads(run(*RUN, "--in-flight", count, "--json")) for count in ("1", "4"))
    assert four["limit_s"] < four["time_s"] <= once["time_s"]


def test_in_a_comparison_a_maximum_of_chunks_is_everybodys():
    """With --chunks 32 the rivals once had to take 32 while best chose, and best was held against itself."""
    line = ["collective", "compare", "--topology", "2D-SW_SW", "--size", "100MB", "--chunks", "32", "--json"]
    rows = {row["method"]: row for row in json.loads(run(*line))["rows"]}
    assert {"baseline", "themis-fifo", "themis-scf", "best", "baseline@64"} <= rows.keys()
    assert rows["baseline"]["chunks"] < 32
    assert rows["best"]["speedup"] == rows["baseline"]["time_s"] / rows["best"]["time_s"] > 1
    fixed = json.loads(run(*RUN[:3], "--size", "100MB", "--scheduler", "baseline", "--chunks", "32", "--json"))
    assert fixed["chunks"] == 32


def table_of(page) -> dict[str, list[str]]:
    """The rows of the first table of a report, by scheduler."""
    rows = re.findall(r"<tr>(.*?)</tr>", page.read_text(), re.DOTALL)
    cells = [[re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)] for row in rows]
    return {row[1]: row for row in cells if len(row) == 9}


@pytest.mark.parametrize(
    ("options", "method", "against"),
    [
        (["--scheduler", "best", "--chunks", "8"], "best", "baseline"),
        (["--scheduler", "themis"], "themis-scf@64", "baseline@64"),
        (["--scheduler", "themis", "--chunks", "32"], "themis-scf@32", "baseline@32"),
        (["--scheduler", "best", "--degrade", "1:0.5"], "best", "baseline"),
    ],
)
def test_a_report_holds_a_plan_against_a_baseline_with_its_chunks_on_its_network(options, method, against, tmp_path):
    """Themis with a fixed number was once held against itself, rivals of best had more chunks than it, and those of a degraded network
    ran on the healthy one."""
    page = tmp_path / "report.html"
    told = json.loads(run(*RUN, *options, "--report", str(page), "--json"))
    rows = table_of(page)
    assert rows[method][8] == against
    assert float(rows[method][3]) == pytest.approx(told["time_s"] * 1e3, abs=1e-3)
    assert float(rows[method][7]) == pytest.approx(float(rows[against][3]) / float(rows[method][3]), abs=0.01)
    assert {"baseline", "themis-scf", "baseline@64", "themis-scf@64"} <= rows.keys()
    if "--chunks" in options:
        assert int(rows["baseline"][2]) <= int(options[-1])
    if "--degrade" in options:
        healthy = json.loads(run(*RUN, "--scheduler", "baseline", "--chunks", "64", "--json"))
        assert float(rows["baseline@64"][3]) > healthy["time_s"] * 1e3


def test_the_report_stands_alone(tmp_path):
    page = tmp_path / "report.html"
    run("collective", "compare", "--topology", "2D-SW_SW", "--topology", "3D-FC_Ring_SW", "--report", str(page))
    text = page.read_text()
    assert "Speed-up" in text
    assert "prefers-color-scheme: dark" in text
    assert "<script src=" not in text
    run(*RUN, "--collective", "all-to-all", "--report", str(page))
    assert "all-to-all" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topology", "3D-SW_SW_SW_heter", "--size", "1GB"], "3D-SW_SW_SW_hetero"),
        (["--topology", "2D-SW_SW", "--size", "1"], "unit"),
        (["--topology", "2D-SW_SW", "--size", "0GB"], "nothing to send"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--scheduler", "bestt"], "best"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--scheduler", "themis", "--intra", "scff"], "scf"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--chunks", "none"], "auto"),
        (["--topology", "2D-SW_SW", "--size", "10B", "--scheduler", "themis"], "at most 10 chunks"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--collective", "reduce"], "one of|did you mean"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--degrade", "x"], "DIM:FRACTION"),
        (["--topology", "switch:1:1Gbps:0ns", "--size", "1GB"], "2 to 1,048,576"),
        (["--topology", "2D-SW_SW", "--replay", "no-such-plan.json"], "cannot read plan"),
        (["limit", "--topology", "2D-SW_SW", "--budget", "0Gbps"], "above 0"),
        (["iteration", "resnet-15"], "resnet-152|resnet-50"),
        (["iteration", "no-such.txt"], "cannot read workload no-such.txt"),
        (["iteration", "gnmt", "--precision", "fp8"], "unknown precision"),
        (["compare", "--schedulers", "best@64"], "best chooses its chunks by itself"),
        (["compare", "--schedulers", "themis-scf@x"], "themis-scf@64"),
        (["links", "ring:4:800Gbps", "--fault", "0-9:0.5"], "no link 0>9"),
        (["links", "ring:4:800Gbps", "--fault", "oops"], "FROM>TO:FRACTION"),
        (["links", "ring:4:800Gbps", "--chunks", "0"], "from 1 to"),
        (["links", "ring:4:800Gbps", "--size", "2B"], "4 ranks need 4 or more"),
        (["links", "no-such.yaml"], "no such file"),
        (["links", "ring:4:800Gbps", "--collective", "all-to-all", "--chunks", "4"], "leave out the number"),
        (["together", "all-reduce", "--topology", "2D-SW_SW"], "KIND:SIZE"),
        (["together", "all-reduce:1GB:0s:600", "--topology", "2D-SW_SW"], "between 0 and 511"),
        (["--topology", "2D-SW_SW", "--size", "100000TB"], "pebibyte"),
        (["--topology", "switch:4:1Mbps:0ns", "--size", "1PB"], "unknown unit"),
        (["--topology", "switch:4:1Mbps:0ns", "--size", "1000TB"], "months"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--in-flight", "99999"], "from 1 to 1,024"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--chunks", "70000", "--scheduler", "themis"], "at most 65536"),
        # Digits that Python takes for digits and cannot read, takes for others, or takes for too many.
        (["--topology", "ring:²:800Gbps", "--size", "1GB"], "is not a whole number"),
        (["--topology", f"ring:{'9' * 5000}:800Gbps", "--size", "1GB"], "is not a whole number"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--chunks", "²"], "or auto"),
        (["--topology", "2D-SW_SW", "--size", "1GB", "--chunks", "9" * 5000], "or auto"),
        (["compare", "--schedulers", "baseline@²"], "baseline@64"),
        (["compare", "--schedulers", "baseline@٦٤"], "baseline@64"),
        (["together", "all-reduce:1GB:0s:²", "--topology", "2D-SW_SW"], "KIND:SIZE"),
        # Numbers beyond any network.
        (["--topology", "switch:8:1e-300Gbps", "--size", "1GB"], "between 1 Mbps and 1 million Tbps"),
        (["--topology", "ring:1000000000000:800Gbps", "--size", "1GB"], "2 to 1,048,576"),
        (["--topology", "ring:1048576:800Gbps:2s", "--size", "1GB"], "between 0 and 1 s"),
        (["--topology", "ring:1048576:1e9Gbps", "--size", "1000TB", "--collective", "all-to-all"], "would take months"),
        (["links", "ring:8:800Gbps", "--fault", "0-1:1e-300"], "link 0>1 with a bandwidth of 4e-298 Gbps"),
        (["links", "ring:8:10Mbps", "--size", "1000TB"], "could take months"),
        (["iteration", "gnmt", "--topology", "2D-SW_SW", "--compute-tflops", "1e-300"], "from 0.001 to"),
        (["together", "all-reduce:1GB:1e300s", "--topology", "2D-SW_SW"], r"from 0 to 1e\+12 seconds"),
        (["together", "all-reduce:1GB:1e8s", "--topology", "2D-SW_SW"], "would take months"),
    ],
)
def test_bad_input_is_one_line_and_exit_1(arguments, said, capsys, monkeypatch):
    code, out, err = failure(capsys, monkeypatch, "collective", *arguments)
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert re.search(said, err)


def test_a_name_cannot_say_more_than_a_name(tmp_path, capsys, monkeypatch):
    """Brackets once reached the tables as markup."""
    dimensions = "dimensions: [{kind: switch, size: 8, bandwidth: 800Gbps}]\n"
    named, filed, wired = tmp_path / "named.yaml", tmp_path / "[b].yaml", tmp_path / "wired.yaml"
    named.write_text(f"name: '[/bold]'\n{dimensions}")
    filed.write_text(dimensions)
    wired.write_text("ranks: [a, '[/b]']\nlinks: [{from: a, to: '[/b]', bandwidth: 1Gbps, both: true}]\n")
    for words in (
        ["--topology", str(named), "--size", "1GB"],
        ["limit", "--topology", str(filed)],
        ["links", str(wired)],
    ):
        code, _, err = failure(capsys, monkeypatch, "collective", *words)
        assert (code, err.count("\n")) == (1, 1)
        assert "a name is at most 64 letters, digits, spaces" in err


def test_missing_options_are_a_usage_error(capsys, monkeypatch):
    code, _, err = failure(capsys, monkeypatch, "collective", "--topology", "2D-SW_SW")
    assert code == 2
    assert "--size" in err


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    file = tmp_path / "plan.json"
    monkeypatch.setattr(sys, "argv", ["plan_collective.py", str(file)])
    runpy.run_path(str(ROOT / "examples" / "plan_collective.py"), run_name="__main__")
    assert "best split" in capsys.readouterr().out
    assert json.loads(file.read_text())["lists"]
