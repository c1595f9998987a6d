"""The engine against the second implementation (exact.py): the same ends, stops, promises and starts, to the last bit.

Times are whole seconds or binary fractions (and GPUs, under tiresias-l, are powers of two), so that the engine's floats are exact and a tie
is one in both. A seed that fails prints its number and the fewest of its rows that still fail: `differs(drawn(SEED))` runs it again.
"""

import math
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.equivalence.exact import Exact, Job, Rules, exact
from tests.equivalence.exact_decision import Decision

from headway.cluster.nodes import of_groups
from headway.core.events import ENDED, RESERVE, RESIZE, START, STOP
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.loop import FINISHED, drive_compiled, new_buffers
from headway.sim.run import Setting, prepare
from headway.workloads.workload import workload

POLICIES = ("fifo", "best-effort", "sjf", "backfill", "srtf", "srsf", "las", "2d-las", "tiresias-l")
MOVE_JOBS = ("srtf", "srsf", "las", "2d-las", "tiresias-l")
CLUSTERS = ((8,), (4, 4), (2, 2, 2), (1, 1, 1, 1), (4, 2, 1), (3, 5), (2, 8, 2))
NAMES = {ENDED: "End", STOP: "Stop", RESIZE: "Move", RESERVE: "Reserve", START: "Start"}
Log = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Row:
    """One job of a case."""

    submit: float
    gpus: int
    duration: float
    save: float = 0.0
    resume: float = 0.0
    limit: float = math.inf
    preemptible: bool = True


@dataclass(frozen=True)
class Case:
    """What is run twice."""

    rules: Rules
    rows: tuple[Row, ...]


def drawn(seed: int) -> Case:
    """A small case: few jobs, close together, of few sizes and lengths, so that they meet at the same instants."""
    draw = random.Random(seed)
    policy = POLICIES[seed % len(POLICIES)]
    nodes = draw.choice(CLUSTERS)
    rules = Rules(
        policy,
        nodes,
        consolidated=draw.random() < 0.5,
        quantum=drawn_quantum(draw, policy),
        limit=draw.choice((math.inf, math.inf, 20, 100)) if policy == "backfill" else math.inf,
        thresholds=draw.choice(((40,), (16, 64), (8, 20, 160), ())) if policy == "tiresias-l" else (),
        promote=draw.choice((math.inf, 1, 2, 4, Fraction(1, 2))) if policy == "tiresias-l" else math.inf,
        min_runtime=draw.choice((0, 0, None, None, 7, 30)),
        clears=drawn_patience(seed, policy),
        tidies=seed % 4 == 1 and policy in MOVE_JOBS,
    )
    sizes = [size for size in (1, 2, 4, 8) if size <= sum(nodes)]
    if policy != "tiresias-l" and draw.random() < 0.3:
        sizes = list(range(1, sum(nodes) + 1))
    costs = draw.choice((((0, 0),), ((5, 0),), ((0, 3),), ((0, 0), (1, 2), (4, 0.5), (0.25, 8)), ((30, 0),)))
    limits, pinned = draw.choice((0.0, 0.0, 0.5, 1.0)), draw.choice((0.0, 0.0, 0.2))
    limits = max(limits, 0.5) if policy == "backfill" else limits
    apart = draw.choice((1, 5, 20))
    longest = draw.choice((10, 60, 200)) if rules.quantum > 1 else 10
    rows = []
    at = 0
    for _ in range(draw.randint(1, draw.choice((4, 8, 16)))):
        at += draw.choice((0, draw.randint(0, apart)))
        length = draw.randint(1, longest)
        save, resume = draw.choice(costs)
        limit = math.inf
        if draw.random() < limits:
            limit = max(1, length + draw.choice((0, 0, 5, 40, -3)))
        rows.append(Row(at, draw.choice(sizes), length, save, resume, limit, draw.random() >= pinned))
    return Case(rules, tuple(rows))


def drawn_patience(seed: int, policy: str) -> Any:
    """After how long a wait smaller jobs are moved: mostly never."""
    return random.Random(-1 - seed).choice((math.inf, 0, 4, 25)) if policy in MOVE_JOBS else math.inf


def cluttered(seed: int) -> Case:
    """Many small jobs and a few that need whole nodes, so that some are moved."""
    draw = random.Random(seed)
    policy = draw.choice(("srsf", "srtf", "2d-las", "tiresias-l"))
    nodes = draw.choice(((4, 4), (4, 4, 4), (2, 2, 2, 2), (4, 4, 2), (3, 5, 4)))
    rules = Rules(
        policy,
        nodes,
        consolidated=True,
        quantum=draw.choice((10, 7)) if policy == "2d-las" else draw.choice((math.inf, math.inf, 10)),
        thresholds=(40,) if policy == "tiresias-l" else (),
        promote=draw.choice((math.inf, 2)) if policy == "tiresias-l" else math.inf,
        min_runtime=draw.choice((0, 0, None, 7)),
        clears=draw.choice((0, 4, 25, math.inf)),
        tidies=seed % 2 == 1,
    )
    costs, at, rows = draw.choice((((0, 0),), ((1, 2), (4, 0.5)), ((2, 0),))), 0, []
    for _ in range(draw.randint(10, 24)):
        at += draw.randint(0, 6)
        save, resume = draw.choice(costs)
        large = draw.random() < 0.3
        gpus, length = (
            (draw.choice((4, 8)), draw.randint(5, 40)) if large else (draw.choice((1, 1, 2)), draw.randint(20, 120))
        )
        rows.append(Row(at, gpus, length, save, resume, math.inf, draw.random() < 0.95))
    return Case(rules, tuple(rows))


