"""Live, too, smaller jobs move out of the way of one that waits for whole nodes (docs/semantics.md, rule 29), and `explain` says when."""

import pytest
from tests.imagined import Virtual, Work

from headway.live.ask.explain import explain

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


def test_a_small_job_moves_after_an_hour() -> None:
    # When job 1 ends, jobs 2 and 3 hold a GPU of each node.
    works = [Work(0.0, SMALL, 5.0), *(Work(0.0, SMALL, 5 * HOUR, save_s=7.0) for _ in range(2)), Work(6.0, LARGE, 60.0)]
    world = Asked(works, "2x2", "tiresias-l?threshold=1000000&clears=1h")
    world.run()
    assert not world.trouble
    assert world.times("Resize", 2) == [6.0 + HOUR]
    assert world.times("Start", 4) == world.times("Start", 2)[1:] == [6.0 + HOUR + 7.0]
    assert world.times("Stop", 3) == []
    assert any("smaller jobs may be moved out of its way" in words for words in world.said[0])


def test_nobody_moves_unless_the_policy_says_so() -> None:
    works = [Work(0.0, SMALL, 5.0), *(Work(0.0, SMALL, 3 * HOUR) for _ in range(2)), Work(6.0, LARGE, 60.0)]
    world = Asked(works, "2x2", "tiresias-l?threshold=1000000")
    world.run()
    assert world.times("Start", 4) == [3 * HOUR]
