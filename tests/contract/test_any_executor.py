"""Nothing outside the folder of an executor asks which executor it is: the source is searched for the ways to do that."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.live.executors.registry import executor_names

SOURCE = Path(__file__).parents[2] / "src" / "headway"
PACKAGE = "headway.live.executors"
ROOMS = (
    "live",
    "cli",
    "client",
    "demo",
    "player",
)  # those that may meet an executor; `sim` runs sweeps on Slurm itself
OTHER_SLURM = SOURCE / "cli" / "sweep.py"  # `sweep --on slurm` runs simulations, without an executor
ASKING = {"getattr", "setattr", "hasattr", "isinstance", "issubclass"}


def files() -> list[Path]:
    """Return the source files that must treat all executors alike."""
    own = [SOURCE / "live" / "executors" / name for name in executor_names()]
    every = [path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py"))]
    return [path for path in every if path != OTHER_SLURM and not any(folder in path.parents for folder in own)]


def special_cases(tree: ast.AST) -> Iterator[str]:
    """Return what treats one executor unlike the others: line and source."""
    names = set(executor_names())
    for node in ast.walk(tree):
        words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
        match node:
            case ast.Call(func=ast.Name(id=called), args=[first, *_]) if called in ASKING:
                if "executor" in ast.unparse(first).lower():
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Compare() if words & names:
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.match_case() if words & names and isinstance(node.pattern, ast.MatchValue | ast.MatchOr):
                yield f"{node.pattern.lineno}: case {ast.unparse(node.pattern)}"
            case ast.Import(names=modules) | ast.ImportFrom(names=modules):
                package = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                paths = {f"{package}.{each.name}".lstrip(".") for each in modules}
                if any(f"{path}.".startswith(f"{PACKAGE}.{name}.") for path in paths for name in names):
                    yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_executor_is_a_special_case(path: Path) -> None:
    assert list(special_cases(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    "line",
    [
        "hasattr(executor, 'cap_logs')",
        "getattr(self._executor, 'cgroups', None)",
        "isinstance(runs_executor, Process)",
        "name == 'slurm'",
        "spec in ('process', 'other')",
        "match name:\n    case 'slurm':\n        pass",
        "import headway.live.executors.slurm.capacity",
        "from headway.live.executors import process",
        "from headway.live.executors.process.gpus import gpu_count",
    ],
)
def test_a_special_case_is_found(line: str) -> None:
    assert len(list(special_cases(ast.parse(line)))) == 1


@pytest.mark.parametrize(
    "line", ["getattr(error, 'strerror')", "name == 'other'", "from headway.live.executors import Launch"]
)
def test_other_code_is_left_alone(line: str) -> None:
    assert list(special_cases(ast.parse(line))) == []
