"""Properties of single decisions, over seeded random workloads and every policy: preemption (rules 5 to 9), and memory between decisions.

A failure prints its seed: `drawn(SEED)` is the case.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.equivalence.exact_placement import consolidated, fewest, spread
from tests.journal_checker import Entry, Place, Walk

from headway.cluster.nodes import of_groups
from headway.cluster.queues import Limits, Queue, Queues
from headway.core.engine import Engine, drive
from headway.core.events import ENDED, MIGRATE, PROMISE, START, STARTED, STOP
from headway.core.keys import INSTANT_S
from headway.core.tables.actions import actions, clear
from headway.core.tables.journal import journal
from headway.core.tables.options import options
from headway.core.tables.scratch import new_scratch
from headway.core.tables.state import new_state
from headway.job_state import JobState
from headway.placement.registry import find_placement
from headway.policies import MODULES
from headway.policies.registry import find_policy
from headway.sim.api import simulate
from headway.sim.models.profiles import PROFILES
from headway.sim.run import Run, Setting, prepare, simulate_run
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import Workload, workload

SHORT = {  # options with which small workloads have many preemptions
    "las": "las?quantum=20",
    "2d-las": "2d-las?quantum=60",
    "tiresias-l": "tiresias-l?threshold=100&queues=3&promote=1",
    "gittins": "gittins?quantum=20",
    "tiresias-g": "tiresias-g?threshold=100&promote=2",
    "gandiva": "gandiva?quantum=20",
    "optimus": "optimus?quantum=60",
}
POLICIES = tuple(SHORT.get(name, name) for name in MODULES)
DEFRAGMENTING = ("srsf?defragment_after=5s", "headway?defragment_after=60s")
PREEMPTIVE = tuple(spec for spec in POLICIES if find_policy(spec).preempts and not find_policy(spec).allot)
NODES = ((8,), (4, 4), (2, 2, 8, 8), (1, 2, 4), (4, 4, 4, 4))


@dataclass(frozen=True)
class Case:
    """A cluster, jobs, and how they are simulated."""

    nodes: tuple[int, ...]
    jobs: Workload
    placement: str
    setting: Setting

    def run(self, policy: str) -> Run:
        """Simulate the case under a policy."""
        return simulate_run(*self.parts(policy), keep_journal=True)

    def parts(self, policy: str) -> tuple[Any, ...]:
        """Return the parts of a run."""
        cluster = of_groups("drawn", [(1, gpus) for gpus in self.nodes])
        return self.jobs, cluster, find_policy(policy), find_placement(self.placement), self.setting


def drawn(seed: int) -> Case:
    """Return up to forty jobs on a small cluster; a few are non-preemptible or have time limits."""
    draw = random.Random(seed)
    nodes, n = draw.choice(NODES), draw.randint(3, 40)
    sizes = [size for size in (1, 1, 1, 2, 2, 3, 4, 6, 8, sum(nodes)) if size <= sum(nodes)]
    jobs = workload(
        "drawn",
        [draw.choice((0, draw.randint(0, 300), draw.uniform(0, 300))) for _ in range(n)],
        [draw.choice(sizes) for _ in range(n)],
        [draw.choice((draw.randint(1, 30), draw.randint(1, 400), draw.uniform(0.01, 300))) for _ in range(n)],
        model=[draw.choice(("", *PROFILES)) for _ in range(n)],
        preemptible=[draw.random() < 0.9 for _ in range(n)],
        limit_s=[draw.choice((np.inf, np.inf, 20.0, 200.0)) for _ in range(n)],
        user=[draw.choice("uv") for _ in range(n)],
    )
    setting = Setting(
        preemption_cost=draw.choice((0.0, 30.0, 0.5, None)),
        slowdown=draw.random() < 0.3,
        min_runtime=draw.choice((0.0, 0.0, 10.0, None)),
        seed=draw.randint(0, 9),
    )
    return Case(nodes, jobs, draw.choice(("consolidated", "consolidated?strict=no", "spread", "profile")), setting)


def without_cost(case: Case) -> Case:
    """Return the case with preemptions that take no time and jobs that are all preemptible: no job is late (rule 22)."""
    jobs = replace(case.jobs, preemptible=np.ones(len(case.jobs), bool))
    return replace(case, jobs=jobs, setting=replace(case.setting, preemption_cost=0.0, min_runtime=0.0))


# ---- nothing is remembered in the scratch


def with_garbage(engine: Engine, seed: int | None) -> None:
    """Let the engine overwrite its scratch and its last actions before every decision: with random bytes, or (None) with 0xFF."""
    decide, draw = engine._decide, np.random.default_rng(seed)

    def decide_after_garbage(now: float) -> None:
        nodes, leaves, *tables = engine.scratch
        for table in (*nodes, *leaves, *tables, *engine.out):
            table.view(np.uint8)[:] = 0xFF if seed is None else draw.integers(0, 256, table.nbytes, np.uint8)
        decide(now)

    engine._decide = decide_after_garbage


def assert_same_with_garbage(case: Case, policy: str, seed: int | None) -> int:
    """Check that garbage in the scratch changes nothing in the journal. Return its rows."""
    compiled = case.run(policy)
    engine, world = prepare(*case.parts(policy))
    with_garbage(engine, seed)
    book = journal(engine.state, 1 << 16, True)
    drive(engine, SimulatedWorld(engine, world, book))
    rows = book.rows[: int(book.counts["rows"][0])]
    assert rows.tobytes() == compiled.entries.tobytes()
    for pool in ("seats", "places", "links"):
        part = getattr(book, pool)[: int(book.counts[pool][0])]
        assert part.tobytes() == getattr(compiled.journal, pool).tobytes(), pool
    return len(rows)


QUEUES = Queues(
    "two",
    (Queue("a", guaranteed_gpus=3, per_user=Limits(gpus=6)), Queue("b", guaranteed_gpus=2, limits=Limits(running=5))),
    notice_s=20.0,
)


@pytest.mark.parametrize("policy", [*POLICIES, *DEFRAGMENTING])
def test_garbage_in_the_scratch_changes_nothing(policy, rounds):
    for seed in range(rounds(4, 200)):
        assert assert_same_with_garbage(drawn(seed), policy, None if seed % 2 else seed)


@pytest.mark.parametrize("policy", ["fifo", "best-effort", "backfill", "headway", "tiresias-l?threshold=100", "srsf"])
def test_garbage_in_the_scratch_changes_nothing_with_queues(policy, rounds):
    for seed in range(rounds(4, 200)):
        case, draw = drawn(seed), random.Random(seed)
        queue = np.array([draw.choice("ab") for _ in case.jobs.gpus])
        jobs = replace(case.jobs, queue=queue, gpus=np.minimum(case.jobs.gpus, 2), preemptible=case.jobs.gpus > 0)
        case = replace(case, nodes=(4, 4), jobs=jobs, setting=replace(case.setting, queues=QUEUES))
        assert assert_same_with_garbage(case, policy, None if seed % 2 else seed)


# ---- who is preempted


class Releases(Walk):
    """Walks a journal and checks each set of jobs that a decision stops for one job."""

    def look_at(self, decision: list[Entry]) -> None:
        """Check the sets of a decision, before they take effect."""
        rows = [entry for entry in decision if entry.kind in (START, PROMISE, STOP, MIGRATE)]
        soon = self.soon() - self.promised_after(rows)
        for i, entry in enumerate(rows):
            if entry.kind not in (START, PROMISE) or not entry.places:
                continue
            migrated, stopped = self.released(rows, i + 1)
            given = [node for row in rows[i : i + 1 + len(migrated)] for node, _ in row.places]
            for j in stopped:
                self.check_use(entry, j, set(given))
            if stopped and not migrated:
                self.check_least(entry, stopped, soon)
            for row in rows[i + 1 : i + 1 + len(migrated)]:
                soon.subtract(dict(row.places))
            soon.subtract(dict(entry.places))
            soon.update(self.held(migrated + stopped))

    def released(self, rows: list[Entry], i: int) -> tuple[list[int], list[int]]:
        """Return the jobs migrated and the jobs stopped for a promise: the rows from i on."""
        jobs: dict[int, list[int]] = {MIGRATE: [], STOP: []}
        for entry in rows[i:]:
            if entry.kind not in jobs:
                break
            jobs[entry.kind].append(entry.job)
        return jobs[MIGRATE], jobs[STOP]

    def promised_after(self, rows: list[Entry]) -> Counter[int]:
        """Return the GPUs of promises that this decision keeps, by node."""
        decided = {entry.job for entry in rows if entry.kind in (START, PROMISE)}
        kept: Counter[int] = Counter()
        for j, job in enumerate(self.jobs):
            if job.promise and j not in decided:
                kept.update(job.promise)
        return kept

    def held(self, jobs: list[int]) -> Counter[int]:
        """Return the GPUs of jobs, by node; GPUs that two of them share count once."""
        return Counter(self.node[gpu] for gpu in {gpu for j in jobs for gpu in self.jobs[j].seats})

    def check_use(self, entry: Entry, j: int, given: set[int]) -> None:
        """Check that a stopped job's GPUs, at least on one node, go to the promised job or to a job that migrates for it."""
        assert {self.node[gpu] for gpu in self.jobs[j].seats} & given, f"{entry}: {j} stopped in vain"
        self.tally["stops"] += 1

    def may_be_late(self, j: int) -> bool:
        """Return whether a backfill reservation may restrict a job (rules 21 and 22)."""
        row = self.run.jobs[j]
        return self.policy.reserves and self.jobs[j].turn + float(row["save"] + row["resume"]) > 0.0

    def check_least(self, entry: Entry, stopped: list[int], soon: Counter[int]) -> None:
        """Check that the promised job has no place if one stopped job is spared, beside the promises that are kept."""
        name = self.run.placement.name
        if name not in ("consolidated", "spread") or self.may_be_late(entry.job):
            return
        for j in stopped:
            others = [k for k in stopped if k != j and not set(self.jobs[k].seats) & set(self.jobs[j].seats)]
            assert not self.placed(name, entry.job, soon + self.held(others)), f"{entry}: {j} could be spared"
            self.tally["needed"] += 1

    def placed(self, name: str, j: int, offer: Counter[int]) -> Place | None:
        """Return the place of a job on an offer."""
        nodes, gpus = tuple(self.run.cluster.gpus), self.jobs[j].gpus
        gpus_by_node = [max(0, offer[x]) for x in range(len(nodes))]
        if name == "spread":
            return spread(gpus_by_node, gpus)
        return consolidated(gpus_by_node, gpus, fewest(nodes, gpus))


