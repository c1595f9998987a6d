"""Properties of single decisions, over seeded random workloads and every policy: preemption (rules 5 to 9), and memory between decisions.

A failure prints its seed: `drawn(SEED)` is the case.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.journal_checker import ACTIONS, NO_MOMENT, Entry, Place, Walk

from headway.cluster.nodes import of_groups
from headway.cluster.queues import Queue, QueueLimits, Queues
from headway.core.engine import Engine, drive
from headway.core.events import CROSSED, ENDED, MIGRATE, PROMISE, START, STARTED, STOP
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
    """Return the case with preemptions that take no time and no minimum run time: preemptible jobs are never late (rule 22)."""
    return replace(case, setting=replace(case.setting, preemption_cost=0.0, min_runtime=0.0))


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
    (
        Queue("a", guaranteed_gpus=3, per_user=QueueLimits(gpus=6)),
        Queue("b", guaranteed_gpus=2, limits=QueueLimits(running=5)),
    ),
    notice_s=20.0,
)


@pytest.mark.parametrize("policy", [*POLICIES, *DEFRAGMENTING])
def test_garbage_in_the_scratch_changes_nothing(policy, rounds):
    for seed in range(rounds(4, 200)):
        assert assert_same_with_garbage(drawn(seed), policy, None if seed % 2 else seed)


def test_garbage_in_the_scratch_changes_nothing_for_a_placement_that_knows_leaves_without_a_fabric(rounds):
    for seed in range(rounds(4, 200)):
        case = drawn(seed)
        jobs = replace(case.jobs, gpus=np.minimum(case.jobs.gpus, 4))
        assert assert_same_with_garbage(replace(case, nodes=(4, 4), jobs=jobs, placement="joint"), "headway", seed)


@pytest.mark.parametrize("policy", ["fifo", "best-effort", "backfill", "headway", "tiresias-l?threshold=100", "srsf"])
def test_garbage_in_the_scratch_changes_nothing_with_queues(policy, rounds):
    withdrawn = 151  # under srsf, a notice is withdrawn in a row that was the job's in an earlier decision
    for seed in (*range(rounds(4, 200)), withdrawn):
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
            # With migrations, each released job needs a place of its own (rule 16): tests/equivalence/test_exact.py works that out.
            # A late job may not use the nodes of the backfill reservation: sparing a job there would not help it.
            if stopped and not migrated and not self.may_be_late(entry.job, rows):
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

    def may_be_late(self, j: int, rows: list[Entry]) -> bool:
        """Return whether a backfill reservation may restrict a job (rules 21 and 22): another waiting job has no place."""
        row, placed = self.run.jobs[j], {entry.job for entry in rows if entry.kind in (START, PROMISE) and entry.places}
        decided = {entry.job for entry in rows if entry.kind in (START, PROMISE)}
        refused = [
            k
            for k, other in enumerate(self.jobs)
            if other.state == JobState.PENDING and k not in placed and (k in decided or not other.promise)
        ]
        return self.policy.reserves and self.jobs[j].turn + float(row["save"] + row["resume"]) > 0.0 and refused != []

    def check_least(self, entry: Entry, stopped: list[int], soon: Counter[int]) -> None:
        """Check that the promised job has no place if one stopped job is spared, beside the promises that are kept."""
        for j in stopped:
            others = [k for k in stopped if k != j and not set(self.jobs[k].seats) & set(self.jobs[j].seats)]
            assert not self.has_place(entry.job, soon + self.held(others)), f"{entry}: {j} could be spared"
            self.tally["needed"] += 1

    def has_place(self, j: int, offer: Counter[int]) -> bool:
        """Return whether the placement finds a place for a job on an offer."""
        nodes, row = tuple(self.run.cluster.gpus), self.run.jobs[j]
        gpus_by_node = [max(0, offer[x]) for x in range(len(nodes))]
        return fits(self.run.placement.name, nodes, gpus_by_node, self.jobs[j].gpus, float(row["skew"]), 0)


@pytest.mark.parametrize("policy", [*PREEMPTIVE, *DEFRAGMENTING])
def test_no_job_is_stopped_in_vain_and_every_stop_is_needed(policy, rounds):
    tally: Counter[str] = Counter()
    for seed in range(rounds(60, 3000)):
        tally += Releases(drawn(seed).run(policy)).check()
    assert tally["stops"] > 20, tally
    assert tally["needed"] > 10 or find_policy(policy).migrates, tally


class Deliveries(Walk):
    """Walks a journal and checks that jobs start on the GPUs for which other jobs were stopped or migrated."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.paid: dict[int, tuple[float, Place]] = {}  # promises for which jobs were released: since when, and places

    def look_at(self, decision: list[Entry]) -> None:
        """Check the promises that a decision honours or changes, and note those that it makes by releasing jobs."""
        rows = [entry for entry in decision if entry.kind in (START, PROMISE, STOP, MIGRATE)]
        for entry, following in pairwise([*rows, None]):
            if entry.kind not in (START, PROMISE):
                continue
            since, places = self.paid.pop(entry.job, (entry.time, {}))
            if since < entry.time:
                assert entry.kind == START, f"{entry}: {places} were released for it"
                assert dict(entry.places) == places, f"{entry}: {places} were released for it"
                self.tally["delivered"] += 1
            if entry.kind == PROMISE and entry.places and following and following.kind in (STOP, MIGRATE):
                self.paid[entry.job] = entry.time, dict(entry.places)

    def apply(self, entry: Entry) -> None:
        """At a preemption point, an earlier job may take a promise, and free GPUs are better than a promise: stop to check (rule 10)."""
        if entry.kind not in (*NO_MOMENT, *ACTIONS):
            self.paid.clear()
        super().apply(entry)


