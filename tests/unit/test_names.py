"""One name means one thing: no two classes of the source share a name."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "headway"


def shared_names(texts: dict[str, str]) -> dict[str, list[str]]:
    """Names that several classes have, with the files of those classes."""
    files = defaultdict(list)
    for file, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(file)
    return {name: places for name, places in files.items() if len(places) > 1}


def test_no_two_classes_share_a_name() -> None:
    texts = {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    assert len(texts) > 300
    assert shared_names(texts) == {}


@pytest.mark.parametrize("second", ["class Plan: pass", "def make():\n    class Plan: pass"])
def test_a_shared_name_is_found(second: str) -> None:
    assert shared_names({"a.py": "class Plan: pass", "b.py": second, "c.py": "class Plans: pass"}) == {
        "Plan": ["a.py", "b.py"]
    }
