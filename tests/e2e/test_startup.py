"""How a command starts: what it imports, and what it says while the engine is compiled. No test here looks at a clock."""

import os
import subprocess
import sys

import pytest
from tests.waiting import COMPILES_S

from headway.core.compiler.notices import COMPILING, COMPILING_AGAIN

WORDS = ["simulate", "synthetic:tiresias-480?jobs=10", "--cluster", "2x8"]
SCRIPT = (
    "import sys\nfrom headway.cli.main import main\n"
    "try:\n    main()\nexcept SystemExit:\n    pass\n"
    "print(*sys.modules, file=sys.stderr)"
)


def run(*words: str, **environment: str) -> tuple[str, list[str]]:
    """Standard output of a command, and the lines that it wrote on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=COMPILES_S,
        env=os.environ | environment,
    )
    return done.stdout, done.stderr.splitlines()


def test_a_warm_simulation_says_nothing_and_loads_no_linear_algebra():
    first, _ = run(*WORDS)  # compiles, unless some test did before
    second, said = run(*WORDS)
    assert second == first
    *said, modules = said
    assert said == []
    assert "numba" in modules.split()
    # numba itself asks scipy for its version; its registries, which only a compile needs, load scipy.linalg
    assert not {"scipy.linalg", "numba.np.linalg", "plotly", "pandas", "pyarrow", "fastapi"} & set(modules.split())


def test_help_loads_no_compiler():
    out, (modules,) = run("--help")
    assert "simulate" in out
    assert not {"numba", "numpy", "scipy"} & set(modules.split())


def test_listing_policies_compiles_nothing(tmp_path):
    out, said = run("policies", NUMBA_CACHE_DIR=str(tmp_path))
    assert "gittins" in out
    assert len(said) == 1  # the modules: no notice of a compile
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.environ.get("HEADWAY_LONG"), reason="compiles the engine twice: make test-long")
def test_the_first_run_says_that_it_compiles_and_a_cache_that_cannot_be_written_is_said_once(tmp_path):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "cache")
    expected, lines = run(*WORDS, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert lines[:-1] == [f"headway: {COMPILING}"]
    out, lines = run(*WORDS, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (out, lines[:-1]) == (expected, [])
    out, lines = run(*WORDS, NUMBA_CACHE_DIR=nowhere)
    assert out == expected
    cache, compiling = lines[:-1]
    assert cache.startswith(f"headway: compiled code cannot be kept in {nowhere} (Not a directory)")
    assert compiling == f"headway: {COMPILING_AGAIN}"
