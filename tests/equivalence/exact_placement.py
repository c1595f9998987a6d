"""Placements of the second implementation: which GPUs of an offer a job gets."""

Place = dict[int, int]  # GPUs by node


def spread(offer: list[int], gpus: int) -> Place | None:
    """Return one GPU after the other from the node with the most left, or None."""
    left, place = list(offer), {}
    if sum(left) < gpus:
        return None
    for _ in range(gpus):
        node = left.index(max(left))
        left[node] -= 1
        place[node] = place.get(node, 0) + 1
    return place


def consolidated(offer: list[int], gpus: int, most: int) -> Place | None:
    """Return a place on at most `most` nodes: the fullest node that holds the rest, or else the emptiest whole."""
    left, place = list(offer), {}
    while gpus > 0:
        enough = [x for x in range(len(left)) if left[x] >= gpus]
        node = min(enough, key=lambda x: left[x]) if enough else left.index(max(left))
        if left[node] == 0 or len(place) == most:
            return None
        place[node] = min(gpus, left[node])
        left[node] -= place[node]
        gpus -= place[node]
    return place


def equal_parts(offer: list[int], gpus: int, nodes: int, emptiest: bool) -> Place | None:
    """Return equally many GPUs on each of N nodes, the emptiest or the fullest that have them, or None."""
    each = gpus // nodes
    enough = [node for node, left in enumerate(offer) if left >= each]
    if len(enough) < nodes:
        return None
    enough.sort(key=lambda node: (-offer[node] if emptiest else offer[node], node))
    return dict.fromkeys(enough[:nodes], each)


def fewest(nodes: tuple[int, ...], gpus: int) -> int:
    """Return the fewest nodes that have so many GPUs together."""
    count = 0
    for size in sorted(nodes, reverse=True):
        if gpus <= 0:
            break
        gpus, count = gpus - size, count + 1
    return count


def fits(place: Place, room: list[int]) -> bool:
    """Return whether every node has the GPUs of the place."""
    return all(room[node] >= gpus for node, gpus in place.items())


def plus(room: list[int], *places: Place) -> list[int]:
    """Return a room with the GPUs of these places."""
    return [gpus + sum(place.get(node, 0) for place in places) for node, gpus in enumerate(room)]


def minus(room: list[int], *places: Place) -> list[int]:
    """Return a room without the GPUs of these places."""
    return [gpus - sum(place.get(node, 0) for place in places) for node, gpus in enumerate(room)]


def at_least_0(room: list[int]) -> list[int]:
    """Return a room with 0 in place of negative numbers."""
    return [max(0, gpus) for gpus in room]
