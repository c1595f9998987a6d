"""YAML files that people write, checked against a pydantic model: a mistake is one line with file, line, field and what would be right.

Examples in messages come from the model, as in `Field(examples=["8"])`. yaml and pydantic are imported when a file is read, so that
commands which read none start sooner.
"""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from headway.errors import BadInput, unknown
from headway.io.files import read_file
from headway.io.units import a

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound="BaseModel")
# Keys of mappings and numbers of list entries, from the top of the file.
Place = tuple[str | int, ...]
# How much of a wrong value a message repeats.
LONGEST_VALUE = 80
# Bytes of a file, and parts of it once what aliases stand for is written out: a few hundred bytes of aliases can stand for gigabytes.
MOST_BYTES, MOST_PARTS = 16 << 20, 1 << 20
# Of a whole number; no field takes more than 64, and Python neither prints nor converts very long ones.
MOST_BITS = 128
BOOL, MERGE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:merge"


def read_yaml(path: str | Path, model: type[M], what: str) -> M:
    """Read the file at `path`; `what` names the kind of file in messages, such as "cluster file"."""
    root, content = _parsed(path, what)
    return _checked(content, model, what, lambda place: f"{path}{_line(root, place)}")


def check_content(content: Any, model: type[M], where: str, what: str) -> M:
    """Check content that does not come from a file, such as a request; `where` begins every message."""
    return _checked(content, model, what, lambda _: where)


def _parsed(path: str | Path, what: str) -> tuple["yaml.Node | None", Any]:
    """The nodes of a file, which know their lines, and its content as plain data."""
    import yaml

    try:
        text = read_file(path, MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        known = {UnicodeDecodeError: "it is not UTF-8 text", FileNotFoundError: "no such file"}
        reason = known.get(type(error)) or getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read the {what} {path}: {reason}") from None
    try:
        loader = _loader(path)(text)
        root = loader.get_node() if loader.check_node() else None
        if loader.check_node():
            line = loader.get_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise BadInput(f"{path}, line {line}: a second document begins: write {a(what)} as one document")
        if _parts(root, {}) > MOST_PARTS:
            raise BadInput(
                f"{path}: not {a(what)}: its aliases stand for more than {MOST_PARTS:,} parts, or for themselves"
            )
        return root, None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise BadInput(f"{path}{at}: not YAML: {problem}") from None
    except RecursionError:
        raise BadInput(f"{path}: not {a(what)}: it is nested too deeply") from None


def _parts(node: "yaml.Node | None", known: dict[int, float]) -> float:
    """How many scalars, lists and mappings a node is with its aliases written out; infinitely many if it contains itself."""
    value = getattr(node, "value", None)
    if not isinstance(value, list):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        inside = (one for pair in value for one in (pair if isinstance(pair, tuple) else (pair,)))
        known[id(node)] = 1 + sum(_parts(one, known) for one in inside)
    return known[id(node)]


def _loader(path: str | Path) -> type["yaml.SafeLoader"]:
    """A safe loader with the truth values of YAML 1.2, true and false only: `on` is a key of job files.

    A number holds no underscores, as in YAML 1.2: `12_3` is a task of an array, not 123.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a mapping with the same key twice: YAML would take the last without a word."""

        def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
            node = super().compose_mapping_node(anchor)
            lines: dict[str, int] = {}
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE):
                line = key.start_mark.line + 1
                if key.value in lines:
                    first = lines[key.value]
                    raise BadInput(f"{path}, line {line}: the key {key.value!r} is already on line {first}: keep one")
                lines[key.value] = line
            return node

        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
            """Return the tag of a node; a plain scalar with an underscore is text."""
            if kind is yaml.ScalarNode and implicit[0] and "_" in value:
                return self.DEFAULT_SCALAR_TAG
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Return the value of a node; PyYAML's functions fail in many ways on a scalar that is not of the node's type."""
            try:
                value = super().construct_object(node, deep)
                if isinstance(value, int) and value.bit_length() > MOST_BITS:
                    raise OverflowError
                if isinstance(value, str):
                    value.encode()
                return value
            except UnicodeEncodeError:
                problem = f"{_shown(node.value)} has half a character: write \\U0001F600, not \\ud83d\\ude00"
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                kind = node.tag.rpartition(":")[2]
                problem = f"{_shown(node.value)} is not a valid {kind}: quote it if it is text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    inherited = yaml.SafeLoader.yaml_implicit_resolvers
    Loader.yaml_implicit_resolvers = {key: [one for one in found if one[0] != BOOL] for key, found in inherited.items()}
    Loader.add_implicit_resolver(BOOL, re.compile("(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
    return Loader


def _line(root: "yaml.Node | None", place: Place) -> str:
    """`, line 7`: the line of a place, or of the deepest part of it that the file has."""
    import yaml

    if root is None:
        return ""
    node, mark = root, root.start_mark
    for part in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            mark = node.start_mark
        elif isinstance(node, yaml.MappingNode):
            entry = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if entry is None:
                break
            mark, node = entry[0].start_mark, entry[1]
    return f", line {mark.line + 1}"


def _checked(content: Any, model: type[M], what: str, where: Callable[[Place], str]) -> M:
    from pydantic import ValidationError

    if not isinstance(content, dict):
        example = next(filter(None, (_example(model, key) for key in _fields(model))), "")
        raise BadInput(f"{where(())}: a {what} is a mapping of keys to values{example}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = [(_place(problem, content), problem) for problem in error.errors()]
        # An unknown key explains the missing one beside it; where a value has alternatives, the deepest mistake is that of the one meant.
        place, problem = max(problems, key=lambda pair: (pair[1]["type"] == "extra_forbidden", len(pair[0])))
        raise BadInput(f"{where(place)}: {_explained(place, problem, model, what)}") from None


def _place(problem: "ErrorDetails", content: Any) -> Place:
    """Where the mistake is in the content: pydantic's place without the names of alternatives and without lists made of one value."""
    place: list[str | int] = []
    for part in problem["loc"]:
        inside = part in content if isinstance(content, dict) else isinstance(content, list) and isinstance(part, int)
        if inside:
            content = content[part]
        elif not (problem["type"] == "missing" and part is problem["loc"][-1]):
            continue
        place.append(part)
    return tuple(place)


