"""Reading YAML files: what is accepted, and one line with file, line, field and fix for every mistake."""

import subprocess
import sys
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway.errors import BadInput
from headway.io.yaml_file import check_content, read_yaml


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
        ("a: 1\n---\nb: 2\n", "line 2, column 1: not YAML: but found another document"),
        (GOOD + "from: 2024-13-45\n", "not YAML: month must be in 1..12"),
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


def test_content_without_a_file_has_no_lines() -> None:
    with pytest.raises(BadInput, match=r"^request: engine\.power: should be a valid number"):
        check_content({"wheels": ["a"], "engine": {"power": "x"}}, Car, "request", "car")
    with pytest.raises(BadInput, match=r"^request: a car is a mapping"):
        check_content([], Car, "request", "car")


def test_importing_it_is_light() -> None:
    code = "import headway.io.yaml_file, headway.cluster.named, sys; sys.exit('yaml' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
