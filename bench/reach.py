"""Measure how much code a function reaches: `python -m bench.reach [--src DIR] [--json] [FUNCTION ...]`.

FUNCTION is a dotted name without the package (`core.decide.decide`) or the last part of one that is unique or named like its module
(`decide`, `explain`). The figures of all of core are printed if an entry point is in core.

The call graph is static. A call counts if its name resolves, through imports, to a function of the package in DIR (default: `src`).
Functions passed as values (`place`, `key`, `worth`) and methods do not count. Functions in a dict at the top level of a module (as
`CAUSES` of `explain`) count for each function of that module that reads the dict. Lines of a function include its signature and
docstring, not its decorators. Branches are counted as McCabe does: one, plus one for each `if`, `elif`, `for`, `while`, `and`, `or`,
conditional expression and condition of a comprehension.
"""

import argparse
import ast
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRIES = ("core.decide.decide", "core.record.record")
MOST_BRANCHES = 12  # functions with more branches are counted
SHOWN = 5  # most complex functions in the table
TEAM_TEST = re.compile(r"\boptions\.teams\s*[=!<>]|\bhas_teams\(|([=!]=|[<>]=?)\s*NO_TEAMS\b|\bNO_TEAMS\s*[=!<>]")
BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp)
BUILT_IN = ("abs", "bool", "float", "int", "len", "max", "min", "range")  # calls that read no scratch field


@dataclass(frozen=True, slots=True)
class Function:
    """One function at the top level of a module."""

    name: str  # module and function, without the package: core.decide.decide
    path: Path
    node: ast.FunctionDef

    @property
    def lines(self) -> int:
        """Return the number of source lines from `def` to the end of the body."""
        return (self.node.end_lineno or 0) - self.node.lineno + 1


@dataclass(frozen=True, slots=True)
class Package:
    """The functions of a package and the names that each module imports from it."""

    functions: dict[str, Function]
    imports: dict[str, dict[str, str]]  # module -> local name -> dotted name
    tables: dict[str, list[str]]  # dict at the top level of a module, by dotted name -> names of its values

    def resolve(self, module: str, name: str) -> Function | None:
        """Return the function that a dotted name means in a module, or None."""
        head, _, rest = name.partition(".")
        for _ in range(len(self.imports)):  # a package may import a name from one of its modules
            target = self.imports.get(module, {}).get(head)
            if target is None:
                return self.functions.get(f"{module}.{name}")
            if rest and f"{target}.{rest}" in self.functions:
                return self.functions[f"{target}.{rest}"]
            if target in self.functions:
                return None if rest else self.functions[target]
            module, _, head = target.rpartition(".")
            name = f"{head}.{rest}" if rest else head
        return None


def read_package(source: Path, package: str = "headway") -> Package:
    """Parse every module of a package below the folder `source`."""
    functions: dict[str, Function] = {}
    imports: dict[str, dict[str, str]] = {}
    tables: dict[str, list[str]] = {}
    for path in sorted((source / package).rglob("*.py")):
        parts = path.relative_to(source / package).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text("utf-8"))
        imports[module] = dict(imported_names(tree, package))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                functions[f"{module}.{node.name}"] = Function(f"{module}.{node.name}", path, node)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                values = [value.id for value in node.value.values if isinstance(value, ast.Name)]
                tables[f"{module}.{ast.unparse(target)}"] = values
    return Package(functions, imports, tables)


