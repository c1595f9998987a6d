"""The executors of the contract suite: all that come with Headway and the example, or the one of `--executor`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_cluster import SlurmCluster, started

from headway.live.executors.registry import executor_names

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = "own_executor:PlainExecutor"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of an executor from outside."""
    parser.addoption(
        "--executor", metavar="MODULE:CLASS", help="test this executor alone, as `serve --executor` names it"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each executor."""
    chosen = metafunc.config.getoption("--executor", None)
    if "executor_name" in metafunc.fixturenames:
        metafunc.parametrize("executor_name", [chosen] if chosen else [*executor_names(), EXAMPLE])


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """A Slurm of two nodes; its commands find it in this process's environment."""
    cluster = started(2, 4)
    os.environ["SLURM_CONF"] = str(cluster.conf)
    yield cluster
    del os.environ["SLURM_CONF"]
    cluster.stop()


@pytest.fixture
def needed(request: pytest.FixtureRequest) -> None:
    """Start what an executor needs."""
    if request.getfixturevalue("executor_name") == "slurm":
        request.getfixturevalue("slurm")


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Python find the examples."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
