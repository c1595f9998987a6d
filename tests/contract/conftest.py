"""Which executors the contract suite runs over: all that come with Headway and the example, or the one of `--executor`."""

from pathlib import Path

import pytest

from headway.live.executors.registry import executor_names

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = "own_executor:PlainExecutor"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of an executor from outside."""
    parser.addoption(
        "--executor", metavar="MODULE:CLASS", help="test this executor alone, as `serve --executor` names it"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each executor; those on a manager leave Slurm to tests/e2e/slurm."""
    chosen = metafunc.config.getoption("--executor", None)
    every = [chosen] if chosen else [*executor_names(), EXAMPLE]
    for fixture, names in (("executor_name", every), ("managed", [name for name in every if name != "slurm"])):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, names)


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python find the examples."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
