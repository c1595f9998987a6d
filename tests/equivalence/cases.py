"""Seeded random cases for the two implementations: small clusters, few jobs, close together.

Times are whole seconds or binary fractions. Under tiresias-l, with rent and with shared usage, GPUs are powers of two:
floats are then exact, and a tie in one implementation is a tie in the other.
"""

import math
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tests.equivalence.exact import Exact, Job, Rules, exact
from tests.equivalence.exact_decision import Decision
from tests.equivalence.exact_teams import Booking, Team, Teams

POLICIES = ("fifo", "best-effort", "sjf", "backfill", "srtf", "srsf", "las", "2d-las", "tiresias-l")
PREEMPTING = ("srtf", "srsf", "las", "2d-las", "tiresias-l")
CLUSTERS = ((8,), (4, 4), (2, 2, 2), (1, 1, 1, 1), (4, 2, 1), (3, 5), (2, 8, 2))
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
    queue: str = ""
    user: str = "u"
    nodes: int = 0


@dataclass(frozen=True)
class Case:
    """A policy, a cluster, teams, and jobs."""

    rules: Rules
    rows: tuple[Row, ...]


@lru_cache(maxsize=8)
def of_exact(case: Case) -> Log:
    """Return the log of the second implementation."""
    world = Exact(case.rules, jobs_of(case))
    world.run(lambda world: Decision(world).run())
    return world.log


def jobs_of(case: Case) -> list[Job]:
    """Return the jobs of a case for the second implementation."""
    jobs = []
    for number, row in enumerate(case.rows):
        times = [exact(value) for value in (row.duration, row.save, row.resume)]
        limit = min(exact(row.limit), case.rules.limit)
        job = Job(number, exact(row.submit), row.gpus, *times, limit=limit, preemptible=row.preemptible)
        job.queue, job.user = row.queue, row.user
        job.nodes = row.nodes if row.gpus > 1 else 0  # one GPU is on one node anyway
        jobs.append(job)
    return jobs


def drawn(seed: int) -> Case:
    """Return a case without teams: jobs of few sizes and lengths, so that they meet at the same instants."""
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
        defragment_after=drawn_patience(seed, policy),
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


