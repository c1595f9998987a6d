"""The options of `submit` and the fields of a job file are declared once: command line, check and API description agree."""

import subprocess
import sys
from typing import Any

import pytest
from tests.waiting import COMPILES_S
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput
from headway.io.command_option import flag_of
from headway.live.jobfile.options import JOB_OPTIONS, set_fields
from headway.live.jobfile.spec import JobSpec, job_spec
from headway.live.options import ServeOptions

# A value for each option as the command line has it, and the field that it makes.
VALUES: dict[str, tuple[Any, Any]] = {
    "name": ("gpt", "gpt"),
    "num_nodes": (2, 2),
    "tasks_per_node": ("gpu", "gpu"),
    "queue": ("team", "team"),
    "after": (["3", "any:4"], (3, "any:4")),
    "array": ("0-9%2", "0-9%2"),
    "time_limit": ("15m", 900.0),
    "envs": (["A=1", "B=x=y"], {"A": "1", "B": "x=y"}),
    "workdir": ("/home", "/home"),
    "checkpoint.dir": ("/saved", "/saved"),
    "preemptible": (False, False),
    "preemption.grace": ("2m", 120.0),
    "preemption.min_runtime": ("auto", "auto"),
    "resources.type": ("a100", "a100"),
    "constraints": (["ib", "a|b"], ("ib", "a|b")),
    "output": ("log.%j", "log.%j"),
    "hold": (True, True),
}


def described(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a field."""
    part: dict[str, Any] = schema
    for name in path.split("."):
        one = part if "properties" in part else next(each for each in part.get("anyOf", [part]) if "$ref" in each)
        model = one if "properties" in one else schema["$defs"][one["$ref"].rpartition("/")[2]]
        part = model["properties"][name]
    return part


@pytest.mark.parametrize("path", JOB_OPTIONS)
def test_an_option_of_submit_is_a_field_with_the_same_words(path: str) -> None:
    option, field = JOB_OPTIONS[path], described(JobSpec.model_json_schema(), path)
    assert field["description"] == option.help
    if option.allowed is not None:
        number = next(each for each in field["anyOf"] if each["type"] == "integer")
        assert (number["minimum"], number["maximum"]) == (option.allowed.least, option.allowed.most)
    shown = CliRunner().invoke(app, ["submit", "--help"], env={"COLUMNS": "200"}).stdout
    assert flag_of(option).partition("/")[0] in shown
    assert option.help.removesuffix(".") in shown


@pytest.mark.parametrize("path", JOB_OPTIONS)
def test_the_value_of_an_option_arrives_in_its_field_and_in_no_other(path: str) -> None:
    given, expected = VALUES[path]
    fields: dict[str, Any] = {"run": "true"}
    set_fields(fields, {JOB_OPTIONS[path].name: given})
    spec: Any = job_spec(fields)
    for part in path.split("."):
        spec = getattr(spec, part)
    assert spec == expected
    assert fields.keys() == {"run", path.partition(".")[0]}


def test_an_option_adds_to_the_field_of_a_file() -> None:
    fields = {"run": "true", "envs": {"A": "1", "B": "2"}, "preemption": {"signal": "SIGUSR1", "grace": "1m"}}
    set_fields(fields, {"envs": ["B=3"], "preemption_grace": "5s"})
    spec = job_spec(fields)
    assert spec.envs == {"A": "1", "B": "3"}
    assert (spec.preemption.signal, spec.preemption.grace) == ("SIGUSR1", 5.0)


def test_a_variable_without_a_value_names_the_option() -> None:
    with pytest.raises(BadInput, match="--env X: write NAME=VALUE"):
        set_fields({}, {"envs": ["X"]})


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--gpus", "2000000", "--gpus 2000000 is not a whole number from 1 to 1,000,000"),
        ("--gpus-per-node", "2000000", "--gpus-per-node 2000000 is not a whole number from 1 to 1,000,000"),
        ("--gpu-type", "a b", "--gpu-type 'a b': use letters, digits, and any of _ . : + - without spaces"),
        ("--env", "A", "--env A: write NAME=VALUE"),
    ],
)
def test_an_error_names_the_option_that_was_written(option: str, value: str, says: str) -> None:
    """`--gpus 2000000` was refused as resources.accelerators, and a type with a space accepted."""
    done = CliRunner().invoke(app, ["submit", option, value, "--", "true"])
    assert str(done.exception) == says


def test_a_type_or_a_feature_that_no_job_could_ask_for_is_refused() -> None:
    for given in ({"gpu_type": "a b"}, {"feature": ("ib", "a|b")}):
        with pytest.raises(BadInput, match=r"--(gpu-type|feature) 'a.b': use letters"):
            ServeOptions(**given)
    assert ServeOptions(gpu_type="a100", feature=("ib", "nv.4")).feature == ("ib", "nv.4")


ADDED = """
from headway.io.command_option import CommandOption
from headway.live.jobfile.options import JOB_OPTIONS

JOB_OPTIONS["greeting"] = CommandOption("A word to greet with.", short="-G", name="greeting", default=None)

from headway.cli.main import app
from typer.testing import CliRunner

print(CliRunner().invoke(app, ["submit", "--help"], env={"COLUMNS": "200"}).stdout)
"""


def test_an_option_added_to_the_job_file_needs_no_edit_of_the_command_line() -> None:
    """In a process of its own: the option must be there before the command line is imported."""
    done = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, timeout=COMPILES_S, check=True)
    (line,) = [line for line in done.stdout.splitlines() if "--greeting" in line]
    assert "-G" in line
    assert "A word to greet with." in line


def test_help_loads_no_pydantic() -> None:
    """Importing it takes a third of the time that `headway --help` takes."""
    words = "import sys; from headway.cli.main import app; from typer.main import get_command; get_command(app)"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{words}; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "headway.cli.submit" in loaded
    assert "pydantic" not in loaded
