"""One value says what to run: every field reaches the command line, Python, sweep files, summaries, tables and reports."""

import hashlib
import inspect
import json
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.waiting import COMPILES_S
from typer.testing import CliRunner

import headway
from headway.cli.main import app
from headway.errors import BadInput
from headway.io.command_option import flag_of
from headway.report.comparison import report
from headway.sim.experiment import Experiment, options
from headway.sim.sweep.cell import run_cell
from headway.sim.sweep.file import SweepFile
from headway.sim.trace import read_trace
from headway.workloads.workload import workload

TRACE = "synthetic:tiresias-480?jobs=30"
# A value for each field that is not its default.
OTHERS = {
    "trace": TRACE,
    "cluster": "64x8",
    "policy": "srtf",
    "placement": "spread",
    "network": "ecmp",
    "fabric": "vclos-512",
    "collective": "themis",
    "preemption_cost": "30s",
    "slowdown": "model",
    "min_runtime": "1m",
    "queues": "examples/queues.yaml",
    "progress_reports": 0.5,
    "progress_error": 2.0,
    "seed": 3,
    "skip_impossible": True,
    "strict": True,
    "start": "10s",
    "end": "7d",
    "sample": "20",
    "time_scale": 0.5,
    "load": 0.9,
}
EVERY = list(options())


@pytest.fixture(scope="module")
def result():
    return headway.simulate(**OTHERS)


@pytest.fixture(scope="module")
def footer():
    return report(headway.compare(TRACE, "15x4", ["fifo"], keep_journal=True).study()).partition("<footer>")[2]


@pytest.fixture(scope="module")
def row():
    return run_cell(Experiment(TRACE, "15x4", "fifo", preemption_cost="30s", seed=2))


def shown(*words):
    """What a command prints."""
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", EVERY)
def test_every_field_reaches_every_door(result, footer, row, name):
    option = options()[name]
    flag = "TRACE" if name == "trace" else flag_of(option)
    assert flag in shown("simulate", "--help")
    assert option.help.split(";")[0] in " ".join(shown("simulate", "--help").split())
    assert (flag if name != "policy" else "--policies") in shown("compare", "--help")
    assert name in inspect.signature(headway.simulate).parameters
    assert name in inspect.signature(headway.compare).parameters or name == "policy"
    assert (option.key or option.word) in {field.alias for field in SweepFile.model_fields.values()}
    assert result.summary["settings"][name] == OTHERS[name]
    assert f"<dt>{option.words}</dt>" in footer
    assert name in row


def test_others_holds_a_value_for_every_field():
    assert set(EVERY) == set(OTHERS)
    assert all(value != options()[name].default for name, value in OTHERS.items())


ADDED = """
import sys
from dataclasses import dataclass
from typing import Annotated
import headway.sim.experiment as experiment

@dataclass(frozen=True, slots=True)
class Extended(experiment.Experiment):
    greeting: Annotated[str, experiment.ExperimentOption("A word to greet with.", lambda option, value: str(value))] = "hello"

experiment.Experiment = Extended

import headway
from headway.cli.main import app
from headway.sim.sweep.cell import run_cell
from headway.sim.sweep.file import SweepFile, cells
from headway.report.comparison import report
from typer.testing import CliRunner

trace = "synthetic:tiresias-480?jobs=5"
words = ["simulate", trace, "--cluster", "15x4", "--json", "--greeting", "good day"]
print(CliRunner().invoke(app, words).stdout)
found = headway.compare(trace, "15x4", ["fifo"], greeting="moin")
print(found[0].summary["settings"]["greeting"], found.command, report(found.study()).partition("<footer>")[2], sep="\\n")
grid = cells(SweepFile.model_validate({"traces": trace, "clusters": "15x4", "greeting": ["a", "b"]}))
print([run_cell(cell)["greeting"] for cell in grid])
print(CliRunner().invoke(app, ["simulate", "--help"], env={"COLUMNS": "200"}).stdout)
"""


