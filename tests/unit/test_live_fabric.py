"""Jobs with slices of a small declared fabric: links of their own, certificates, plans; all of it given back with the GPUs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.live_manager import ME, ended, one, opened, until
from tests.waiting import wait_for

from headway.cluster.named import cluster
from headway.collectives.plan import plan_from_json
from headway.errors import BadInput
from headway.io.keys import read_public_key
from headway.live.fabric.served import ServedFabric, served
from headway.live.fabric.slices import own_network
from headway.live.jobfile.spec import job_spec
from headway.live.manager.manager import Manager
from headway.live.manager.outcome import Backoff
from headway.live.state.site import Site
from headway.network.certificates.certificate import Certificate, describe
from headway.network.certificates.verify import verify
from headway.sim.network_files import load_fabric

# Four leaves with one server of two GPUs each, and two spines: a job of four GPUs has two leaves, and two links of each.
SMALL = "{name: small, kind: leaf-spine, leaves: 4, servers_per_leaf: 1, gpus_per_server: 2, spines: 2}"
ALONE: dict[str, Any] = {"network": {"isolation": "vclos"}}
QUICK = "tiresias-l?threshold=0.2"
HOUR = 3600.0
ISOLATED: dict[str, Any] = {
    "num_nodes": 2,
    "resources": {"accelerators": 2},
    **ALONE,
    "preemption": {"grace": "1s", "min_runtime": 0},
}
pytestmark = pytest.mark.xdist_group("live")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def open_again(tmp_path: Path, small: Path) -> Iterator[Any]:
    """Open a manager of the fabric in one data folder; it is drained at the end."""
    made: list[Manager] = []

    def start(placement: str = "joint", **given: Any) -> Manager:
        site = Site(fabric=served(str(small), tmp_path / "data"), **given)
        again = Backoff(first_s=HOUR)  # longer than any test takes
        made.append(opened(tmp_path / "data", "4x2", QUICK, placement=placement, site=site, backoff=again))
        return made[-1]

    yield start
    for manager in made:
        manager.stop(drain=True)


def free(manager: Manager) -> list[int]:
    """The links of each leaf that nobody holds."""
    return [int(mask) for mask in manager._state.tables.leaves["free"]]


def verified(manager: Manager, data: Path, small: Path, *jobs: int) -> list[str]:
    """Check the certificates of these jobs together, by code that shares nothing with the allocator; the links that they hold."""
    held = [manager.slice(job) for job in jobs]
    certificates = [(str(job), found["certificate"]) for job, found in zip(jobs, held, strict=True) if found]
    assert len(certificates) == len(jobs)
    verdicts = verify(certificates, describe(load_fabric(str(small))), read_public_key(data / "fabric.key.pub"))
    assert [verdict.reasons for verdict in verdicts] == [[]] * len(jobs)
    return sorted("-".join(link) for found in held if found for link in found["links"])


def test_two_jobs_have_slices_and_give_them_back_at_the_end_and_when_preempted(
    open_again: Any, tmp_path: Path, small: Path
) -> None:
    manager, data = open_again(), tmp_path / "data"
    first = one(manager, run="sleep 600", **ISOLATED)
    second = one(manager, run="sleep 600", preemptible=True, **ISOLATED)
    for job in (first, second):
        until(manager, job, "RUNNING")
    assert len(verified(manager, data, small, first, second)) == 8
    assert free(manager) == [0, 0, 0, 0]
    said = manager.explain(first).message
    assert "It has 4 links of its own (leaf0 to spine0 and spine1; leaf1 to spine0 and spine1)" in said
    assert "because its job file asks for them (isolation: vclos)" in said
    third = one(manager, run="sleep 600", **ISOLATED)
    until(manager, third, "RUNNING")
    assert manager.job(second).preemptions == 1
    assert manager.slice(second) is None
    assert len(verified(manager, data, small, first, third)) == 8
    manager.cancel(second)
    manager.cancel(third)
    assert ended(manager, third) == "CANCELLED"
    assert sorted(free(manager)) == [0, 0, 3, 3]
    assert len(verified(manager, data, small, first)) == 4
    manager.cancel(first, at_once=True)
    assert ended(manager, first) == "CANCELLED"
    assert free(manager) == [3, 3, 3, 3]


def test_who_asks_for_links_waits_for_them_and_others_share(open_again: Any, tmp_path: Path, small: Path) -> None:
    """Two leaves of two servers, of which one each is drained: four GPUs span both, and a part of a leaf leaves one link to others."""
    small.write_text(SMALL.replace("leaves: 4, servers_per_leaf: 1", "leaves: 2, servers_per_leaf: 2"))
    manager, data = open_again(), tmp_path / "data"
    for node in ("n001", "n003"):
        manager.drain(node)
    asks = one(manager, run="sleep 600", **ISOLATED)
    plain = one(
        manager,
        run="sleep 600",
        **{
            **ISOLATED,
            "network": {},
            "collective": {"schedule": "best"},
            "num_nodes": 1,
            "resources": {"accelerators": 2},
        },
    )
    until(manager, plain, "RUNNING")
    until(manager, asks, "PENDING", true=lambda view: bool(view.reason))
    assert manager.slice(plain)["certificate"]["links"] == []  # below one leaf
    assert "Its GPUs are all below leaf0" in manager.explain(plain).message
    manager.cancel(plain, at_once=True)
    ended(manager, plain)
    manager.hold(asks)
    spans = one(manager, run="sleep 600", **{**ISOLATED, "network": {}, "collective": {"schedule": "best"}})
    until(manager, spans, "RUNNING")
    found = manager.slice(spans)
    assert (found["isolated"], found["certificate"], found["links"]) == (False, None, [])
    assert found["plan"] is not None
    assert "It shares links of leaf0 and leaf1" in manager.explain(spans).message
    assert not (data / f"runs/{spans}/1/certificate.json").exists()
    manager.release(asks)
    until(manager, asks, "PENDING", true=lambda view: bool(view.reason))
    manager.cancel(spans, at_once=True)
    ended(manager, spans)
    assert until(manager, asks, "PENDING").reason == "isolation"
    said = manager.explain(asks)
    assert (
        "finds 4 free, but not with links for it alone, and its job file asks for them (isolation: vclos)"
        in said.message
    )
    assert {"headway nodes resume n001", "network: {isolation: none} in its job file: it would share links"} <= set(
        said.would_change
    )
    manager.resume("n001")
    until(manager, asks, "RUNNING")
    assert verified(manager, data, small, asks) == []  # a whole leaf needs no links
    manager.cancel(asks, at_once=True)
    ended(manager, asks)


KILLED = """
import sys, time
from pathlib import Path
from tests.live_manager import opened, one, until
from tests.unit.test_live_fabric import ISOLATED, QUICK
from headway.live.fabric.served import served
from headway.live.state.site import Site
data, small = Path(sys.argv[1]), sys.argv[2]
manager = opened(data, "4x2", QUICK, placement="joint", site=Site(fabric=served(small, data)))
for _ in range(2):
    job = one(manager, run="sleep 600", **ISOLATED)
    until(manager, job, "RUNNING")
