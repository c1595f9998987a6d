"""Reading YAML files: what is accepted, and one line with file, line, field and fix for every mistake."""

import contextlib
import re
import subprocess
import sys
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway.cluster.file import ClusterFile
from headway.cluster.queues_file import QueuesFile
from headway.errors import BadInput
from headway.io.yaml_file import check_content, read_yaml
from headway.live.jobfile.spec import JobSpec
from headway.network.fabric.file import FabricFile
from headway.sim.sweep.file import SweepFile


class Wheel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: Annotated[int, Field(ge=1, strict=True, examples=["16"])]
    kind: Literal["round", "oval"] = "round"


class Engine(BaseModel):
    model_config = ConfigDict(extra="forbid")
    power: float
    on: list[str] = []


class Car(BaseModel):
    model_config = ConfigDict(extra="forbid")
    wheels: Annotated[list[str | Wheel], Field(min_length=1, examples=["[{size: 16}]"])]
    engine: Engine
    start: Annotated[str | None, Field(alias="from")] = None
    doors: dict[str, int] = {}
    fast: bool = False

    @model_validator(mode="after")
    def _whole(self) -> "Car":
        if self.fast and self.engine.power < 100:
            raise ValueError("a fast car needs a power of at least 100")
        return self


GOOD = "wheels: [a]\nengine: {power: 5}\n"


def read(tmp_path, text: str | bytes) -> Car:
    path = tmp_path / "car.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_yaml(path, Car, "car file")


def test_a_good_file_becomes_the_model(tmp_path) -> None:
    car = read(tmp_path, "wheels:\n- {size: 3}\n- spare\nengine: &e {power: 5}\nfrom: home\nfast: false\n")
    assert car == Car(wheels=[Wheel(size=3), "spare"], engine=Engine(power=5), **{"from": "home"})
    assert check_content({"wheels": ["a"], "engine": {"power": 1}}, Car, "request", "car").engine.power == 1


def test_on_and_yes_are_words_and_truth_is_true(tmp_path) -> None:
    car = read(tmp_path, "wheels: [no]\nengine: {power: 500, on: [off]}\nfast: true\ndoors: {<<: {a: 1}, b: 2}\n")
    assert (car.wheels, car.engine.on, car.fast, car.doors) == (["no"], ["off"], True, {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "form: x\n", "car.yaml, line 3: unknown key 'form': did you mean 'from'?"),
        ("weels: [a]\n" + GOOD, "line 1: unknown key 'weels': did you mean 'wheels'?"),
        ("wheels:\n- a\n- {size: 4,\n   knd: oval}\n", "line 4: unknown key 'knd': did you mean 'kind'? (at wheels[1].knd)"),
        (GOOD.replace("power", "powr"), "line 2: unknown key 'powr': did you mean 'power'? (at engine.powr)"),
        ("wheels: [a]\n", "line 1: engine is missing: a car file needs wheels, engine"),
        ("engine: {power: 1}\nwheels:\n- {kind: oval}\n", "line 3: wheels[0].size is missing, such as size: 16"),
        ("wheels: []\nengine: {power: 5}", "line 1: wheels is empty: at least one is needed, such as wheels: [{size: 16}]"),
        ("wheels:\n- {size: 0}\nengine: {power: 5}", "line 2: wheels[0].size: should be greater than or equal to 1, got 0"),
        ("wheels: [{size: big}]\nengine: {power: 5}", "should be a valid integer, got 'big', such as size: 16"),
        (GOOD.replace("5", "much"), "line 2: engine.power: should be a valid number, unable to parse string as a number"),
        ("wheels: [{size: 1, kind: flat}]\nengine: {power: 5}", "wheels[0].kind: should be 'round' or 'oval', got 'flat'"),
        (GOOD + "fast: 3x\n", "line 3: fast: should be a valid boolean"),
        (GOOD + "fast: true\n", "line 1: a fast car needs a power of at least 100"),
        (GOOD + "doors: {a: 1,\n  b: 2, a: 3}\n", "line 4: the key 'a' is already on line 3: keep one"),
        (GOOD + "engine: {power: 6}\n", "line 3: the key 'engine' is already on line 2: keep one"),
        (GOOD + "doors: {a: [1\n", "line 4, column 1: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("wheels:\n\t- a\n", "line 2, column 1: not YAML: found character '\\t' that cannot start any token"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins: write a car file as one document"),
        (GOOD + "from: 2024-13-45\n", "line 3, column 7: not YAML: '2024-13-45' is not a valid timestamp: quote it if it is text"),
        (GOOD + "from: \x07\n", "not YAML: unacceptable character #x0007"),
        ("[" * 5000, "not a car file: it is nested too deeply"),
        ("wheels: &w [*w]\n", "car.yaml"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        ("- a\n- b\n", "line 1: a car file is a mapping of keys to values, such as wheels: [{size: 16}]"),
        ("", "car.yaml: a car file is a mapping of keys to values"),
        (GOOD + "1: 2\n", "car.yaml"),
        (GOOD + f"fast: {'x' * 500}\n", "x..."),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(tmp_path, text: str | bytes, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text)
    message = str(caught.value).replace(str(tmp_path) + "/", "")
    assert said in message
    assert "\n" not in message
    assert len(message) < 300


def test_what_cannot_be_read_is_named(tmp_path) -> None:
    for path, said in (
        (tmp_path / "none.yaml", "none.yaml: no such file"),
        (tmp_path, "s a directory"),
        ("\0", "null"),
    ):
        with pytest.raises(BadInput, match=f"cannot read the car file .*{said}"):
            read_yaml(path, Car, "car file")


WORDS = [
    *("true-north", "trueish", "True1", "TRUEst", "false-flag", "falsehood", "yes-man", "no-op", "off-site", "on-call"),
    *(
        "null-island",
        "nullify",
        "~x",
        "1e5x",
        "0x1G",
        "0b12",
        "0o8",
        "08x",
        "12:30:45x",
        "1:99",
        "2001-13",
        "2001-01-01x",
    ),
    *(".inf-ish", ".nano", "-.infinite", "+x", "1_000", "12_3", "1_", "0x_ff", "0b_1", "=x", "<x", "."),
]


@pytest.mark.parametrize("word", WORDS)
def test_words_that_begin_like_a_value_are_words(tmp_path, word: str) -> None:
    assert read(tmp_path, GOOD + f"from: {word}\n").start == word


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("~", None),
        ("null", None),
        ("5", 5),
        ("0x10", 16),
        ("-1.5", -1.5),
    ],
)
def test_values_are_values(tmp_path, scalar: str, value: object) -> None:
    class Holder(BaseModel):
        value: object

    path = tmp_path / "holder.yaml"
    path.write_text(f"value: {scalar}\n")
    found = read_yaml(path, Holder, "holder").value
    assert (found, type(found)) == (value, type(value))


