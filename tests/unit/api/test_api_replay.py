"""Replays: the live journal's jobs through the simulator, with numbers worked out by hand."""

from pathlib import Path

import pytest

from headway.cluster.nodes import of_groups
from headway.errors import BadInput, HeadwayError
from headway.live.queries.replay.replay import PastJob, ran_jobs, replay

ONE_GPU = of_groups("1x1", ((1, 1),))


def ran(
    number: int, submitted_at: float, run_s: float, ended_at: float | None, state: str = "COMPLETED", **fields: object
) -> PastJob:
    given = {"user": "ada", "gpus": 1, "preemptible": True, **fields}
    return PastJob(number, given["user"], given["gpus"], submitted_at, ended_at, run_s, state, given["preemptible"])  # type: ignore[arg-type]


# A long job of ada, and a short one of bob that arrives a second later. Measured: the short one went first.
JOBS = [ran(1, 100.0, 10.0, 112.0), ran(2, 101.0, 2.0, 103.0, user="bob")]


def test_fifo_and_srtf_as_worked_out_by_hand() -> None:
    found = replay(JOBS, ONE_GPU, ["fifo", "srtf"])
    assert found.measured.users == {"ada": 12.0, "bob": 2.0}
    fifo, srtf = found.simulated
    assert fifo.users == pytest.approx({"ada": 10.0, "bob": 11.0})
    assert srtf.users == pytest.approx({"ada": 12.0, "bob": 2.0})
    assert (fifo.preemptions, srtf.preemptions) == (0, 1)
    assert (fifo.mean_s, srtf.mean_s, found.measured.mean_s) == pytest.approx((10.5, 7.0, 7.0))
    assert fifo.makespan_s == pytest.approx(12.0)


def test_a_job_that_could_not_be_preempted_is_not() -> None:
    fixed = [ran(1, 100.0, 10.0, 110.0, preemptible=False), JOBS[1]]
    (srtf,) = replay(fixed, ONE_GPU, ["srtf"]).simulated
    assert srtf.users == pytest.approx({"ada": 10.0, "bob": 11.0})


def test_cancelled_and_running_jobs_take_gpus_but_are_not_averaged() -> None:
    jobs = [ran(1, 0.0, 10.0, 10.0, "CANCELLED"), ran(2, 0.0, 5.0, None, "RUNNING"), ran(3, 0.0, 1.0, 16.0, user="bob")]
    found = replay(jobs, ONE_GPU, ["fifo"])
    assert (found.jobs, found.averaged) == (3, 1)
    assert found.simulated[0].users == pytest.approx({"bob": 16.0})
    assert any("1 job cancelled: such" in line for line in found.caveats)
    assert any("1 job not ended yet" in line for line in found.caveats)


def test_time_spent_blocked_is_kept_as_it_was() -> None:
    """Bob's job followed ada's: in the replay it arrives when it was no longer blocked, and the wait before that counts as it did."""
    after = PastJob(2, "bob", 1, 100.0, 113.0, 2.0, "COMPLETED", True, blocked_s=11.0)
    found = replay([JOBS[0], after], ONE_GPU, ["fifo"])
    assert found.simulated[0].users == pytest.approx({"ada": 10.0, "bob": 13.0})
    assert any("that time is kept" in line for line in found.caveats)


def test_failed_and_timed_out_jobs_are_averaged() -> None:
    found = replay([ran(1, 0.0, 1.0, 1.0, "FAILED"), ran(2, 0.0, 1.0, 2.0, "TIMEOUT")], ONE_GPU, ["fifo"])
    assert found.averaged == 2


def test_nothing_to_replay_is_said() -> None:
    with pytest.raises(BadInput, match="nothing to replay"):
        replay([ran(1, 0.0, 1.0, None, "RUNNING")], ONE_GPU, ["fifo"])
    with pytest.raises(BadInput, match="did you mean 'fifo'"):
        replay(JOBS, ONE_GPU, ["fifoo"])


def test_a_policy_that_raises_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raises_late.py").write_text(
        "class RaisesLate:\n"
        "    def key(self, job, now, options):\n"
        "        if now > 0.5:\n"
        "            raise ValueError('not today')\n"
        "        return 0.0, 0.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HeadwayError, match=r"ValueError: not today .*raises_late.py, line 4") as raised:
        replay(JOBS, ONE_GPU, ["raises_late:RaisesLate"])
    assert "\n" not in str(raised.value)


def test_jobs_that_never_took_a_gpu_are_left_out() -> None:
    row = {
        "job_id": 1,
        "user": "ada",
        "gpus": 1,
        "submitted_at": 5.0,
        "ended_at": 6.0,
        "run_s": 0.0,
        "state": "CANCELLED",
        "preemptible": True,
        "blocked_s": 0.0,
        "name": "x",
        "queue": "",
    }
    other = {**row, "job_id": 2, "submitted_at": 1.0, "state": "COMPLETED"}
    assert [job.job_id for job in ran_jobs([row, other])] == [2]
