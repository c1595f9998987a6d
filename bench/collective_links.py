"""Degraded and irregular networks: how near plans made link by link come to the bound of their network.

Run: python -m bench.collective_links          one bad link on small networks
     python -m bench.collective_links random   60 random directed networks: docs/results/themis-links.svg
"""

import sys
import time
from pathlib import Path

import numpy as np
from bench.line_chart import line_chart

from headway.collectives.simulate.cost import CollectiveKind
from headway.errors import BadInput
from headway.io.files import write_atomically
from headway_wiring.files import wiring_from
from headway_wiring.model import Link, Wiring
from headway_wiring.plan import replayed
from headway_wiring.spread import plan_wiring
from headway_wiring.text import faults_from

GB = 10**9
AR, AG = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
CASES = (
    ("ring:8:800Gbps:700ns", "0-1"),
    ("ring:4:400Gbps:700ns,ring:4:400Gbps:700ns", "0-1"),
    ("fullyconnected:8:700Gbps:700ns", "0-1"),
    ("fullyconnected:8:1400Gbps:700ns,ring:4:800Gbps:700ns", "0-1"),
    ("switch:8:1600Gbps:700ns,switch:4:400Gbps:1700ns", "0-dim2.0"),
)
LEFT = (1.0, 0.5, 0.1, 0.0)
NETWORKS = 60
SEED = 14
SPEEDS_GBPS = (50.0, 100.0, 200.0, 400.0)
PICTURE = Path(__file__).parents[1] / "docs" / "results" / "themis-links.svg"


def main(what: str = "faults") -> None:
    """One of the two tables."""
    print("python -m bench.collective_links" + ("" if what == "faults" else f" {what}"))
    {"faults": faults, "random": random_networks}[what]()


def faults() -> None:
    """One link of a network at a fraction of its bandwidth."""
    print("all-reduce of 1 GB; one link at a fraction of its bandwidth, both ways")
    print(f"{'network':52} {'link':9} left     bound ms   planned     part   the healthy plan  CPU s")
    for network, ends in CASES:
        whole = wiring_from(network)
        healthy = plan_wiring(whole, AR, GB)
        for left in LEFT:
            begin = time.process_time()
            wiring = whole.changed(faults_from([f"{ends}:{left}"]))
            plan = plan_wiring(wiring, AR, GB)
            span = time.process_time() - begin
            assert plan.bound is not None
            told = f"{plan.bound.time_s * 1e3:10.3f} {plan.time_s * 1e3:10.3f} {plan.bound.time_s / plan.time_s:8.1%}"
            print(f"{network:52} {ends:9} {left:4} {told}   {unaware(healthy, wiring):>12} {span:9.1f}")


def random_networks() -> None:
    """The distribution of what is reached over random networks; also as a plot."""
    print(f"{NETWORKS} random directed networks of 4 to 10 ranks, seed {SEED}: part of the bound, percentiles")
    rng = np.random.default_rng(SEED)
    drawn = [random_wiring(rng) for _ in range(NETWORKS)]
    lines = {}
    for kind in (AG, AR):
        found = [plan_wiring(wiring, kind, GB) for wiring in drawn]
        parts = [plan.bound.time_s / plan.time_s for plan in found if plan.bound]
        print(f"{kind:12}" + "".join(f"{value:8.3f}" for value in np.percentile(parts, [0, 5, 25, 50, 75, 95, 100])))
        lines[str(kind)] = (100 * np.percentile(parts, range(0, 101, 5))).tolist()
    title = f"Part of the bound reached (%), by percentile of {NETWORKS} random directed networks"
    ticks = [str(step) if step % 10 == 0 else "" for step in range(0, 101, 5)]
    write_atomically(PICTURE, line_chart(title, ticks, lines))
    print(f"wrote {PICTURE.relative_to(PICTURE.parents[2])}")


def unaware(healthy, wiring: Wiring) -> str:  # type: ignore[no-untyped-def]
    """What the plan of the healthy network takes now."""
    try:
        return f"{replayed(healthy, wiring).time_s * 1e3:.3f}"
    except BadInput:
        return "cannot run"


def random_wiring(rng: np.random.Generator) -> Wiring:
    """A random circle, so that every rank reaches every other, and two random links per rank besides."""
    count = int(rng.integers(4, 11))
    circle = rng.permutation(count).tolist()
    ends = {(circle[i - 1], circle[i]) for i in range(count)}
    for _ in range(2 * count):
        ends.add(tuple(rng.integers(count, size=2).tolist()))
    links = [Link(str(a), str(b), float(rng.choice(SPEEDS_GBPS)), 700.0) for a, b in sorted(ends) if a != b]
    return Wiring("random", tuple(str(rank) for rank in range(count)), (), tuple(links))


if __name__ == "__main__":
    main(*sys.argv[1:2])
