"""How large a source tree is: `python -m bench.size [FOLDER]` (default `src/headway`).

Lines of code are physical lines that are not blank, comment or docstring. A nested function counts as a function of its own: it adds to the
lines of the outer function, but not to its complexity.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# How many rows each list shows.
ROWS = 10
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
# One more path through the code each (McCabe 1976); `and`/`or` and comprehensions are counted by hand.
BRANCHES = (ast.If, ast.For, ast.While, ast.AsyncFor, ast.IfExp, ast.ExceptHandler, ast.Assert, ast.match_case)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Measured:
    """One function, by the place where it is defined."""

    where: str
    parameters: int
    lines: int
    complexity: int
    untyped: bool
    command: bool


def lines_of_code(text: str, tree: ast.AST) -> int:
    """Physical lines with code on them; a string over several lines counts each, a docstring none."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Every function below a node, with its dotted name."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.ClassDef | Function)
        name = f"{prefix}{child.name}" if isinstance(child, ast.ClassDef | Function) else prefix
        if isinstance(child, Function):
            yield name, child
        yield from functions(child, f"{name}." if named else prefix)


def body_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of the functions nested in it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, Function):
            yield from body_nodes(child)


def complexity(function: Function) -> int:
    """Cyclomatic complexity: one, and one more per branch."""
    total = 1
    for node in body_nodes(function):
        total += isinstance(node, BRANCHES)
        total += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        total += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return total


def measured(where: str, function: Function) -> Measured:
    """Measure one function; `self` and `cls` are not parameters."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    if positional and positional[0].arg in ("self", "cls"):
        positional = positional[1:]
    parameters = [*positional, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    notes = [ast.unparse(one.annotation) if one.annotation else None for one in parameters]
    command = any("typer." in note or note.endswith("Option") for note in notes if note)
    lines = (function.end_lineno or 0) - function.lineno + 1
    untyped = None in notes or function.returns is None
    return Measured(where, len(parameters), lines, complexity(function), untyped, command)


def table(title: str, rows: list[tuple[int, str]]) -> None:
    """Print the largest rows under a title."""
    print(f"\n{title}")
    for number, what in sorted(rows, key=lambda row: (-row[0], row[1]))[:ROWS]:
        print(f"{number:6,}  {what}")


def main() -> None:
    """Measure the folder named on the command line."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src/headway")
    lines, statements, folders, found = 0, 0, Counter[str](), list[Measured]()
    for path in sorted(root.rglob("*.py")):
        text, where = path.read_text("utf-8"), str(path.relative_to(root))
        tree = ast.parse(text)
        lines += lines_of_code(text, tree)
        statements += sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        folders[str(path.parent.relative_to(root))] += 1
        found += [measured(f"{where}: {name}", function) for name, function in functions(tree, "")]
    print(
        f"{root}: {lines:,} lines of code, {statements:,} statements, {folders.total()} files, {len(found):,} functions"
    )
    print(f"untyped definitions: {sum(one.untyped for one in found)}")
    table("files per folder", [(count, name) for name, count in folders.items()])
    table("parameters", [(one.parameters, one.where) for one in found if not one.command])
    table("parameters of commands", [(one.parameters, one.where) for one in found if one.command])
    table("lines per function", [(one.lines, one.where) for one in found])
    table("cyclomatic complexity", [(one.complexity, one.where) for one in found])


if __name__ == "__main__":
    main()
