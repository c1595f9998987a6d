"""The engine against the second implementation (exact.py): the same rows of the journal, to the last bit.

A seed that fails prints its number and the fewest of its rows that still fail: `differs(drawn(SEED))`, `differs(with_nodes(SEED))`,
`differs(cluttered(SEED))` or `differs(with_teams(SEED))` runs it again.
"""

import math
import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tests.equivalence.cases import POLICIES, Case, Log, Row, cluttered, drawn, of_exact, with_nodes, with_teams
from tests.equivalence.exact import Rules, exact
from tests.equivalence.exact_teams import Team, Teams

from headway.cluster.demands import demand_of, demands_of
from headway.cluster.nodes import of_groups
from headway.cluster.queues import Booking, Queue, QueueLimits, Queues
from headway.core.events import ENDED, MIGRATE, NOTIFY, PROMISE, START, STOP
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.loop import FINISHED, drive_compiled, new_buffers
from headway.sim.run import Setting, prepare
from headway.workloads.workload import workload

NAMES = {ENDED: "End", STOP: "Stop", START: "Start", PROMISE: "Promise", MIGRATE: "Migrate", NOTIFY: "Notify"}


def spec(rules: Rules) -> str:
    """Return the policy as a user writes it."""
    options = []
    if rules.quantum < math.inf:
        options.append(f"quantum={float(rules.quantum)}")
    if rules.limit < math.inf:
        options.append(f"limit={rules.limit}s")
    if rules.policy == "tiresias-l":
        bounds = ":".join(str(float(bound)) for bound in rules.thresholds)
        options.append(f"thresholds={bounds}" if bounds else "queues=1")
        options.append(f"promote={'inf' if rules.promote == math.inf else float(rules.promote)}")
    return rules.policy + ("?" + "&".join(options) if options else "")


def limits(running: float, gpus: float) -> QueueLimits:
    """Return limits of the engine; infinity: none."""
    given = {"running": running, "gpus": gpus}
    return QueueLimits(**{name: int(most) for name, most in given.items() if most < math.inf})


def of_team(team: Team) -> Queue:
    """Return a queue of the engine."""
    return Queue(
        team.name,
        parent=team.parent,
        weight=float(team.weight),
        guaranteed_gpus=team.guarantee,
        priority=team.priority,
        limits=limits(team.running, team.gpus),
        per_user=limits(team.user_running, team.user_gpus),
    )


def of_teams(teams: Teams) -> Queues | None:
    """Return the queues of the engine; None: without teams."""
    if not teams.teams:
        return None
    bookings = tuple(
        Booking((f"n{row.node:03d}",), row.queue, float(row.begin), float(row.end), False) for row in teams.bookings
    )
    return Queues(
        "drawn",
        tuple(map(of_team, teams.teams)),
        notice_s=float(teams.notice),
        half_life_s=float(teams.half_life),
        horizon_s=float(teams.horizon),
        bookings=bookings,
    )


def journal_of(case: Case) -> Any:
    """Return the journal of the engine."""
    rules, rows = case.rules, case.rows
    columns = {field.name: np.array([getattr(row, field.name) for row in rows]) for field in fields(Row)}
    jobs = workload(
        "drawn",
        columns["submit"],
        columns["gpus"],
        columns["duration"],
        preemptible=columns["preemptible"],
        limit_s=columns["limit"],
        queue=columns["queue"],
        user=columns["user"],
    )
    min_runtime = None if rules.min_runtime is None else float(rules.min_runtime)
    cluster = of_groups("drawn", [(1, gpus) for gpus in rules.nodes])
    constraints = demands_of(cluster, [demand_of("", (), row.gpus, row.nodes) for row in rows])
    setting = Setting(min_runtime=min_runtime, queues=of_teams(rules.teams), demands=constraints)
    placement = find_placement("consolidated" if rules.consolidated else "spread")
    policy = find_policy(spec(rules))
    policy = replace(policy, defragment_after=float(rules.defragment_after), rent=float(rules.rent))
    engine, world = prepare(jobs, cluster, policy, placement, setting)
    for name in ("save", "resume"):
        engine.state.jobs[name] = columns[name]
    buffers = new_buffers(engine, 1 << 16, True)
    ended = drive_compiled(*engine.parts, world, buffers)
    assert ended == FINISHED
    return buffers.journal