def drawn_quantum(draw: random.Random, policy: str) -> Any:
    """las and 2d-las have one; others that preempt may."""
    if policy in ("las", "2d-las"):
        return draw.choice((60, 10, 7, 0.5))
    return draw.choice((math.inf, math.inf, math.inf, 60, 7)) if policy in ("srtf", "srsf", "tiresias-l") else math.inf


def of_exact(case: Case) -> Log:
    """What the second implementation does."""
    jobs = [
        Job(j, exact(row.submit), row.gpus, exact(row.duration), exact(row.save), exact(row.resume))
        for j, row in enumerate(case.rows)
    ]
    for job, row in zip(jobs, case.rows, strict=True):
        job.limit, job.preemptible = min(exact(row.limit), case.rules.limit), row.preemptible
    world = Exact(case.rules, jobs)
    world.run(lambda world: Decision(world).run())
    return world.log


def spec(rules: Rules) -> str:
    """The policy as a person writes it."""
    given = []
    if rules.quantum < math.inf:
        given.append(f"quantum={float(rules.quantum)}")
    if rules.limit < math.inf:
        given.append(f"limit={rules.limit}s")
    if rules.policy == "tiresias-l":
        bounds = ":".join(str(float(bound)) for bound in rules.thresholds)
        given.append(f"thresholds={bounds}" if bounds else "queues=1")
        given.append(f"promote={'inf' if rules.promote == math.inf else float(rules.promote)}")
    return rules.policy + ("?" + "&".join(given) if given else "")


def of_engine(case: Case) -> Log:
    """What the engine does."""
    rules, rows = case.rules, case.rows
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in Row.__dataclass_fields__}
    jobs = workload(
        "drawn",
        columns["submit"],
        columns["gpus"],
        columns["duration"],
        preemptible=columns["preemptible"],
        limit_s=columns["limit"],
    )
    turn = None if rules.min_runtime is None else float(rules.min_runtime)
    setting = Setting(min_runtime=turn, free_moves=rules.tidies)
    cluster = of_groups("drawn", [(1, gpus) for gpus in rules.nodes])
    placement = find_placement("consolidated" if rules.consolidated else "spread")
    policy = replace(find_policy(spec(rules)), clears=float(rules.clears), tidies=rules.tidies)
    engine, world = prepare(jobs, cluster, policy, placement, setting)
    for name in ("save", "resume"):
        world.truth[name] = engine.state.jobs[name] = columns[name]
    world.truth["moved"] = columns["resume"]
    buffers = new_buffers(engine.state, 1 << 16, True)
    ended = drive_compiled(*engine.parts, world, buffers)
    assert ended == FINISHED
    return journal_log(buffers.journal)


def journal_log(journal: Any) -> Log:
    """The journal in the form of the second implementation."""
    count = journal.counts[0]
    rows, log = journal.rows[: count["rows"]], []
    ends = np.append(rows["place_at"][1:], count["places"])
    for row, end in zip(rows, ends, strict=True):
        if int(row["kind"]) in NAMES:
            places = [(int(p["node"]), int(p["gpus"])) for p in journal.places[row["place_at"] : end] if p["node"] >= 0]
            log.append((exact(float(row["time"])), NAMES[int(row["kind"])], int(row["job"]), tuple(sorted(places))))
    return log


def differs(case: Case) -> str:
    """The first difference at an instant, with what both do there; empty: there is none."""
    one, two = of_exact(case), of_engine(case)
    for at in sorted({entry[0] for entry in one + two}):
        ours, theirs = (sorted(entry[1:] for entry in log if entry[0] == at) for log in (one, two))
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
        check(drawn(seed), f"seed {seed}")


@pytest.mark.parametrize("chunk", range(4))
def test_jobs_are_moved_as_the_second_implementation_does(chunk, rounds):
    each, moves = rounds(400, 20_000) // 4, 0
    for seed in range(chunk * each, (chunk + 1) * each):
        case = cluttered(seed)
        check(case, f"cluttered({seed})")
        moves += sum(what == "Move" for _, what, *_ in of_exact(case))
    assert moves > each / 4


def larger_mix(policy: str) -> Case:
    """90 jobs on 60 GPUs, with costs, limits and turns."""
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
