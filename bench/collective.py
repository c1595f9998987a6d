"""How fast collectives are planned and simulated, and how good plans are on random networks and by number of chunks.

Run: python -m bench.collective            speed: CPU ms, and ratios that do not depend on the machine
     python -m bench.collective random     500 random networks: best against baseline, Themis and the limit
     python -m bench.collective chunks     at most, and exactly, 2 to 256 chunks on the paper's six networks: docs/results/themis-chunks.svg
     python -m bench.collective sizes      10 kB to 10 GB with latencies: docs/results/themis-sizes.svg
     python -m bench.collective trackers   what it changes where load trackers start: at zero, or at the fixed delays

On random networks and by size every method chooses its number of chunks, up to the same maximum; @64 fixes it.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench.line_chart import line_chart
from bench.random_topologies import random_size_bytes, random_topology

from headway.collectives.draft import Task, draft_by_queues
from headway.collectives.published import LIKE_THE_PUBLIC_CODE, themis_orders
from headway.collectives.schedulers import SchedulerOutcome, schedule
from headway.collectives.simulate.cost import CollectiveKind, latencies_ps, split_bytes
from headway.collectives.topology.model import Dimension, DimensionKind, Topology
from headway.collectives.topology.presets import PAPER, PRESETS
from headway.io.files import write_atomically

GB = 10**9
# CPU seconds of ASTRA-sim 1.0 for one 1024-NPU all-reduce with 64 chunks, the lower and upper end of what was measured.
ASTRA_SIM_S = (11.0, 16.0)
LARGE = Topology(
    "100,352 NPUs", (Dimension(DimensionKind.SWITCH, 392, 1200, 700), Dimension(DimensionKind.SWITCH, 256, 800, 1700))
)
METHODS = (
    ("baseline", {"scheduler": "baseline"}),
    ("themis-fifo", {"scheduler": "themis", "intra": "fifo"}),
    ("themis-scf", {"scheduler": "themis", "intra": "scf"}),
    ("themis-scf-public", {"scheduler": "themis", "intra": "scf-public"}),
    ("best", {"scheduler": "best"}),
)
NETWORKS = 500
SEED = 2022
COUNTS = (2, 4, 8, 16, 32, 64, 128, 256)
RESULTS = Path(__file__).parents[1] / "docs" / "results"
CHUNKS, RANDOM, BY_SIZE = (RESULTS / f"themis-{name}.svg" for name in ("chunks", "drawn", "sizes"))
BYTES = (10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**10)


def main(what: str = "speed") -> None:
    """Print one of the tables."""
    print("python -m bench.collective" + ("" if what == "speed" else f" {what}"))
    {"speed": speed, "random": random_networks, "chunks": chunks, "sizes": sizes, "trackers": trackers}[what]()


def speed() -> None:
    """CPU time of planning and simulating, after warm-up; the slowest of the paper's networks."""
    for name, options in METHODS:
        for latency in ("", ", bandwidth-bound"):
            spans = {
                t.name: cpu_ms(lambda t=t, options=options: schedule(t, GB, chunks=64, **options))
                for t in (topology.without_latency() if latency else topology for topology in PAPER)
            }
            worst = max(spans, key=lambda key: spans[key])
            low, high = (limit * 1e3 / spans[worst] for limit in ASTRA_SIM_S)
            print(
                f"{name + latency:36} {spans[worst]:8.2f} CPU ms (slowest: {worst}), "
                f"ASTRA-sim takes {low:,.0f} to {high:,.0f} times as long"
            )
    for name, options in METHODS:
        small, large = (
            cpu_ms(lambda t=t, options=options: schedule(t, GB, chunks=64, **options))
            for t in (PRESETS["2D-SW_SW"], LARGE)
        )
        print(f"{name:36} {LARGE.npus:,} NPUs cost {large / small:.2f} times what 1,024 do")


def cpu_ms(work: Callable[[], SchedulerOutcome], repeats: int = 5) -> float:
    """The least CPU time of several runs, after one that warms up."""
    work()
    spans = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        spans.append(time.process_time() - begin)
    return min(spans) * 1e3