def of_engine(case: Case) -> Log:
    """Return the log of the engine: its journal in the form of the second implementation."""
    journal = journal_of(case)
    count = journal.counts[0]
    rows, log = journal.rows[: count["rows"]], []
    ends = np.append(rows["place_at"][1:], count["places"])
    for row, end in zip(rows, ends, strict=True):
        kind = NAMES.get(int(row["kind"]), "")
        places = [(int(p["node"]), int(p["gpus"])) for p in journal.places[row["place_at"] : end] if p["node"] >= 0]
        detail: Any = tuple(sorted(places))
        if kind == "Notify":
            detail = exact(float(row["until"])) if row["until"] < math.inf else None
        if kind:
            log.append((exact(float(row["time"])), kind, int(row["job"]), detail))
    return log


def differs(case: Case) -> str:
    """Return the first difference at an instant, with what both do there; empty: there is none."""
    one, two = of_exact(case), of_engine(case)
    for at in sorted({entry[0] for entry in one + two}):
        ours, theirs = (sorted((entry[1:] for entry in log if entry[0] == at), key=repr) for log in (one, two))
        if ours != theirs:
            return f"at {float(at):g} exact does {ours}, the engine {theirs}"
    return ""


def fewest_rows(case: Case) -> Case:
    """Leave out rows while the case still differs."""
    for j in reversed(range(len(case.rows))):
        less = replace(case, rows=case.rows[:j] + case.rows[j + 1 :])
        if less.rows and differs(less):
            case = less
    return case


CHUNKS = 30


def check(case: Case, name: str) -> None:
    """Fail with the fewest rows that still differ."""
    if differs(case):
        least = fewest_rows(case) if len(case.rows) < 20 else case
        rows = "\n".join(map(str, least.rows))
        pytest.fail(f"{name}: {differs(least)}\n{least.rules}\n{rows}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_engine_does_what_the_second_implementation_does(chunk, rounds):
    each = rounds(3000, 60_000) // CHUNKS
    for seed in range(chunk * each, (chunk + 1) * each):
        check(drawn(seed), f"drawn({seed})")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_jobs_with_nodes_are_placed_as_the_second_implementation_does(chunk, rounds):
    each = rounds(3000, 60_000) // CHUNKS
    for seed in range(chunk * each, (chunk + 1) * each):
        check(with_nodes(seed), f"with_nodes({seed})")


@pytest.mark.parametrize("chunk", range(4))
def test_jobs_are_moved_as_the_second_implementation_does(chunk, rounds):
    each, migrations = rounds(400, 20_000) // 4, 0
    for seed in range(chunk * each, (chunk + 1) * each):
        case = cluttered(seed)
        check(case, f"cluttered({seed})")
        migrations += sum(kind == "Migrate" for _, kind, *_ in of_exact(case))
    assert migrations > each / 4


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_engine_does_what_the_second_implementation_does_with_teams(chunk, rounds):
    each = rounds(3000, 60_000) // CHUNKS
    for seed in range(chunk * each, (chunk + 1) * each):
        check(with_teams(seed), f"with_teams({seed})")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(20587, id="an advance reservation takes the place of a job that is migrating"),
        pytest.param(25870, id="and its next wait begins when it has stopped"),
        pytest.param(29045, id="a migrating job uses the guarantee of a team and of the team above it"),
    ],
)
def test_rare_cases_with_teams(seed):
    check(with_teams(seed), f"with_teams({seed})")


def larger_mix(policy: str) -> Case:
    """Return 90 jobs on 60 GPUs, with costs, limits and minimum run times."""
    draw = random.Random(7)
    at, rows = 0, []
    for _ in range(90):
        at += draw.randint(0, 60)
        length, save = draw.randint(60, 3600), draw.choice((0, 8, 30))
        rows.append(Row(at, draw.choice((1, 2, 4, 8, 16)), length, save, 2 * save, 2 * length, draw.random() < 0.95))
    rules = Rules(
        policy,
        (4,) * 15,
        consolidated=True,
        quantum=60 if "las" in policy else math.inf,
        thresholds=(3200,) if policy == "tiresias-l" else (),
        promote=8 if policy == "tiresias-l" else math.inf,
        min_runtime=None,
    )
    return Case(rules, tuple(rows))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_larger_mix_on_sixty_gpus(policy):
    check(larger_mix(policy), "the larger mix")


