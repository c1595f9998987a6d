"""Shared by all tests: where the traces are, and how many rounds a seeded run takes."""

import functools
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
# Files that take longest begin first, so that no worker is left alone with one at the end (`--durations=0` tells).
LONGEST = (
    "test_slurm_faults.py",
    "test_sweep_cli.py",
    "test_policies.py",
    "test_slurm.py",
    "test_live_forecast.py",
    "test_executors.py",
    "test_journals_checked.py",
    "test_sweep_on_slurm.py",
    "test_vclos_placements.py",
    "test_slurm_steer.py",
    "test_twin.py",
)


# `make test` draws the same examples every time; `make test-long` draws others, and says how to repeat a failure.
# Neither has a deadline: examples are slow on a busy machine.
settings.register_profile(
    "suite",
    derandomize=not os.environ.get("HEADWAY_LONG"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

# What a file, or the conftest.py beside it, uses to start processes.
STARTS_PROCESSES = re.compile(r"\b(subprocess|multiprocessing|ProcessExecutor|Manager|live_manager|slurm_cluster)\b")


@functools.cache
def starts_processes(folder: Path, name: str) -> bool:
    """Return whether tests of this file start processes, or a manager with its threads."""
    texts = [path.read_text("utf-8") for path in (folder / name, folder / "conftest.py") if path.exists()]
    return any(STARTS_PROCESSES.search(text) for text in texts)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start processes, and order whole files; within a file nothing changes."""
    for item in items:
        if starts_processes(item.path.parent, item.path.name):
            item.add_marker("processes")
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


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


@pytest.fixture(scope="session")
def check_seats():
    """Walk the journal of a run: a seat is free when it is taken, and every seat is given back."""
    import numpy as np

    from headway.core.events import ENDED, PACK, START, STOPPED

    def check(run) -> None:
        total, slots = run.cluster.total, 2 if run.policy.packs else 1
        holder = np.full(total * slots, -1)
        held: dict[int, np.ndarray] = {}
        for row in run.entries:
            kind, job = int(row["kind"]), int(row["job"])
            if kind in (START, PACK):
                seats = run.seats[row["seat_at"] : row["seat_at"] + row["gpus"]]
                assert len(np.unique(seats % total)) == row["gpus"]
                assert (holder[seats] == -1).all(), f"job {job} takes seats that are held"
                assert job not in held, f"job {job} starts twice"
                if kind == START:
                    others = np.concatenate([seats % total + slot * total for slot in range(slots)])
                    assert (holder[others] == -1).all(), "a started job has its GPUs to itself"
                holder[seats] = job
                held[job] = seats
            elif kind in (STOPPED, ENDED) and job in held:
                holder[held.pop(job)] = -1
        assert (holder == -1).all(), "seats are held after the last job ended"

    return check
