"""Slices for models that suffer when their workers are apart (skew): on the fewest servers that can hold them, or not at all.

A job of N GPUs on its fewest servers has N / servers on each. Servers that cannot give that many are left out. The shape has the same
number on every leaf, or a multiple (`block` of the searches). If the fabric has no such slice at all, the job may have another one.
"""

from typing import Any

import numpy as np

from headway.core.compiler.jit import jit
from headway.network.slices.room import Room


@jit
def on_each(gpus: int, servers: int) -> int:
    """Return the GPUs on each server; 0 if they cannot be split evenly, or if the number of servers is 0."""
    return gpus // servers if servers > 0 and gpus % servers == 0 else 0


@jit
def keep_whole(room: Room, each: int) -> None:
    """Leave of every server what it can give in parts of `each` GPUs; 0: all."""
    for x in range(len(room.servers) if each > 0 else 0):
        room.servers[x].free -= room.servers[x].free % each


@jit(allocates=True)
def can_be_whole(nodes: Any, leaves: int, gpus: int, total: int, each: int) -> bool:
    """Whether an empty fabric has a slice of `gpus` GPUs with `each` on every server: one leaf, or m leaves x n with `each` dividing n."""
    servers = np.zeros(leaves, np.int64)
    for x in range(len(nodes.leaf)):
        servers[nodes.leaf[x]] += 1
    on_leaf = servers.min() * (total // len(nodes.leaf))
    if gpus <= on_leaf:
        return True
    possible = False
    for width in range(each, on_leaf + 1, each) if each > 0 else range(0):
        possible |= gpus % width == 0 and gpus // width <= leaves
    return possible


@jit
def is_whole(seats: int, gpus: int, servers: int) -> bool:
    """Whether so many seats are few enough: those of the fewest servers, one more where these cannot be split evenly; 0 servers: any."""
    return servers == 0 or seats <= servers + (gpus % servers != 0)
