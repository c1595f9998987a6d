"""The Slurm that the tests of this folder share: four nodes with four GPUs each."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.slurm_cluster import SlurmCluster, started
from tests.slurm_manager import manager_on

from headway.live.manager.manager import Manager

TOPOLOGY = "SwitchName=leaf0 Nodes=n[0-1]\nSwitchName=leaf1 Nodes=n[2-3]\nSwitchName=spine Switches=leaf[0-1]\n"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test under which slurmctld died of itself fails with what slurmctld said last."""
    try:
        return (yield)
    except Exception:
        cluster = getattr(item, "funcargs", {}).get("counted")
        if cluster is not None and cluster.crashed():
            item.add_report_section("call", "slurmctld died", cluster.last_words())
        raise


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """The daemons; Slurm's commands find them in this process's environment. The loss of a node is noticed in half a minute."""
    cluster = started(4, 4, more="SlurmdTimeout=30", topology=TOPOLOGY)
    os.environ["SLURM_CONF"] = str(cluster.conf)
    yield cluster
    del os.environ["SLURM_CONF"]
    cluster.stop()


@pytest.fixture
def serve(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    """Start a manager; its jobs end with the test."""
    made: list[Manager] = []

    def start(**given: object) -> Manager:
        made.append(manager_on(tmp_path / "data", **given))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for manager in made:
        for job in manager.jobs():
            if job.state not in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"):
                manager.cancel(job.job_id)
        manager.stop(drain=True)
    slurm.ask("scancel", "--user=root")