def random_networks() -> None:
    """The distribution of best's advantage over random networks, 64 chunks at most for everybody; also as a plot."""
    rng = np.random.default_rng(SEED)
    rows = []
    for _ in range(NETWORKS):
        topology, size = random_topology(rng), random_size_bytes(rng)
        outcomes = [schedule(topology, size, most_chunks=64, **options) for _, options in METHODS]
        fixed = [schedule(topology, size, chunks=64, **options).time_s for _, options in METHODS[:-1]]
        baseline, *themis, best = (outcome.time_s for outcome in outcomes)
        with_latency = any(dimension.latency_ns for dimension in topology.dimensions)
        bounds = outcomes[0].limit.limit_s, outcomes[0].bound_s, with_latency
        rows.append((baseline, min(themis), best, fixed[0], min(fixed[1:]), *bounds))
    baseline, themis, best, baseline_64, themis_64, limit_s, bound_s, with_latency = np.array(rows).T
    free = with_latency == 0
    print(
        f"{NETWORKS} networks, seed {SEED}; percentiles          least     5 %    25 %    50 %    75 %    95 %    most"
    )
    for label, column in (
        ("baseline / best", baseline / best),
        ("best of Themis's / best", themis / best),
        ("quickest of all others / best", np.minimum(baseline, themis) / best),
        ("baseline@64 / best", baseline_64 / best),
        ("best of Themis's @64 / best", themis_64 / best),
        (f"part of T*, no latency ({free.sum()})", (limit_s / best)[free]),
        (f"part of T*, latency ({(~free).sum()})", (limit_s / best)[~free]),
        (f"part of latency bound, latency ({(~free).sum()})", (bound_s / best)[~free]),
    ):
        print(f"{label:44}" + "".join(f"{value:8.3f}" for value in np.percentile(column, [0, 5, 25, 50, 75, 95, 100])))
    loses = (np.minimum(baseline, themis) < best).sum()
    print(f"networks where best loses: {loses}; where Themis is slower than the baseline: {(themis > baseline).sum()}")
    print(f"where Themis@64 is slower than baseline@64: {(themis_64 > baseline_64).sum()}")
    steps = list(range(0, 101, 5))
    spans = {"baseline": baseline, "themis, best of 3": themis, "best": best}
    lines = {name: (100 * np.percentile(bound_s / span, steps)).tolist() for name, span in spans.items()}
    title = f"Part of the bound reached (%), by percentile of {NETWORKS} random networks"
    plot(RANDOM, title, [str(step) if step % 10 == 0 else "" for step in steps], lines)


def sizes() -> None:
    """Mean part of the bound with latencies, by size; everybody chooses, and Themis also with 64 chunks."""
    print("mean part of the bound, %" + " " * 11 + "".join(f"{size / 1e6:10g}" for size in BYTES) + "  MB")
    lines: dict[str, list[float]] = {}
    for name, options in METHODS:
        lines[name] = [100 * float(np.mean([_reached(t, size, **options) for t in PAPER])) for size in BYTES]
    lines["themis-scf@64"] = [
        100 * float(np.mean([_reached(t, size, scheduler="themis", intra="scf", chunks=64) for t in PAPER]))
        for size in BYTES
    ]
    for name, values in lines.items():
        print(f"{name:36}" + "".join(f"{value:10.2f}" for value in values))
    best = [np.mean([schedule(t, size).limit.limit_s / schedule(t, size).time_s for t in PAPER]) for size in BYTES]
    print(f"{'best, part of T*':36}" + "".join(f"{100 * value:10.2f}" for value in best))
    title = "Mean part of the bound with latencies (%) on six networks, by size"
    plot(BY_SIZE, title, ["10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB", "10 GB"], lines)


def _reached(topology: Topology, size: int, **options: object) -> float:
    outcome = schedule(topology, size, **options)  # type: ignore[arg-type]
    return outcome.bound_s / outcome.time_s


def plot(path: Path, title: str, ticks: list[str], lines: dict[str, list[float]]) -> None:
    """Write a chart for the documentation."""
    write_atomically(path, line_chart(title, ticks, lines))
    print(f"wrote {path.relative_to(path.parents[2])}")


def chunks() -> None:
    """Mean utilisation over the paper's networks, bandwidth-bound, by the largest number of chunks that each may choose; also as a plot.
    With `@n` the number is fixed."""
    print("mean utilisation, %" + " " * 17 + "".join(f"{count:8}" for count in COUNTS))
    lines: dict[str, list[float]] = {}
    for fixed, how in (("", "most_chunks"), ("@n", "chunks")):
        for name, options in METHODS[: -1 if fixed else None]:
            lines[name + fixed] = [
                100
                * float(
                    np.mean([schedule(t.without_latency(), GB, **{how: count}, **options).utilisation for t in PAPER])
                )
                for count in COUNTS
            ]
            print(f"{name + fixed:36}" + "".join(f"{value:8.2f}" for value in lines[name + fixed]))
    shown = {name: lines[name] for name in lines if "@" not in name or name == "themis-fifo@n"}
    title = "Mean utilisation (%) on six networks, 1 GB, bandwidth-bound, by the most chunks (@n: the number)"
    plot(CHUNKS, title, [str(count) for count in COUNTS], shown)


def trackers() -> None:
    """Times with load trackers that start at the fixed delays, against times with trackers that start at zero."""
    print("change in %, 64 chunks, with the latencies of the links")
    for size in (GB // 10, GB):
        for intra in LIKE_THE_PUBLIC_CODE:
            changes = [f"{topology.name} {_change(topology, size, intra):+.2f}" for topology in PAPER]
            print(f"{size / 1e6:g} MB {intra}: {', '.join(changes)}")


def _change(topology: Topology, size: int, intra: str) -> float:
    task, parts = Task(topology, CollectiveKind.ALL_REDUCE, size, 1), split_bytes(size, 64)
    delays = latencies_ps(topology, task.collective).astype(np.float64)
    ends = []
    for start in (np.zeros_like(delays), delays):
        orders = themis_orders(topology, task.collective, parts, start)
        ends.append(draft_by_queues(task, parts, orders, intra, "themis").end_ps)
    return 100 * (ends[1] / ends[0] - 1)


if __name__ == "__main__":
    main(*sys.argv[1:2])
