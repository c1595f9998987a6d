"""Live, too, smaller jobs migrate to free whole nodes for a job that waits, and `explain` says when."""

import pytest
from tests.imagined import Virtual, Work

from headway.live.queries.explain.explain import explain

pytestmark = pytest.mark.xdist_group("live")
SMALL = {"preemptible": True}
LARGE = {"resources": {"accelerators": 2}}
HOUR = 3600.0


class Asked(Virtual):
    """Asks why job 4 waits, before and after the hour."""

    said: tuple[list[str], list[str]] = ([], [])

    def look(self) -> None:
        job = self.state.jobs.get(4)
        if job and job.known and self.state.shown_state(job).name == "PENDING":
            self.said[self.time >= 6.0 + HOUR].extend(explain(self.state, job, self.time).would_change)


def test_a_small_job_migrates_after_an_hour() -> None:
    # When job 1 ends, jobs 2 and 3 hold a GPU of each node.
    works = [Work(0.0, SMALL, 5.0), *(Work(0.0, SMALL, 5 * HOUR, save_s=7.0) for _ in range(2)), Work(6.0, LARGE, 60.0)]
    world = Asked(works, "2x2", "tiresias-l?threshold=1000000&defragment_after=1h")
    world.run()
    assert not world.trouble
    assert world.times("Migrate", 3) == [6.0 + HOUR]  # the last in the order
    assert world.times("Start", 4) == world.times("Start", 3)[1:] == [6.0 + HOUR + 7.0]
    assert world.times("Stop", 2) == world.times("Migrate", 2) == []
    assert world.state.jobs[3].preemptions == 0  # a migration is none
    assert any("smaller jobs may migrate to make room for it" in words for words in world.said[0])


def test_nobody_moves_unless_the_policy_says_so() -> None:
    works = [Work(0.0, SMALL, 5.0), *(Work(0.0, SMALL, 3 * HOUR) for _ in range(2)), Work(6.0, LARGE, 60.0)]
    world = Asked(works, "2x2", "tiresias-l?threshold=1000000")
    world.run()
    assert world.times("Start", 4) == [3 * HOUR]
