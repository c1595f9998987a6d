"""What jobs share, on the page: GPUs between teams, links between jobs; and a name that would read backwards."""

from typing import Any

import pytest

# Two leaves of two servers. With one server of each drained, a job of four GPUs spans both, and no slice is left for it alone.
FABRIC = "{name: hall, kind: leaf-spine, leaves: 2, servers_per_leaf: 2, gpus_per_server: 2, spines: 2}"
TEAMS = "{others: guests, queues: {research: {guaranteed_gpus: 4}, guests: {}}}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, serving: Any) -> Any:
    folder = tmp_path_factory.mktemp("shares")
    fabric, teams = folder / "hall.yaml", folder / "teams.yaml"
    fabric.write_text(FABRIC)
    teams.write_text(TEAMS)
    with serving(folder / "data", "--fabric", str(fabric), "--queues", str(teams)) as found:
        yield found


def test_shared_links_and_teams(site: Any, opened: Any) -> None:
    with site.client() as client:
        for node in ("n001", "n003"):
            client.set_node(node, "drain")
        ask = {"num_nodes": 2, "resources": {"accelerators": 2}, "queue": "research"}
        number = client.submit_spec({"name": "a\u202eexe.txt", "run": "sleep 600", **ask})[0]
    page = opened(site, f"/job/{number}")
    page.get_by_text("it shares links of leaf0 and leaf1").wait_for()
    page.get_by_text("others may use those that it uses").wait_for()
    assert page.get_by_text("No other job uses these links").count() == 0
    page.evaluate("location.hash = '#/network'")
    page.get_by_text("hall: 2 leaves").wait_for()
    assert page.get_by_text("no two jobs share one").count() == page.get_by_text("No link is contended").count() == 0
    page.evaluate("location.hash = '#/queue'")
    page.locator(".vrow a", has_text=f"{number} a\N{REPLACEMENT CHARACTER}exe.txt").wait_for()
    page.locator("[data-team=guests]", has_text="0 GPUs in use, 0 guaranteed").wait_for()
    page.locator("[data-team=research]", has_text="4 GPUs in use, 4 guaranteed").wait_for()
    assert page.mistakes == []
