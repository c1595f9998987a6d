"""A dry run of a job that follows others: it starts when those have ended, not before."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.imagined import Virtual, Work
from tests.unit.operate.conftest import ME, Served

from headway.live.jobfile.spec import job_spec
from headway.live.queries.forecast import DryRun, Forecast

pytestmark = pytest.mark.xdist_group("live")


def told_and_real(after: list[Any], **given: Any) -> tuple[DryRun, float]:
    """What a dry run says of a job that follows others on an otherwise empty cluster, and when it starts."""
    reports = {"reports": True, "step_s": 1.0}
    works = [
        Work(0.0, {"name": "a"}, 50.0),
        Work(100.0, {"name": "a"}, 200.0, **reports),
        Work(100.0, {"name": "b", "after": ["any:2"]}, 40.0),
        Work(150.0, {"name": "a", "after": after, **given}, 10.0),
    ]
    world, asked = Virtual(works, "1x8", "best-effort"), list[DryRun]()

    def look() -> None:
        if not asked and world.time >= 149.0 and world.arrived == 3:
            spec = job_spec({"run": "true", **works[-1].spec})
            asked.append(Forecast(world.state, spec, world.time, "me").run())

    world.look = look  # type: ignore[method-assign]
    world.run()
    assert not world.trouble, world.trouble
    starts = world.times("Start", 4)
    return asked[0], starts[0] - 149.0 if starts else -1.0


@pytest.mark.parametrize("after", [[2], ["any:2"], ["any:2", "ok:1"], ["singleton"]])
def test_it_starts_when_the_others_have_ended(after: list[Any]) -> None:
    told, real = told_and_real(after)
    assert not told.starts_now
    assert told.starts_in_s == pytest.approx(real, rel=0.05)
    assert "job 2, which it follows" in told.message


def test_a_chain_is_followed_to_its_end() -> None:
    told, real = told_and_real(["any:3"])
    assert real == pytest.approx(191.0, abs=1.0)
    assert told.starts_in_s is not None
    assert 150.0 < told.starts_in_s < 260.0  # how long job 3 will run is a guess
    assert "job 3, which it follows" in told.message


def test_what_has_ended_is_not_waited_for() -> None:
    told, _ = told_and_real([1])
    assert told.starts_now


def test_what_can_never_start_is_said(serve: Callable[..., Served]) -> None:
    served = serve()
    failed = served.submit(run="false")
    served.until(failed)
    told = served.manager.dry_run(job_spec({"run": "true", "after": [failed]}), ME)
    assert (told.starts_now, told.starts_in_s) == (False, None)
    assert told.message == "would be cancelled at once: job 1, which it was to follow, ended as FAILED"
    assert (
        served.manager.dry_run(job_spec({"run": "true", "hold": True}), ME).message == "would wait until it is released"
    )