@pytest.mark.parametrize("policy", [name for name in (*PREEMPTIVE, *DEFRAGMENTING) if not find_policy(name).migrates])
def test_a_job_starts_on_the_gpus_that_were_released_for_it(policy, rounds):
    """This holds until the next preemption point, which may be the next round of the same instant if stops take no time.

    Then jobs that come before the promised job may take its promise: new jobs, jobs that were stopped for a third job, and jobs for
    which preempting did not pay yet (rule 13). Under gandiva, a job may be promised GPUs that were promised to a migrating job, which
    then starts first (rule 12; `drawn(2151)` at 498 s).
    """
    tally: Counter[str] = Counter()
    for seed in range(rounds(60, 3000)):
        tally += Deliveries(drawn(seed).run(policy)).check()
    assert tally["delivered"] > 10, tally


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


def promotions(run: Run) -> set[tuple[float, int]]:
    """Return time and job of every promotion at the instant at which the job was stopped."""
    stops = {(float(row["time"]), int(row["job"])) for row in run.entries if row["kind"] == STOP}
    return stops & {
        (float(row["time"]), int(row["job"])) for row in run.entries if row["kind"] == CROSSED and row["level"] == 0
    }


WEIGHTED = Queues("weights", (Queue("a"), Queue("b", weight=2.0)))
COUNTING = ("spread", "consolidated?strict=no", "random", "profile?strict=no")  # only the number of GPUs counts
WHOLE = ("consolidated", "profile")  # jobs need few nodes


def on_many_nodes(case: Case, draw: random.Random) -> Case:
    """Return the case with a placement for which only the number of GPUs counts."""
    return replace(case, placement=draw.choice(COUNTING))


def on_one_node(case: Case, draw: random.Random) -> Case:
    """Return the case on one node, with any placement."""
    jobs = replace(case.jobs, gpus=np.minimum(case.jobs.gpus, 8))
    return replace(case, nodes=(8,), jobs=jobs, placement=draw.choice((*COUNTING, *WHOLE)))


def for_single_gpus(case: Case, draw: random.Random) -> Case:
    """Return the case with a placement on few nodes; only jobs with one GPU are looked at."""
    return replace(case, placement=draw.choice(WHOLE))


def in_teams(case: Case, draw: random.Random) -> Case:
    """Return the case with two teams and jobs of one size."""
    size = draw.choice((1, 2))
    queue = np.array([draw.choice("ab") for _ in case.jobs.gpus])
    jobs = replace(case.jobs, queue=queue, gpus=np.full(len(case.jobs), size), preemptible=case.jobs.gpus > 0)
    setting = replace(case.setting, queues=WEIGHTED)
    return replace(case, nodes=(4, 4), jobs=jobs, setting=setting, placement=draw.choice(COUNTING))


@pytest.mark.parametrize("kind", [on_many_nodes, on_one_node, for_single_gpus, in_teams])
@pytest.mark.parametrize("policy", PREEMPTIVE)
def test_a_job_that_was_just_preempted_preempts_no_job(policy, kind, rounds):
    """Stops take no time here: the next decision of the same instant visits the stopped job, at a preemption point.

    The first set of jobs that an instant stops is looked at. Each restriction has a counterexample:

    - Later sets: GPUs that another set leaves over may be all but enough for the stopped job (las, `drawn(16)` at 7 s).
    - Placements on few nodes: a job of four GPUs has the one job on a node stopped, though jobs on other nodes come later; that job
      preempts one of them (srtf, `drawn(8)` at 62.8 s). A job with one GPU always has the last job stopped.
    - Non-preemptible promised jobs: the backfill reservation may keep them off the GPUs of the last job (2d-las, `drawn(24)`).
    - Promotion: a job that has waited for long enough is promoted as soon as it is stopped (tiresias-l, `drawn(5)` at 66.7 s).
    - Jobs of several sizes in teams: a team may take one GPU of another team, but not two (rule 27). So a job with two GPUs has jobs
      of its own team stopped, and these preempt jobs of the other team.
    - Migrations: a job parted from the job that shared its GPUs may take a promise (gandiva, `drawn(1047)` on one node, at 160 s).
    - Guarantees: a job under notice is not preempted (rule 9). An earlier job is, and preempts the former once its notice is withdrawn.
    """
    if kind is in_teams and find_policy(policy).migrates:
        pytest.skip("gandiva allows no queues")
    resubmitted = 0
    for seed in range(rounds(30, 3000)):
        case = kind(without_cost(drawn(seed)), random.Random(seed))
        run = case.run(policy)
        sets, promoted = list(sets_of_stops(run)), promotions(run)
        migrated = {float(row["time"]) for row in run.entries if row["kind"] == MIGRATE}
        first = {now: (job, stopped) for now, job, stopped in reversed(sets)}
        for (now, job, stopped), (later, second, _) in pairwise([*sets, (np.inf, -1, [])]):
            is_first = first[now] == (job, stopped) and now not in migrated
            if not is_first or not case.jobs.preemptible[job] or (kind is for_single_gpus and case.jobs.gpus[job] > 1):
                continue
            resubmitted += 1
            assert later > now or second not in stopped or (now, second) in promoted, (seed, now, second)
    # Here headway preempts for a single GPU, or in teams, hardly ever.
    assert resubmitted > 20 or (policy == "headway" and kind in (for_single_gpus, in_teams))


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
    """The backfill reservation is found by bisection (core/deciding/reservation.py), which is right only for such placements."""
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
