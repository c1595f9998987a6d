"""One allocation on a fabric outside the engine: from the certificates already issued to the next certificate.

`fabric allocate` and the tests use this; the manager and the simulator call the same kernels on their own ledger.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.network.certificates.certificate import Certificate
from headway.network.certificates.issue import issue_leaf_spine, issue_ocs, issue_pods, reissue
from headway.network.fabric.model import Fabric
from headway.network.sharing.traffic import Pattern, choose_pattern, clean_patterns, why_undefined
from headway.network.slices.circuits import BLOCKED, find_circuits
from headway.network.slices.fallback import Slice, solve_slice
from headway.network.slices.padded import find_padded
from headway.network.slices.solver import OutOfTime, PodChoice, solve_pods
from headway.network.slices.vclos import (
    NO_ROOM,
    NODE_BUDGET,
    UNDECIDED,
    UNPROVEN,
    can_ever_fit,
    find_slice,
    free_per_leaf,
    possible_sizes,
)

METHODS = ("vclos", "vclos-padded", "ocs-vclos")


@dataclass(slots=True)
class Occupancy:
    """What of a fabric is still free."""

    fabric: Fabric
    gpu_free: NDArray[np.bool_]
    masks: NDArray[np.uint64]  # free uplinks per leaf (rail fabrics: per segment, equal on all its rails)
    core_free: NDArray[np.bool_]  # three tiers: pod, aggregation, core
    partner: NDArray[np.int64]  # OCS: see `colouring`
    owner: NDArray[np.int64]
    held: tuple[Certificate, ...] = ()

    def free_per_server(self) -> NDArray[np.int64]:
        """Free GPUs of every server."""
        return np.asarray(self.gpu_free.reshape(self.fabric.servers, -1).sum(axis=1), np.int64)


def empty(fabric: Fabric) -> Occupancy:
    """A fabric nobody uses yet."""
    vertices = fabric.leaves + fabric.spines * fabric.ocs.spine_fibres if fabric.ocs else 0
    circuits = np.full((vertices, fabric.uplinks), -1, np.int64)
    return Occupancy(
        fabric=fabric,
        gpu_free=np.ones(fabric.gpus, np.bool_),
        masks=fabric.free_masks(),
        core_free=np.ones((fabric.pods, fabric.uplinks, fabric.cores_per_group), np.bool_),
        partner=circuits,
        owner=circuits.copy(),
    )


def occupied_by(fabric: Fabric, certificates: list[Certificate]) -> Occupancy:
    """What the certificates leave free. They must be of this fabric and hold nothing twice (`verify` says which)."""
    state = empty(fabric)
    state.held = tuple(certificates)
    cables = {fabric.cable_name(cable): cable for cable in range(fabric.cables)}
    base = fabric.leaves * fabric.uplinks
    for number, held in enumerate(certificates):
        if held.fabric != fabric:
            raise BadInput(f"certificate {number + 1} is of fabric {held.fabric.name}, not of {fabric.name}")
        if not state.gpu_free[list(held.rank_order)].all():
            raise BadInput(
                f"certificate {number + 1} holds GPUs that an earlier one holds: run `fabric verify` on them"
            )
        state.gpu_free[list(held.rank_order)] = False
        for link in held.links:
            cable = cables[link]
            if cable >= base:
                switch, core = divmod(cable - base, fabric.cores_per_group)
                state.core_free[switch // fabric.uplinks, switch % fabric.uplinks, core] = False
                continue
            leaf, uplink = divmod(cable, fabric.uplinks)
            group = leaf // fabric.gpus_per_server if fabric.kind == "rail" else leaf
            state.masks[group] &= np.uint64(~(1 << uplink) & (2**64 - 1))
        for one in held.circuits:
            sub = fabric.leaves + one.spine * fabric.ocs.spine_fibres + one.fibre if fabric.ocs else -1
            far = one.other_leaf if one.other_leaf >= 0 else sub
            state.partner[one.leaf, one.ocs], state.partner[far, one.ocs] = far, one.leaf
            state.owner[one.leaf, one.ocs] = state.owner[far, one.ocs] = number
    return state


@dataclass(frozen=True, slots=True)
class Answer:
    """A certificate, or why there is none.

    `moved` are the circuits of earlier certificates that had to move, as rows (number of the certificate, leaf, old
    OCS, old far end); `reissued` are those certificates by number, as they read now.
    """

    certificate: Certificate | None
    reason: str = ""
    undecided: bool = False
    moved: tuple[tuple[int, ...], ...] = ()
    reissued: tuple[tuple[int, Certificate], ...] = ()


def allocate(state: Occupancy, gpus: int, method: str, pattern: Pattern | None = None) -> Answer:
    """A slice for a job of `gpus` GPUs that runs `pattern` (chosen with the slice when None)."""
    fabric = state.fabric
    _check(fabric, gpus, method, pattern)
    chosen = pattern or choose_pattern(gpus)
    if int(state.gpu_free.sum()) < gpus:
        return Answer(None, f"{gpus} GPUs asked, {int(state.gpu_free.sum())} free")
    if method == "ocs-vclos":
        answer = _ocs(state, gpus, chosen)
    elif fabric.kind == "rail":
        answer = _rail(state, gpus, method, chosen)
    elif fabric.kind == "three-tier":
        answer = _three_tier(state, gpus, method, chosen)
    else:
        answer = _two_tier(state, gpus, method, chosen)
    if answer.certificate and str(chosen) not in answer.certificate.patterns:
        clean = ", ".join(answer.certificate.patterns)
        return Answer(None, f"the slice found for {gpus} GPUs is not clean for {chosen}; it would be for {clean}")
    return answer


def _check(fabric: Fabric, gpus: int, method: str, pattern: Pattern | None) -> None:
    """Refuse what no state of the fabric could give."""
    if method not in METHODS:
        raise BadInput(f"method {method!r}: one of {', '.join(METHODS)}")
    if (method == "ocs-vclos") != (fabric.ocs is not None):
        right = "ocs-vclos" if fabric.ocs else "vclos or vclos-padded"
        raise BadInput(f"fabric {fabric.name} {'has' if fabric.ocs else 'has no'} OCS layer: use {right}, not {method}")
    if not 1 <= gpus <= fabric.gpus:
        raise BadInput(f"{gpus} GPUs asked: fabric {fabric.name} has {fabric.gpus}")
    reason = why_undefined(pattern, gpus) if pattern else ""
    if reason:
        raise BadInput(reason)
    unit = fabric.gpus_per_server if fabric.kind == "rail" and gpus > fabric.gpus_per_server else 1
    if gpus % unit:
        below = gpus // unit * unit
        raise BadInput(
            f"{gpus} GPUs can never be isolated on rails: whole servers of {unit} only, so {below} or {below + unit}"
        )
    if fabric.ocs and gpus <= fabric.ocs.switches * fabric.ocs.spine_fibres:
        return  # one spine takes any split over the leaves
    per_leaf = fabric.gpus_per_leaf
    if not can_ever_fit(fabric.groups, per_leaf, fabric.uplinks, gpus // unit):
        below, above = possible_sizes(fabric.groups, per_leaf, fabric.uplinks, gpus // unit)
        near = " or ".join(str(size * unit) for size in (below, above) if size)
        raise BadInput(
            f"{gpus} GPUs can never be isolated by {method} on {fabric.name}: no m <= {fabric.groups} leaves and n <= "
            f"{min(per_leaf, fabric.uplinks)} with m*n = {gpus // unit}; the nearest sizes that fit are {near}"
        )


def _search(
    method: str, free: NDArray[np.int64], leaf: NDArray[np.int64], masks: NDArray[np.uint64], gpus: int, block: int
) -> Slice:
    """The compiled search, then the MILP where the node budget left it undecided: status, width and the slice."""
    nodes, counts = np.empty(free.size, np.int64), np.empty(free.size, np.int64)
    taken = np.zeros(masks.size, np.uint64)
    find = find_padded if method == "vclos-padded" else find_slice
    status, entries, width, _ = find(free, leaf, masks, gpus, block, NODE_BUDGET, nodes, counts, taken)
    if status in (UNDECIDED, UNPROVEN):
        solved = solve_slice(method, free, leaf, masks, gpus, block, width or gpus)
        if solved[0] != UNDECIDED or status == UNDECIDED:
            return solved
    return status, width, nodes[:entries], counts[:entries], taken


def _refusal(status: int, gpus: int, what: str) -> Answer:
    """Why the search gave nothing."""
    if status == NO_ROOM:
        return Answer(
            None, f"no {what} for {gpus} GPUs is free now: enough GPUs, but not on leaves that share free links"
        )
    return Answer(None, f"undecided: the search for {gpus} GPUs ran past {NODE_BUDGET} nodes", undecided=True)


def _two_tier(state: Occupancy, gpus: int, method: str, pattern: Pattern) -> Answer:
    fabric = state.fabric
    found = _search(method, state.free_per_server(), fabric.server_leaf, state.masks, gpus, pattern.group)
    status, width, nodes, counts, taken = found
    if not nodes.size:
        return _refusal(status, gpus, "slice")
    return Answer(issue_leaf_spine(fabric, state.gpu_free, nodes, counts, taken, width, pattern))


def _rail(state: Occupancy, gpus: int, method: str, pattern: Pattern) -> Answer:
    """Rails: within one server, or whole servers; solve for one rail, the same links on all of them."""
    fabric, free = state.fabric, state.free_per_server()
    if gpus <= fabric.gpus_per_server:
        fitting = np.nonzero(free >= gpus)[0]
        if not fitting.size:
            return Answer(None, f"no server has {gpus} GPUs free")
        best = fitting[np.argmin(free[fitting])]
        nodes, counts = np.array([best]), np.array([gpus])
        none = np.zeros(fabric.groups, np.uint64)
        return Answer(issue_leaf_spine(fabric, state.gpu_free, nodes, counts, none, 0, pattern))
    whole = np.asarray(free == fabric.gpus_per_server, np.int64)
    units = gpus // fabric.gpus_per_server
    block = pattern.group // fabric.gpus_per_server
    status, width, nodes, counts, taken = _search(method, whole, fabric.server_leaf, state.masks, units, block)
    if not nodes.size:
        return _refusal(status, gpus, "slice of whole servers")
    counts = counts * fabric.gpus_per_server
    return Answer(issue_leaf_spine(fabric, state.gpu_free, nodes, counts, taken, width, pattern))


def _three_tier(state: Occupancy, gpus: int, method: str, pattern: Pattern) -> Answer:
    """Three tiers: within the tightest pod as on two tiers; across pods by the MILP, equal pods, leaves and ranks."""
    fabric, free = state.fabric, state.free_per_server()
    pod_of_leaf = np.asarray(fabric.leaf_pod)
    leaf_free = free_per_leaf(free, fabric.server_leaf, fabric.leaves)
    room = np.bincount(pod_of_leaf, weights=leaf_free)
    best: tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]] | None = None
    for pod in np.argsort(room, kind="stable"):
        inside = np.where(pod_of_leaf[fabric.server_leaf] == pod, free, 0)
        _, width, nodes, counts, taken = _search(method, inside, fabric.server_leaf, state.masks, gpus, pattern.group)
        # One leaf (width 0) beats several; of several, the most ranks a leaf.
        if nodes.size and (best is None or (best[0] > 0 and (width == 0 or width > best[0]))):
            best = width, nodes, counts, taken
    if best:
        width, nodes, counts, taken = best
        return Answer(issue_leaf_spine(fabric, state.gpu_free, nodes, counts, taken, width, pattern))
    try:
        choice, width = _across_pods(state, leaf_free, pod_of_leaf, gpus, pattern)
    except OutOfTime as error:
        return Answer(None, f"undecided: {error}", undecided=True)
    if choice is None:
        return _refusal(NO_ROOM, gpus, "slice within or across pods")
    return Answer(issue_pods(fabric, state.gpu_free, choice, width, pattern))


def _across_pods(
    state: Occupancy, leaf_free: NDArray[np.int64], pod_of_leaf: NDArray[np.int64], gpus: int, pattern: Pattern
) -> tuple[PodChoice | None, int]:
    """The first feasible shape q pods x l leaves x n ranks, n then l descending, that keeps the pattern clean."""
    fabric = state.fabric
    for width in range(min(gpus, fabric.uplinks, int(leaf_free.max())), 0, -1):
        promised = clean_patterns(gpus, width, pattern.group)
        if gpus % width or (pattern.group and pattern not in promised):
            continue
        for leaves in range(min(gpus // width, fabric.cores_per_group), 0, -1):
            pods, rest = divmod(gpus // width, leaves)
            if rest or not 2 <= pods <= fabric.pods:
                continue
            shape = (pods, leaves, width)
            choice = solve_pods(state.masks, state.core_free, leaf_free, pod_of_leaf, shape)
            if choice:
                return choice, width
    return None, 0


def _ocs(state: Occupancy, gpus: int, pattern: Pattern) -> Answer:
    fabric, free = state.fabric, state.free_per_server()
    assert fabric.ocs
    nodes, counts = np.empty(fabric.servers, np.int64), np.empty(fabric.servers, np.int64)
    moves = np.empty((fabric.leaves * fabric.uplinks, 4), np.int64)
    partner, owner = state.partner.copy(), state.owner.copy()
    job = len(state.held)
    case, entries, width, moved = find_circuits(
        free, fabric.server_leaf, partner, owner, fabric.ocs.spine_fibres, fabric.leaves, gpus, pattern.group, job,
        nodes, counts, moves,
    )  # fmt: skip
    if case == BLOCKED:
        return Answer(
            None, f"ports for {gpus} GPUs are free, but leaves joined directly close an odd cycle of circuits"
        )
    if case == NO_ROOM:
        return Answer(None, f"no spine ports for {gpus} GPUs are free now")
    certificate = issue_ocs(
        fabric, state.gpu_free, partner, owner, job, nodes[:entries], counts[:entries], case, width, pattern
    )
    rows = tuple(tuple(map(int, row)) for row in moves[:moved])
    owners = sorted({row[0] for row in rows})
    again = tuple((number, reissue(state.held[number], partner, owner, number)) for number in owners)
    return Answer(certificate, moved=rows, reissued=again)
