"""What the end of an attempt is, from the files that its ranks left and from what Slurm says: no rank, no good end."""

import json
import time
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from headway.live.executors.slurm.attempt import Attempt, PartRun, read_attempt
from headway.live.executors.slurm.executor import SlurmExecutor
from headway.live.executors.slurm.render import SlurmSite, comment_of
from headway.live.executors.slurm.states import LINGER_S, OVER_STATES, PartState, Sight, Slurm
from headway.slurm.answers import Unreadable
from headway.slurm.requests import Cancel, NoAnswer, Rejected, Request, Submit
from headway.slurm.snapshot import SlurmJob, SlurmSnapshot


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """One part, submitted as Slurm's job 7, over for a while."""
    (tmp_path / "own").mkdir()
    return Attempt(1, 1, tmp_path, [PartRun(PartState.ENDING, slurm=7, seen=SlurmJob(7, "COMPLETED"))])


def files(attempt: Attempt, **given: str) -> None:
    for name, text in given.items():
        (attempt.own / name.replace("_", ".")).write_text(text)


def over(attempt: Attempt, now: float) -> bool:
    """Return whether the part is over after a look into its folder."""
    (part,) = attempt.parts
    SlurmExecutor(attempt.folder)._step(attempt, part, attempt.look(0, now))
    return part.state in OVER_STATES


def test_a_good_end_needs_the_word_of_the_ranks(attempt: Attempt) -> None:
    files(attempt, claim_0="7\n", go="", done_0="0 0 1\n")
    assert over(attempt, 0.0)
    assert (attempt.report().exit_code, attempt.report().lost) == (0, False)


def test_slurms_good_word_alone_is_not_enough(attempt: Attempt) -> None:
    """It may be about a job that found the part claimed, or that never came to its ranks."""
    assert over(attempt, 0.0)  # nobody has claimed it, and now nobody can
    report = attempt.report()
    assert (report.lost, report.never_ran, report.exit_code) == (True, True, None)
    assert attempt.claimed(0) == "revoked"


def test_a_part_that_another_slurm_job_runs_is_not_over(attempt: Attempt) -> None:
    files(attempt, claim_0="6\n", go="")
    assert not over(attempt, LINGER_S / 2)
    assert over(attempt, LINGER_S)
    report = attempt.report()
    assert (report.lost, report.never_ran) == (True, False)


def test_srun_that_ends_before_the_ranks_are_up_is_no_end(attempt: Attempt) -> None:
    files(attempt, claim_0="7\n", done_0="0 0 0\n")
    (attempt.folder / "slurm.0.log").write_text("srun: error: Unable to confirm allocation\n\n")
    assert over(attempt, 0.0)
    report = attempt.report()
    assert (report.lost, report.never_ran, report.refused) == (True, True, True)
    assert "Unable to confirm allocation" in report.message


def test_a_bad_end_waits_for_slurms_verdict(attempt: Attempt) -> None:
    files(attempt, claim_0="7\n", go="", done_0="143 0 1\n", bad="143\n")
    part = attempt.parts[0]
    part.state, part.seen = PartState.RUNNING, SlurmJob(7, "NODE_FAIL")
    assert not over(attempt, 1.0)
    assert not over(attempt, part.since + LINGER_S / 2)
    SlurmExecutor(attempt.folder)._step(attempt, part, Sight(Slurm.ENDED))
    assert part.state is PartState.OVER
    assert (attempt.report().lost, attempt.report().message) == (True, "a node that it ran on went down")
    part.seen = SlurmJob(7, "FAILED", exit_code=143)
    assert (attempt.report().lost, attempt.report().exit_code) == (False, 143)


def test_who_forbids_first_wins(attempt: Attempt) -> None:
    assert attempt.forbid(0)
    assert attempt.forbid(0)
    files(attempt, claim_1="8\n")
    assert not attempt.forbid(1)
    assert read_attempt(attempt.folder, 1, 1) is None  # nothing was submitted


def test_the_shorter_grace_counts_also_for_the_next_manager(attempt: Attempt) -> None:
    attempt.ask_to_stop("SIGTERM", 5.0)
    assert attempt.stop is not None
    until = attempt.stop.until
    attempt.ask_to_stop("SIGTERM", 50.0)
    assert attempt.stop.until == until
    again = Attempt(1, 1, attempt.folder, [PartRun()])
    again.ask_to_stop("SIGTERM", 50.0)
    assert again.stop is not None
    assert again.stop.until == until


class Twice:
    """A Slurm that has two jobs for one part, and notes what is cancelled."""

    def __init__(self, *jobs: SlurmJob) -> None:
        self.jobs, self.sent = {job.id: job for job in jobs}, list[Request]()

    def poll(self) -> SlurmSnapshot:
        """Both."""
        return SlurmSnapshot(self.jobs, ())

    def send(self, request: Request) -> str:
        """Only noted."""
        self.sent.append(request)
        return ""


