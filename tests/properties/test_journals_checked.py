"""The journal of every policy, checked entry by entry (tests/journal_checker.py): random workloads, samples of real traces, and damage."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.journal_victims import check_journal

from headway.cluster.nodes import of_groups
from headway.core.events import MIGRATE, PACK, PROMISE, RESIZE, START, STOP, STOPPED
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.api import simulate
from headway.sim.models.profiles import PROFILES
from headway.sim.run import Run, Setting, simulate_run
from headway.workloads.workload import Workload, workload

LONG = bool(os.environ.get("HEADWAY_LONG"))
DRAW = (Phase.explicit, Phase.reuse, Phase.generate)
CASES = settings(
    max_examples=500 if LONG else 12,
    phases=(*DRAW, Phase.shrink) if LONG else DRAW,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
POLICIES = (
    "fifo",
    "best-effort",
    "backfill",
    "backfill?limit=40",
    "sjf",
    "srtf",
    "srsf?quantum=20",
    "srsf?defragment_after=5s",
    "headway?defragment_after=60s",
    "las?quantum=20",
    "2d-las?quantum=60",
    "tiresias-l?threshold=100&queues=3&promote=1",
    "tiresias-l?threshold=100&quantum=20",
    "gittins?quantum=20",
    "tiresias-g?threshold=100&promote=2",
    "gandiva?quantum=20",
    "optimus?quantum=60",
)
PREEMPTIVE = (
    "srtf",
    "srsf",
    "las",
    "2d-las",
    "tiresias-l?threshold=3200",
    "gittins",
    "tiresias-g",
    "gandiva",
    "optimus",
)
PLACEMENTS = st.sampled_from(["consolidated", "consolidated?strict=no", "spread", "profile"])
SETTINGS = st.builds(
    Setting,
    preemption_cost=st.sampled_from([0.0, 30.0, 0.5, None]),
    slowdown=st.booleans(),
    min_runtime=st.sampled_from([0.0, 10.0, None, None]),
    seed=st.integers(0, 9),
)
TIMES = st.one_of(st.integers(1, 30), st.integers(1, 400), st.floats(0.01, 300.0))


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Workload]:
    """A few nodes that need not be alike, and up to thirty jobs that fit on them; some have limits, some must not be stopped."""
    nodes = tuple(draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4)))
    n = draw(st.integers(1, 30))

    def column(values: st.SearchStrategy) -> list:
        return draw(st.lists(values, min_size=n, max_size=n))

    return nodes, workload(
        "drawn",
        column(st.one_of(st.just(0), st.integers(0, 300))),
        column(st.one_of(st.integers(1, sum(nodes)), st.just(1))),
        column(TIMES),
        model=column(st.sampled_from(["", *PROFILES])),
        preemptible=column(st.sampled_from([True, True, True, True, False])),
        limit_s=column(st.sampled_from([np.inf, np.inf, 20.0, 200.0])),
    )


@pytest.mark.parametrize("policy", POLICIES)
@CASES
@given(case=cases(), placement=PLACEMENTS, setting=SETTINGS)
def test_the_journal_of_any_workload(policy, case, placement, setting):
    nodes, jobs = case
    note(f"{nodes} {policy} {placement} {setting}")
    columns = (jobs.submit_s, jobs.gpus, jobs.duration_s, jobs.limit_s, jobs.preemptible, jobs.model)
    note("\n".join(map(str, zip(*(column.tolist() for column in columns), strict=True))))
    cluster = of_groups("drawn", [(1, gpus) for gpus in nodes])
    check_journal(
        simulate_run(jobs, cluster, find_policy(policy), find_placement(placement), setting, keep_journal=True)
    )


@pytest.mark.parametrize("policy", PREEMPTIVE)
@pytest.mark.parametrize(("trace", "cluster"), [("philly_82k", "6x8"), ("helios_venus_125k", "4x8")])
def test_the_journal_of_a_sample_of_a_trace(traces, trace, cluster, policy, rounds):
    result = simulate(
        str(traces / f"{trace}.csv.gz"),
        cluster,
        policy if policy != "las" else "las?quantum=600",
        sample=rounds("150", "600"),
        load=1.1,
        skip_impossible=True,
        keep_journal=True,
    )
    tally = check_journal(result.run)
    assert tally["Started"] >= len(result.run.workload)


def busy(policy: str, apart: int = 30, **given) -> Run:
    """A run with many stops; of jobs that come at most so many seconds apart."""
    random = np.random.default_rng(3)
    n = 40
    jobs = workload(
        "busy",
        np.cumsum(random.integers(0, apart, n)),
        random.choice([1, 2, 4, 8], n),
        random.integers(30, 900, n),
        preemptible=random.random(n) < 0.9,
    )
    return simulate(jobs, "4x4", policy, keep_journal=True, **given).run


def test_who_is_stopped_is_worked_out_again_for_many():
    for policy in ("srtf", "srsf", "las", "2d-las", "tiresias-l?threshold=500&promote=2"):
        tally = check_journal(busy(policy, preemption_cost="none"))
        assert tally["victims worked out"] >= 0.5 * tally["Stop"] / 4 >= 1, (policy, tally)


def test_moves_are_worked_out_again():
    tally = check_journal(busy("srsf?defragment_after=1m", preemption_cost="10s"))
    assert tally["moves worked out"] >= 3, tally


def damaged(run: Run, how: str) -> Run:
    """The run with one entry of its journal made wrong."""
    entries, seats, places = run.entries.copy(), run.seats.copy(), run.journal.places.copy()
    kinds = entries["kind"]
    stops = np.flatnonzero(kinds == STOP)
    if how == "a GPU held twice":
        starts = np.flatnonzero(kinds == START)
        seats[entries["seat_at"][starts[1]]] = seats[entries["seat_at"][starts[0]]]
    elif how == "one GPU too few":
        entries["gpus"][np.flatnonzero((kinds == START) & (entries["gpus"] > 1))[0]] -= 1
    elif how == "a Stop too late for its moment":
        at = stops[0]
        entries["time"][at:] += 0.5
    elif how == "the wrong job stopped":
        entries["job"][stops[0]] = next(j for j in entries["job"][kinds == START] if j != entries["job"][stops[0]])
    elif how == "a Stopped without a Stop":
        entries["kind"][stops[0]] = STOPPED
    elif how == "a promise of too many GPUs":
        row = np.flatnonzero(kinds == PROMISE)[0]
        places["gpus"][entries["place_at"][row]] += 1
    return replace(run, journal=run.journal._replace(entries=entries, seats=seats, places=places))


@pytest.mark.parametrize(
    "how",
    [
        "a GPU held twice",
        "one GPU too few",
        "a Stop too late for its moment",
        "the wrong job stopped",
        "a Stopped without a Stop",
        "a promise of too many GPUs",
    ],
)
def test_damage_is_seen(how):
    run = busy("srtf", preemption_cost="30s")
    check_journal(run)
    with pytest.raises(AssertionError):
        check_journal(damaged(run, how))


def test_turns_and_orders_that_are_not_kept_are_seen():
    run = busy("gittins", preemption_cost="30s")
    check_journal(run)
    longer = run.jobs.copy()
    longer["turns"] *= 3
    with pytest.raises(AssertionError, match="its minimum run time lasts"):
        check_journal(replace(run, jobs=longer))
    run = busy("tiresias-l?threshold=500", preemption_cost="30s")
    with pytest.raises(AssertionError, match=r"comes before it|would do"):
        check_journal(replace(run, policy=replace(run.policy, name="srsf")))


def test_every_kind_of_action_is_met():
    kinds = {int(kind) for policy in ("srtf", "gandiva", "optimus?quantum=60") for kind in busy(policy).entries["kind"]}
    assert {STOP, START, PROMISE, MIGRATE, RESIZE, PACK} <= kinds
