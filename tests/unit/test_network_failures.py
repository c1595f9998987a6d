"""Cables and spines that fail: in `fabric allocate`, on shared networks, and where jobs have links of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import COMPILES_S, PATIENCE_S
from typer.testing import CliRunner

from headway.cli.main import app
from headway.cluster.named import cluster
from headway.core.engine import drive
from headway.core.events import START
from headway.core.tables.journal import journal
from headway.errors import BadInput
from headway.iteration.plans import BEST
from headway.job_state import JobState
from headway.network.certificates.allocate import allocate, holders, occupied_by
from headway.network.fabric.failures import failed_cables
from headway.network.fabric.file import fabric_from
from headway.network.fabric.model import Fabric, Ocs
from headway.network.sharing.links import new_links
from headway.network.sharing.routing import LINKS_PER_FLOW, route_step
from headway.network.sharing.rules import Sharing
from headway.network.sharing.steps import SHIFT, STEP, destination, steps_on
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.models.communication import draw
from headway.sim.models.network import NetworkModel
from headway.sim.models.outages import lose_uplinks, outages
from headway.sim.network_files import load_fabric
from headway.sim.run import Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import workload

SERVERS = tuple(server // 2 for server in range(8))  # four leaves of two servers of four GPUs
FABRIC = Fabric("small", "leaf-spine", SERVERS, 4, 8)
REWIRED = Fabric("small", "leaf-spine", SERVERS, 4, 3, ocs=Ocs(8, 2))


def test_names_of_cables_and_switches():
    fabric = load_fabric("vclos-512")
    assert failed_cables(fabric, ["leaf0-spine3"]) == [3]
    assert failed_cables(fabric, ["spine3"]) == [leaf * 32 + 3 for leaf in range(16)]
    parallel = load_fabric("superpod")
    assert len(failed_cables(parallel, ["spine2"])) == 2 * 32
    assert len(failed_cables(parallel, ["leaf0.r1-spine2"])) == 2
    assert len(failed_cables(parallel, ["leaf0.r1-spine2.1"])) == 1
    for bad in ("spine32", "leaf0", "leaf99-spine0", "", "spine3@1h"):
        with pytest.raises(BadInput, match="no such cable or switch: name a cable such as leaf0-spine0"):
            failed_cables(fabric, [bad])


@pytest.mark.parametrize("method", ["vclos", "vclos-padded"])
def test_slices_avoid_what_failed(method):
    fabric = load_fabric("vclos-512")
    whole = allocate(occupied_by(fabric), 128, method).certificate
    assert ("leaf0", "spine3") in whole.links
    found = allocate(occupied_by(fabric, failed=["spine3", "leaf1-spine7"]), 128, method).certificate
    assert not [link for link in found.links if link[1] == "spine3" or link == ("leaf1", "spine7")]
    assert holders(fabric, [whole, found], ["leaf0-spine3"]) == [0]
    assert holders(fabric, [found], ["spine3"]) == []


def test_circuits_avoid_what_failed():
    fabric = load_fabric("ocs-vclos-512")
    free = allocate(occupied_by(fabric), 96, "ocs-vclos").certificate
    used = {circuit.spine for circuit in free.circuits}
    spine, switch = min(used), free.circuits[0].ocs
    failed = [f"spine{spine}", f"ocs{switch}"]
    assert holders(fabric, [free], failed) == [0]
    found = allocate(occupied_by(fabric, failed=failed), 96, "ocs-vclos").certificate
    assert found
    assert spine not in {circuit.spine for circuit in found.circuits}
    assert switch not in {circuit.ocs for circuit in found.circuits}
    assert holders(fabric, [found], failed) == []


def test_fabric_allocate_failed_on_the_command_line(tmp_path):
    runner, one = CliRunner(), tmp_path / "one.json"
    assert runner.invoke(app, ["fabric", "allocate", "vclos-512", "--gpus", "64", "--out", str(one)]).exit_code == 0
    words = ["fabric", "allocate", "vclos-512", "--gpus", "64", "--after", str(one), "--failed", "spine0", "--json"]
    found = runner.invoke(app, words)
    assert found.exit_code == 0, found.output
    assert "spine0" not in {upper for _, upper in json.loads(found.stdout)["links"]}
    assert "holds a link that failed" in found.stderr
    bad = runner.invoke(app, [*words[:-2], "spine99", "--json"])
    assert bad.exit_code == 1
    assert "no such cable or switch" in str(bad.exception or bad.output)


def test_flows_take_the_uplinks_that_both_leaves_still_have():
    across, paths = np.array([(SHIFT, 8, 1.0)], STEP)[0], np.empty((32, LINKS_PER_FLOW), np.int64)
    for rule in ("ecmp", "balanced", "source"):
        links = new_links(FABRIC, Sharing(rule), 0, 1, 1 << 10)
        for one in outages(FABRIC, ("spine2", "leaf1-spine5")):
            lose_uplinks(links, one)
        count = route_step(links, 0, np.arange(32), across, paths)
        assert count == 32
        for up, down in paths[:count, :2].tolist():
            spine, here, there = up // 2 % 8, up // 16, down // 16
            assert spine == down // 2 % 8
            assert spine != 2
            assert spine != 5 or 1 not in (here, there)
        assert {up // 2 % 8 for up, _ in paths[:count, :2].tolist() if up // 16 == 3} - {2}, "others still use them"


def test_flows_share_held_uplinks_if_no_others_work():
    """Slices hold what failures left of leaf 0: flows of other jobs share a held uplink and avoid the failed ones."""
    across, paths = np.array([(SHIFT, 8, 1.0)], STEP)[0], np.empty((32, LINKS_PER_FLOW), np.int64)
    for rule in ("ecmp", "balanced", "source"):
        links = new_links(FABRIC, Sharing(rule), 0, 1, 1 << 10)
        for one in outages(FABRIC, ("leaf0-spine0", "leaf0-spine1")):
            lose_uplinks(links, one)
        links.leaves["alive"][0], links.leaves["left"][0] = 0, 0
        count = route_step(links, 0, np.arange(32), across, paths)
        assert count == 32
        spines = {up // 2 % 8 for up, down in paths[:count, :2].tolist() if 0 in (up // 16, down // 16)}
        assert spines
        assert not spines & {0, 1}


JOINT = f"""
import signal
from tests.unit.test_network_failures import run_joint
run_joint("source")  # compiles
signal.alarm({PATIENCE_S:.0f})
print(run_joint("source?failed=leaf0-spine0@300+leaf0-spine1@300").starts["shared"])
"""


def run_joint(network):
    """Run jobs of odd sizes with slices beside shared links, on few spines."""
    rng = np.random.default_rng(3)
    sizes = rng.choice([2, 3, 4, 5, 6, 10, 12, 16], 60)
    submit, duration = np.cumsum(rng.exponential(20, 60)), rng.uniform(50, 400, 60)
    jobs = workload("x", submit, sizes, duration, model=["ResNet50"] * 60)
    setting = Setting(preemption_cost=5.0, network=NetworkModel(network, FABRIC), plan=BEST)
    placement = find_placement("joint?patience=0&spread=0")
    return simulate_run(jobs, cluster("8x4"), find_policy("fifo"), placement, setting)


def test_slices_that_cut_off_a_leaf_do_not_stop_the_simulation():
    """In a process of its own, which ends after a while: the kernel that rerouted jobs for ever cannot be interrupted."""
    command, root = [sys.executable, "-c", JOINT], Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=COMPILES_S, check=False)
    assert done.returncode == 0, done
    assert int(done.stdout) > 0


def jobs_of(seed, count=40):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 4, 8, 12, 16, 24], count)
    return workload("x", np.cumsum(rng.exponential(40, count)), sizes, rng.uniform(50, 400, count))


def run(network, placement, fabric=FABRIC, policy="fifo", cost=5.0):
    setting = Setting(preemption_cost=cost, network=NetworkModel(network, fabric))
    return simulate_run(
        jobs_of(3), cluster("8x4"), find_policy(policy), find_placement(placement), setting, keep_journal=True
    )


@pytest.mark.parametrize("network", ["ecmp", "ecmp?exact=3", "balanced", "source"])
def test_on_a_shared_network_jobs_slow_down(network):
    mark = "&" if "?" in network else "?"
    failing = f"{network}{mark}failed=spine0@150+spine1@150+spine2@200+spine3@250+spine4@300+spine5@350"
    before, after = run(network, "spread"), run(failing, "spread")
    assert (after.jobs["state"] == JobState.COMPLETED).all()
    assert after.jobs["preemptions"].sum() == 0
    ran = [one.jobs["total"] / one.jobs["gpus"] for one in (before, after)]
    assert ran[1].sum() > 1.04 * ran[0].sum()
    early = before.jobs["end"] < 150
    assert early.any()
    assert (after.jobs["end"][early] == before.jobs["end"][early]).all(), "what was over before is as it was"


def test_spray_loses_the_width_of_what_failed():
    """All of a leaf's GPUs send: with six of eight uplinks gone, two pass what eight did."""
    one = workload("x", [0.0], [32], [100.0])
    for failed, wide in (("", 8), ("&failed=" + "+".join(f"spine{k}" for k in range(6)), 2)):
        setting = Setting(network=NetworkModel(f"spray?exact=2{failed}", FABRIC))
        found = simulate_run(one, cluster("8x4"), find_policy("fifo"), find_placement("spread"), setting)
        pattern, duty = (part[0] for part in draw(one, 0))
        steps = np.zeros(32, STEP)
        count = steps_on(pattern, np.arange(32), 4, 10.0, steps)
        factor = 0.0
        for step in steps[:count]:
            leaving = sum(destination(step, 32, rank) // 8 != 0 for rank in range(8))
            factor += step["weight"] * max(1.0, leaving / wide)
        assert found.jobs["end"][0] == pytest.approx(100 * (1 - duty + duty * factor))
        assert (factor == pytest.approx(1.0)) == (not failed)


@pytest.mark.parametrize(
    ("placement", "fabric", "failed"),
    [
        ("vclos", FABRIC, "spine0@300"),
        ("vclos-padded", FABRIC, "leaf0-spine0@300+leaf1-spine4@420"),
        ("ocs-vclos", REWIRED, "spine0@300"),
    ],
)
def test_jobs_with_links_of_their_own_move(placement, fabric, failed):
    before, after = run("isolated", placement, fabric), run(f"isolated?failed={failed}", placement, fabric)
    assert (after.jobs["state"] == JobState.COMPLETED).all()
    moved = after.jobs["attempt"] > 1
    assert moved.any(), "nobody held what failed: the test is too tame"
    assert (before.jobs["attempt"] == 1).all()
    ran = after.jobs["total"] / after.jobs["gpus"]
    lost = 5.0 * (after.jobs["attempt"] - 1)
    assert ran == pytest.approx(after.workload.duration_s + lost), "a move costs what a preemption costs"
    assert after.preemption_cost_s == pytest.approx(lost.sum())


def test_nobody_is_given_a_failed_link_again():
    found = run("isolated?failed=spine0@300", "vclos")
    starts = np.flatnonzero(found.entries["kind"] == START)
    for at, after in zip(starts, [*starts[1:], None], strict=True):
        last = found.entries["link_at"][after] if after is not None else len(found.journal.links)
        masks = found.journal.links["mask"][found.entries["link_at"][at] : last]
        if found.entries["time"][at] >= 300:
            assert not (masks & np.uint64(1)).any()


@pytest.mark.parametrize(
    ("failed", "complaint"),
    [
        ("spine9", "no such cable or switch"),
        ("spine3@soon", "failed"),
        ("+".join(f"spine{k}" for k in range(8)), "no spine in common"),
        (
            "+".join([*(f"leaf0-spine{k}" for k in range(4)), *(f"leaf1-spine{k}" for k in range(4, 8))]),
            "leaf0 and leaf1",
        ),
    ],
)
def test_failures_that_cannot_be(failed, complaint):
    with pytest.raises(BadInput, match=complaint):
        run(f"ecmp?failed={failed}", "spread")


def test_behind_optical_switches_spines_fail():
    with pytest.raises(BadInput, match="spines of small can fail, such as spine0"):
        run("isolated?failed=ocs3", "ocs-vclos", REWIRED)
    with pytest.raises(BadInput, match="takes no options"):
        NetworkModel("ideal?failed=spine0").sharing  # noqa: B018


def test_cables_above_the_leaves_of_three_tiers():
    content = {
        **{"kind": "three-tier", "pods": 2, "leaves_per_pod": 2, "servers_per_leaf": 2, "gpus_per_server": 4},
        **{"spines": 8, "cores_per_group": 2},
    }
    fabric = fabric_from(content, "x")
    with pytest.raises(BadInput, match="next to leaves"):
        outages(fabric, ("core0.1",))
    assert len(outages(fabric, ("agg0.1",))) == 2


@pytest.mark.parametrize(("placement", "fabric"), [("vclos", FABRIC), ("vclos-padded", FABRIC), ("ocs-vclos", REWIRED)])
def test_both_loops_agree_and_the_ledger_lacks_what_failed(placement, fabric):
    network = "isolated?failed=spine0@300"
    setting = Setting(preemption_cost=5.0, network=NetworkModel(network, fabric))
    engine, world = prepare(jobs_of(3), cluster("8x4"), find_policy("fifo"), find_placement(placement), setting)
    book = journal(engine.state, 1 << 16, True)
    drive(engine, SimulatedWorld(engine, world, book))
    assert book.rows[: int(book.counts["rows"][0])].tobytes() == run(network, placement, fabric).entries.tobytes()
    free = engine.state.leaves["free"]
    if fabric.ocs:
        assert (free[4:6] == 0).all(), "the rows of spine 0"
        assert (free[:4] == 255).all()
        assert (free[6:] == 255).all()
        assert (world.circuits.ports["job"] == -1).all()
    else:
        assert (free == 254).all(), "spine 0 is bit 0 of every leaf"
