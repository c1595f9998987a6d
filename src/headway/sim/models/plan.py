"""The iteration model in the simulator: how fast a job is where it is, under the collective plan of the run.

A job computes for 1 and communicates for V t, with V what it has to say per second of computing and t the seconds that its places and its
plan take for it (headway/iteration). A trace's duration is the one on the fewest servers, on a clean network, with the baseline plan; so
its speed is (1 + V t usual) / (1 + V t here). What others on its links do to it comes on top (contention.py), by the part of its time
that it communicates: V t / (1 + V t), which is smaller where the plan is better.

V is that of the job's model where that was measured (iteration/models.py). Otherwise it is such that the job communicates for the part of
its time that was drawn for it (communication.py); a job that fits one server is taken to have as much to say as if it needed two.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.core.protocols import Placement
from headway.core.tables.state import State
from headway.iteration.models import find_model
from headway.iteration.plans import BASELINE, NO_PLAN, Bandwidth, Shape, communication_s
from headway.network.fabric.model import Fabric
from headway.network.sharing.steps import ALL_TO_ALL
from headway.sim.models.communication import Traffic
from headway.workloads.workload import Workload

PLAN: Final = np.dtype([("plan", "i8"), ("inside", "f8"), ("nic", "f8")])
# What sharing links is expected to cost, for deciding whether to wait for a slice: how much longer communication takes among others.
# Spanning jobs were measured at 1.1 to 2.0 (docs/results/vclos.md).
EXPECTED_CROWD: Final = 1.5
MOST_LOST: Final = 0.05  # a job that more nodes would slow by more than this is never spread
GBPS_INSIDE, GBPS_NIC = 1000.0, 100.0  # where no fabric is named: those of vClos's evaluation


class Talk(NamedTuple):
    """By job: what it has to say per second of computing, whether to all, and its usual length: 1 + V t."""

    volume: NDArray[np.float64]
    exchanges: NDArray[np.bool_]
    usual: NDArray[np.float64]


def plan_row(plan: int, fabric: Fabric | None) -> NDArray[Any]:
    """The plan of a run and the bandwidths that it meets."""
    row = np.zeros(1, PLAN)
    row["plan"] = plan
    row["inside"], row["nic"] = (fabric.server_gbps, fabric.link_gbps) if fabric else (GBPS_INSIDE, GBPS_NIC)
    return row


def talk_of(workload: Workload, traffic: Traffic, fewest: NDArray[np.int32], row: NDArray[Any]) -> Talk:
    """What the jobs of a workload have to say; `fewest` are the servers that each size needs."""
    at = Bandwidth(float(row["inside"][0]), float(row["nic"][0]))
    names, where = np.unique(workload.model, return_inverse=True)
    known = np.array([model.volume if (model := find_model(str(name))) else np.nan for name in names])[where]
    exchanges = (traffic.pattern == ALL_TO_ALL) & np.isnan(known)
    usual_s = _seconds(workload.gpus, fewest[workload.gpus], exchanges, at)
    spanning_s = _seconds(workload.gpus, np.maximum(fewest[workload.gpus], 2), exchanges, at)
    drawn = traffic.duty / (1.0 - traffic.duty) / np.where(spanning_s > 0, spanning_s, 1.0)
    volume = np.where(np.isnan(known), drawn, known) * (workload.gpus > 1)
    return Talk(volume, exchanges, 1.0 + volume * usual_s)


def _seconds(
    gpus: NDArray[Any], servers: NDArray[Any], exchanges: NDArray[np.bool_], at: Bandwidth
) -> NDArray[np.float64]:
    """Seconds per Gbit with the baseline plan, evenly on a number of servers."""
    seconds = np.zeros(len(gpus))
    keys = np.stack([gpus, servers, exchanges]).astype(np.int64)
    for size, count, to_all in np.unique(keys, axis=1).T.tolist():
        shape = Shape(max(1, size // count), count)
        here = (gpus == size) & (servers == count) & (exchanges == bool(to_all))
        seconds[here] = communication_s(BASELINE, bool(to_all), shape, at) if size > 1 else 0.0
    return seconds


class Waits(NamedTuple):
    """By job: how long it waits at most for links of its own and for the fewest nodes, per second that it is expected to run on."""

    slices: NDArray[np.float64] | float = 0.0
    whole: NDArray[np.float64] | float = 0.0


def waits_of(placement: Placement, duty: NDArray[np.float64] | float, apart: NDArray[np.float64] | float) -> Waits:
    """`patience` times the part of its time that a job is expected to lose: among others on its links, and on more nodes."""
    if not placement.shares:
        return Waits()
    lost = 1.0 / np.asarray(apart) - 1.0
    nodes = np.where(lost > MOST_LOST, np.inf, placement.spread_patience * lost)
    return Waits(placement.patience * duty * (EXPECTED_CROWD - 1.0), nodes)


def spread_speed(gpus: NDArray[Any], fewest: NDArray[np.int32], talk: Talk, row: NDArray[Any]) -> NDArray[np.float64]:
    """The speed of every job on twice the servers that it needs."""
    at, servers = Bandwidth(float(row["inside"][0]), float(row["nic"][0])), fewest[gpus]
    twice = _seconds(gpus, np.minimum(2 * servers, gpus), talk.exchanges, at)
    return np.asarray(talk.usual / (1.0 + talk.volume * twice))


@jit
def plans(row: Any) -> bool:
    """Whether the run has a collective plan."""
    return row.plan != NO_PLAN


@jit
def least_together(state: State, job: Any) -> tuple[int, int]:
    """GPUs of the job on the server that has the fewest of it, and its servers."""
    least, servers, here, node = 1 << 30, 0, 0, -1
    seat = job.seat
    while seat >= 0:
        if state.seats[seat].node != node:
            least = min(least, here) if node >= 0 else least
            node = state.seats[seat].node
            servers += 1
            here = 0
        here += 1
        seat = state.seats[seat].next
    return min(least, here), servers


@jit
def talk_here(state: State, row: Any, talk: Any, job: Any) -> float:
    """Return the communication of the job on its present nodes, per second of computing."""
    least, servers = least_together(state, job)
    seconds = communication_s(
        row.plan, talk.exchanges != 0, Shape(max(least, 1), max(servers, 1), 1), Bandwidth(row.inside, row.nic, 1.0)
    )
    return talk.volume * seconds
