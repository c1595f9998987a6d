"""A recorded run tells at any moment what its journal says, in the shape that a manager answers."""

from collections import Counter

import numpy as np
import pytest
from fastapi.testclient import TestClient

from headway.client.job import JobQuery
from headway.core.events import ENDED, START, STOPPED
from headway.io.accounts import own_account
from headway.job_state import JobState
from headway.live.http.api import make_api
from headway.live.http.guard import Guard
from headway.live.http.tokens import Tokens
from headway.player import scenes, wires
from headway.player.film import Film
from headway.player.serve import make_player
from headway.sim.api import simulate
from headway.workloads.workload import workload


def test_holders_are_those_of_the_journal(film: Film) -> None:
    """Walk the journal entry by entry beside it."""
    moments = np.linspace(film.first, film.last, 40)
    held: dict[int, int] = {}
    entries, at = film.entries, 0
    for moment in moments:
        while at < len(entries) and entries["time"][at] <= moment:
            job, kind = int(entries["job"][at]), int(entries["kind"][at])
            if kind == START:
                held[job] = int(entries["gpus"][at])
            elif kind in (STOPPED, ENDED):
                held.pop(job, None)
            at += 1
        found = scenes.overview(film.at(float(moment)))
        assert {job.job_id - 1: job.gpus for job in found.jobs} == held
        assert found.gpus_busy == sum(held.values())
        assert found.counts["PENDING"] == found.reasons.get("", 0) + sum(found.reasons.values())


def test_at_the_end_all_is_as_the_summary_says(film: Film) -> None:
    frame, run = film.at(film.last), film.run
    assert scenes.overview(frame).counts["COMPLETED"] == film.jobs
    assert int(frame.stops.sum()) == int(run.jobs["preemptions"].sum())
    assert frame.service == pytest.approx(run.jobs["total"])
    trend = scenes.trend(frame, 50)
    assert sum(trend.completed) == film.jobs
    assert np.mean(trend.utilisation) == pytest.approx(film.result.summary["gpu_utilisation"], abs=1e-3)


def test_a_story_adds_up_to_the_life_of_the_job(film: Film) -> None:
    frame = film.at(film.last)
    for j in range(film.jobs):
        told = scenes.story(frame, j)
        spans = [phase.until - phase.since for phase in told.phases if phase.until is not None]
        assert sum(spans) == pytest.approx(float(film.end[j] - film.submit[j]))
        waited = sum(p.until - p.since for p in told.phases if p.kind == "waiting" and p.until is not None)
        assert waited <= scenes.explanation(frame, j).wait_us / 1e6 + 1e-3


def test_the_queue_has_whoever_has_not_ended(film: Film) -> None:
    frame = film.at((film.first + film.last) / 3)
    every = scenes.queue_page(frame, JobQuery(order="order", limit=500))
    assert every.total == len(frame.active) == len(every.jobs)
    waits = scenes.queue_page(frame, JobQuery(states=frozenset({"PENDING"}), order="gpus", descending=True))
    sizes = [job.gpus for job in waits.jobs]
    assert sizes == sorted(sizes, reverse=True)
    assert all(job.state == JobState.PENDING.name and job.reason for job in waits.jobs)
    assert sum(level.running + level.waiting for level in every.levels) == every.total


