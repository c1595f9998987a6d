"""Which links a job with GPUs has, and why it has them: alone below a leaf, links of its own (isolated), or shared ones."""

from headway.io.units import counted
from headway.live.fabric.served import Links
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job
from headway.network.fabric.model import Fabric

MOST_SPINES = 4  # named on a leaf; `show --json` has all


def links_words(state: ClusterState, job: Job) -> str:
    """In a sentence; empty where no links are managed, or the job has no GPUs."""
    served = state.site.fabric
    if served is None or not job.seats or state.engine.uplinks == 0:
        return ""
    fabric = served.fabric
    if job.links:
        return f"isolated: {_named(fabric, job.links)} are its own, because {_why_own(state, job)}"
    leaves = sorted({int(fabric.leaf_of_gpu[seat]) for seat in job.seats})
    if len(leaves) == 1:
        return f"its GPUs are all below {fabric.leaf_name(leaves[0])}: it needs no link above it"
    between = ", ".join(fabric.leaf_name(leaf) for leaf in leaves)
    return (
        f"shared: it uses links of {between} that others may use too, because none could be had for it alone when it started, "
        "and it did not ask to wait for them (network: {isolation: vclos})"
    )


def missing_words(state: ClusterState, job: Job, free: int) -> tuple[str, list[str]]:
    """Why a job waits for links, with what would change that."""
    own = _why_own(state, job)
    line = f"it needs {counted(job.spec.gpus, 'GPU')} and {free} are free, but not with links for it alone, and {own}"
    change = ["a job with links or GPUs ends, so that a slice or enough GPUs below one leaf become free"]
    closed = [name for name, shut in zip(state.cluster.nodes, state.tables.nodes["closed"], strict=True) if shut]
    change += [f"headway nodes resume {name}" for name in closed[:1]]
    if state.engine.shares:
        change.append("network: {isolation: none} in its job file: it would share links")
    return line, change


def _why_own(state: ClusterState, job: Job) -> str:
    if job.spec.network.isolation != "none":
        return f"its job file asks for them (isolation: {job.spec.network.isolation})"
    if not state.engine.shares:
        return f"placement {state.placement} gives every job its own"
    return "they were free when it started"


def _named(fabric: Fabric, links: Links) -> str:
    """`2 links (leaf0 to spine1; leaf1 to spine1)`."""
    parts, total = [], 0
    for leaf, mask in links:
        ends = [fabric.upper_name(leaf, up) for up in range(fabric.uplinks) if mask >> up & 1]
        more = f" and {len(ends) - MOST_SPINES} more" if len(ends) > MOST_SPINES else ""
        parts.append(f"{fabric.leaf_name(leaf)} to {', '.join(ends[:MOST_SPINES])}{more}")
        total += len(ends)
    return f"{counted(total, 'link')} ({'; '.join(parts)})"
