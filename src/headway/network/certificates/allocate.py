"""One allocation on a fabric outside the engine: from the certificates already issued to the next certificate.

`headway fabric allocate` uses this; placements call the same kernels on the engine's ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import BadInput
from headway.network.certificates.certificate import Certificate
from headway.network.certificates.form import MOST_RANKS
from headway.network.certificates.issue import circuits_of, issue_leaf_spine, issue_ocs, issue_pods, reissue
from headway.network.fabric.failures import failed_cables, failed_spines
from headway.network.fabric.model import Fabric
from headway.network.sharing.patterns import Pattern, choose_pattern, clean_patterns, why_undefined
from headway.network.slices.circuits import find_circuits
from headway.network.slices.colouring import BLOCKED, Circuits, block_port, connect, copied, new_circuits
from headway.network.slices.fallback import solve_slice
from headway.network.slices.padded import find_padded
from headway.network.slices.room import NO_ROOM, UNDECIDED, UNPROVEN, Room, new_room, survey, take_in_leaf
from headway.network.slices.sizes import METHODS, why_never
from headway.network.slices.solver import OutOfTime, PodChoice, solve_pods
from headway.network.slices.vclos import NODE_BUDGET, find_slice


@dataclass(slots=True)
class Occupancy:
    """What of a fabric is still free."""

    fabric: Fabric
    gpu_free: NDArray[np.bool_]
    masks: NDArray[np.uint64]  # free uplinks per leaf (rail fabrics: per segment, equal on all its rails)
    core_free: NDArray[np.bool_]  # three tiers: pod, aggregation, core
    circuits: Circuits  # through optical switches; each is held by the number of its certificate
    held: tuple[Certificate, ...]

    def free_per_server(self) -> NDArray[np.int64]:
        """Free GPUs of every server."""
        return np.asarray(self.gpu_free.reshape(self.fabric.servers, -1).sum(axis=1), np.int64)

    def room(self, free: NDArray[np.int64] | None = None) -> Room:
        """What is free, as the searches take it; `free` GPUs of every server where not all that are free count."""
        return new_room(self.free_per_server() if free is None else free, self.fabric.server_leaf, self.masks)

    def order(self, seats: NDArray[Any]) -> tuple[int, ...]:
        """The GPUs that seats stand for, one per rank: the lowest free ones of every server."""
        free = [np.nonzero(server)[0].tolist() for server in self.gpu_free.reshape(self.fabric.servers, -1)]
        each = self.fabric.gpus_per_server
        return tuple(int(one["server"]) * each + gpu for one in seats for gpu in free[one["server"]][: one["gpus"]])


def occupied_by(fabric: Fabric, certificates: Sequence[Certificate] = (), failed: Sequence[str] = ()) -> Occupancy:
    """What the certificates leave free of what works. They must be of this fabric and hold nothing twice (`verify` says which)."""
    gpu_free, cable_free = np.ones(fabric.gpus, np.bool_), np.ones(fabric.cables, np.bool_)
    circuits = new_circuits(fabric)
    cables = {fabric.cable_name(cable): cable for cable in range(fabric.cables if certificates else 0)}
    for number, held in enumerate(certificates):
        if held.fabric != fabric:
            raise BadInput(f"certificate {number + 1} is of fabric {held.fabric.name}, not of {fabric.name}")
        if not gpu_free[list(held.rank_order)].all():
            what = "holds GPUs that an earlier one holds"
            raise BadInput(f"certificate {number + 1} {what}: run `fabric verify` on them")
        gpu_free[list(held.rank_order)] = False
        cable_free[[cables[link] for link in held.links]] = False
        for one in held.circuits:
            sub = fabric.leaves + one.spine * fabric.ocs.spine_fibres + one.fibre if fabric.ocs else -1
            connect(circuits.ports, one.leaf, one.other_leaf if one.other_leaf >= 0 else sub, one.ocs, number)
    _fail(fabric, failed, cable_free, circuits)
    below, above = np.split(cable_free, [fabric.leaves * fabric.uplinks])
    uplinks = below.reshape(fabric.groups, -1, fabric.uplinks).all(axis=1)
    masks = (uplinks * (np.uint64(1) << np.arange(fabric.uplinks, dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
    core_free = above.reshape(fabric.pods, fabric.uplinks, fabric.cores_per_group)
    return Occupancy(fabric, gpu_free, masks, core_free, circuits, tuple(certificates))


def _fail(fabric: Fabric, failed: Sequence[str], cable_free: NDArray[np.bool_], circuits: Circuits) -> None:
    """Take away what does not work; behind optical switches, the ports that no circuit holds yet."""
    spines, others = failed_spines(fabric, failed)
    cables = failed_cables(fabric, others)
    cable_free[cables] = False
    if not fabric.ocs:
        return
    fibres, switches = fabric.ocs.spine_fibres, fabric.ocs.switches
    ports = {divmod(cable, switches) for cable in cables}
    rows = [fabric.leaves + spine * fibres + fibre for spine in spines for fibre in range(fibres)]
    ports |= {(row, switch) for row in rows for switch in range(switches)}
    for vertex, switch in ports:
        if circuits.ports[vertex, switch]["far"] < 0:
            block_port(circuits, vertex, switch)


def holders(fabric: Fabric, certificates: Sequence[Certificate], failed: Sequence[str]) -> list[int]:
    """The numbers of the certificates that hold what failed: their jobs need another slice."""
    spines, others = failed_spines(fabric, failed)
    cables = failed_cables(fabric, others)
    names, fibres = {fabric.cable_name(cable) for cable in cables}, {divmod(cable, fabric.uplinks) for cable in cables}
    numbers = []
    for number, held in enumerate(certificates):
        lost = any(tuple(link) in names for link in held.links)
        lost |= any((one.leaf, one.ocs) in fibres or (one.other_leaf, one.ocs) in fibres for one in held.circuits)
        lost |= any(one.other_leaf < 0 and one.spine in spines for one in held.circuits)
        if lost:
            numbers.append(number)
    return numbers


@dataclass(frozen=True, slots=True)
class Allocation:
    """A certificate, or why there is none.

    `moved` counts the circuits of earlier certificates that had to move; `reissued` are those certificates by number, as they read now.
    """

    certificate: Certificate | None
    reason: str = ""
    moved: int = 0
    reissued: tuple[tuple[int, Certificate], ...] = ()


def allocate(state: Occupancy, gpus: int, method: str, pattern: Pattern | None = None) -> Allocation:
    """A slice for a job of `gpus` GPUs that runs `pattern` (chosen with the slice when None)."""
    fabric = state.fabric
    _check(fabric, gpus, method, pattern)
    chosen = pattern or choose_pattern(gpus)
    if int(state.gpu_free.sum()) < gpus:
        return Allocation(None, f"{gpus} GPUs asked, {int(state.gpu_free.sum())} free")
    find = {"leaf-spine": _two_tier, "rail": _rail, "three-tier": _three_tier}[fabric.kind]
    answer = _ocs(state, gpus, chosen) if fabric.ocs else find(state, gpus, method, chosen)
    if answer.certificate and str(chosen) not in answer.certificate.patterns:
        clean = ", ".join(answer.certificate.patterns)
        return Allocation(None, f"the slice found for {gpus} GPUs is not clean for {chosen}; it would be for {clean}")
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
    if gpus > MOST_RANKS:
        raise BadInput(f"{gpus} GPUs asked: certificates are issued and checked for at most {MOST_RANKS:,} ranks")
    if pattern and (reason := why_undefined(pattern, gpus)):
        raise BadInput(reason)
    if reason := why_never(fabric, method, gpus, direct=True):
        raise BadInput(reason)


@dataclass(frozen=True, slots=True)
class _Slice:
    """What a search found: GPUs by server in rank order, links by leaf, and the modulus of its routing."""

    status: int
    seats: NDArray[Any]
    taken: NDArray[np.uint64]
    width: int


def _search(method: str, room: Room, gpus: int, block: int) -> _Slice:
    """The compiled search, then the MILP where the node budget left it undecided."""

    def found(status: int, count: int, width: int) -> _Slice:
        return _Slice(status, room.seats[:count].copy(), room.leaves["taken"].copy(), width)

    find = find_padded if method == "vclos-padded" else find_slice
    status, count, width, _ = find(room, gpus, block, NODE_BUDGET)
    searched = found(status, count, width)
    if status in (UNDECIDED, UNPROVEN):
        solved = found(*solve_slice(method, room, gpus, block, width or gpus))
        if solved.status != UNDECIDED or status == UNDECIDED:
            return solved
    return searched


def _refusal(status: int, gpus: int, what: str) -> Allocation:
    """Why the search gave nothing."""
    if status == NO_ROOM:
        why = "enough GPUs, but not on leaves that share free links"
        return Allocation(None, f"no {what} for {gpus} GPUs is free now: {why}")
    return Allocation(None, f"undecided: the search for {gpus} GPUs ran past {NODE_BUDGET} nodes")


def _issue(state: Occupancy, chosen: _Slice, pattern: Pattern) -> Allocation:
    return Allocation(issue_leaf_spine(state.fabric, state.order(chosen.seats), chosen.taken, chosen.width, pattern))


def _two_tier(state: Occupancy, gpus: int, method: str, pattern: Pattern) -> Allocation:
    chosen = _search(method, state.room(), gpus, pattern.group)
    return _issue(state, chosen, pattern) if len(chosen.seats) else _refusal(chosen.status, gpus, "slice")


def _rail(state: Occupancy, gpus: int, method: str, pattern: Pattern) -> Allocation:
    """Rails: within one server, or whole servers; solve for one rail, the same links on all of them."""
    fabric, free = state.fabric, state.free_per_server()
    if gpus <= fabric.gpus_per_server:
        chosen = _search(method, state.room(np.where(free >= gpus, free, 0)), gpus, 0)
        return (
            _issue(state, chosen, pattern) if len(chosen.seats) else Allocation(None, f"no server has {gpus} GPUs free")
        )
    whole = np.asarray(free == fabric.gpus_per_server, np.int64)
    chosen = _search(method, state.room(whole), gpus // fabric.gpus_per_server, pattern.group // fabric.gpus_per_server)
    if not len(chosen.seats):
        return _refusal(chosen.status, gpus, "slice of whole servers")
    chosen.seats["gpus"] *= fabric.gpus_per_server
    return _issue(state, chosen, pattern)


def _three_tier(state: Occupancy, gpus: int, method: str, pattern: Pattern) -> Allocation:
    """Three tiers: within the tightest pod as on two tiers; across pods by the MILP, equal pods, leaves and ranks."""
    fabric, free = state.fabric, state.free_per_server()
    pod_of_server = np.asarray(fabric.leaf_pod)[fabric.server_leaf]
    best: _Slice | None = None
    for pod in np.argsort(np.bincount(pod_of_server, weights=free), kind="stable"):
        chosen = _search(method, state.room(np.where(pod_of_server == pod, free, 0)), gpus, pattern.group)
        # One leaf (width 0) beats several; of several, the most ranks per leaf.
        if len(chosen.seats) and (
            best is None or (best.width > 0 and (chosen.width == 0 or chosen.width > best.width))
        ):
            best = chosen
    if best:
        return _issue(state, best, pattern)
    room = state.room()
    survey(room)
    try:
        choice = _across_pods(state, room.leaves["free"], gpus, pattern)
    except OutOfTime as error:
        return Allocation(None, f"undecided: {error}")
    if choice is None:
        return _refusal(NO_ROOM, gpus, "slice within or across pods")
    count = 0
    for leaf in choice.leaves:
        count = take_in_leaf(room, leaf, len(choice.aggregations), count)
    return Allocation(issue_pods(fabric, state.order(room.seats[:count]), choice, pattern))


def _across_pods(state: Occupancy, leaf_free: NDArray[np.int64], gpus: int, pattern: Pattern) -> PodChoice | None:
    """The first feasible shape q pods x l leaves x n ranks, n then l descending, that keeps the pattern clean."""
    fabric = state.fabric
    for width in range(min(gpus, fabric.uplinks, int(leaf_free.max())), 0, -1):
        if gpus % width or (pattern.group and pattern not in clean_patterns(gpus, width, pattern.group)):
            continue
        for leaves in range(min(gpus // width, fabric.cores_per_group), 0, -1):
            pods, rest = divmod(gpus // width, leaves)
            shape, pod_of_leaf = (pods, leaves, width), np.asarray(fabric.leaf_pod)
            if rest or not 2 <= pods <= fabric.pods:
                continue
            if choice := solve_pods(state.masks, state.core_free, leaf_free, pod_of_leaf, shape):
                return choice
    return None


def _ocs(state: Occupancy, gpus: int, pattern: Pattern) -> Allocation:
    fabric, room, circuits, job = state.fabric, state.room(), copied(state.circuits), len(state.held)
    case, count, width, moved = find_circuits(room, circuits, gpus, pattern.group, job)
    if case == BLOCKED:
        why = "leaves joined directly close an odd cycle of circuits"
        return Allocation(None, f"ports for {gpus} GPUs are free, but {why}")
    if case == NO_ROOM:
        return Allocation(None, f"no spine ports for {gpus} GPUs are free now")
    order = state.order(room.seats[:count])
    certificate = issue_ocs(fabric, order, circuits_of(fabric, circuits, job), case, width, pattern)
    owners = sorted(set(circuits.moves["job"][:moved].tolist()))
    again = tuple((number, reissue(state.held[number], circuits_of(fabric, circuits, number))) for number in owners)
    return Allocation(certificate, moved=int(moved), reissued=again)