def test_the_player_answers_as_a_manager_does(film: Film, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Every route of the player is one of the manager's, with the same answer; only `at` is more."""
    from headway.cluster.named import cluster
    from headway.live.manager.manager import Manager

    manager = Manager(tmp_path / "data", cluster("1x1"))
    try:
        described = make_api(manager).openapi()
    finally:
        manager.stop()
    for path, verbs in make_player(film).openapi()["paths"].items():
        for verb, route in verbs.items():
            same = described["paths"][path][verb]
            assert route["responses"]["200"] == same["responses"]["200"], path
            given = {each["name"] for each in route.get("parameters", ())} - {"at"}
            assert given <= {each["name"] for each in same.get("parameters", ())}, path


def test_the_player_is_behind_the_gate(film: Film, tmp_path) -> None:  # type: ignore[no-untyped-def]
    guarded = Guard(make_player(film), Tokens(tmp_path, own_account()[1]), ["host:1"])
    bearer = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
    with TestClient(guarded, base_url="http://host:1") as client:
        assert client.get("/v1/overview").status_code == 401
        assert client.get("/").status_code == 200
        middle = client.get(f"/v1/overview?at={film.last / 2}", headers=bearer).json()
        assert middle["recording"]["last"] == film.last
        assert client.get("/v1/jobs/0", headers=bearer).status_code == 422
        answer = client.get(f"/v1/jobs/{film.jobs + 1}", headers=bearer)
        assert (answer.status_code, answer.json()["detail"]) == (
            404,
            f"there is no job {film.jobs + 1}: the run has {film.jobs}",
        )


@pytest.mark.parametrize(
    ("network", "placement"), [("ecmp", "spread"), ("isolated", "vclos"), ("isolated", "ocs-vclos")]
)
def test_links_of_a_recorded_run(network: str, placement: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from headway.sim.api import simulate

    trace = tmp_path / "large.csv"
    rows = [f"{i},{60 * i},{(64, 8, 96, 16, 128)[i % 5]},1200" for i in range(20)]
    trace.write_text("\n".join(["job_id,submit_s,gpus,duration_s", *rows]) + "\n")
    given = {"cluster": "vclos-512", "network": network, "placement": placement, "policy": "tiresias-l"}
    film = Film(simulate(str(trace), **given, skip_impossible=True, keep_journal=True))
    found = wires.network(film.at(600.0))
    assert len(found.leaves) == 16
    on = {job.job_id: job.gpus for job in found.jobs}
    users = {job for link in found.links for job in link.jobs} | {one.job_id for one in found.circuits}
    assert users <= set(on)
    assert users
    if network == "isolated":
        assert 8 not in [on[job] for job in users], "a job on one leaf needs no links"
        ends = Counter(job for link in found.links for job in link.jobs) + Counter(
            one.job_id for one in found.circuits if one.spine >= 0
        )
        assert all(ends[job] == on[job] for job in users), "one link or fibre per rank"
        assert all(link.alone and link.load == 1 and len(link.jobs) == 1 for link in found.links)
        assert len({(link.leaf, link.spine) for link in found.links}) == len(found.links)
        assert len({(one.leaf, one.switch) for one in found.circuits}) == len(found.circuits)
    else:
        assert any(link.load > 1 for link in found.links)


def test_certificates_of_a_recorded_run_are_sound(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from headway.network.certificates.verify import verify
    from headway.sim.api import simulate

    trace = tmp_path / "large.csv"
    rows = [f"{i},{60 * i},{(64, 8, 96, 16, 128)[i % 5]},1200" for i in range(20)]
    trace.write_text("\n".join(["job_id,submit_s,gpus,duration_s", *rows]) + "\n")
    given = {"cluster": "vclos-512", "network": "isolated", "placement": "vclos", "policy": "tiresias-l"}
    film = Film(simulate(str(trace), **given, skip_impossible=True, keep_journal=True))
    frame = film.at(600.0)
    running = sorted(set(film.held.job[frame.on].tolist()))
    slices = [wires.slice_of(frame, j) for j in running]
    assert [one.isolation for one in verify([(str(i), one["certificate"]) for i, one in enumerate(slices)])] == [
        "full"
    ] * len(running)
    assert sum(len(one["links"]) for one in slices) == len(wires.network(frame).links) > 0
    over = next(j for j in range(film.jobs) if j not in running)
    assert wires.slice_of(frame, over) is None


def test_a_notice_is_in_the_story_of_a_recorded_run(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "queues.yaml").write_text("notice: 60s\nqueues: {a: {guaranteed_gpus: 1}, b: {}}\n")
    jobs = workload("lent", [0.0, 10.0], [1, 1], [500.0, 50.0], queue=["b", "a"])
    given = {"queues": str(tmp_path / "queues.yaml"), "preemption_cost": "0s"}
    film = Film(simulate(jobs, "1x1", "best-effort", **given, keep_journal=True))
    marks = [mark.words for mark in scenes.story(film.at(film.last), 0).marks]
    assert marks.index("notice: its GPUs are taken back in 60 s for queue a") < marks.index("preempted")
    assert scenes.explanation(film.at(30.0), 1).receipt_us["notice"] == 60_000_000