def _explained(place: Place, problem: "ErrorDetails", model: type["BaseModel"], what: str) -> str:
    """What is wrong at a place, and what would be right."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    kind = problem["type"]
    message = str(problem["ctx"]["error"]) if kind == "value_error" else problem["msg"]
    inside = _model_at(model, place[:-1], problem["loc"])
    if kind == "extra_forbidden":
        return f"{unknown('key', str(place[-1]), _fields(inside))}{f' (at {field})' if len(place) > 1 else ''}"
    such = _example(inside, place[-1]) if place else ""
    if kind == "missing":
        return f"{field} is missing{_needed(model, what) if inside is model else ''}{such}"
    if kind == "too_short" and not problem["input"]:
        return f"{field} is empty: at least one is needed{such}"
    if kind == "value_error":
        return f"{field}: {message}" if field else message
    if kind == "model_type" and place:
        keys = ", ".join(_fields(_model_at(model, place, problem["loc"])))
        message = f"should be a mapping with some of the keys {keys}"
    return f"{field}: {message.removeprefix('Input ')}, got {_shown(problem['input'])}{such}"


def _shown(value: Any) -> str:
    """A value that was given, cut short where it is long."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**LONGEST_VALUE else "a huge number"
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _needed(model: type["BaseModel"], what: str) -> str:
    """`: a sweep needs traces, clusters`: the keys that a file must have."""
    return f": a {what} needs {', '.join(key for key, info in _fields(model).items() if info.is_required())}"


def _fields(model: type["BaseModel"]) -> dict[str, "FieldInfo"]:
    """The fields of a model by the keys that a file has for them."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _example(model: type["BaseModel"], key: str | int) -> str:
    """`, such as gpus: 8`, where the model gives an example for the key."""
    info = _fields(model).get(str(key))
    return f", such as {key}: {info.examples[0]}" if info and info.examples else ""


def _model_at(model: type["BaseModel"], place: Place, labels: Place) -> type["BaseModel"]:
    """The model of the mapping at a place; `labels` holds the names of the alternatives that pydantic tried."""
    for part in place:
        info = _fields(model).get(str(part))
        choices = list(_models(info.annotation)) if info else []
        if choices:
            model = next((choice for choice in choices if choice.__name__ in labels), choices[0])
    return model


def _models(annotation: Any) -> Iterator[type["BaseModel"]]:
    """The models named in the type of a field."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
