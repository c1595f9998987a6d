"""Shared by all tests: where the traces are, and how many rounds a seeded run takes."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of shared traces, or a loud skip."""
    folder = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip(f"SKIPPED: no traces at {folder}; set HEADWAY_TRACES to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def rounds():
    """`rounds(sample, full)`: the full count under `make test-long`, a sample under `make test`."""
    return lambda sample, full: full if os.environ.get("HEADWAY_LONG") else sample
