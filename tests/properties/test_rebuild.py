"""The journal is the truth: a state rebuilt from it equals the state that wrote it, and deciding changes nothing."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headway.cluster.nodes import of_groups
from headway.cluster.queues import Booking, Queue, QueueLimits, Queues
from headway.core.engine import Engine, drive
from headway.core.events import DEFERRED, DISCONNECTED, EXPLAINED, RATED, STOP
from headway.core.receipts import record_why
from headway.core.record import record, record_action, record_links, record_rate, record_retry
from headway.core.tables.actions import actions
from headway.core.tables.journal import journal
from headway.iteration.plans import BEST, NO_PLAN
from headway.network.fabric.model import Fabric
from headway.placement.registry import find_placement
from headway.policies import MODULES as POLICIES
from headway.policies.registry import find_policy
from headway.sim.models.network import NetworkModel
from headway.sim.models.profiles import PROFILES
from headway.sim.run import Setting, prepare
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import workload

sys.path.append(str(Path(__file__).parents[2] / "examples"))  # a policy that keeps numbers by group
LONG = bool(os.environ.get("HEADWAY_LONG"))
CASES = settings(
    max_examples=200 if LONG else 6,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
FABRIC = Fabric("small", "leaf-spine", (0, 0, 1, 1, 2, 2), 4, 8)
TIMES = st.one_of(st.integers(0, 30), st.floats(0.01, 4000.0))


@st.composite
def workloads(draw: st.DrawFn):
    """Up to thirty jobs for 24 GPUs, some of which can never be preempted."""
    n = draw(st.integers(2, 30))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    return workload(
        "drawn",
        column(TIMES),
        column(st.one_of(st.integers(1, 8), st.just(1), st.just(24))),
        column(TIMES.filter(lambda time: time > 0)),
        model=column(st.sampled_from(["", *PROFILES])),
        user=[f"user{i % 3}" for i in range(n)],
        preemptible=column(st.sampled_from([True, True, True, False])),
    )


SETTINGS = st.builds(
    Setting,
    preemption_cost=st.sampled_from([0.0, 30.0, None]),
    slowdown=st.booleans(),
    min_runtime=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 9),
)


def tables(engine: Engine) -> dict[str, np.ndarray]:
    """Every column of the state and of the history."""
    parts = {**engine.state._asdict(), **{f"history.{k}": v for k, v in engine.options.history._asdict().items()}}
    parts |= {f"promises.{name}": part for name, part in parts.pop("promises")._asdict().items()}
    found = {}
    for name, part in parts.items():
        columns = part.dtype.names
        found |= {f"{name}.{column}": part[column].copy() for column in columns} if columns else {name: part.copy()}
    return found


def assert_same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> None:
    assert one.keys() == two.keys()
    for name, column in one.items():
        assert column.tobytes() == two[name].tobytes(), name


class Stopped(SimulatedWorld):
    """A simulated world that ends in the middle, and sees that deciding twice gives the same and changes nothing."""

    def __init__(self, engine, world, book, rounds: int) -> None:
        super().__init__(engine, world, book)
        self.engine, self.left = engine, rounds

    def wait(self, until: float) -> float | None:
        self.left -= 1
        return None if self.left < 0 else super().wait(until)

    def facts(self, now: float):
        yield from super().facts(now)
        if not self.engine.own_facts(np.inf, now):
            before = tables(self.engine)
            first = self.engine.decide(now)
            assert self.engine.decide(now) == first
            self.engine.wake_at(now)
            assert_same(before, tables(self.engine))


def as_actions(entries: np.ndarray, places: np.ndarray, links: np.ndarray):
    """Kept entries in the form that `record_action` reads: the row of an action is its number among the entries."""
    given = actions(len(entries), 0, 0)
    columns = (("kind", "kind"), ("job", "job"), ("until", "until"), ("seat_at", "place_at"), ("link_at", "link_at"))
    for name, column in columns:
        given.rows[name][:-1] = entries[column]
    given.rows[-1] = (-np.inf, STOP, -1, len(places), len(links))
    return given._replace(seats=places, links=links)


def check(prepared, rounds: int) -> None:
    """Run so many rounds, rebuild from the journal, compare."""
    engine, world = prepared()
    book = journal(engine.state, 1 << 14, True)
    drive(engine, Stopped(engine, world, book, rounds))
    counts = book.counts[0]
    entries = book.rows[: counts["rows"]]
    given = as_actions(entries, book.places[: counts["places"]], book.links[: counts["links"]])
    again, _ = prepared()
    how = (again.state, again.options, again.key, again.change)
    for i, row in enumerate(entries):
        kind, job, now = int(row["kind"]), int(row["job"]), float(row["time"])
        if kind == RATED:
            record_rate(again.state, job, float(row["rate"]), now)
        elif kind == EXPLAINED:
            record_why(again.state, int(row["gpus"]), int(row["level"]), now)
        elif kind == DEFERRED:
            record_retry(again.state, float(row["until"]))
        elif kind == DISCONNECTED:
            failed = given.links[row["link_at"]] if len(again.state.leaves) else {"leaf": int(row["gpus"]), "mask": 0}
            record_links(again.state, int(failed["leaf"]), int(failed["mask"]), now)
        elif kind >= STOP:
            record_action(*how, given, i, now)
        else:
            record(*how, kind, job, now)
    assert_same(tables(engine), tables(again))


@pytest.mark.parametrize("policy", [*POLICIES, "usual:Usual?trust=1"])
@CASES
@given(
    jobs=workloads(),
    placement=st.sampled_from(["consolidated", "consolidated?strict=no", "spread", "random", "profile"]),
    setting=SETTINGS,
    rounds=st.integers(1, 120),
)
def test_a_state_rebuilt_from_its_journal_is_the_same_column_by_column(policy, jobs, placement, setting, rounds):
    where = of_groups("drawn", ((6, 4),))
    check(lambda: prepare(jobs, where, find_policy(policy), find_placement(placement), setting), rounds)


QUEUES = Queues(
    "two",
    (
        Queue("a", guaranteed_gpus=12, per_user=QueueLimits(gpus=8)),
        Queue("b", guaranteed_gpus=6, limits=QueueLimits(running=5)),
    ),
    notice_s=40.0,
    others="b",
    bookings=(Booking(("n001",), "a", 20.0, 900.0, dated=False),),
)


@pytest.mark.parametrize(
    "policy", ["fifo", "best-effort", "headway", "tiresias-l?promote=2&threshold=auto", "2d-las", "gittins"]
)
@CASES
@given(jobs=workloads(), setting=SETTINGS, rounds=st.integers(1, 120), mine=st.lists(st.booleans(), min_size=30))
def test_also_with_queues(policy, jobs, setting, rounds, mine):
    queue = np.where(mine[: len(jobs)], "a", "other")
    most = np.where(queue == "a", 8, 24)
    jobs = replace(jobs, queue=queue, gpus=np.minimum(jobs.gpus, most), preemptible=np.ones(len(jobs), bool))
    where, setting = of_groups("drawn", ((6, 4),)), replace(setting, queues=QUEUES)
    check(lambda: prepare(jobs, where, find_policy(policy), find_placement("spread"), setting), rounds)


FAILED = "?failed=leaf1-spine2+spine0@20+leaf0-spine1@20+leaf2-spine3@300"


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias-l?promote=2", "gittins"])
@pytest.mark.parametrize("network", ["ecmp", "vclos", "joint"])
@CASES
@given(jobs=workloads(), rounds=st.integers(1, 120), failed=st.sampled_from(["", FAILED]))
def test_also_where_links_are_shared_or_reserved_and_fail(policy, network, jobs, rounds, failed):
    jobs = jobs.take(np.isin(jobs.gpus, (1, 2, 3, 4, 6, 8)))
    if not len(jobs):
        return
    rule = {"vclos": "isolated", "joint": "source"}.get(network, network)
    placement = find_placement("spread" if network == "ecmp" else network)
    plan = BEST if network == "joint" else NO_PLAN
    setting = Setting(preemption_cost=30.0, network=NetworkModel(rule + failed, FABRIC), plan=plan)
    where = of_groups("drawn", ((6, 4),))
    check(lambda: prepare(jobs, where, find_policy(policy), placement, setting), rounds)
