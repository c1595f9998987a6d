"""Nodes that differ, and jobs that ask for some of them: no job is on a node that does not suit it, and every job that can run ends."""

import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headway.cluster.demands import Demand, check_possible, demand_of, demands_of, gpus_of, suiting
from headway.cluster.nodes import Cluster
from headway.core.events import PACK, START
from headway.errors import BadInput
from headway.job_state import JobState
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Run, Setting, simulate_run
from headway.workloads.workload import Workload, workload

LONG = bool(os.environ.get("HEADWAY_LONG"))
CASES = settings(
    max_examples=2000 if LONG else 80,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, *((Phase.shrink,) if LONG else ())),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
POLICIES = st.sampled_from(
    [
        *("fifo", "best-effort", "headway", "srtf", "gittins", "backfill?limit=2000"),
        *("tiresias-l?threshold=100&queues=3", "2d-las?quantum=60", "gandiva?quantum=60"),
    ]
)
PLACEMENTS = st.sampled_from(["consolidated", "consolidated?strict=no", "spread", "random", "profile"])
TYPES, FEATURES = ("", "a100", "v100"), ("ib", "roce", "big")


def has(where: Cluster, node: int, demand: Demand) -> bool:
    """Whether a node has what is asked for, by the words alone."""
    types, features = where.kinds
    words = {*features[node], types[node]}
    return demand.gpu_type in ("", types[node]) and all(words & set(one.split("|")) for one in demand.constraints)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to six nodes, each with what it has."""
    n = draw(st.integers(1, 6))
    gpus = draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=n, max_size=n))
    features = draw(st.lists(st.lists(st.sampled_from(FEATURES), unique=True, max_size=3), min_size=n, max_size=n))
    names = tuple(f"n{i}" for i in range(n))
    return Cluster("drawn", names, tuple(gpus), types=tuple(types), features=tuple(map(tuple, features)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Cluster, Workload, list[Demand]]:
    """Up to thirty jobs that could all run, many of which ask for something."""
    where = draw(clusters())
    constraint = st.sampled_from([*FEATURES, "ib|roce", "a100|big"])
    asked = st.builds(demand_of, st.sampled_from(TYPES), st.lists(constraint, max_size=2))
    possible = asked.filter(lambda demand: gpus_of(where, demand) > 0)
    demands = draw(st.lists(possible, min_size=1, max_size=30))
    gpus = [draw(st.integers(1, gpus_of(where, demand))) for demand in demands]
    n = len(demands)
    for i in range(n):
        if draw(st.booleans()):
            sizes = np.array(where.gpus)[suiting(where, demands[i])]
            each = draw(st.integers(1, int(sizes.max())))
            nodes = draw(st.integers(1, int((sizes >= each).sum())))
            gpus[i] = nodes * each
            demands[i] = demand_of(demands[i].gpu_type, demands[i].constraints, gpus[i], nodes)
    submit = sorted(draw(st.lists(st.integers(0, 300).map(float), min_size=n, max_size=n)))
    length = draw(st.lists(st.sampled_from([1.0, 30.0, 200.0, 1500.0]), min_size=n, max_size=n))
    return where, workload("drawn", submit, gpus, length, limit_s=[x * 1.2 for x in length]), demands


def places_of_starts(run: Run) -> list[tuple[int, dict[int, int]]]:
    """Return for every start the job and its GPUs by node."""
    node_of = np.repeat(np.arange(len(run.cluster.nodes)), run.cluster.gpus)
    rows = run.entries[np.isin(run.entries["kind"], (START, PACK))]
    seats = [run.seats[row["seat_at"] : row["seat_at"] + row["gpus"]] % run.cluster.total for row in rows]
    return [(int(row["job"]), Counter(node_of[gpus].tolist())) for row, gpus in zip(rows, seats, strict=True)]


def nodes_of_starts(run: Run) -> list[tuple[int, set[int]]]:
    """Return for every start the job and its nodes."""
    return [(job, set(place)) for job, place in places_of_starts(run)]


@CASES
@given(case=cases(), policy=POLICIES, placement=PLACEMENTS, cost=st.sampled_from([0.0, 20.0]))
def test_jobs_run_where_they_may_and_all_end(case, policy, placement, cost):
    where, jobs, demands = case
    note(f"{where} {policy} {placement} {cost}")
    setting = Setting(preemption_cost=cost, demands=demands_of(where, demands))
    run = simulate_run(jobs, where, find_policy(policy), find_placement(placement), setting, keep_journal=True)
    assert (run.jobs["state"] == JobState.COMPLETED).all()
    for job, place in places_of_starts(run):
        assert all(has(where, node, demands[job]) for node in place), (job, demands[job], place)
        each = demands[job].gpus_per_node
        assert not each or set(place.values()) == {each}, (job, demands[job], place)


@CASES
@given(where=clusters(), gpu_type=st.sampled_from(["", "a100", "V100", "h100"]), data=st.data())
def test_what_no_nodes_suit_is_refused_and_only_that(where, gpu_type, data):
    words = data.draw(st.lists(st.sampled_from([*FEATURES, "a100", "ib|roce", "none"]), max_size=3))
    demand, gpus = demand_of(gpu_type, words), data.draw(st.integers(1, 20))
    by_words = [has(where, node, demand) for node in range(len(where.nodes))]
    assert suiting(where, demand).tolist() == by_words
    if sum(each for each, suits in zip(where.gpus, by_words, strict=True) if suits) >= gpus:
        check_possible(where, demand, gpus)
    elif demand:
        with pytest.raises(BadInput):
            check_possible(where, demand, gpus)


def run_of(where: Cluster, jobs: list[tuple[float, int, float, str]], policy: str) -> Run:
    """Jobs of (submitted, GPUs, seconds, type)."""
    load = workload("jobs", *([job[i] for job in jobs] for i in range(3)))
    setting = Setting(demands=demands_of(where, [demand_of(job[3], ()) for job in jobs]))
    return simulate_run(load, where, find_policy(policy), find_placement("consolidated"), setting, keep_journal=True)


TWO = Cluster("two", ("a", "v"), (4, 8), types=("a100", "v100"))


def test_the_fewest_nodes_are_those_that_suit():
    """Eight GPUs fit on one node, but not on one with a100: a strict placement takes two of these and does not wait for ever."""
    where = Cluster("three", ("a", "b", "v"), (4, 4, 8), types=("a100", "a100", "v100"))
    run = run_of(where, [(0.0, 8, 10.0, "a100"), (0.0, 8, 10.0, "")], "best-effort")
    assert nodes_of_starts(run) == [(0, {0, 1}), (1, {2})]
    assert run.jobs["end"].tolist() == [10.0, 10.0]


def test_fifo_blocks_jobs_of_other_kinds_of_nodes_too():
    """A job without a place blocks all jobs behind it, whatever nodes they are eligible for (rule 7)."""
    jobs = [
        (0.0, 4, 100.0, "a100"),
        (1.0, 4, 10.0, "a100"),
        (2.0, 4, 10.0, "v100"),
        (3.0, 4, 10.0, ""),
        (4.0, 2, 10.0, "v100"),
    ]
    run = run_of(TWO, jobs, "fifo")
    # The second waits until 100 s for its node. The next two then fit on the other node and fill it until 110 s.
    assert run.jobs["first"].tolist() == [0.0, 100.0, 100.0, 100.0, 110.0]


def test_only_jobs_on_nodes_that_suit_are_stopped():
    jobs = [(0.0, 8, 1000.0, "v100"), (0.0, 4, 1000.0, "a100"), (500.0, 4, 10.0, "a100")]
    run = run_of(TWO, jobs, "tiresias-l?threshold=100")
    assert run.jobs["preemptions"].tolist() == [0, 1, 0]
    assert run.jobs["first"][2] == 500.0
