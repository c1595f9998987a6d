"""The documents name files and functions that exist, and docs/architecture.md lists every package and the order of imports."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headway"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
# Decision records keep the names of their time; the change log tells of names that are gone.
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "results").glob("*.md")})
DOCUMENTS.remove(ROOT / "CHANGELOG.md")
MENTION = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.py)(?:: ([A-Za-z_][\w.]*))?`")
TREE_LINE = re.compile(r"^( *)([a-z_]+)/ +(\S.*)$")


def mentions(document: Path) -> list[tuple[str, str]]:
    """Every `folder/file.py` and `folder/file.py: name` of a document."""
    return MENTION.findall(document.read_text("utf-8"))


@cache
def names_of(path: Path) -> frozenset[str]:
    """What a file defines: functions, classes, `Class.method`, and names at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def looked_up(path: str, name: str) -> str:
    """What is wrong with a mention; empty where nothing is. Paths are relative to the package or to the repository.

    NAME stands for a file that a reader is to make: only the folder around it has to be there.
    """
    if "/NAME" in path:
        return "" if (SOURCE / path.partition("/NAME")[0]).is_dir() else f"there is no folder for {path}"
    file = next((base / path for base in (SOURCE, ROOT) if (base / path).is_file()), None)
    if file is None:
        return f"there is no file {path}"
    return f"{path} has no {name}" if name and name not in names_of(file) else ""


def packages_in_tree() -> dict[str, str]:
    """The packages that the page lists, with the line that it has for each."""
    tree = ARCHITECTURE.read_text("utf-8").partition("## The packages")[2].split("```")[1]
    found: dict[str, str] = {}
    above: list[str] = []
    for line in tree.strip().splitlines():
        match = TREE_LINE.match(line)
        assert match, f"not a line of the tree: {line!r}"
        above = [*above[: len(match[1]) // 2], match[2]]
        found["/".join(above)] = match[3]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_and_function_that_a_document_names_exists(document: Path) -> None:
    assert [wrong for path, name in mentions(document) if (wrong := looked_up(path, name))] == []


def test_a_name_that_is_gone_is_found() -> None:
    assert looked_up("core/decide.py", "decide") == ""
    assert looked_up("core/decide.py", "decode")
    assert looked_up("core/nowhere.py", "")
    assert looked_up("live/manager/manager.py", "Manager.start") == ""
    assert looked_up("live/manager/manager.py", "Manager.started")


def test_the_path_of_a_job_names_functions_in_both_worlds() -> None:
    path = ARCHITECTURE.read_text("utf-8").partition("## One job's path")[2].partition("\n## ")[0]
    named = {file.partition("/")[0] for file, name in MENTION.findall(path) if name}
    assert {"cli", "client", "core", "live", "runtime", "sim", "workloads"} <= named
    for row in re.findall(r"^\| (?!step|---)(.+)$", path, re.M):
        assert MENTION.search(row) or "the same" in row, row


def test_the_live_path_of_a_job_has_at_most_twelve_steps_of_one_function_each() -> None:
    path = ARCHITECTURE.read_text("utf-8").partition("### Live")[2].partition("\n\nSteps ")[0]
    steps = re.findall(r"^\| (\d+) \|(.+)$", path, re.M)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 8 <= len(steps) <= 12
    assert all(len(MENTION.findall(step)) == 1 and MENTION.findall(step)[0][1] for _, step in steps)


def test_walk_throughs_touch_at_most_three_files() -> None:
    sections = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## Add ")[1:]
    assert len(sections) == 7
    for section in sections:
        steps = re.findall(r"^(\d)\. ", section.partition("\n## ")[0], re.M)
        assert 1 <= len(steps) <= 3, section.partition("\n")[0]


def test_the_tree_lists_every_room_and_no_other() -> None:
    packages = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py")} - {"."}
    assert sorted(packages_in_tree()) == sorted(packages)


@pytest.mark.parametrize("inside", [None, "live"])
def test_the_order_of_imports_is_that_of_the_linter(inside: str | None) -> None:
    section = ARCHITECTURE.read_text("utf-8").partition("## What may import what")[2].partition("\n## ")[0]
    outside, _, below = section.partition("Inside `live`")
    lines = re.findall(r"^\d+\. (.+)$", below if inside else outside, re.M)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    container = [f"headway.{inside}"] if inside else None
    layers = next(
        each["layers"] for each in contracts if each["type"] == "layers" and each.get("containers") == container
    )
    written = [set(re.findall(r"`(\w+)`", line)) for line in lines]
    assert written == [set(re.findall(r"(\w+)", layer.replace("headway.", ""))) for layer in layers]


# Compiled kernels are kept in files; distributions of a policy still are to be read elsewhere.
OPENS_FILES = {"core/compiler/store.py", "policies/registry.py"}


@pytest.mark.parametrize("package", ["core", "policies", "placement", "network", "collectives", "iteration"])
def test_packages_under_the_purity_contract_open_no_files(package: str) -> None:
    calls = re.compile(
        r"\b(open|open_file|read_file|read_yaml|read_json|read_text|read_bytes|write_text|write_bytes)\("
    )
    for path in sorted((SOURCE / package).rglob("*.py")):
        if path.relative_to(SOURCE).as_posix() not in OPENS_FILES:
            assert not calls.search(path.read_text("utf-8")), path