def with_nodes(seed: int) -> Case:
    """Return a case without teams in which some jobs need equally many GPUs on each of N nodes."""
    case, draw = drawn(seed), random.Random(f"nodes {seed}")
    sizes, rows = case.rules.nodes, []
    for row in case.rows:
        counts = [n for n in range(1, len(sizes) + 1) if row.gpus % n == 0]
        counts = [n for n in counts if sum(size >= row.gpus // n for size in sizes) >= n]
        rows.append(replace(row, nodes=draw.choice([0, *counts])))
    return replace(case, rows=tuple(rows))


def drawn_patience(seed: int, policy: str) -> Any:
    """Return after how long a wait smaller jobs migrate; infinity: never."""
    return random.Random(-1 - seed).choice((math.inf, 0, 4, 25)) if policy in PREEMPTING else math.inf


def drawn_quantum(draw: random.Random, policy: str) -> Any:
    """Return a quantum: las and 2d-las have one, other policies that preempt may."""
    if policy in ("las", "2d-las"):
        return draw.choice((60, 10, 7, 0.5))
    return draw.choice((math.inf, math.inf, math.inf, 60, 7)) if policy in ("srtf", "srsf", "tiresias-l") else math.inf


def cluttered(seed: int) -> Case:
    """Return many small jobs and a few that need whole nodes, so that jobs migrate."""
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
        defragment_after=draw.choice((0, 4, 25, math.inf)),
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


def with_teams(seed: int) -> Case:
    """Return a case with two to four queues, guarantees, limits, notices and advance reservations."""
    draw = random.Random(f"teams {seed}")
    policy = POLICIES[seed % len(POLICIES)]
    nodes = (draw.choice((2, 4, 8, 3, 5)),) * draw.randint(1, 3)
    teams = drawn_teams(draw, nodes)
    rent = draw.choice((0, 0, 0, 1, Fraction(1, 4))) if policy in PREEMPTING else 0
    rules = Rules(
        policy,
        nodes,
        consolidated=draw.random() < 0.5,
        quantum=draw.choice((60, 10)) if policy in ("las", "2d-las") else math.inf,
        thresholds=draw.choice(((64,), (16, 64), ())) if policy == "tiresias-l" else (),
        promote=draw.choice((math.inf, 2)) if policy == "tiresias-l" else math.inf,
        min_runtime=draw.choice((0, 0, None, 7, 30)),
        defragment_after=draw.choice((math.inf, math.inf, 0, 25)) if policy in PREEMPTING else math.inf,
        rent=rent,
        teams=teams,
    )
    return Case(rules, drawn_rows(draw, rules, exact_sizes=policy == "tiresias-l" or rent > 0))


def drawn_teams(draw: random.Random, nodes: tuple[int, ...]) -> Teams:
    """Return queues, perhaps one above two others, with guarantees that the cluster can give."""
    names = ["a", "b", "c", "d"][: draw.randint(2, 4)]
    nested, left, teams = len(names) > 2 and draw.random() < 0.4, sum(nodes), []
    for name in names:
        guarantee = draw.randint(0, min(left, 6))
        left -= guarantee
        teams.append(drawn_team(draw, name, "top" if nested and name in "ab" else "", guarantee))
    if nested:
        below = sum(team.guarantee for team in teams if team.parent)
        teams.insert(0, Team("top", guarantee=below + draw.randint(0, left), priority=draw.choice((0, 0, 1))))
    memory = draw.random() < 0.3
    return Teams(
        tuple(teams),
        notice=draw.choice((0, 5, 20)),
        half_life=draw.choice((32, 128)) if memory else math.inf,
        horizon=draw.choice((4, 16)) if memory else 1,
        bookings=drawn_bookings(draw, nodes, [team.name for team in teams]),
    )


def drawn_team(draw: random.Random, name: str, parent: str, guarantee: int) -> Team:
    """Return one queue; no limit is below the guarantee."""
    return Team(
        name,
        parent,
        weight=draw.choice((1, 1, 2, 4, Fraction(1, 2))),
        guarantee=guarantee,
        priority=draw.choice((0, 0, 0, 1)),
        running=draw.choice((math.inf, math.inf, 3)),
        gpus=draw.choice((math.inf, math.inf, max(4, guarantee))),
        user_running=draw.choice((math.inf, math.inf, math.inf, 1)),
        user_gpus=draw.choice((math.inf, math.inf, math.inf, 4)),
    )


def drawn_bookings(draw: random.Random, nodes: tuple[int, ...], names: list[str]) -> tuple[Booking, ...]:
    """Return none or one advance reservation of a node."""
    if len(nodes) == 1 or draw.random() < 0.7:
        return ()
    begin = draw.randint(1, 100)
    return (Booking(draw.randrange(len(nodes)), draw.choice(names), begin, begin + draw.randint(1, 100)),)


def largest_job(teams: Teams, name: str, preemptible: bool, gpus: int) -> int:
    """Return the GPUs that a job of a queue may ask for, so that it can run at some time."""
    path = [teams[above] for above in teams.above(name)]
    most = min([gpus, path[0].user_gpus, *(team.gpus for team in path)])
    if preemptible:
        return int(most)
    own = path[0].guarantee
    for above, guarantee in [*((team.name, team.guarantee) for team in path[1:]), ("", gpus)]:
        own += guarantee - sum(team.guarantee for team in teams.children(above))
    return int(min(most, own))


def drawn_rows(draw: random.Random, rules: Rules, exact_sizes: bool) -> tuple[Row, ...]:
    """Return four to sixteen jobs that fit into the limits of their queues."""
    teams, total = rules.teams, sum(rules.nodes)
    leaves = [team.name for team in teams.teams if not teams.children(team.name)]
    costs = draw.choice((((0, 0),), ((0, 0),), ((5, 0),), ((0, 3),), ((1, 2), (4, 0.5), (0.25, 8))))
    limits, pinned = draw.choice((0.0, 0.5)), draw.choice((0.0, 0.0, 0.25))
    limits = 0.5 if rules.policy == "backfill" else limits
    apart, longest = draw.choice((1, 5, 20)), draw.choice((10, 60, 200))
    rows, at = [], 0
    for _ in range(draw.randint(4, 16)):
        at += draw.choice((0, draw.randint(0, apart)))
        queue, preemptible = draw.choice(leaves), draw.random() >= pinned
        most = largest_job(teams, queue, preemptible, total)
        preemptible, most = (preemptible, most) if most else (True, largest_job(teams, queue, True, total))
        gpus = min(draw.choice((1, 1, 2, 2, 4, 8) if exact_sizes else (1, 1, 2, 3, 4, 6)), most)
        if exact_sizes:
            gpus = 1 << (gpus.bit_length() - 1)
        length, (save, resume) = draw.randint(1, longest), draw.choice(costs)
        limit = length + draw.choice((0, 5, 40)) if draw.random() < limits else math.inf
        rows.append(Row(at, gpus, length, save, resume, limit, preemptible, queue, draw.choice("uv")))
    return tuple(rows)
