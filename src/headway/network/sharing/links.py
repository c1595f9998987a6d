"""The tables of a shared network: who uses which directed link, and what that costs each job.

One record array per idea. They travel together as `Links`, a tuple of six: kernels pass it by value, and a simulated world of thirty
arrays made every run half as slow again, also those without a network (decision 0037).
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.network.fabric.model import Fabric

ECMP, BALANCED, SOURCE = 0, 1, 2
RULES: Final = {"ecmp": ECMP, "balanced": BALANCED, "source": SOURCE}
NO_RULE: Final = -1  # nothing is shared
ONE_FLOW: Final = 65536  # means are whole numbers of this part of a flow, so that leaving restores every total exactly

HEAD: Final = np.dtype(
    [
        ("rule", "i8"),
        ("seed", "i8"),
        ("leaves", "i8"),
        ("uplinks", "i8"),  # per leaf
        ("cores", "i8"),  # per aggregation switch; 0: two tiers
        ("rails", "i8"),  # GPUs per server on a rail fabric, else 0
        ("core_base", "i8"),  # the first cable between aggregation and core
        ("free_use", "i8"),
        ("free_share", "i8"),
        ("stamp", "i8"),  # of the last search for jobs that share links
    ]
)
# `nic` is the position of the GPU's NIC on its leaf.
GPU: Final = np.dtype([("leaf", "i4"), ("nic", "i4"), ("pod", "i4")])
DIRECTED: Final = np.dtype(
    [
        ("total", "i8"),  # mean flows of all jobs, in 1/ONE_FLOW
        ("load", "i4"),  # scratch: flows of the step that is being recorded
        ("first_share", "i4"),
    ]
)
JOB: Final = np.dtype(
    [
        ("base", "f8"),  # weight of the steps that use no link
        ("factor", "f8"),  # the answer: how much longer its communication takes than on a clean network
        ("duty", "f8"),  # the part of its time that it communicates
        ("pattern", "i4"),  # network/sharing/steps.py
        ("sends", "i4"),
        ("first_use", "i4"),
        ("first_share", "i4"),
        ("stamp", "i8"),  # scratch: of the last search that found this job
        ("met", "i4"),  # scratch: row i is the i-th job that the last search found
    ]
)
# A job's use of one link in one step; uses of a step follow each other in the job's chain.
USE: Final = np.dtype([("weight", "f8"), ("step", "i4"), ("flows", "i4"), ("share", "i4"), ("next", "i4")])
# A job's mean use of one link over all its steps. `next` chains the shares of a job, `after` and `before` those on the link.
SHARE: Final = np.dtype(
    [("mean", "i8"), ("job", "i4"), ("link", "i4"), ("next", "i4"), ("after", "i4"), ("before", "i4")]
)


class Links(NamedTuple):
    """A fabric, the rule by which flows choose their links, and who uses which link now."""

    head: NDArray[Any]  # one row
    gpus: NDArray[Any]
    directed: NDArray[Any]  # by directed link: 2 x cable is up, 2 x cable + 1 is down
    jobs: NDArray[Any]
    uses: NDArray[Any]  # a pool with a free list
    shares: NDArray[Any]  # a pool with a free list


def no_links() -> Links:
    """A network without contention."""
    head = np.zeros(1, HEAD)
    head["rule"] = NO_RULE
    return Links(head, *(np.zeros(0, dtype) for dtype in (GPU, DIRECTED, JOB, USE, SHARE)))


def new_links(fabric: Fabric, rule: str, seed: int, jobs: int, uses: int) -> Links:
    """Links without users, with room for `uses` uses in all."""
    if fabric.ocs:
        raise BadInput(f"fabric {fabric.name}: paths through optical switches exist only for slices; use ocs-vclos")
    head = np.zeros(1, HEAD)
    head["rule"], head["seed"] = RULES[rule], seed
    head["leaves"], head["uplinks"], head["cores"] = fabric.leaves, fabric.uplinks, fabric.cores_per_group
    head["rails"] = fabric.gpus_per_server if fabric.kind == "rail" else 0
    head["core_base"] = fabric.leaves * fabric.uplinks
    gpus = np.zeros(fabric.gpus, GPU)
    gpus["leaf"], gpus["nic"] = fabric.leaf_of_gpu, fabric.nic_of_gpu
    gpus["pod"] = np.asarray(fabric.leaf_pod)[fabric.leaf_of_gpu] if fabric.leaf_pod else 0
    directed, table = np.zeros(2 * fabric.cables, DIRECTED), np.zeros(jobs, JOB)
    directed["first_share"] = table["first_use"] = table["first_share"] = -1
    table["factor"] = table["duty"] = 1.0
    pool, shares = np.zeros(uses, USE), np.zeros(uses, SHARE)
    pool["next"] = shares["next"] = np.append(np.arange(1, uses), -1)
    return Links(head, gpus, directed, table, pool, shares)
