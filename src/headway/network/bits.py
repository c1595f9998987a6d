"""Sets of links as bits of one 64-bit word: counting, and taking some."""

import numpy as np

from headway.core.jit import jit


@jit
def popcount(word: np.uint64) -> np.int64:
    """How many bits are set (the usual halving sums; LLVM recognises them as one instruction)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@jit
def bit(index: int) -> np.uint64:
    """The word with only bit `index` set."""
    return np.uint64(1) << np.uint64(index)


@jit
def lowest(word: np.uint64, count: int) -> np.uint64:
    """The `count` lowest bits that are set in `word`."""
    taken = np.uint64(0)
    for _ in range(count):
        one = word & (~word + np.uint64(1))
        taken |= one
        word ^= one
    return taken


@jit
def common_to_at_least(words: np.ndarray, members: np.ndarray, size: int, least: int) -> np.uint64:
    """Bits set in at least `least` of the words[members[:size]].

    Counts all 64 columns at once: counter c holds bit c of every column's count, so adding a word is a ripple of
    carries (two steps on average) instead of a loop over its bits.
    """
    counters = np.zeros(17, np.uint64)
    for i in range(size):
        carry = words[members[i]]
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