@pytest.mark.parametrize("policy", [*PREEMPTIVE, *DEFRAGMENTING])
def test_no_job_is_stopped_in_vain_and_every_stop_is_needed(policy, rounds):
    tally: Counter[str] = Counter()
    for seed in range(rounds(60, 3000)):
        tally += Releases(drawn(seed).run(policy)).check()
    assert tally["stops"] > 20, tally
    assert tally["needed"] > 10 or find_policy(policy).migrates, tally


def sets_of_stops(run: Run) -> Iterator[tuple[float, int, list[int]]]:
    """Yield time, promised job and stopped jobs of every set."""
    now, promised = -np.inf, -1
    stopped: list[int] = []
    for row in run.entries:
        if row["kind"] == STOP and promised >= 0:
            stopped.append(int(row["job"]))
            continue
        if stopped:
            yield now, promised, stopped
        now, promised, stopped = float(row["time"]), int(row["job"]) if row["kind"] == PROMISE else -1, []


@pytest.mark.parametrize("policy", [spec.partition("&promote")[0] for spec in PREEMPTIVE if "gandiva" not in spec])
def test_a_job_that_was_just_preempted_preempts_no_job(policy, rounds):
    """Stops take no time here: the next decision of the same instant visits the stopped job, at a preemption point.

    This holds if no job is promoted, only the number of GPUs counts, and one set of jobs was stopped. GPUs that a second set leaves
    over may help the stopped job. A job that needs whole nodes, or that a backfill reservation keeps off some nodes, may have an
    earlier job stopped than others would: that job may then preempt later jobs elsewhere.
    """
    resubmitted = 0
    for seed in range(rounds(60, 3000)):
        case = without_cost(drawn(seed))
        case = replace(case, placement=random.Random(seed).choice(("spread", "consolidated?strict=no", "random")))
        sets = list(sets_of_stops(case.run(policy)))
        first = {now: stopped for now, _, stopped in reversed(sets)}
        second = [(now, promised) for i, (now, promised, _) in enumerate(sets[1:]) if sets[i][2] is first[now]]
        assert not [(now, promised) for now, promised in second if promised in first[now]], seed
        resubmitted += len(first)
    assert resubmitted > 20