# Two cases that an audit found wrong. Both are held against the second implementation and the engine.

OVERBOOKED = Case(
    Rules("srsf", (8, 8), min_runtime=25),
    tuple(
        Row(*row)
        for row in (
            *((1, 6, 8), (1, 2, 2), (1, 1, 4), (1, 4, 118), (1, 8, 25), (1, 8, 10), (1, 5, 57), (1, 11, 4), (0, 2, 5)),
            *((1, 5, 63), (0, 8, 4), (0, 3, 6), (1, 8, 7), (0, 3, 330), (0, 2, 35), (0, 5, 4), (0, 4, 73)),
        )
    ),
)
EMPTY_GUARANTEE = Case(
    Rules(
        "tiresias-l",
        (2, 2, 2),
        thresholds=(64,),
        promote=2,
        teams=Teams(
            (
                Team("q0", guarantee=1, weight=2),
                Team("q1"),
                Team("q1a", parent="q1", weight=3),
                Team("q2", guarantee=4, running=3),
                Team("q3", guarantee=1),
            )
        ),
    ),
    tuple(
        Row(submit, gpus, duration, queue=queue, user=user, preemptible=preemptible)
        for submit, gpus, duration, queue, user, preemptible in (
            (0, 4, 495, "q2", "v", True),
            (0, 1, 162, "q3", "u", True),
            (0, 1, 770, "q0", "w", True),
            (0, 1, 94, "q3", "v", True),
            (0, 1, 117, "q3", "v", False),
            (0, 1, 800, "q0", "u", True),
            (0, 1, 7, "q0", "u", True),
            (0, 1, 79, "q0", "u", True),
            (0, 1, 598, "q0", "v", False),
            (0, 1, 510, "q1a", "u", True),
        )
    ),
)
IMPLEMENTATIONS = [of_exact, of_engine]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_reservation_is_not_overbooked_by_promises_that_stand(implementation):
    """At 73 s job 3 was stopped and started again, so that job 14, which holds the reservation, started at 98 s."""
    log = implementation(in_order_of_submission(OVERBOOKED))
    assert [job for at, kind, job, _ in log if at == 73 and kind == "Start"] == [15]
    assert [at for at, kind, job, _ in log if kind == "Start" and job == 14] == [74]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_no_guarantee_is_empty_until_the_next_event(implementation):
    """At 327 s queue q0 had waiting jobs and no GPU for 12 s."""
    log = implementation(EMPTY_GUARANTEE)
    waits = idle_guarantees(EMPTY_GUARANTEE, log, "q0")
    assert max(waits, default=0) <= 1


def in_order_of_submission(case: Case) -> Case:
    """Return the case with its rows by submission: the engine numbers jobs in this order."""
    return replace(case, rows=tuple(sorted(case.rows, key=lambda row: row.submit)))


def idle_guarantees(case: Case, log: Log, queue: str) -> list[Any]:
    """Return for how long a queue had waiting jobs and no GPU, each time."""
    members = {number for number, row in enumerate(case.rows) if row.queue == queue}
    holding: set[int] = set()
    over: set[int] = set()
    since, waits = None, []
    for at in sorted({entry[0] for entry in log}):
        for _, kind, job, _ in [entry for entry in log if entry[0] == at and entry[2] in members]:
            if kind == "Start":
                holding.add(job)
            elif kind in ("Stop", "Migrate", "End"):
                holding.discard(job)
            if kind == "End":
                over.add(job)
        if since is not None and (holding or over == members):
            waits.append(at - since)
            since = None
        if since is None and not holding and over != members:
            since = at
    return waits


def test_a_promise_on_gpus_of_preempted_jobs_and_under_notice_waits_for_the_notice():
    journal = journal_of(with_teams(1177))
    rows = journal.rows[: journal.counts[0]["rows"]]
    promised = rows[(rows["kind"] == PROMISE) & (rows["job"] == 6) & (rows["time"] == 9.0)]
    assert promised["until"].tolist() == [12.0], "job 6 takes GPUs whose notice is over at 12 s"
