"""The files that a cell of a sweep is run from, so that a cell whose inputs were edited runs again.

Besides the trace, the cluster and the fabric these are files named in options (`gittins?distribution=FILE`), tables that the reader of a
trace looks for beside it, and the modules of a policy or placement from outside with all that they import and that is not installed. What
they open by themselves cannot be known.
"""

import ast
import importlib.util
import sys
from functools import cache
from pathlib import Path

from headway.sim.experiment import Experiment
from headway.sim.trace import file_digest, file_of

# Folders of installed packages; their versions are the business of whoever installs them.
INSTALLED = {"site-packages", "dist-packages"}
OWN_PACKAGE = "headway"


def digests(experiment: Experiment) -> list[str | None]:
    """Hashes of the files that an experiment's words name, None where a word is no file."""
    trace, code = str(experiment.trace), (str(experiment.policy), str(experiment.placement))
    specs = (trace, *code, str(experiment.cluster), str(experiment.fabric or ""))
    words = [file_of(trace), *specs, *(value for spec in specs for value in _values(spec))]
    return [_digest(word) for word in (*words, *_beside(file_of(trace)), *(f for spec in code for f in _sources(spec)))]


def forget() -> None:
    """Look at all files anew: within one sweep each is read once."""
    for cached in (_digest, _beside, _sources):
        cached.cache_clear()


def _values(spec: str) -> list[str]:
    """Values of the options, any of which may be a file."""
    return [part.partition("=")[2] for part in spec.partition("?")[2].split("&") if "=" in part]


_digest = cache(file_digest)


@cache
def _beside(trace: str) -> list[str]:
    """Tables beside a trace that its format may be read with."""
    from headway.workloads.traces.gavel import TABLES_BESIDE
    from headway.workloads.traces.pai2020 import JOB_TABLES

    if _digest(trace) is None:
        return []
    folder = Path(trace).parent
    named = [folder / name for name in (*JOB_TABLES, *TABLES_BESIDE)]
    named += [folder / "profiles" / name for name in TABLES_BESIDE]
    return [str(path) for path in named]


@cache
def _sources(spec: str) -> list[str]:
    """The files of a policy or placement from outside: its module or package, and those it imports.

    Imports are read from the text, not from what is loaded: the parent and its workers must find the same.
    """
    module, colon, _ = spec.partition("?")[0].partition(":")
    top = module.partition(".")[0]
    files_read: set[str] = set()
    waiting = [top] if colon and top else []
    seen = {OWN_PACKAGE, *sys.stdlib_module_names} - {top}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        files = _files(name, installed_too=name == top)
        files_read |= set(map(str, files))
        waiting += [other for file in files for other in _imports(file)]
    return sorted(files_read)


def _files(name: str, *, installed_too: bool) -> list[Path]:
    """The file of a module or all files of a package; none of an installed one unless it is asked for."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    origin = [spec.origin] if spec.has_location and spec.origin else []
    places = list(map(Path, origin if spec.submodule_search_locations is None else spec.submodule_search_locations))
    if not installed_too and any(INSTALLED & set(place.parts) for place in places):
        return []
    return sorted(file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]))


def _imports(file: Path) -> list[str]:
    """The modules, or the packages of modules, that a file imports anywhere; those of its own package are known."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules.append(node.module)
    return [name.partition(".")[0] for name in modules]
