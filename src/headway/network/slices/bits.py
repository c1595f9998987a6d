"""Helpers of the searches: sets of links as bits of one 64-bit word, and leaves sorted by small numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit


@jit
def popcount(word: np.uint64) -> np.int64:
    """How many bits are set (the usual halving sums; LLVM recognises them as one instruction)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@jit
def copy_into(target: NDArray[Any], source: NDArray[Any], size: int) -> None:
    """The first `size` entries; as a loop, because slice assignment takes seconds to compile."""
    for i in range(size):
        target[i] = source[i]


@jit
def common_to_at_least(leaves: NDArray[Any], members: NDArray[np.int64], size: int, least: int) -> np.uint64:
    """Links of at least `least` of the leaves[members[:size]].

    Counts all 64 columns at once: counter c holds bit c of every column's count, so adding a word is a ripple of
    carries (two steps on average) instead of a loop over its bits.
    """
    counters = np.zeros(17, np.uint64)
    for i in range(size):
        carry = leaves[members[i]].links
        c = 0
        while carry != np.uint64(0):
            old = counters[c]
            counters[c] = old ^ carry
            carry = old & carry
            c += 1
    above = np.uint64(0)
    equal = ~np.uint64(0)
    for c in range(16, -1, -1):
        if (least >> c) & 1:
            equal &= counters[c]
        else:
            above |= equal & counters[c]
            equal &= ~counters[c]
    return above | equal


@jit
def in_order(keys: NDArray[np.int64], least: int, most: int, out: NDArray[np.int64]) -> int:
    """Positions whose key lies in least..most, by ascending key, equal keys as they stand. Returns how many.

    A counting sort: keys are counts of GPUs, and it compiles in a fraction of the time of NumPy's sorts.
    """
    size = 0
    if most < least:
        return size
    starts = np.zeros(most - least + 2, np.int64)
    for i in range(keys.size):
        if least <= keys[i] <= most:
            starts[keys[i] - least + 1] += 1
            size += 1
    for key in range(most - least + 1):
        starts[key + 1] += starts[key]
    for i in range(keys.size):
        if least <= keys[i] <= most:
            out[starts[keys[i] - least]] = i
            starts[keys[i] - least] += 1
    return size
