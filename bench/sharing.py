"""How fast slow-downs are kept up to date: one job joins or leaves 8,192 GPUs under ecmp.

python -m bench.sharing
"""

import time

import numpy as np

from headway.network.fabric.presets import PRESETS
from headway.network.sharing.links import new_links
from headway.network.sharing.rules import Sharing
from headway.network.sharing.slowdown import join, leave
from headway.network.sharing.steps import PATTERNS, STEP, steps_on

# As in bench/fabric.py: Helios-like sizes; half of the jobs halving-doubling, the rest ring or all-to-all (vClos).
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
WEIGHTS = np.array([32, 14, 12, 14, 10, 8, 5, 3, 1, 1]) / 100
MOST_RUNNING = 250
DUTY = 0.3


def main() -> None:
    """Random arrivals and departures; servers are taken side by side from what is free."""
    print("python -m bench.sharing")
    fabric = PRESETS["vclos-8192"]()
    links = new_links(fabric, Sharing("ecmp"), 1, 5000, 3_000_000)
    links.jobs["duty"] = DUTY
    rng = np.random.default_rng(0)
    free, held = list(range(fabric.servers)), []
    joins, leaves, touched = [], [], []
    for job in range(5000):
        gpus = int(rng.choice(SIZES, p=WEIGHTS))
        servers = max(1, gpus // fabric.gpus_per_server)
        while len(free) < servers or len(held) >= MOST_RUNNING:
            gone, given = held.pop(int(rng.integers(len(held))))
            start = time.thread_time()
            leave(links, gone)
            leaves.append(time.thread_time() - start)
            free = sorted(free + given)
        first = int(rng.integers(len(free) - servers + 1))
        given, free = free[first : first + servers], free[:first] + free[first + servers :]
        order = np.concatenate([np.arange(8) + 8 * server for server in given])[:gpus]
        pattern = str(rng.choice(["halving-doubling", "halving-doubling", "ring", "all-to-all"]))
        steps = np.zeros(max(gpus, 2), STEP)
        steps = steps[: steps_on(PATTERNS[pattern], order, fabric.gpus_per_server, 10.0, steps)]
        start = time.thread_time()
        met = join(links, job, order, steps)
        joins.append(time.thread_time() - start)
        if met < 0:
            raise SystemExit("the pools are too small")
        touched.append(met)
        held.append((job, given))
    joins, leaves = joins[10:], leaves[10:]  # the first ones compile
    print(
        f"8,192 GPUs, 5,000 jobs, {MOST_RUNNING} running: join mean {np.mean(joins) * 1e3:.3f} ms, worst "
        f"{max(joins) * 1e3:.1f} ms; leave mean {np.mean(leaves) * 1e3:.3f} ms, worst {max(leaves) * 1e3:.1f} ms; "
        f"{np.mean(touched):.2f} other jobs re-computed on average, at most {max(touched)}; "
        f"CPU {sum(joins) + sum(leaves):.2f} s in all"
    )


if __name__ == "__main__":
    main()