def test_an_option_added_from_outside_is_one_field():
    """In a process of its own: the field must be there before anything else is imported."""
    done = subprocess.run(
        [sys.executable, "-c", ADDED], capture_output=True, text=True, timeout=COMPILES_S, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in (
        '"greeting": "good day"',
        "--greeting 'good day'",
        "moin\nheadway simulate 'synthetic:tiresias-480?jobs=5' --cluster 15x4 --policy fifo --greeting moin\n",
        "<dt>greeting</dt><dd>moin</dd>",
        "['a', 'b']",
        "A word to greet with. [default: hello]",
    ):
        assert words in done.stdout


# ---- how a result was made


def same(one, other):
    """Whether two summaries are of the same run; the time it took aside."""
    return {**one, "wall_s": 0} == {**other, "wall_s": 0}


def test_settings_and_command_make_the_run_again(result):
    assert result.summary["settings"]["preemption_cost"] == "30s"
    assert "--preemption-cost 30s" in result.summary["command"]
    assert same(headway.simulate(**result.summary["settings"]).summary, result.summary)
    assert same(json.loads(shown(*shlex.split(result.summary["command"])[1:], "--json")), result.summary)
    assert result.summary["version"] == headway.__version__


def test_the_command_of_a_comparison_makes_it_again():
    found = headway.compare(TRACE, "15x4", ["fifo", "srtf"], seeds=2, preemption_cost=30)
    assert found.command == (
        f"headway compare '{TRACE}' --cluster 15x4 --policies fifo,srtf --preemption-cost 30 --seeds 2"
    )
    again = json.loads(shown(*shlex.split(found.command)[1:], "--json"))
    for one, other in zip(again, found, strict=True):
        del one["over_seeds"]
        assert same(one, other.summary)
    assert found[1].summary["command"].startswith(f"headway simulate '{TRACE}&seed=0' --cluster 15x4 --policy srtf")


def test_a_command_is_quoted_and_none_where_an_object_was_given():
    assert Experiment("my jobs.csv", "15x4", strict=True).command == (
        "headway simulate 'my jobs.csv' --cluster 15x4 --policy headway --strict"
    )

    class Widest:
        def key(self, job, now, options):
            return -job.gpus, job.submit

    found = headway.compare(TRACE, "15x4", ["fifo", Widest()])
    assert found[0].summary["command"].endswith("--policy fifo")
    assert found[1].summary["command"] is None
    assert found.command is None
    assert found[1].summary["settings"]["policy"] == "Widest"
    assert "<pre>" not in report(found.study()).partition("<footer>")[2]


def test_the_hash_of_a_file_is_of_its_bytes(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,1,100\nb,1,1,10\n")
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    found = headway.simulate(path, "15x4", "fifo", sample=1)
    assert found.summary["trace_sha256"] == expected
    assert expected in report(headway.compare(path, "15x4", ["fifo"]).study()).partition("<footer>")[2]
    path.write_text(path.read_text().replace("100", "101"))
    assert headway.simulate(path, "15x4").summary["trace_sha256"] != expected, "an edit is seen in the same process"


def test_the_hash_without_a_file_is_of_the_columns():
    jobs = read_trace(TRACE)
    assert jobs.sha256 == read_trace(jobs.workload).sha256 == read_trace(TRACE).sha256
    assert jobs.sha256 != read_trace(f"{TRACE}&seed=1").sha256
    plain = workload("w", [0, 1], [1, 1], [5, 5], user=["a", "b"])
    wide = workload("w", [0, 1, 2], [1, 1, 1], [5, 5, 5], user=["a", "b", "somebody"]).take(np.array([0, 1]))
    assert read_trace(plain).sha256 == read_trace(wide).sha256, "the width of a column is no part of it"
    assert read_trace(replace(plain, user=np.array(["a", "c"]))).sha256 != read_trace(plain).sha256


def test_rows_of_a_sweep_say_how_they_were_made(row):
    assert list(row)[: len(EVERY)] == EVERY
    assert row["trace_sha256"] == read_trace(f"{TRACE}&seed=2").sha256
    assert (row["version"], row["trace"], row["preemption_cost"]) == (headway.__version__, TRACE, "30s")


def test_the_table_of_a_terminal_names_what_is_not_the_default():
    assert "preemption cost 30s, strict" in shown(
        "simulate", TRACE, "--cluster", "15x4", "--preemption-cost", "30s", "--strict"
    )


# ---- nothing is accepted and ignored


def test_an_unknown_schedule_of_collectives_is_named_with_the_closest():
    with pytest.raises(BadInput, match="unknown collective 'thems': did you mean 'themis'"):
        Experiment(TRACE, "15x4", collective="thems")


def test_a_policy_that_resizes_jobs_takes_no_collective_plan():
    with pytest.raises(BadInput, match="optimus changes the sizes of jobs by measured curves"):
        headway.simulate("synthetic:tiresias-480?jobs=5", "15x4", "optimus", collective="best")


def test_an_unknown_option_is_named_with_the_closest():
    with pytest.raises(TypeError, match="unknown option 'preemption': did you mean 'preemption_cost'"):
        headway.simulate(TRACE, "15x4", preemption="30s")


def test_strict_holds_for_a_workload_that_was_read_before(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,1,100\nb,1,0,10\n")
    read = read_trace(path).workload
    assert headway.simulate(read, "15x4").summary["skipped"] == {"no GPUs": 1}
    with pytest.raises(BadInput, match="1 row left out: 1 no GPUs"):
        headway.simulate(read, "15x4", strict=True)


def test_a_fabric_that_nothing_uses_is_noted():
    words = ["simulate", TRACE, "--cluster", "vclos-512", "--fabric", "vclos-512", "--json"]
    assert "note: --fabric changes nothing" in CliRunner().invoke(app, words).stderr
    assert "note" not in CliRunner().invoke(app, [*words, "--network", "ecmp"]).stderr


def test_fields_load_neither_numpy_nor_the_engine():
    script = (
        "import sys, headway.sim.experiment, headway.cli.main\n"
        "print({'numpy', 'numba', 'pydantic', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=COMPILES_S, check=True
    )
    assert done.stdout.strip() == "set()"