print("up", flush=True)
time.sleep(600)
"""


def test_after_kill_9_the_slices_are_the_same_and_are_given_back(open_again: Any, tmp_path: Path, small: Path) -> None:
    data = tmp_path / "data"
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(data), str(small)], stdout=subprocess.PIPE, text=True, env=env, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGKILL)
    manager = open_again()
    written = [json.loads((data / f"runs/{job}/1/certificate.json").read_text()) for job in (1, 2)]
    assert [manager.slice(job)["certificate"] for job in (1, 2)] == written
    assert len(verified(manager, data, small, 1, 2)) == 8
    assert free(manager) == [0, 0, 0, 0]
    manager.cancel(1, at_once=True)
    ended(manager, 1)
    assert sorted(free(manager)) == [0, 0, 3, 3]
    assert len(verified(manager, data, small, 2)) == 4
    shim = json.loads((data / "runs/2/1/shim.json").read_text())["pid"]
    os.kill(shim, signal.SIGKILL)  # nobody tells how it ended: it is lost, tried again, and has a slice then
    wait_for(lambda: manager.job(2).attempt == 2)
    manager.cancel(2, at_once=True)
    ended(manager, 2)
    assert free(manager) == [3, 3, 3, 3]


def test_the_job_has_its_plan_and_the_operator_the_routes(open_again: Any, tmp_path: Path) -> None:
    hooks = tmp_path / "hook"
    hooks.write_text(
        f'#!/bin/sh\nwc -l < "$HEADWAY_ROUTES" >> {tmp_path}/told\nls "$HEADWAY_ROUTES_UNDO" "$HEADWAY_CERTIFICATE"\n'
    )
    hooks.chmod(0o755)
    manager = open_again(prolog=str(hooks), epilog=str(hooks))
    script = f'printf %s "$HEADWAY_COLLECTIVE_PLAN" > {tmp_path}/plan.$RANK'
    job = one(manager, run=script, collective={"schedule": "best", "size": "10MB"}, **ISOLATED)
    assert ended(manager, job) == "COMPLETED"
    plan = plan_from_json((tmp_path / "plan.0").read_text())
    assert sum(chunk.bytes for chunk in plan.chunks) == 10_000_000
    assert len(plan.lists) == 2  # inside servers, and between them
    folder = manager.log_files(job, 1)[0].parent
    assert (folder / "plan.json").read_text() == (tmp_path / "plan.1").read_text()
    assert "ip route" in (folder / "routes.sh").read_text()
    assert "rule del from" in (folder / "routes-undo.sh").read_text()
    wait_for(lambda: len((tmp_path / "told").read_text().split()) == 2)  # before it and after it


def test_links_are_free_after_the_epilog_of_a_job_whose_shim_was_killed(open_again: Any, tmp_path: Path) -> None:
    """The epilog removes the routes of the slice: links that are free before that carry packets of two jobs."""
    hold, epilog = tmp_path / "hold", tmp_path / "epilog"
    epilog.write_text(
        f'#!/bin/sh\necho "$HEADWAY_ROUTES_UNDO" >> {tmp_path}/undone\nwhile test -e {hold}; do sleep 0.02; done\n'
    )
    epilog.chmod(0o755)
    hold.touch()
    manager = open_again(epilog=str(epilog))
    job = one(manager, run="sleep 60", retry={"max": 0}, **ISOLATED)
    until(manager, job, "RUNNING")
    os.kill(json.loads((tmp_path / "data/runs/1/1/shim.json").read_text())["pid"], signal.SIGKILL)
    wait_for(lambda: (tmp_path / "undone").exists())
    assert sorted(free(manager)) == [0, 0, 3, 3]
    hold.unlink()
    assert ended(manager, job) == "FAILED"
    assert free(manager) == [3, 3, 3, 3]
    undo = Path((tmp_path / "undone").read_text().strip())
    assert "rule del from" in undo.read_text()


def test_a_plan_of_fewer_bytes_than_chunks_does_not_hold_up_its_job(open_again: Any, tmp_path: Path) -> None:
    """Themis cuts into 64 chunks, and ten bytes cannot be: the start of such a job failed."""
    manager = open_again()
    job = one(manager, run="true", collective={"schedule": "themis", "size": "10B"}, **ISOLATED)
    assert ended(manager, job) == "COMPLETED"
    plan = plan_from_json((manager.log_files(job, 1)[0].parent / "plan.json").read_text())
    assert [chunk.bytes for chunk in plan.chunks] == [1] * 10


def test_what_cannot_be_had_is_refused_by_name(open_again: Any, tmp_path: Path, small: Path) -> None:
    manager = open_again()
    for wrong, words in (
        ({"resources": {"accelerators": 7}, **ALONE}, r"no slice of the fabric has 7 GPUs .*: ask for 6 or 8"),
        ({"network": {"isolation": "ocs-vclos"}}, "needs optical switches"),
    ):
        with pytest.raises(BadInput, match=words):
            manager.submit(job_spec({"run": "true", **wrong}), ME)
    manager.stop()
    with pytest.raises(BadInput, match="were given links of small, and now there are no links"):
        Manager(tmp_path / "data", cluster("4x2"), QUICK)
    with pytest.raises(BadInput, match="they must be the same"):
        Manager(tmp_path / "other", cluster("2x4"), QUICK, site=Site(fabric=served(str(small), tmp_path / "other")))
    shares = Manager(
        tmp_path / "other", cluster("4x2"), QUICK, site=Site(fabric=served(str(small), tmp_path / "other"))
    )
    shares.start()
    with pytest.raises(BadInput, match="the placement here reserves no links"):
        shares.submit(job_spec({"run": "true", "network": {"isolation": "vclos"}}), ME)
    shares.stop()


def test_the_network_of_a_job_has_the_dimensions_that_it_sees(small: Path) -> None:
    fabric = load_fabric(str(small))
    seen = {(0, 1, 2, 3): (2, 2), (0, 1): (2,), (0, 2, 4): (3,), (0, 1, 2): (3,), (3,): None}
    for gpus, sizes in seen.items():
        network = own_network(fabric, gpus)
        assert (network.sizes if network else None) == sizes


def less(certificate: Certificate) -> Certificate:
    """The same without its first link, as a mistake in the manager could write it."""
    return replace(certificate, links=certificate.links[1:])


def of_others(certificate: Certificate) -> Certificate:
    """The same with links that other jobs may hold."""
    return replace(certificate, links=tuple((f"leaf{leaf}", f"spine{up}") for leaf in range(4) for up in range(2)))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (
            less,
            "its slice of small: rejected: halving-doubling is promised, but uses leaf2 - spine0, a link it does not hold",
        ),
        (of_others, "its slice of small: rejected: holds link leaf0-spine0, which job 1 holds"),
    ],
)
def test_no_job_runs_on_a_slice_that_the_verifier_does_not_accept(
    wrong: Any, reason: str, open_again: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager takes its own certificates through the anchored check, also beside jobs that an earlier manager started."""
    before = open_again()
    until(before, one(before, run="sleep 600", **ISOLATED), "RUNNING")
    before.stop()
    manager = open_again()
    right = ServedFabric.certificate
    with monkeypatch.context() as patch:
        patch.setattr(ServedFabric, "certificate", lambda *given: wrong(right(*given)))
        second = one(manager, run=f"touch {tmp_path}/ran", **ISOLATED)
        until(manager, second, "PENDING", true=lambda view: bool(view.message))
        assert manager.job(second).message == reason
        assert "it could not be started (its slice of small: rejected" in manager.explain(second).message
        assert not (tmp_path / "ran").exists()
    assert sorted(free(manager)) == [0, 0, 3, 3]
    real = manager._world.clock
    manager._world.clock = lambda: real() + HOUR  # the back-off has passed
    assert ended(manager, second) == "COMPLETED", "it is tried again, and this time the certificate is right"
    assert (tmp_path / "ran").exists()
