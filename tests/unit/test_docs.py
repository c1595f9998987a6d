"""The documents and the tree: decision records have an index, rooms explain themselves, folders stay small."""

import ast
import re
from pathlib import Path

import pytest

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