# ---- the probe


def fits(spec: str, nodes: tuple[int, ...], offer: list[int], gpus: int, skew: float, seed: int) -> bool:
    """Return whether a placement finds a place on an offer."""
    placement, state, out = find_placement(spec), new_state(1, np.array(nodes)), actions(4, 64, 4)
    scratch = new_scratch(state)
    scratch.nodes.offer[:] = offer
    state.jobs["gpus"], state.jobs["skew"] = gpus, skew
    clear(out)
    chosen = options(pack_limit=placement.pack_limit, by_class=placement.by_class, seed=seed)
    return bool(placement.place(scratch.nodes, scratch.leaves, state.fewest[0], state.jobs[0], chosen, out))


@pytest.mark.parametrize(
    "spec", ["consolidated", "consolidated?strict=no", "spread", "random", "profile", "profile?strict=no"]
)
def test_more_gpus_on_offer_never_help_less(spec, rounds):
    """A set without migrations is found by bisection (core/deciding/releasing.py), which is right only for such placements."""
    fitted = 0
    for seed in range(rounds(300, 20_000)):
        draw = random.Random(seed)
        nodes = tuple(draw.choice((1, 2, 3, 4, 8)) for _ in range(draw.randint(1, 6)))
        less = [draw.randint(0, most) for most in nodes]
        more = [draw.randint(low, most) for low, most in zip(less, nodes, strict=True)]
        how = draw.randint(1, sum(nodes)), draw.choice((float("nan"), 0.05, 0.74)), draw.randint(0, 9)
        if fits(spec, nodes, less, *how):
            fitted += 1
            assert fits(spec, nodes, more, *how), (seed, nodes, less, more, how)
    assert fitted > 30


