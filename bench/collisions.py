"""What ECMP does to collectives: collisions against the closed form, and the load of the fullest link by routing rule.

python -m bench.collisions
"""

import math
import time
from typing import Any

import numpy as np

from headway.network.certificates.allocate import allocate, occupied_by
from headway.network.certificates.verify import verify
from headway.network.fabric.model import Fabric
from headway.network.fabric.presets import PRESETS
from headway.network.sharing.links import RULES, Links, new_links
from headway.network.sharing.routing import LINKS_PER_FLOW, route_step
from headway.network.sharing.rules import Sharing
from headway.network.sharing.slowdown import join, leave
from headway.network.sharing.steps import PATTERNS, SHIFT, STEP, steps_on


def time_alone(links: Links, seed: int, gpus: Any, steps: Any) -> float:
    """Time of a job's communication alone on the fabric, 1 on clean links; of a single step, the load of the fullest link."""
    links.head["seed"] = seed
    join(links, 0, gpus, steps)
    found = float(links.jobs["factor"][0])
    leave(links, 0)
    return found


def closed_form(trials: int) -> None:
    """n flows of one leaf on n uplinks: how often no two share an uplink, against n!/n^n."""
    print(f"{'flows = uplinks':>15} {'n!/n^n':>9} {'measured':>9} {'standard error':>15}   ({trials:,} seeds)")
    for flows in (2, 3, 4, 6, 8):
        fabric = Fabric("pair", "leaf-spine", (0, 1), flows, flows)
        links, gpus = new_links(fabric, Sharing("ecmp"), 0, 1, 1), np.arange(2 * flows)
        across, paths = np.array([(SHIFT, flows, 1.0)], STEP)[0], np.empty((gpus.size, LINKS_PER_FLOW), np.int64)
        clean = 0
        for seed in range(trials):
            links.head["seed"] = seed
            route_step(links, 0, gpus, across, paths)
            clean += np.unique(paths[:flows, 0]).size == flows
        expected = math.factorial(flows) / flows**flows
        error = math.sqrt(expected * (1 - expected) / trials)
        print(f"{flows:>15} {expected:>9.5f} {clean / trials:>9.5f} {error:>15.5f}")


def full_permutation(seeds: int) -> None:
    """Every GPU of 16 leaves sends to the next leaf: the fullest of all links."""
    fabric = PRESETS["vclos-512"]()
    across = np.array([(SHIFT, 32, 1.0)], STEP)
    for name in RULES:
        links = new_links(fabric, Sharing(name), 0, 1, 1 << 11)
        loads = [round(time_alone(links, seed, np.arange(512), across)) for seed in range(seeds)]
        print(
            f"full permutation, 16 leaves x 32 uplinks, {name:<9} mean worst load {np.mean(loads):.2f}, most {max(loads)}"
        )


def by_pattern(seeds: int) -> None:
    """One job of 64 GPUs, alone: time of its traffic against clean links, by rule and pattern.

    Placed twice: as vclos would (whole leaves) and on 64 GPUs at random, as a busy cluster leaves them.
    """
    fabric = PRESETS["vclos-512"]()
    rng = np.random.default_rng(0)
    sliced = allocate(occupied_by(fabric), 64, "vclos").certificate
    assert sliced
    print(f"{'64 GPUs alone: communication time, 1 = clean':<46} {'ring':>6} {'halving':>8} {'all-to-all':>11}")
    for place in ("a slice", "random GPUs"):
        for name in RULES:
            links, cells = new_links(fabric, Sharing(name), 0, 1, 1 << 14), []
            for pattern in PATTERNS:
                times = []
                for seed in range(seeds):
                    gpus = np.asarray(sliced.rank_order)
                    if place == "random GPUs":
                        gpus = np.sort(rng.choice(512, 64, replace=False))
                    steps = np.zeros(64, STEP)
                    count = steps_on(PATTERNS[pattern], gpus, fabric.gpus_per_server, 10.0, steps)
                    times.append(time_alone(links, seed, gpus, steps[:count]))
                cells.append(np.mean(times))
            print(f"  {place:<14} {name:<29} {cells[0]:>6.2f} {cells[1]:>8.2f} {cells[2]:>11.2f}")
    found = {one.pattern: 1 / one.bound for one in verify([("slice", sliced.as_json())])[0].findings}
    cells = [found[pattern] for pattern in PATTERNS]
    print(f"  {'a slice':<14} {'isolated, by the verifier':<29} {cells[0]:>6.2f} {cells[1]:>8.2f} {cells[2]:>11.2f}")


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
