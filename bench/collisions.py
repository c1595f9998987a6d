"""What ECMP does to collectives: collisions against the closed form, and the load of the fullest link by routing rule.

python -m bench.collisions
"""

import math
import time

import numpy as np

from headway.network.certificates.allocate import allocate, empty
from headway.network.fabric.model import Fabric
from headway.network.fabric.presets import PRESETS
from headway.network.sharing.routing import LINKS_PER_FLOW, RULES, route_step, wiring_of
from headway.network.sharing.slowdown import worst_loads
from headway.network.sharing.traffic import parse_pattern, step_rows, steps_of

NONE = np.empty(0, np.int64)


def closed_form(trials: int) -> None:
    """n flows of one leaf on n uplinks: how often no two share an uplink, against n!/n^n."""
    print(f"{'flows = uplinks':>15} {'n!/n^n':>9} {'measured':>9} {'standard error':>15}   ({trials:,} seeds)")
    for flows in (2, 3, 4, 6, 8):
        fabric = Fabric("pair", "leaf-spine", (0, 1), flows, flows)
        wiring, gpus = wiring_of(fabric), np.arange(2 * flows)
        senders, links = np.empty(gpus.size, np.int64), np.empty((gpus.size, LINKS_PER_FLOW), np.int64)
        clean = 0
        for seed in range(trials):
            count = route_step(RULES["ecmp"], seed, 0, 0, flows, 2 * flows, gpus, wiring, NONE, 1, senders, links)
            up = links[:count, 0][senders[:count] < flows]
            clean += np.unique(up).size == flows
        expected = math.factorial(flows) / flows**flows
        error = math.sqrt(expected * (1 - expected) / trials)
        print(f"{flows:>15} {expected:>9.5f} {clean / trials:>9.5f} {error:>15.5f}")


def full_permutation(seeds: int) -> None:
    """Every GPU of 16 leaves sends to the next leaf: the fullest of all links."""
    fabric = PRESETS["vclos-512"]()
    wiring, scratch = wiring_of(fabric), np.zeros(fabric.directed_links, np.int64)
    step = np.array([[0, 32, 512]])
    for name in ("ecmp", "balanced", "source"):
        loads = [
            int(worst_loads(RULES[name], seed, 0, step, np.arange(512), wiring, NONE, 1, scratch)[0])
            for seed in range(seeds)
        ]
        print(
            f"full permutation, 16 leaves x 32 uplinks, {name:<9} mean worst load {np.mean(loads):.2f}, most {max(loads)}"
        )


def by_pattern(seeds: int) -> None:
    """One job of 64 GPUs, alone: time of its traffic against clean links, by rule and pattern.

    Placed twice: as vclos would (whole leaves) and on 64 GPUs at random, as a busy cluster leaves them.
    """
    fabric = PRESETS["vclos-512"]()
    wiring, scratch = wiring_of(fabric), np.zeros(fabric.directed_links, np.int64)
    rng = np.random.default_rng(0)
    sliced = allocate(empty(fabric), 64, "vclos").certificate
    assert sliced
    print(f"{'64 GPUs alone: communication time, 1 = clean':<46} {'ring':>6} {'halving':>8} {'all-to-all':>11}")
    for place in ("a slice", "random GPUs"):
        for name in ("ecmp", "balanced", "source", "isolated"):
            if name == "isolated" and place != "a slice":
                continue
            cells = []
            for pattern in ("ring", "halving-doubling", "all-to-all"):
                rows, weights = step_rows(steps_of(parse_pattern(pattern), 64))
                spines = np.asarray(sliced.routing["spines"])
                times = []
                for seed in range(seeds):
                    gpus = np.asarray(sliced.rank_order)
                    if place == "random GPUs":
                        gpus = np.sort(rng.choice(512, 64, replace=False))
                    worst = worst_loads(RULES[name], seed, 0, rows, gpus, wiring, spines, 1, scratch)
                    times.append(float((weights * np.maximum(worst, 1)).sum()))
                cells.append(np.mean(times))
            print(f"  {place:<14} {name:<29} {cells[0]:>6.2f} {cells[1]:>8.2f} {cells[2]:>11.2f}")


def main() -> None:
    """Print every table."""
    print("python -m bench.collisions")
    start = time.process_time()
    closed_form(100_000)
    full_permutation(1000)
    by_pattern(200)
    print(f"CPU {time.process_time() - start:.1f} s in all")


if __name__ == "__main__":
    main()
