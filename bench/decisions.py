"""How long a decision takes in the loop of live worlds, with ten thousand active jobs on 65,536 GPUs.

    python -m bench.decisions [--policy headway] [--cluster 8192x8] [--active 10000] [--rounds 3000]

The loop is that of core/engine.py, in Python, around the compiled kernels, as a manager runs it; the world is simulated. A round is
everything between two instants: facts recorded, the decision, its actions recorded. Rounds count once the cluster is full and as many
jobs as asked for run or wait; whenever one ends, another arrives.
"""

import argparse
import time

import numpy as np

from headway.cluster.named import cluster
from headway.core.engine import Event
from headway.core.events import NO_JOB
from headway.core.tables.journal import empty, journal
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy
from headway.sim.run import Setting, prepare
from headway.sim.world_python import SimulatedWorld
from headway.workloads.workload import Workload, workload

WANTED_MS = 50.0
SIZES, ODDS = (1, 2, 4, 8, 16, 32, 64, 128), (0.3, 0.1, 0.1, 0.25, 0.1, 0.08, 0.05, 0.02)


def jobs(active: int, rounds: int, gpus: int, seed: int) -> Workload:
    """A few more jobs than are to be active within an hour, then one for each that ends: runs of minutes to days."""
    draw = np.random.default_rng(seed)
    active = int(1.25 * active)
    n = active + rounds
    sizes, spans = draw.choice(SIZES, n, p=ODDS), draw.lognormal(9.5, 1.5, n)
    ends_per_s = gpus / float(np.mean(sizes * spans))
    later = 3600.0 + np.cumsum(draw.exponential(1.0 / ends_per_s, rounds))
    return workload("decisions", np.concatenate([np.sort(draw.uniform(0.0, 3600.0, active)), later]), sizes, spans)


def main() -> None:
    """Print how long rounds and decisions take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="headway")
    parser.add_argument("--cluster", default="8192x8")
    parser.add_argument("--active", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3_000)
    given = parser.parse_args()
    where = cluster(given.cluster)
    made = jobs(given.active, given.rounds, where.total, 1)
    placed = find_placement("consolidated")
    engine, world = prepare(made, where, find_policy(given.policy), placed, Setting(preemption_cost=None))
    book = journal(engine.state, 1 << 16, False)
    simulated, counts = SimulatedWorld(engine, world, book), engine.state.counts
    rounds: list[float] = []
    decisions, active, waiting, wake = [], [], [], np.inf
    while (now := simulated.wait(wake)) is not None and len(rounds) < given.rounds:
        facts = simulated.facts(now)
        began = time.perf_counter()
        for event in facts:
            engine.record(event, now)
        for kind in engine.own_facts(wake, now):
            engine.record(Event(kind, NO_JOB), now)
        asked = time.perf_counter()
        decision = engine.decide(now)
        decided = time.perf_counter()
        for cause in decision.findings:
            engine.record(cause, now)
        for action in decision.actions:
            engine.record(action, now)
            for event in simulated.perform(action, now):
                engine.record(event, now)
        wake = engine.wake_at(now)
        if now > 3600.0:
            rounds.append(time.perf_counter() - began)
            decisions.append(decided - asked)
            active.append(int(counts["running"][0] + counts["waiting"][0] + counts["stopping"][0]))
            waiting.append(int(counts["waiting"][0]))
        empty(book)
    print(
        f"{given.policy} on {given.cluster}, {where.total:,} GPUs: {len(rounds):,} rounds, {min(active):,} to {max(active):,} active jobs, "
        f"{int(np.median(waiting)):,} of them waiting (median)"
    )
    for what, spans in (("a round", rounds), ("a decision", decisions)):
        p50, p99, worst = (1e3 * float(value) for value in (*np.percentile(spans, [50, 99]), max(spans)))
        said = (
            f"; wanted {WANTED_MS:g} ms at 99 %: {'met' if p99 <= WANTED_MS else 'MISSED'}" if what == "a round" else ""
        )
        print(f"{what}: {p50:.2f} ms median, {p99:.2f} ms at 99 %, {worst:.2f} ms at worst{said}")


if __name__ == "__main__":
    main()
