"""Which sizes of jobs have a slice at all: on an empty fabric, by the method that would search for it.

A size without one would wait for ever. The conditions are those of the searches when every GPU and every link is free, so that only
counts matter; on rails, a slice beyond one server takes whole servers, and one rail is looked at.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headway.network.fabric.model import Fabric
from headway.network.slices.circuits import MOST_CLASSES, ports_suffice

METHODS = ("vclos", "vclos-padded", "ocs-vclos")


def has_slice(fabric: Fabric, method: str, gpus: int, *, direct: bool = False) -> bool:
    """Return whether an empty fabric has a slice of `gpus` GPUs; `direct`: optical switches may join two leaves."""
    if gpus <= fabric.rails:
        return True
    return gpus % fabric.rails == 0 and _has_shape(fabric, method, _on_leaf(fabric), gpus // fabric.rails, direct)


def why_never(fabric: Fabric, method: str, gpus: int, *, direct: bool = False) -> str:
    """Return why no slice of `gpus` GPUs can ever be found, and the nearest sizes that have one; "" if one can."""
    if has_slice(fabric, method, gpus, direct=direct):
        return ""
    near = _nearest(fabric, method, gpus, direct)
    return (
        f"{gpus} GPUs can never be isolated by {method} on {fabric.name}: {_missing_shape(fabric, method, gpus)}; "
        f"the nearest {'sizes that fit are' if len(near) > 1 else 'size that fits is'} {' or '.join(map(str, near))}"
    )


def _on_leaf(fabric: Fabric) -> NDArray[np.int64]:
    """Return the GPUs of every leaf; on rails, of the leaves of one rail."""
    return np.bincount(fabric.server_leaf) * (fabric.gpus_per_server // fabric.rails)


def _has_shape(fabric: Fabric, method: str, on_leaf: NDArray[np.int64], gpus: int, direct: bool) -> bool:
    """Return whether a slice of `gpus` GPUs of one rail exists."""
    if gpus > on_leaf.sum():
        return False
    if gpus <= on_leaf.max():
        return True
    if fabric.ocs:
        return (direct and _joins_two_leaves(fabric, on_leaf, gpus)) or _has_ports(fabric, on_leaf, gpus)
    pods = [on_leaf]
    if fabric.kind == "three-tier":
        pods = [on_leaf[np.asarray(fabric.leaf_pod) == pod] for pod in range(fabric.pods)]
    within = _has_padded_shape if method == "vclos-padded" else _has_equal_shape
    return any(within(leaves, fabric.uplinks, gpus) for leaves in pods) or _spans_pods(fabric, pods, gpus)


def _nearest(fabric: Fabric, method: str, gpus: int, direct: bool) -> list[int]:
    """Return the nearest sizes below and above `gpus` that have a slice; there may be none above."""
    on_leaf = _on_leaf(fabric)
    most = _most_gpus(fabric, on_leaf)
    below, rest = divmod(gpus, fabric.rails)
    ways = range(min(below if rest else below - 1, most), 0, -1), range(below + 1, most + 1)
    sizes = (next((size for size in way if _has_shape(fabric, method, on_leaf, size, direct)), 0) for way in ways)
    return [size * fabric.rails for size in sizes if size]


def _most_gpus(fabric: Fabric, on_leaf: NDArray[np.int64]) -> int:
    """Return a bound on the GPUs of a slice, of one rail: a fabric may have a million, and larger sizes need no search."""
    linked = int(np.minimum(on_leaf, fabric.uplinks).sum())
    if fabric.ocs:
        linked = min(linked, min(fabric.spines, MOST_CLASSES) * fabric.uplinks * fabric.ocs.spine_fibres)
        return max(linked, int(on_leaf.max()) + fabric.uplinks)  # one leaf, or two that are joined
    return max(linked, int(on_leaf.max()))


def _missing_shape(fabric: Fabric, method: str, gpus: int) -> str:
    need, most = gpus // fabric.rails, min(fabric.gpus_per_leaf, fabric.uplinks)
    if gpus % fabric.rails:
        return f"on rails, a job beyond one server takes whole servers of {fabric.rails}"
    if fabric.ocs:
        return f"no P that divides {gpus} with {gpus}/P free ports for each of P classes of ranks"
    if fabric.kind == "three-tier":
        return f"no leaves of one pod, and no q pods x l leaves x n <= {most} with q*l*n = {gpus}"
    if method == "vclos-padded":
        return f"no M <= {fabric.uplinks} that divides {need} with leaves for {need} at M each"
    return f"no m <= {fabric.groups} leaves and n <= {most} with m*n = {need}"


def _widths(gpus: int, most: int) -> Iterator[int]:
    """Yield the numbers of common links that divide the GPUs."""
    return (width for width in range(1, most + 1) if gpus % width == 0)


def _has_equal_shape(on_leaf: NDArray[np.int64], uplinks: int, gpus: int) -> bool:
    """m leaves with n GPUs and the same n links each, m*n = N."""
    return any(width * int((on_leaf >= width).sum()) >= gpus for width in _widths(gpus, uplinks))


def _has_padded_shape(on_leaf: NDArray[np.int64], uplinks: int, gpus: int) -> bool:
    """Leaves with at most M GPUs and the same M links each, M dividing N."""
    return any(int(np.minimum(on_leaf, width).sum()) >= gpus for width in _widths(gpus, uplinks))


def _spans_pods(fabric: Fabric, pods: list[NDArray[np.int64]], gpus: int) -> bool:
    """Three tiers: q pods x l leaves x n GPUs, with l cores of each of n aggregation switches."""
    for width in _widths(gpus, fabric.uplinks):
        for leaves in _widths(gpus // width, fabric.cores_per_group):
            needed_pods = gpus // width // leaves
            if 2 <= needed_pods <= sum(int((on_leaf >= width).sum()) >= leaves for on_leaf in pods):
                return True
    return False


def _joins_two_leaves(fabric: Fabric, on_leaf: NDArray[np.int64], gpus: int) -> bool:
    """The two fullest leaves, with a circuit for every GPU of the one that gives fewer."""
    fewer, more = np.sort(on_leaf)[-2:] if len(on_leaf) > 1 else (0, 0)
    return bool(gpus - more <= min(fewer, fabric.uplinks))


def _has_ports(fabric: Fabric, on_leaf: NDArray[np.int64], gpus: int) -> bool:
    """Fibres of leaves and ports of spines: the plan of `ocs-vclos` looks at nothing else."""
    fibres = np.full(fabric.leaves, fabric.uplinks)
    ports = np.full(fabric.spines, fabric.uplinks * (fabric.ocs.spine_fibres if fabric.ocs else 0))
    return ports_suffice(on_leaf, fibres, ports, gpus)
