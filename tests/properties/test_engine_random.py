"""Any cluster, workload, policy, placement and cost: every job that fits ends, no seat is held twice, and no service is lost.

Hypothesis draws the cases and prints the one that fails, with the code that draws it again (under HEADWAY_LONG=1 as small as it can).
"""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headway.cluster.nodes import Cluster, of_groups
from headway.core.events import ENDED, RESIZE, STARTED, STOP, SUBMITTED
from headway.job_state import JobState
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.models.profiles import PROFILES
from headway.sim.run import Run, Setting, simulate_run
from headway.workloads.workload import Workload, workload

LONG = bool(os.environ.get("HEADWAY_LONG"))
DRAW = (Phase.explicit, Phase.reuse, Phase.generate)
CASES = settings(
    max_examples=3000 if LONG else 60,
    phases=(*DRAW, Phase.shrink) if LONG else DRAW,  # making a failing case smaller takes minutes
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

POLICIES = st.one_of(
    st.sampled_from(["fifo", "best-effort", "sjf", "srtf", "srsf", "optimus"]),
    st.builds(
        "{}?quantum={}".format,
        st.sampled_from(["las", "2d-las", "gittins", "gandiva", "srtf"]),
        st.sampled_from([7, 60, 1000]),
    ),
    st.builds(
        "{}?{}&promote={}".format,
        st.sampled_from(["tiresias-l", "tiresias-g"]),
        st.one_of(
            st.just("queues=1"),
            st.builds("threshold={}&queues={}".format, st.sampled_from([1, 100, 3200]), st.integers(2, 4)),
        ),
        st.sampled_from(["inf", "8", "1", "0.5"]),
    ),
)
PLACEMENTS = st.sampled_from(
    ["consolidated", "consolidated?strict=no", "spread", "random", "profile", "profile?packlimit=0.05&strict=no"]
)
SETTINGS = st.builds(
    Setting,
    preemption_cost=st.sampled_from([0.0, 30.0, 0.5, None]),
    slowdown=st.booleans(),
    min_runtime=st.sampled_from([0.0, 10.0, 600.0]),
    seed=st.integers(0, 9),
)
# Whole seconds tie often; others land between; a job may take no longer than a moment.
TIMES = st.one_of(
    st.integers(0, 30), st.sampled_from([0.0, 0.001, 59.999, 60.0, 600.0, 3600.0]), st.floats(0.01, 5000.0)
)
LENGTHS = TIMES.filter(lambda time: time > 0)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to seven nodes that need not be alike."""
    groups = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8)), min_size=1, max_size=3))
    return of_groups("drawn", groups)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Cluster, Workload]:
    """A cluster and up to forty jobs that fit on it, some as large as all of it; perhaps all at time 0."""
    where = draw(clusters())
    n = draw(st.integers(1, 40))
    together = draw(st.booleans())
    submit = [0.0] * n if together else draw(st.lists(TIMES, min_size=n, max_size=n))
    sizes = st.one_of(st.integers(1, where.total), st.just(1), st.just(where.total))
    gpus = draw(st.lists(sizes, min_size=n, max_size=n))
    length = draw(st.lists(LENGTHS, min_size=n, max_size=n))
    model = draw(st.lists(st.sampled_from(["", *PROFILES]), min_size=n, max_size=n))
    return where, workload("drawn", submit, gpus, length, model=model)


def run_of(case: tuple[Cluster, Workload], policy: str, placement: str, setting: Setting) -> Run:
    """Run a drawn case with its journal."""
    where, jobs = case
    note(f"{where.gpus} {policy} {placement} {setting}")
    note(
        f"submit {jobs.submit_s.tolist()} gpus {jobs.gpus.tolist()} duration {jobs.duration_s.tolist()} {jobs.model.tolist()}"
    )
    return simulate_run(jobs, where, find_policy(policy), find_placement(placement), setting, keep_journal=True)


@CASES
@given(case=cases(), policy=POLICIES, placement=PLACEMENTS, setting=SETTINGS)
def test_every_job_ends_and_no_seat_is_held_twice(check_seats, case, policy, placement, setting):
    run = run_of(case, policy, placement, setting)
    check_seats(run)
    assert (run.jobs["state"] == JobState.COMPLETED).all()
    assert (run.jobs["end"] >= run.jobs["submit"]).all()
    assert (np.diff(run.entries["time"]) >= 0).all(), "the journal goes back in time"
    for kind in (SUBMITTED, ENDED):
        assert np.array_equal(np.sort(run.entries["job"][run.entries["kind"] == kind]), np.arange(len(run.jobs)))
    check_service(run)


def check_service(run: Run) -> None:
    """What jobs were given is what they asked for, and what the cluster gave; time is waited, run, or lost to stopping."""
    jobs, asked = run.jobs, run.workload.duration_s * run.workload.gpus
    running: dict[int, tuple[float, int]] = {}
    service = np.zeros(len(jobs))
    for row in run.entries:
        kind, j = int(row["kind"]), int(row["job"])
        if kind == STARTED:
            running[j] = (row["time"], row["gpus"])
        elif kind in (STOP, RESIZE, ENDED) and j in running:
            since, gpus = running.pop(j)
            service[j] += (row["time"] - since) * gpus
    assert jobs["total"] == pytest.approx(service, rel=1e-6, abs=1e-6), "the journal and the job table disagree"
    assert service.sum() <= run.held_gpu_s * (1 + 1e-9) + 1e-6 or run.policy.packs
    if run.policy.allot or run.policy.packs:
        return
    if run.setting.slowdown:
        # After months, a clock of 64 bits ticks in nanoseconds: a job of a millisecond may lose a millionth of itself.
        least = asked * (1 - 1e-6) - 1e-6 * run.workload.gpus
        assert (jobs["total"] >= least).all(), "a job ended before its work was done"
    else:
        assert jobs["total"] == pytest.approx(asked, rel=1e-6, abs=1e-6)


@CASES
@given(case=cases(), policy=POLICIES, placement=PLACEMENTS, setting=SETTINGS)
def test_the_same_seed_gives_the_same_journal(case, policy, placement, setting):
    one, two = (run_of(case, policy, placement, setting) for _ in range(2))
    assert one.entries.tobytes() == two.entries.tobytes()
    assert one.seats.tobytes() == two.seats.tobytes()


@CASES
@given(case=cases(), setting=SETTINGS)
def test_first_come_first_served_starts_in_order_and_never_stops_anyone(case, setting):
    run = run_of(case, "fifo", "spread", setting)
    assert (np.diff(run.jobs["first"]) >= 0).all()
    assert run.jobs["preemptions"].sum() == 0
    assert run.preemption_cost_s == 0
