"""The documents and the tree: decision records have an index, commands exist, rooms explain themselves, folders stay small."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headway"
DECISIONS = ROOT / "docs" / "decisions"
ROOMS = sorted(SOURCE.rglob("__init__.py"))
MOST_FILES = 14
MOST_DOCSTRING_LINES = 4


def test_every_decision_record_is_in_the_index() -> None:
    rows = re.findall(
        r"^\| \[(\d{4})\]\((.+?)\) \| (.+?) \| (.+?) \| (.+?) \|$", (DECISIONS / "README.md").read_text(), re.M
    )
    assert [file for _, file, *_ in rows] == sorted(path.name for path in DECISIONS.glob("0*.md"))
    for number, file, title, summary, status in rows:
        assert file.startswith(number)
        assert title
        assert summary.endswith(".")
        assert re.fullmatch(r"accepted|superseded by \d{4}", status)


def test_numbers_of_decision_records_differ() -> None:
    numbers = [path.name[:4] for path in DECISIONS.glob("0*.md")]
    assert len(set(numbers)) == len(numbers)


def test_links_to_decision_records_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]*\.md)\)", document.read_text()):
            assert (document.parent / link).is_file(), f"{document}: {link}"


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: str(path.parent.relative_to(SOURCE)))
def test_every_room_says_what_it_is_for(room: Path) -> None:
    docstring = ast.get_docstring(ast.parse(room.read_text()))
    assert docstring, f"{room} has no docstring"
    assert len(docstring.splitlines()) <= MOST_DOCSTRING_LINES
    assert room.parent in (SOURCE, SOURCE / "cli") or "Imports " in docstring, f"{room} does not say what it may import"


def test_no_folder_is_crowded() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    crowded = {str(folder.relative_to(SOURCE)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in crowded.items() if count > MOST_FILES} == {}


def test_no_two_files_of_a_folder_differ_by_an_ending() -> None:
    """`shape.py` beside `shaping.py` says nothing about which is which."""
    endings = ("s", "es", "ed", "er", "ing", "ings")
    for folder in {path.parent for path in SOURCE.rglob("*.py")}:
        stems = sorted(path.stem for path in folder.glob("*.py"))
        for first in stems:
            root = first.removesuffix("e")
            alike = [other for other in stems if other != first and other in {root + ending for ending in endings}]
            assert not alike, f"{folder}: {first} and {alike}"


def commands_of(text: str) -> list[str]:
    """What follows `headway` in the commands of a document: lines of code blocks, and code within a sentence."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    lines = [line.strip() for kind, block in blocks if kind in ("", "sh") for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    found = [re.match(r"(?:\.venv/bin/)?headway ([a-z].*)", words) for words in [*lines, *spans]]
    return [match[1].partition("  #")[0].partition(" -- ")[0] for match in found if match]


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
)
def test_commands_in_documents_exist_with_their_options(document: Path) -> None:
    from headway.cli.main import app

    every = get_command(app)
    for words in commands_of(document.read_text("utf-8")):
        command, rest = every, words.replace("[", " ").replace("]", " ").split()
        while isinstance(command, TyperGroup) and rest and rest[0] in command.commands:
            command = command.commands[rest.pop(0)]
        if isinstance(command, TyperGroup) and command is not every:  # `sweep FILE` is `sweep run FILE`
            command = command.commands.get("run", command)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert command is not every, f"there is no command `headway {words}`"
        unknown = [word for word in rest if re.fullmatch(r"--[a-z-]+", word) and word not in known]
        assert not unknown, f"`headway {words}` has no option {unknown}"


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    table = re.findall(r"^\| ([\w, -]+?) \| \S.*\|$", (ROOT / "docs" / "dependencies.md").read_text("utf-8"), re.M)
    listed = {name.lower().replace("-", "_") for row in table for name in row.split(", ")} - {"package"}
    assert listed == {re.split(r"[<>=;]", name)[0].lower().replace("-", "_") for name in wanted}


def test_every_rule_of_the_semantics_has_a_test() -> None:
    """That the named tests exist is checked in test_architecture.py."""
    text = (ROOT / "docs" / "semantics.md").read_text("utf-8")
    rules = [int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.M)]
    assert rules == list(range(1, len(rules) + 1))
    tested: set[int] = set()
    for cell in re.findall(r"^\| ([\d, to]+) \| `tests/", text, re.M):
        for part in cell.split(", "):
            first, _, last = part.partition(" to ")
            tested |= set(range(int(first), int(last or first) + 1))
    assert sorted(set(rules) - tested) == []
    assert sorted(tested - set(rules)) == []


def test_no_rule_of_the_semantics_has_more_than_sixty_words() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text("utf-8")
    rules = re.findall(r"^(\d+)\. (\*\*.*?)(?=^\d+\. |^## |\Z)", text, re.M | re.S)
    assert len(rules) > 40
    assert {number: len(words.split()) for number, words in rules if len(words.split()) > 60} == {}
