"""Several chunks in flight, checked against a finer model: every step of every phase on its own.

The simulator treats a phase as one block of bytes and one delay. Here a ring phase is P - 1 steps, a switch phase
halving-doubling's log2 P, each with its bytes and its own delay, and the links serve other chunks while a step's delay
lasts. With one chunk in flight both must agree to the picosecond (but for rounding); with more, the difference is what
`--in-flight` can be trusted for.

Run: python -m bench.collective_steps
"""

import numpy as np

from headway.collectives.published import fresh_tracker, themis_orders
from headway.collectives.simulate import kernels
from headway.collectives.simulate.cost import PS_PER_NS, Collective, ps_per_byte, split_bytes, steps
from headway.collectives.simulate.kernels import OPERATION
from headway.collectives.simulate.operations import operations, queue_keys, slots
from headway.collectives.simulate.play import run_queues
from headway.collectives.topology.model import Dimension, Kind, Topology
from headway.collectives.topology.presets import PAPER

AR = Collective.ALL_REDUCE
SIZES = (10**7, 10**8, 10**9)
IN_FLIGHT = (1, 2, 4, 8, 16)


def step_bytes(dimension: Dimension, data: int, grows: bool) -> list[int]:
    """What each step of a phase sends, of `data` bytes at its larger end."""
    shard = -(-data // dimension.size)
    if dimension.kind is Kind.FULLY_CONNECTED:
        return [(dimension.size - 1) * shard]
    if dimension.kind is Kind.RING:
        return [shard] * (dimension.size - 1)
    sent, left = [], dimension.size
    while left > 1:
        sent.append((left // 2) * shard)
        left -= left // 2
    return sent[::-1] if grows else sent


def both_s(topology: Topology, size: int, chunks: int, intra: str, in_flight: int) -> tuple[float, float]:
    """The time of Themis with one operation per phase, and with one per step."""
    parts = split_bytes(size, chunks)
    rs = themis_orders(topology, AR, parts, fresh_tracker(topology, AR, intra))
    ops = operations(topology, AR, parts, rs, np.ascontiguousarray(rs[:, ::-1]))
    rank, bid = queue_keys(intra, ops)
    progress, _ = run_queues(ops, rank, bid, slots(topology, in_flight))
    rows, half = [], ops.phases // 2
    inverse = ps_per_byte(topology)
    for op in range(len(ops.dim)):
        dim, place = int(ops.dim[op]), op % ops.phases
        dimension = topology.dimensions[dim]
        sent = step_bytes(dimension, int(ops.larger_bytes[op]), place >= half)
        assert len(sent) == steps(dimension, AR)
        delay = round(dimension.latency_ns * PS_PER_NS * (2 if dimension.kind is Kind.SWITCH else 1))
        for number, data in enumerate(sent):
            starts = place == 0 and number == 0
            keys = (int(rank[op]), int(bid[op])) if number == 0 else (-1, -1)
            rows.append(
                (
                    dim,
                    not starts,
                    data * inverse[dim],
                    delay,
                    *keys,
                    place == ops.phases - 1 and number == len(sent) - 1,
                )
            )
    table = np.zeros(len(rows), OPERATION)
    for field, column in zip(
        ("resource", "needs", "occupy_ps", "latency_ps", "rank", "bid"), zip(*rows, strict=True), strict=False
    ):
        table[field] = np.ceil(np.array(column, np.float64) * (1 - 1e-12)) if field == "occupy_ps" else column
    follows = np.array([not row[-1] for row in rows])
    table["next_end"] = np.cumsum(follows)
    table["next_at"] = table["next_end"] - follows
    numbers = np.arange(len(rows))
    finer, _ = kernels.run_queues(table, numbers[follows] + 1, numbers, slots(topology, in_flight))
    return progress["finish_ps"].max() / 1e12, finer["finish_ps"].max() / 1e12


def main() -> None:
    """How far the phase model is from the step model, by chunks in flight."""
    print("python -m bench.collective_steps")
    print("time by phases / time by steps, Themis with 64 chunks on the paper's networks: mean, least, most")
    for intra in ("fifo", "scf"):
        for size in SIZES:
            for in_flight in IN_FLIGHT:
                ratios = [coarse / fine for coarse, fine in (both_s(t, size, 64, intra, in_flight) for t in PAPER)]
                told = f"{np.mean(ratios):.4f} {min(ratios):.4f} {max(ratios):.4f}"
                print(f"{intra:5} {size / 1e6:6.0f} MB  {in_flight:2} in flight   {told}")


if __name__ == "__main__":
    main()