def imported_names(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    """Yield the local name and the dotted name of each import from the package, also of imports inside functions."""
    prefix = f"{package}."
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(prefix):
            module = f"{node.module}."[len(prefix) :]
            yield from ((alias.asname or alias.name, f"{module}{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and alias.name.startswith(prefix):
                    yield alias.asname, alias.name[len(prefix) :]


def calls(package: Package, function: Function) -> Iterator[Function]:
    """Yield the functions that a function calls by name, and those of the tables of its module that it reads."""
    module = function.name.rpartition(".")[0]
    for node in ast.walk(ast.Module(function.node.body, [])):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            callee = package.resolve(module, ast.unparse(node.func))
            if callee is not None:
                yield callee
        elif isinstance(node, ast.Name):
            values = (package.resolve(module, name) for name in package.tables.get(f"{module}.{node.id}", ()))
            yield from (value for value in values if value is not None)


def find_entry(package: Package, name: str) -> str | None:
    """Return the dotted name that a name means: its own, the only one that ends with it, or that of the module of its name; or None."""
    if name in package.functions:
        return name
    candidates = [dotted for dotted in package.functions if dotted.endswith(f".{name}")]
    named_like_module = [dotted for dotted in candidates if dotted.endswith(f"{name}.{name}")]
    for names in (candidates, named_like_module):
        if len(names) == 1:
            return names[0]
    return None


def branches(function: ast.FunctionDef) -> int:
    """Return the number of branches of a function, at least 1; nested functions included."""
    total = 1
    for node in ast.walk(function):
        total += isinstance(node, BRANCHES)
        total += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        total += len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return total


def reach(package: Package, entry: str) -> dict[str, int]:
    """Return the functions that an entry point reaches, itself included, with their shortest distance in calls."""
    depth, waiting = {entry: 0}, deque([entry])
    while waiting:
        name = waiting.popleft()
        for callee in calls(package, package.functions[name]):
            if callee.name not in depth:
                depth[callee.name] = depth[name] + 1
                waiting.append(callee.name)
    return depth


def measure_entry(package: Package, entry: str) -> dict[str, Any]:
    """Return the figures of one entry point."""
    depth = reach(package, entry)
    functions = [package.functions[name] for name in depth]
    by_branches = sorted(
        ((branches(function.node), function.name) for function in functions), key=lambda row: (-row[0], row[1])
    )
    return {
        "entry": entry,
        "functions": len(functions),
        "lines": sum(function.lines for function in functions),
        "files": len({function.path for function in functions}),
        "depth": max(depth.values()),
        "branches": by_branches[0][0],
        "above_limit": sum(count > MOST_BRANCHES for count, _ in by_branches),
        "most_complex": by_branches[:SHOWN],
    }


def fields_set_around_calls(function: ast.FunctionDef) -> list[str]:
    """Return the fields `walk.<field>` that a function assigns, at least twice, with a call in between.

    Statements are taken in source order. The two branches of one `if` therefore count as well: this is a heuristic.
    """
    assigned: dict[str, int] = {}  # field -> calls before its last assignment
    fields, calls_so_far = set(), 0
    for node in in_source_order(function):
        if isinstance(node, ast.Call):
            calls_so_far += ast.unparse(node.func) not in BUILT_IN
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_scratch_row(node.value):
            if assigned.get(node.attr, calls_so_far) < calls_so_far:
                fields.add(node.attr)
            assigned[node.attr] = calls_so_far
    return sorted(fields)


def in_source_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node in the order of evaluation: the value of an assignment comes before its targets."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        children.sort(key=lambda child: child is not node.value)
    for child in children:
        yield from in_source_order(child)
        yield child


def is_scratch_row(node: ast.expr) -> bool:
    """Return whether an expression is the scratch row: `walk`, `scratch.walk[0]` or `r.scratch.walk[0]`."""
    return bool(re.fullmatch(r"walk|(\w+\.)*walk(\[0\])?", ast.unparse(node)))


def measure_layer(package: Package, source: Path, layer: str = "core") -> dict[str, Any]:
    """Return the figures of all modules of one layer."""
    functions = [function for name, function in package.functions.items() if name.startswith(f"{layer}.")]
    paths = sorted((source / "headway" / layer).rglob("*.py"))
    texts = {str(path.relative_to(source)): path.read_text("utf-8") for path in paths}
    tests = {name: sum(bool(TEAM_TEST.search(code)) for code in code_lines(text)) for name, text in texts.items()}
    complex_functions = [
        (branches(function.node), function.name) for function in functions if branches(function.node) > MOST_BRANCHES
    ]
    around = [(function.name, name) for function in functions for name in fields_set_around_calls(function.node)]
    return {
        "files": len(texts),
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "functions": len(functions),
        "above_limit": sorted(complex_functions, reverse=True),
        "team_tests": sum(tests.values()),
        "team_test_files": sum(count > 0 for count in tests.values()),
        "scratch_fields": scratch_fields(source / "headway" / layer),
        "fields_set_around_calls": around,
    }


def code_lines(text: str) -> Iterator[str]:
    """Yield the lines of a source without comments and imports; a docstring that names `options.teams` still counts."""
    for line in text.splitlines():
        code = line.partition("#")[0]
        if not code.lstrip().startswith(("from ", "import ")):
            yield code


def scratch_fields(folder: Path) -> int:
    """Return the number of fields of the dtype `WALK`, or 0 if no module defines it."""
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
            if isinstance(target, ast.Name) and target.id == "WALK" and isinstance(node.value, ast.Call):
                fields = node.value.args[0]
                return len(fields.elts) if isinstance(fields, ast.List) else 0
    return 0


def show(entries: list[dict[str, Any]], core: dict[str, Any] | None) -> None:
    """Print the figures as tables; `core`: those of all of core, if they are wanted."""
    titles = ("functions", "lines", "files", "depth", "branches", f"> {MOST_BRANCHES}")
    width = max(28, *(len(row["entry"]) + 1 for row in entries))
    print(f"{'entry point':{width}}" + "".join(f"{title:>11}" for title in titles))
    for row in entries:
        keys = ("functions", "lines", "files", "depth", "branches", "above_limit")
        print(f"{row['entry']:{width}}" + "".join(f"{row[key]:>11,}" for key in keys))
    for row in entries:
        print(f"\nmost complex below {row['entry']}")
        for count, name in row["most_complex"]:
            print(f"{count:6}  {name}")
    if core is None:
        return
    print(f"\nall of core: {core['functions']} functions, {core['lines']:,} lines, {core['files']} files")
    print(f"{len(core['above_limit']):6}  functions with more than {MOST_BRANCHES} branches")
    print(f"{core['team_tests']:6}  lines that test for teams, in {core['team_test_files']} files")
    print(f"{core['scratch_fields']:6}  fields of the scratch row")
    print(f"{len(core['fields_set_around_calls']):6}  fields set before a call and reset after it:")
    for function, name in core["fields_set_around_calls"]:
        print(f"        {name:12} {function}")


def main() -> None:
    """Print the figures of the entry points, and of all of core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", nargs="*", default=ENTRIES, help=f"entry points (default: {' '.join(ENTRIES)})")
    parser.add_argument("--src", type=Path, default=Path(__file__).parents[1] / "src", help="folder of the package")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    package = read_package(arguments.src)
    names = {name: find_entry(package, name) for name in arguments.function}
    if missing := [name for name, dotted in names.items() if dotted is None]:
        parser.error(
            f"no function {', '.join(missing)} in {arguments.src}: write module.function, as core.decide.decide"
        )
    entries = [measure_entry(package, dotted) for dotted in names.values() if dotted]
    core = measure_layer(package, arguments.src) if any(row["entry"].startswith("core.") for row in entries) else None
    if arguments.json:
        print(json.dumps({"entries": entries, "core": core}, indent=1))
    else:
        show(entries, core)


if __name__ == "__main__":
    main()
