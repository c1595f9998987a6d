"""A live manager whose placement reserves links: the network, the story and the slice of a job agree."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import until

from headway.cluster.named import cluster
from headway.io.accounts import own_account
from headway.live.fabric.served import ServedFabric
from headway.live.jobfile.spec import JobSpec
from headway.live.manager.manager import Manager
from headway.live.queries.fabric import network
from headway.live.state.site import PLAIN
from headway.network.fabric.model import Fabric

FABRIC = Fabric("lab", "leaf-spine", (0, 0, 1, 1), 2, spines=4)


def everybody(job_id: int, user: str) -> bool:
    return True


@pytest.fixture
def manager(tmp_path: Path) -> Any:
    site = replace(PLAIN, fabric=ServedFabric(FABRIC))
    found = Manager(tmp_path, cluster("4x2"), placement="vclos", site=site)
    found.start()
    yield found
    found.stop(drain=True)


def test_links_of_a_live_job(manager: Any) -> None:
    spec = JobSpec(command=("sleep", "600"), num_nodes=4, resources={"accelerators": 2})
    number = manager.submit(spec, own_account()[1])[0]
    until(manager, number, "RUNNING")
    manager.settle()
    seen = manager.look(lambda state, now: network(state, now, everybody))
    assert (seen.kind, seen.leaves) == ("leaf-spine", (("n000", "n001"), ("n002", "n003")))
    names = {f"leaf{link.leaf}-spine{link.spine}" for link in seen.links}
    assert len(names) == len(seen.links) == 8
    assert all(link.jobs == (number,) and link.alone for link in seen.links)
    assert set(manager.story(manager.job(number)).phases[-1].links) == names
    assert {"-".join(link) for link in manager.slice(number)["links"]} == names
    hidden = manager.look(lambda state, now: network(state, now, lambda job_id, user: False))
    assert {link.jobs for link in hidden.links} == {(0,)}
    manager.cancel(number, at_once=True)
