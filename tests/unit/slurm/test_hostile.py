"""What a user of Slurm may write into the folder of a job, or into a comment: it stops no manager, and passes for nobody else's job."""

import os
import threading
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from headway.live.executors.common.progress import read_progress
from headway.live.executors.slurm.attempt import Attempt, PartRun
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.executors.slurm.render import SlurmSite, comment_of, read_comment
from headway.live.executors.slurm.states import PartState
from headway.slurm.commands import Commands
from headway.slurm.requests import Rejected, Request, Submit
from headway.slurm.snapshot import Share, SlurmJob, SlurmNode, SlurmSnapshot

ADA, EVE = 1000, 1001


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    """Somebody has it open, and writes nothing."""
    os.mkfifo(path)
    os.open(path, os.O_RDWR | os.O_NONBLOCK)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [folder, pipe, link])
@pytest.mark.parametrize("name", ["done.0", "bad", "failed", "claim.0", "report.json"])
def test_what_is_no_file_says_nothing(tmp_path: Path, name: str, make: object) -> None:
    (tmp_path / "own").mkdir()
    make(tmp_path / "own" / name)  # type: ignore[operator]
    attempt = Attempt(1, 1, tmp_path, [PartRun(PartState.ENDING, slurm=7, seen=SlurmJob(7, "FAILED", exit_code=3))])
    assert attempt.done(0) is None
    SlurmExecutor(tmp_path)._step(attempt, attempt.parts[0], attempt.look(0, 100.0))
    assert attempt.parts[0].state is PartState.OVER
    assert attempt.report().lost or attempt.report().exit_code == 3
    assert read_progress(attempt.own / "report.json", 5) == (None, 5)


@pytest.mark.parametrize("word", ["²", "٣", "-1", "9" * 5000, "1e3", "\udcff"])
def test_numbers_are_plain_ones(tmp_path: Path, word: str) -> None:
    (tmp_path / "own").mkdir()
    attempt = Attempt(1, 1, tmp_path, [PartRun(PartState.ENDING, slurm=7, seen=SlurmJob(7, "FAILED", exit_code=3))])
    text = word.encode(errors="surrogateescape")
    (attempt.own / "done.0").write_bytes(text + b" 0 1\n")
    (attempt.own / "bad").write_bytes(text)
    assert attempt.done(0) is None
    assert attempt.report().exit_code in (3, None)
    assert read_comment(f"headway:ab:{word}:1:0", "ab") is None


class Slurm:
    """One node of four GPUs, and these jobs; notes what is sent."""

    def __init__(self, *jobs: SlurmJob) -> None:
        self.jobs, self.sent = {job.id: job for job in jobs}, list[Request]()

    def poll(self) -> SlurmSnapshot:
        """All of it."""
        return SlurmSnapshot(self.jobs, (SlurmNode("n0", "n0", 4),))

    def send(self, request: Request) -> str:
        """Only noted."""
        self.sent.append(request)
        return ""


def test_a_comment_like_ours_makes_no_job_ours(tmp_path: Path) -> None:
    """Comments are seen by all users of Slurm. A job of another account holds GPUs of the node, and is never touched."""
    executor = SlurmExecutor(tmp_path)
    executor._site = SlurmSite("ab", {}, {})
    (tmp_path / "slurm-nodes.json").write_text(
        '{"nodes": [{"name": "n0", "address": "n0", "gpus": 4, "features": [], "partitions": [], "state": []}], "leaves": []}'
    )
    attempt = executor._attempts[1, 1] = Attempt(
        1, 1, executor.folder(1, 1), [PartRun(PartState.RUNNING, slurm=7)], uid=ADA
    )
    shares = {"n0": Share(gpus=1)}
    ours = SlurmJob(7, "RUNNING", comment_of("ab", 1, 1, 0), uid=ADA, shares=shares)
    same = SlurmJob(8, "RUNNING", comment_of("ab", 1, 1, 0), uid=EVE, shares=shares)
    none = SlurmJob(9, "RUNNING", comment_of("ab", 77, 1, 0), uid=EVE, shares=shares)
    executor.door = door = Slurm(ours, same, none)  # type: ignore[assignment]
    executor._poll()
    assert door.sent == []
    assert attempt.parts[0].slurm == 7
    assert [report.taken for report in executor.node_reports()] == [2]
    del door.jobs[7]
    executor._poll()
    assert attempt.parts[0].state is PartState.MISSING, "a stranger's job passes for ours"
    del executor._attempts[1, 1]
    executor._over.add((1, 1))
    executor._poll()
    assert door.sent == []


def test_the_thread_goes_on_whatever_happens(tmp_path: Path) -> None:
    executor, polled = SlurmExecutor(tmp_path, poll_s=0.01), threading.Event()

    class Breaks(Slurm):
        def poll(self) -> SlurmSnapshot:
            if not executor.outage.failures:
                raise RecursionError("no form that anybody thought of")
            polled.set()
            return super().poll()

    executor.door = Breaks()  # type: ignore[assignment]
    executor._thread = threading.Thread(target=executor._run, daemon=True)
    executor._thread.start()
    assert polled.wait(PATIENCE_S)
    executor.close()


def test_an_account_that_is_gone_is_named() -> None:
    with pytest.raises(Rejected, match="no user 'headway-nobody-at-all'"):
        Commands().send(Submit("#!/bin/sh\n", {}, "headway-nobody-at-all"))
