"""Only core writes the engine's tables: every other room goes through `record` and the named operations."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.core.tables.state import State

ROOT = Path(headway.__file__).parent
TABLES = set(State._fields)
# Methods of arrays that change them.
CHANGES = {"fill", "sort", "put", "partition", "resize", "itemset", "setfield"}


def writes(source: str) -> Iterator[int]:
    """Lines that write into a table of a state, also through a name for a part of it."""
    for function in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.Module)]:
        names: set[str] = set()

        def of_state(node: ast.AST, names: set[str] = names) -> bool:
            """Whether an expression is a table of a state, a part of one, or a name for one."""
            if isinstance(node, ast.Name):
                return node.id in names
            if isinstance(node, ast.Attribute) and node.attr in TABLES:
                root = node.value
                named = root.id if isinstance(root, ast.Name) else root.attr if isinstance(root, ast.Attribute) else ""
                if named == "state":
                    return True
            return isinstance(node, ast.Attribute | ast.Subscript) and of_state(node.value)

        body = [node for node in ast.walk(function) if hasattr(node, "lineno")]
        for node in sorted(body, key=lambda node: (node.lineno, node.col_offset)):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                pairs = [(target, node.value) for target in targets]
                for target, value in list(pairs):
                    if isinstance(target, ast.Tuple):
                        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
                        pairs += list(zip(target.elts, values, strict=False))
                for target, value in pairs:
                    if isinstance(target, ast.Attribute | ast.Subscript) and of_state(target):
                        yield node.lineno
                    elif isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                        names.add(target.id) if value is not None and of_state(value) else names.discard(target.id)
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in CHANGES and of_state(called.value):
                yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        'engine.state.jobs["state"][3] = 1',
        "state.nodes[0].closed = 1",
        "def f(state, j):\n    job = state.jobs[j]\n    job.rate = 2.0",
        "def f(self):\n    rows, x = self.state.jobs, 1\n    rows['rate'][0] += 1",
        "state.counts[0].waiting += 1",
        "engine.state.run.sort()",
    ],
)
def test_a_write_from_outside_is_found(source):
    assert list(writes(source))


@pytest.mark.parametrize(
    "source",
    [
        'x = engine.state.jobs["state"][3]',
        "job = state.jobs[0]\njob = other\njob.rate = 1",
        "world.truth[j].left = 0.0",
    ],
)
def test_reading_is_not_writing(source):
    assert not list(writes(source))


def test_only_core_writes_the_tables():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        if "core" not in path.relative_to(ROOT).parts[:1]
        for line in sorted(set(writes(path.read_text("utf-8"))))
    ]
    assert found == []