# ---- rounding


def shortest_run(run: Run) -> float:
    """Return the shortest time from Started to the next Stop, Migrate or Ended of a job."""
    started: dict[int, float] = {}
    shortest = np.inf
    for row in run.entries:
        kind, j = int(row["kind"]), int(row["job"])
        if kind == STARTED:
            started[j] = float(row["time"])
        elif kind in (STOP, MIGRATE, ENDED) and j in started:
            shortest = min(shortest, float(row["time"]) - started.pop(j))
    return shortest


def test_no_job_runs_for_a_rounding_error():
    """Job 0 was stopped 1.1e-13 s after it had started, and paid a full save: its promotion was due an instant later by its sums."""
    jobs = workload("two", [43.0, 38.0], [6, 3], [81.0, 166.0])
    policy = "tiresias-l?thresholds=64:256&promote=2"
    result = simulate(jobs, "1x8", policy, preemption_cost="40s", min_runtime="0", keep_journal=True)
    assert shortest_run(result.run) >= INSTANT_S


@pytest.mark.parametrize("policy", PREEMPTIVE)
def test_no_job_of_any_workload_runs_for_a_rounding_error(policy, rounds):
    for seed in range(rounds(60, 3000)):
        run = drawn(seed).run(policy)
        assert shortest_run(run) >= INSTANT_S, seed
        assert (run.jobs["state"] == JobState.COMPLETED).all()
