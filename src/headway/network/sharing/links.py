"""The tables of a shared network: who uses which directed link, and what that costs each job.

One record array per idea. They travel together as `Links`, a tuple of a few: kernels pass it by value, and a simulated world of thirty
arrays made every run half as slow again, also those without a network (decision 0037).
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.tables import by_address
from headway.core.tables.state import TIMER
from headway.errors import BadInput
from headway.network.fabric.model import Fabric
from headway.network.sharing.rules import Sharing

ECMP, BALANCED, SOURCE, SPRAY = 0, 1, 2, 3
RULES: Final = {"ecmp": ECMP, "balanced": BALANCED, "source": SOURCE, "spray": SPRAY}
NO_RULE: Final = -1  # nothing is shared
SNAPSHOTS: Final = 32  # moments that the mean over others is taken over (snapshots.py); a power of two
ALL: Final = np.uint64((1 << SNAPSHOTS) - 1)
WHOLE: Final = (
    65536  # times on a link are whole numbers of this part of all time, so that leaving restores every total exactly
)

HEAD: Final = np.dtype(
    [
        ("rule", "i8"),
        ("seed", "i8"),
        ("leaves", "i8"),
        ("uplinks", "i8"),  # per leaf
        ("cores", "i8"),  # per aggregation switch; 0: two tiers
        ("rails", "i8"),  # GPUs per server on a rail fabric, else 0
        ("core_base", "i8"),  # the first cable between aggregation and core
        ("server", "i8"),  # GPUs per server
        ("ratio", "f8"),  # bandwidth inside a server / of a link
        ("queue_pairs", "i8"),  # a flow is cut into this many parts, each with a path of its own
        ("clean", "f8"),  # time of a step on the network that meets nobody: above 1 where spraying is not perfect
        ("interleaved", "i8"),  # jobs that share a link take turns on it
        ("iterations", "i8"),  # of a job, step by step; 0: means over snapshots
        ("slices", "i8"),  # jobs may hold links of their own, which the flows of others avoid
        ("slices_started", "i8"),  # number of slices that have taken links so far
        ("free_stage", "i8"),
        ("free_use", "i8"),
        ("free_share", "i8"),
        ("heap", "i8"),  # ends of phases on the heap
        ("stamp", "i8"),  # of the last search for jobs that share links
    ]
)
# `nic` is the position of the GPU's NIC on its leaf.
GPU: Final = np.dtype([("leaf", "i4"), ("nic", "i4"), ("pod", "i4")])
LEAF: Final = np.dtype(
    [
        ("works", "u8"),  # uplinks that have not failed, as bits
        ("alive", "u8"),  # uplinks of `works` that no job holds, as bits
        ("left", "i8"),  # number of uplinks in `alive`
        ("turn", "i8"),  # scratch
    ]
)
DIRECTED: Final = np.dtype(
    [
        ("total", "i8"),  # part of the time that jobs use it, one after the other, in 1/WHOLE
        ("width", "f8"),  # flows that pass in the time of one flow on a clean link
        ("load", "i4"),  # step by step: flows now
        ("count", "i4"),  # scratch: flows of the step that is being recorded
        ("first_share", "i4"),
        ("latest", "i4"),  # scratch: the share that was made or found last
    ]
)
JOB: Final = np.dtype(
    [
        ("silent", "f8"),  # weight of the steps that use no link
        ("factor", "f8"),  # the answer: how much longer its communication takes than on a clean network
        ("duty", "f8"),  # the part of its time that it communicates on a clean network
        ("pattern", "i4"),  # network/sharing/steps.py
        ("sends", "i4"),
        ("first_stage", "i4"),
        ("first_share", "i4"),
        ("order", "u8"),  # the hash that spreads its moments over the snapshots
        ("on", "u8"),  # snapshots in which it sends, as bits
        ("stamp", "i8"),  # scratch: of the last search that found this job
        ("met", "i4"),  # scratch: row i is the i-th job that the last search found
        ("chose_at", "i8"),  # `slices_started` when its flows chose their links
        # Step by step only (exact.py):
        ("stage", "i4"),  # the one it is in; -1: it computes, or sends within a leaf
        ("iteration", "f8"),  # seconds of one on a clean network
        ("left", "f8"),  # seconds of work left as of `timed`, on a clean network
        ("rest", "f8"),  # of that, in this phase
        ("timed", "f8"),
        ("pace", "f8"),  # its speed but for the network
        ("worst", "f8"),  # load of its fullest link now
        ("phases", "i8"),  # counts its phases: an end on the heap holds while it carries the job's count
    ]
)
# A step of a job that uses links. `first` to `first + count - 1` are the moments, of the job's SNAPSHOTS, that it stands for.
STAGE: Final = np.dtype([("weight", "f8"), ("first", "i4"), ("count", "i4"), ("first_use", "i4"), ("next", "i4")])
# A job's use of one link in one step.
USE: Final = np.dtype([("flows", "i4"), ("link", "i4"), ("share", "i4"), ("next", "i4")])
# A job's use of one link over all its steps. `next` chains the shares of a job, `after` and `before` those on the link.
SHARE: Final = np.dtype(
    [
        ("mean", "i8"),  # part of its time that it uses the link, in 1/WHOLE
        ("job", "i4"),
        ("link", "i4"),
        ("flows", "i4"),  # step by step: flows now
        ("next", "i4"),
        ("after", "i4"),
        ("before", "i4"),
    ]
)


@by_address
class Links(NamedTuple):
    """A fabric, the rule by which flows choose their links, and who uses which link now."""

    head: NDArray[Any]  # one row
    gpus: NDArray[Any]
    leaves: NDArray[Any]
    directed: NDArray[Any]  # by directed link: 2 x cable is up, 2 x cable + 1 is down
    crowd: NDArray[np.int32]  # by directed link and snapshot: flows of all jobs
    worst: NDArray[np.float32]  # by job and snapshot: the time of its step there
    jobs: NDArray[Any]
    stages: NDArray[Any]  # a pool with a free list, as the two that follow
    uses: NDArray[Any]
    shares: NDArray[Any]
    ends: NDArray[Any]  # a heap of phases to end


def no_links() -> Links:
    """A network without contention."""
    head = np.zeros(1, HEAD)
    head["rule"] = NO_RULE
    tables: list[NDArray[Any]] = [np.zeros(0, dtype) for dtype in (GPU, LEAF, DIRECTED)]
    tables += [np.zeros((0, SNAPSHOTS), dtype) for dtype in (np.int32, np.float32)]
    tables += [np.zeros(0, dtype) for dtype in (JOB, STAGE, USE, SHARE, TIMER)]
    return Links(head, *tables)


def new_links(fabric: Fabric, sharing: Sharing, seed: int, jobs: int, uses: int) -> Links:
    """Links without users, with room for `uses` uses in all."""
    if fabric.ocs:
        raise BadInput(f"fabric {fabric.name}: paths through optical switches exist only for slices; use ocs-vclos")
    gpus = np.zeros(fabric.gpus, GPU)
    gpus["leaf"], gpus["nic"] = fabric.leaf_of_gpu, fabric.nic_of_gpu
    gpus["pod"] = np.asarray(fabric.leaf_pod)[fabric.leaf_of_gpu] if fabric.leaf_pod else 0
    leaves = np.zeros(fabric.leaves, LEAF)
    leaves["works"] = leaves["alive"] = (1 << fabric.uplinks) - 1
    leaves["left"] = fabric.uplinks
    directed, table = np.zeros(2 * fabric.cables, DIRECTED), np.zeros(jobs, JOB)
    directed["width"] = sharing.queue_pairs
    if sharing.rule == "spray":  # the first cable of a leaf, and of a pod, stands for all of them
        base = 2 * fabric.leaves * fabric.uplinks
        directed["width"][:base] = fabric.uplinks * sharing.efficiency
        directed["width"][base:] = fabric.uplinks * fabric.cores_per_group * sharing.efficiency
    directed["first_share"] = table["first_stage"] = table["first_share"] = table["stage"] = -1
    table["factor"] = table["duty"] = table["pace"] = 1.0
    stages, pool, shares = np.zeros(max(uses // 2, 1), STAGE), np.zeros(uses, USE), np.zeros(uses, SHARE)
    shares["job"] = -1
    for free in (stages, pool, shares):
        free["next"] = np.append(np.arange(1, len(free)), -1)
    crowd = np.zeros((0 if sharing.exact else 2 * fabric.cables, SNAPSHOTS), np.int32)
    worst = np.zeros((0 if sharing.exact else jobs, SNAPSHOTS), np.float32)
    ends = np.zeros(4 * fabric.gpus + 64 if sharing.exact else 0, TIMER)
    return Links(_head(fabric, sharing, seed), gpus, leaves, directed, crowd, worst, table, stages, pool, shares, ends)


def _head(fabric: Fabric, sharing: Sharing, seed: int) -> NDArray[Any]:
    head = np.zeros(1, HEAD)
    head["rule"], head["seed"] = RULES[sharing.rule], seed
    head["leaves"], head["uplinks"], head["cores"] = fabric.leaves, fabric.uplinks, fabric.cores_per_group
    head["rails"] = fabric.gpus_per_server if fabric.kind == "rail" else 0
    head["core_base"] = fabric.leaves * fabric.uplinks
    head["server"], head["ratio"] = fabric.gpus_per_server, fabric.server_gbps / fabric.link_gbps
    head["queue_pairs"], head["clean"] = sharing.queue_pairs, 1.0 / sharing.efficiency
    head["interleaved"], head["iterations"] = sharing.interleaved, sharing.exact
    return head
