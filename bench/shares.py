"""GPU-time of backlogged teams against their weights, for every policy that allows queues: `python -m bench.shares`.

All teams always have waiting jobs. The error of a run is the largest relative error of a team's part of the GPU-time in the window
after the warm-up. `--half-life inf` is without memory.

A team can use its share only if one of its waiting jobs fits. Under sjf, short jobs come before the large jobs of their own team and take
the GPUs that become free for these. In the first mix, the team with weight 5 then has hardly any jobs but those of 4 and 8 GPUs left, and
other teams use the rest. In the last mix, the 1-GPU jobs of each team alone ask for more than its share: sjf keeps the shares there.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headway.cluster.nodes import of_groups
from headway.cluster.queues import HALF_LIFE_S, HORIZON_S, Queue, Queues
from headway.core.tables.journal import empty
from headway.io.units import seconds
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy, listed
from headway.sim.loop import JOURNAL_FULL, drive_compiled, new_buffers
from headway.sim.run import Setting, prepare
from headway.workloads.workload import Workload, workload

WITHOUT_QUEUES = ("gandiva", "optimus")
POLICIES = tuple(str(policy) for policy in listed() if str(policy) not in WITHOUT_QUEUES)
GPUS_PER_NODE = 8
SHORTEST_S, LONGEST_S = 300.0, 4 * 3600.0  # of jobs; the logarithm is uniform
DAY_S = 86400.0
PREEMPTION_S = 30.0
ROWS = 512  # of the journal between two looks at the clock


@dataclass(frozen=True, slots=True)
class Mix:
    """Teams with weights, and the sizes of their jobs."""

    name: str
    weights: tuple[float, ...]
    sizes: tuple[tuple[int, ...], ...]  # of each team
    overload: float = 1.2  # each team alone asks for this many times the cluster


MIXES = (
    Mix("1:2:5, sizes 1 1 2 4 8", (1.0, 2.0, 5.0), ((1, 1, 2, 4, 8),) * 3),
    Mix("1:1, sizes 2 and 8", (1.0, 1.0), ((2,), (8,))),
    Mix("1:2:5, 1-GPU jobs always wait", (1.0, 2.0, 5.0), ((1, 1, 2, 4, 8),) * 3, overload=6.0),
)


def jobs_of(mix: Mix, nodes: int, total_s: float, seed: int) -> Workload:
    """Return jobs of all teams that arrive over a time and keep every team backlogged."""
    draw = np.random.default_rng(seed)
    columns: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    for team, sizes in enumerate(mix.sizes):
        mean_s = (LONGEST_S - SHORTEST_S) / math.log(LONGEST_S / SHORTEST_S)
        jobs = int(mix.overload * nodes * GPUS_PER_NODE * total_s / (mean_s * float(np.mean(sizes))))
        run_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** draw.random(jobs)
        columns.append(
            (draw.random(jobs) * total_s, draw.choice(sizes, jobs), np.round(run_s), np.full(jobs, f"t{team}"))
        )
    submit, gpus, run_s, queue = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(submit, kind="stable")
    submit, gpus, run_s, queue = (column[order] for column in (submit, gpus, run_s, queue))
    limit_s = run_s * draw.choice((1.0, 1.5, 3.0), len(run_s))
    return workload("shares", np.floor(submit), gpus, run_s, limit_s=limit_s, queue=queue)


def used_gpu_s(mix: Mix, policy: str, queues: Queues, nodes: int, days: float, seed: int) -> np.ndarray:
    """Return the GPU-seconds of each team in the window: the last three quarters of the run."""
    total_s = days * DAY_S
    cluster = of_groups("shares", [(nodes, GPUS_PER_NODE)])
    setting = Setting(preemption_cost=PREEMPTION_S, min_runtime=None, queues=queues)
    jobs, placement = jobs_of(mix, nodes, total_s, seed), find_placement("consolidated")
    engine, world = prepare(jobs, cluster, find_policy(policy), placement, setting)
    buffers, begin = new_buffers(engine, ROWS, False), np.zeros(len(mix.weights))
    is_warm = False
    while True:
        ended = drive_compiled(*engine.parts, world, buffers)
        empty(buffers.journal)
        now, teams = float(world.clock["now"][0]), engine.state.teams[1:]
        used = teams["gpu_s"] + (now - teams["since"]) * (teams["used"] + teams["leaving"])
        if not is_warm and now >= total_s / 4:
            is_warm, begin = True, used.copy()
        if now >= total_s or ended != JOURNAL_FULL:
            return np.asarray(used - begin)


def error(mix: Mix, used: np.ndarray) -> float:
    """Return the largest relative error of a team's part of the GPU-time."""
    asked = np.array(mix.weights) / sum(mix.weights)
    return float(np.abs(used / used.sum() / asked - 1).max())


def queues_of(mix: Mix, half_life_s: float, horizon_s: float) -> Queues:
    """Return the queues of a mix."""
    rows = tuple(Queue(f"t{team}", weight=weight) for team, weight in enumerate(mix.weights))
    return Queues("shares", rows, half_life_s=half_life_s, horizon_s=horizon_s)


def rows(given: argparse.Namespace) -> Iterator[str]:
    """Return the table, row by row."""
    yield "| policy | " + " | ".join(mix.name for mix in MIXES) + " |"
    yield "|---" * (1 + len(MIXES)) + "|"
    for policy in given.policies.split(","):
        cells = []
        for mix in MIXES:
            queues = queues_of(mix, seconds_or_inf(given.half_life), seconds(given.horizon))
            errors = [
                error(mix, used_gpu_s(mix, policy, queues, given.nodes, given.days, seed))
                for seed in range(given.seeds)
            ]
            cells.append(f"{100 * max(errors):.1f} %")
        yield f"| {policy} | " + " | ".join(cells) + " |"


def seconds_or_inf(text: str) -> float:
    """Return a time in seconds; `inf`: infinity."""
    return math.inf if text == "inf" else seconds(text)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--half-life", default=f"{HALF_LIFE_S:g}s")
    parser.add_argument("--horizon", default=f"{HORIZON_S:g}s")
    parser.add_argument("--days", type=float, default=12.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--nodes", type=int, default=4)
    for row in rows(parser.parse_args()):
        print(row, flush=True)


if __name__ == "__main__":
    main()
