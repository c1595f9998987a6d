"""The switches below the cluster, and the links that jobs have for themselves."""

from headway.live.queries.answers import HIDDEN, NetworkView, Uplink
from headway.live.queries.lists.listed import in_queue
from headway.live.queries.reservations import Sees
from headway.live.queries.story import bits
from headway.live.state.cluster import ClusterState

RESERVED = "links are reserved: no two jobs share one"
MIXED = "a job has links of its own where they can be had; jobs without share what is left"
UNKNOWN = "links are not managed: jobs share whatever the network gives them"


def network(state: ClusterState, now: float, sees: Sees) -> NetworkView:
    """Return the leaves with their nodes, and the links that jobs hold."""
    cluster, seen = state.cluster, in_queue(state, now, sees)
    with_gpus = tuple(seen.views([i for i, job in enumerate(seen.jobs) if job.places]))
    leaves: list[list[str]] = [[] for _ in range(max(cluster.leaves, default=-1) + 1)]
    for node, leaf in zip(cluster.nodes, cluster.leaves, strict=False):
        leaves[leaf].append(node)
    spines = max((mask.bit_length() for mask in cluster.links), default=0)
    held = links_held(state, {job.id for job in seen.jobs}) if state.engine.uplinks else ()
    kind = "leaf-spine" if leaves else "none"
    sharing = UNKNOWN if not state.engine.uplinks else MIXED if state.engine.shares else RESERVED
    name = state.site.fabric.fabric.name if state.site.fabric else cluster.name
    return NetworkView(now, kind, name, sharing, tuple(map(tuple, leaves)), spines, held, (), with_gpus)


def links_held(state: ClusterState, seen: set[int]) -> tuple[Uplink, ...]:
    """Return the links that jobs hold, by leaf and spine; `seen`: jobs that the caller may see."""
    links, table = [], state.tables.held_links
    for job in state.active_jobs():
        entry = int(state.tables.jobs["link"][job.row])
        number = job.id if job.id in seen else HIDDEN
        while entry >= 0:
            row = table[entry]
            links += [Uplink(int(row["leaf"]), spine, (number,), True) for spine in bits(int(row["mask"]))]
            entry = int(row["next"])
    return tuple(sorted(links, key=lambda link: (link.leaf, link.spine)))
