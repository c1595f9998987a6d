"""Numbers that people write: plain digits within a declared range, in every command, option and file."""

import inspect
from typing import Annotated, Any, get_args, get_origin

import pytest
import typer
from typer.testing import CliRunner

import headway
from headway.cli.main import app
from headway.cli.operate.selection import one_job
from headway.client.transport import ApiError
from headway.errors import BadInput
from headway.io import units
from headway.io.command_option import flag_of
from headway.io.numbers import Range, plain_number, plain_whole
from headway.io.outside import made
from headway.live.jobfile.after import read_need
from headway.live.jobfile.sbatch import read_script
from headway.sim.experiment import options
from headway.workloads.shaping import sample_count

# What Python's int() and float() read, and a person does not mean.
ODD = (
    "1_2",
    "_12",
    "12_",
    " 5",
    "5 ",
    "\u0665",
    "\uff15",
    "\u00b2",
    "",
    "-",
    "+",
    "0x10",
    "1e",
    "5\n",
    "nan",
    "inf",
    "9" * 5000,
)
WHOLE_ODD = (*ODD, "5.0", "1e1", ".5")


@pytest.mark.parametrize("text", ODD)
def test_odd_numbers_are_none(text: str) -> None:
    assert plain_number(text) is None
    assert Range(-1e300, 1e300).read(text) is None
    with pytest.raises(BadInput):
        units.seconds(text if text.strip() == text else f"{text}x")


TASKS_ODD = ["12_03", "12_[03]", "12_[7-3]", "12_[3,]", "12_[1-999999999]"]


@pytest.mark.parametrize("text", WHOLE_ODD)
def test_odd_whole_numbers_are_none(text: str) -> None:
    assert plain_whole(text) is None
    assert Range(-(10**9), 10**9, whole=True).read(text) is None


def test_a_range_holds_its_ends_and_says_them() -> None:
    assert (Range(0.5, 2).read("0.5"), Range(0.5, 2).read("2e0"), Range(0.5, 2).read("2.001")) == (0.5, 2.0, None)
    assert (Range(0, 9, whole=True).read("009"), Range(0, 9, whole=True).read("10")) == (9, None)
    assert (2.0 in Range(0, 9, whole=True), True in Range(0, 9), float("nan") in Range(0, 9)) == (False, False, False)
    assert str(Range(0, 65_535, whole=True)) == "a whole number from 0 to 65,535"
    assert str(Range(1e-6, 1e6)) == "a number from 1e-06 to 1e+06"


@pytest.mark.parametrize(
    "word",
    [*WHOLE_ODD, "0", "05", "+5", "-5", "1_2_3", "01_2", "1-02", "5-3", "12_[3", "1_+2", "12_\u0663", *TASKS_ODD],
)
def test_what_names_no_job_is_refused(word: str) -> None:
    class Nobody:
        def jobs(self, **_: Any) -> list[Any]:
            return []

    with pytest.raises(ApiError if word == "1_2" else BadInput):
        one_job(Nobody(), word)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", [*WHOLE_ODD, "0", "05", "+5", "12_3", "any:1_2", "notok:05"])
def test_what_a_job_waits_for_is_a_plain_number(tmp_path, word: str) -> None:
    if word.strip() == word:
        with pytest.raises(ValueError, match="singleton"):
            read_need(word)
    script = tmp_path / "s.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --dependency=afterok:{word.rpartition(':')[2].strip() or '-'}\n")
    if word.strip() != "5":
        with pytest.raises(BadInput, match="is not known here"):
            read_script(script)


@pytest.mark.parametrize("line", ["--nodes=", "--time=", "--mem=", "--ntasks-per-node="])
@pytest.mark.parametrize("number", ["9" * 5000, "1_2", "\u0665"])
def test_numbers_of_a_script(tmp_path, line: str, number: str) -> None:
    script = tmp_path / "s.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH {line}{number}\n")
    with pytest.raises(BadInput, match="line 2"):
        read_script(script)


def _commands(group: typer.Typer) -> list[Any]:
    nested = [each.typer_instance for each in group.registered_groups]
    callbacks = [each.callback for each in (*group.registered_commands, group.registered_callback) if each]
    return [*filter(None, callbacks), *(command for each in nested for command in _commands(each))]


def test_every_numeric_option_of_every_command_declares_its_range() -> None:
    """Typer by itself reads 1_2 as 12, and some versions 5.0 as 5."""
    seen = 0
    for command in _commands(app):
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            kind, default = parameter.annotation, parameter.default
            if get_origin(kind) is Annotated:
                kind, default, *_ = get_args(kind)
            if {int, float} & {kind, *get_args(kind)}:
                assert getattr(default, "parser", None) is not None, f"{command.__name__}: {name}: use number_option"
                seen += 1
    assert seen > 30