def test_of_two_slurm_jobs_for_a_part_the_one_that_claimed_it_stays(attempt: Attempt, tmp_path: Path) -> None:
    files(attempt, claim_0="8\n", go="")
    executor = SlurmExecutor(tmp_path)
    executor._site = SlurmSite("ab", {}, {})
    comment = comment_of("ab", 1, 1, 0)
    door = Twice(SlurmJob(7, "PENDING", comment), SlurmJob(8, "RUNNING", comment), SlurmJob(9, "RUNNING", "not ours"))
    executor.door = door  # type: ignore[assignment]
    executor._attempts[1, 1] = attempt
    executor._poll()
    assert door.sent == [Cancel((7,))]
    part = attempt.parts[0]
    assert (part.slurm, part.state) == (8, PartState.RUNNING)
    assert not over(attempt, part.since + LINGER_S)


def test_a_job_of_a_lost_journal_is_not_the_attempt_that_has_its_number_now(attempt: Attempt, tmp_path: Path) -> None:
    """Slurm still knows job 7 under the same comment: the end of that is not the end of an attempt that was not submitted."""
    executor = SlurmExecutor(tmp_path)
    executor._site = SlurmSite("ab", {}, {})

    class Accepts(Twice):
        def send(self, request: Request) -> str:
            super().send(request)
            return "8"

    executor.door = door = Accepts(SlurmJob(7, "FAILED", comment_of("ab", 1, 1, 0)))  # type: ignore[assignment]
    new = Submit("#!/bin/sh", {})
    attempt.parts = [PartRun(submit=new)]
    executor._attempts[1, 1] = attempt
    executor._poll()
    assert door.sent == [new]
    assert (attempt.parts[0].state, attempt.parts[0].slurm) == (PartState.QUEUED, 8)


def test_an_attempt_that_was_given_up_is_cancelled_when_it_turns_up(tmp_path: Path) -> None:
    executor = SlurmExecutor(tmp_path)
    executor._site = SlurmSite("ab", {}, {})
    comment = comment_of("ab", 5, 2, 0)
    executor.folder(5, 2).mkdir(parents=True)
    (executor.folder(5, 2) / "launch.json").write_text('{"parts": 1, "nodes": ["n0"], "port": 1}')
    executor.door = door = Twice(SlurmJob(7, "PENDING", comment))  # type: ignore[assignment]
    executor._poll()
    assert door.sent == []  # an earlier manager's, perhaps: it is adopted, or it finds its claim made
    executor._over.add((5, 2))
    executor._poll()
    assert door.sent == [Cancel((7,))]


@pytest.mark.parametrize("error", [NoAnswer("gone"), Rejected("not now"), Unreadable("half a line")])
def test_after_a_failure_slurm_is_asked_again_as_soon_as_the_outage_allows(tmp_path: Path, error: Exception) -> None:
    """A poll that waited long for slurmctld put off the next one by ten times as long, and a submission in doubt with it."""
    executor = SlurmExecutor(tmp_path)
    executor._poll_at = time.monotonic() + 300.0

    def fail() -> None:
        raise error

    assert executor._try(fail) is False
    assert executor._poll_at == executor.outage.again_at < time.monotonic() + 30.0


def test_what_slurm_does_not_start_is_taken_back_also_by_the_next_manager(tmp_path: Path) -> None:
    """Headway died after it had submitted; the GPUs it counted on are not there (another's job, or lost by Slurm)."""
    executor = SlurmExecutor(tmp_path)
    executor._site, executor.patience_s = SlurmSite("ab", {}, {}), PATIENCE_S
    executor.door = door = Twice(SlurmJob(7, "PENDING", comment_of("ab", 1, 1, 0), reason="Resources"))  # type: ignore[assignment]
    folder = executor.folder(1, 1)
    (folder / "own").mkdir(parents=True)
    (folder / "launch.json").write_text('{"parts": 1, "nodes": ["n0"], "port": 1}')
    executor.adopt(1, 1)
    executor._poll()
    assert door.sent == []  # Slurm is given its time again
    executor.patience_s = 0.0
    executor._poll()
    assert door.sent == [Cancel((7,))]
    door.jobs = {7: SlurmJob(7, "CANCELLED", comment_of("ab", 1, 1, 0), reason="Resources")}
    executor._poll()
    executor._look(executor._attempts[1, 1])
    (report,) = executor.reports()
    assert (report.lost, report.never_ran, report.refused) == (True, True, True)
    assert "Slurm did not start it: Resources" in report.message
    assert executor._narrow.shut_nodes(time.monotonic()) == {"n0"}, "the next attempt would be sent there again"
    assert "than is free on n0" in executor.remarks()[0]


def test_a_notice_is_written_to_the_folder_that_the_nodes_share(tmp_path: Path) -> None:
    executor = SlurmExecutor(tmp_path)
    folder = executor.folder(1, 1)
    folder.mkdir(parents=True)
    executor.notify(1, 1, 5000.0)
    assert json.loads((folder / "notice.json").read_text()) == {"until": 5000.0}
    for _ in range(2):
        executor.notify(1, 1, None)
        assert not (folder / "notice.json").exists()
    executor.notify(2, 1, 5000.0)  # no such attempt