SCALARS = st.one_of(
    st.text(max_size=20),
    st.text("0123456789_.:-+eExobtTrRuUfnNiI~<=", max_size=12),
    st.sampled_from(WORDS),
    st.sampled_from(["9" * 5000, "0x" + "f" * 5000, "9" * 4000 + ":1", "1e400", "-.inf", ".nan", "2001-01-01", "[a, 1]", "{a: 1}"]),
    st.builds(
        "!!{} {}".format,
        st.sampled_from(["int", "float", "bool", "null", "timestamp", "binary", "str", "set", "omap", "pairs", "seq", "map", "merge"]),
        st.sampled_from(["''", "x", "_", "0x", "1:x", "[1]", "{a: 1}", "maybe", "2001-99-99"]),
    ),
)  # fmt: skip
# Files of every kind, all correct.
FILES = {
    "car": (Car, GOOD + "from: home\nfast: false\ndoors: {a: 1}\n"),
    "cluster": (ClusterFile, "name: c\nnodes: [{count: 2, gpus: 4, name: n}]\n"),
    "queues": (
        QueuesFile,
        "notice: 60s\nqueues: {a: {weight: 2, guaranteed_gpus: 4, limits: {gpus: 4}}}\n"
        "reservations: [{nodes: [n0], queue: a, from: 2027-01-31, to: 48h}]\n",
    ),
    "fabric": (FabricFile, "name: f\nkind: leaf-spine\nleaves: 2\nspines: 4\nservers_per_leaf: 1\ngpus_per_server: 4\n"),
    "job": (JobSpec, "name: j\nrun: x\nafter: [12]\ntime_limit: 5m\nresources: {accelerators: 1}\nenvs: {A: b}\n"),
    "sweep": (SweepFile, "traces: [t.csv]\nclusters: [1x4]\npolicies: [fifo]\nseeds: [1]\nloads: 0.5\n"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_the_files_of_the_next_test_are_correct(tmp_path, kind: str) -> None:
    model, text = FILES[kind]
    path = tmp_path / "file.yaml"
    path.write_text(text)
    assert isinstance(read_yaml(path, model, kind), model)


@pytest.mark.parametrize("kind", FILES)
@given(data=st.data(), scalar=SCALARS)
def test_any_scalar_anywhere_is_read_or_refused(tmp_path_factory, kind: str, data, scalar: str) -> None:
    model, text = FILES[kind]
    places = list(re.finditer(r"(?<=[:\[{] )[^\s\[\],{}]+", text))
    place = data.draw(st.sampled_from(places))
    path = tmp_path_factory.getbasetemp() / f"{kind}.yaml"
    path.write_bytes((text[: place.start()] + scalar + text[place.end() :]).encode("utf-8", "surrogatepass"))
    with contextlib.suppress(BadInput):
        read_yaml(path, model, f"{kind} file")


@pytest.mark.parametrize("text", ["\\ud800", "\\ud83d\\ude00"])
def test_half_a_character_is_refused(tmp_path, text: str) -> None:
    """It was read, and no file or terminal could take it."""
    path = tmp_path / "job.yaml"
    path.write_text(f'name: j\nrun: "echo {text}"\n')
    with pytest.raises(BadInput, match=r"line 2, column 6: not YAML: .* has half a character"):
        read_yaml(path, JobSpec, "job file")
    path.write_text('name: j\nrun: "echo \\U0001F600"\n')
    assert read_yaml(path, JobSpec, "job file").run == "echo \U0001f600"


def test_content_without_a_file_has_no_lines() -> None:
    with pytest.raises(BadInput, match=r"^request: engine\.power: should be a valid number"):
        check_content({"wheels": ["a"], "engine": {"power": "x"}}, Car, "request", "car")
    with pytest.raises(BadInput, match=r"^request: a car is a mapping"):
        check_content([], Car, "request", "car")


def test_importing_it_is_light() -> None:
    code = "import headway.io.yaml_file, headway.cluster.named, sys; sys.exit('yaml' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