NUMERIC = {name: option for name, option in options().items() if option.allowed is not None}


@pytest.mark.parametrize("text", ["1e308", "-1e308", "1e-300", "nan", "1_0", " 5", "\u0665"])
@pytest.mark.parametrize("name", NUMERIC)
def test_numbers_of_an_experiment_have_a_range_that_errors_name(name: str, text: str) -> None:
    option = NUMERIC[name]
    result = CliRunner().invoke(app, ["simulate", "synthetic:tiresias-480", "--cluster", "15x4", flag_of(option), text])
    if option.allowed.read(text) is None:
        assert isinstance(result.exception, BadInput), result.output
        assert f"is not {option.allowed}" in str(result.exception)
    with pytest.raises(BadInput, match="is not a"):
        headway.simulate("synthetic:tiresias-480", "15x4", **{name: 1e308})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"preemption_cost": "1e300s"},
            r"preemption cost '1e300s' is not none, model or a time from 0 to 1e\+09 seconds",
        ),
        ({"min_runtime": "1e300s"}, r"--min-runtime: '1e300s' must be a time from 0 to 1e\+09 seconds"),
        ({"start": "1e300s"}, r"--from: '1e300s' must be a time from 0 to 1e\+12 seconds"),
        ({"end": "1e300s"}, r"--to: '1e300s' must be a time from 0 to 1e\+12 seconds"),
        ({"sample": "1e300"}, "--sample 1e300: write a number of jobs"),
        ({"sample": "1_0"}, "--sample 1_0: write a number of jobs"),
        ({"sample": "1e-300%"}, "--sample 1e-300%: write a number of jobs"),
        ({"trace": "synthetic:tiresias-480?gap=1e300s"}, "gap: '1e300s' must be a time from 0 to"),
        ({"trace": "synthetic:tiresias-480?gap=300d&jobs=1000000"}, r"times would reach .* at most 1e\+12 s"),
        (
            {"trace": "synthetic:tiresias-480?load=1e-300"},
            r"with the load 1e-300, times would reach .* at most 1e\+12 s",
        ),
        (
            {"trace": "synthetic:tiresias-480?gap=300d", "time_scale": 1e6},
            r"with the time scale 1e\+06, times would reach",
        ),
        ({"trace": "synthetic:tiresias-480?seed=1_0"}, "seed=1_0 must be a whole number from 0"),
        ({"cluster": "1_5x4"}, "'1_5x4' is not a cluster"),
        ({"policy": "tiresias-l?threshold=3_200"}, "threshold=3_200 must be a number above 0"),
        ({"policy": "tiresias-l?thresholds=3_200:7200"}, "'3_200' is not a number above 0"),
        ({"policy": "tiresias-l?promote=1e300"}, r"promote=1e300 must be a number above 0 and at most 1e\+20"),
        ({"policy": "tiresias-l?threshold=autoo"}, r"threshold=autoo must be a number above 0 .*, or auto"),
        ({"policy": "tiresias-l?promote=never"}, r"promote=never must be a number above 0 .*, or inf"),
        ({"policy": "las?quantum=1e300"}, r"quantum=1e300 must be a number above 0 and at most 1e\+20"),
        ({"policy": "backfill?limit=1e300s"}, "limit: '1e300s' must be a time from 0 to"),
    ],
)
def test_what_an_experiment_cannot_mean_is_refused_with_the_range(given: dict[str, Any], said: str) -> None:
    setting: dict[str, Any] = {"trace": "synthetic:tiresias-480", "cluster": "15x4", **given}
    with pytest.raises(BadInput, match=said):
        headway.simulate(**setting)


def test_seeds_are_bounded() -> None:
    with pytest.raises(BadInput, match="seeds 1000000000 is not a whole number from 1 to 10,000"):
        headway.compare("synthetic:tiresias-480", "15x4", ["fifo"], seeds=10**9)


def test_numbers_of_a_policy_from_outside_are_plain(tmp_path, monkeypatch) -> None:
    (tmp_path / "widest.py").write_text(
        "class Widest:\n    def __init__(self, alpha: float = 1.0, steps: int = 1):\n        self.alpha, self.steps = alpha, steps\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    policy = made("policy", "widest:Widest", {"alpha": "inf", "steps": "-3"})
    assert (policy.alpha, policy.steps) == (float("inf"), -3)
    for name, text in (("alpha", "1_0"), ("alpha", "nan"), ("steps", "1_0"), ("steps", "5.0")):
        with pytest.raises(BadInput, match=f"{name}={text} is not a"):
            made("policy", "widest:Widest", {name: text})


def test_a_sample_may_be_a_number_of_python() -> None:
    assert (sample_count("100", 480), sample_count("100.0", 480), sample_count("10%", 480)) == (100, 100, 48)
