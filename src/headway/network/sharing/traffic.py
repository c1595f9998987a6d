"""What a job sends, step by step: rows that say, for every rank, which rank it sends to.

A step is a shift (cyclic, whole or inside blocks), an XOR, or a line (a shift without wrap-around), with the share of
the message that each flow carries and how often the step repeats. vClos's theorem speaks of exactly these: every
shift is clean on a slice, every XOR when ranks per leaf and N are powers of two, shifts inside blocks of B ranks when
B divides n or n divides B.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.core.compiler.jit import jit
from headway.errors import BadInput, unknown

SHIFT, XOR, LINE = 0, 1, 2

PATTERNS = ("ring", "halving-doubling", "hierarchical-ring", "all-to-all", "pipeline", "hybrid")
DEFAULT_GROUP = 8  # GPUs of one server in vClos's evaluation: the inner ring of hierarchical-ring, the hybrid's block


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `kind` with `amount`; shifts turn inside blocks of `block` ranks. `share` of the message, `times`."""

    kind: int
    amount: int
    block: int
    share: float
    times: int = 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """A named pattern; `group` is the inner ring of hierarchical-ring or the block of hybrid."""

    name: str
    group: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.group}" if self.group else self.name


def parse_pattern(text: str) -> Pattern:
    """`ring`, `hybrid:16`, `hierarchical-ring:4`: the number is the group, 8 if left out."""
    name, _, group = text.partition(":")
    if name not in PATTERNS:
        raise unknown("pattern", name, PATTERNS)
    if name not in ("hybrid", "hierarchical-ring"):
        if group:
            raise BadInput(f"pattern {text!r}: {name} takes no group; write {name}")
        return Pattern(name)
    if group and (not group.isdigit() or int(group) < 1):
        raise BadInput(f"pattern {text!r}: the group is a number of ranks, as in {name}:8")
    return Pattern(name, int(group) if group else DEFAULT_GROUP)


def why_undefined(pattern: Pattern, ranks: int) -> str:
    """Why a job of so many ranks cannot run the pattern; empty if it can."""
    if pattern.name == "halving-doubling" and ranks & (ranks - 1):
        return f"halving-doubling needs a power of two of ranks, not {ranks}"
    if pattern.group and ranks % pattern.group:
        return f"{pattern} needs a multiple of {pattern.group} ranks, not {ranks}"
    return ""


def steps_of(pattern: Pattern, ranks: int) -> list[Step]:
    """The distinct steps of one collective (an iteration for pipeline and hybrid) over `ranks` ranks.

    Shares are of the buffer of one rank. Halving-doubling halves the vector while the distance doubles, so the
    largest messages go to the nearest ranks; distance 2^t is used once on the way in and once on the way out.
    """
    reason = why_undefined(pattern, ranks)
    if reason:
        raise BadInput(reason)
    if ranks < 2:
        return []
    if pattern.name == "ring":
        return [Step(SHIFT, 1, ranks, 1 / ranks, 2 * (ranks - 1))]
    if pattern.name == "halving-doubling":
        return [Step(XOR, 1 << t, ranks, 0.5 ** (t + 1), 2) for t in range(ranks.bit_length() - 1)]
    if pattern.name == "all-to-all":
        return [Step(SHIFT, k, ranks, 1 / ranks) for k in range(1, ranks)]
    if pattern.name == "pipeline":
        return [Step(LINE, 1, ranks, 1.0), Step(LINE, -1, ranks, 1.0)]
    group = pattern.group
    outer = [Step(SHIFT, group, ranks, 1 / ranks, 2 * (ranks // group - 1))] if ranks > group else []
    if pattern.name == "hierarchical-ring":
        inner = [Step(SHIFT, 1, group, 1 / group, 2 * (group - 1))] if group > 1 else []
        return inner + outer
    return [Step(SHIFT, k, group, 1 / group) for k in range(1, group)] + outer


def step_rows(steps: list[Step]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Steps as the kernels take them: rows (kind, amount, block), and each step's part of the traffic (sums to 1)."""
    rows = np.array([(step.kind, step.amount, step.block) for step in steps], np.int64).reshape(-1, 3)
    weight = np.array([step.share * step.times for step in steps], np.float64)
    return rows, weight / weight.sum() if weight.size else weight


@jit
def destination(kind: int, amount: int, block: int, ranks: int, rank: int) -> int:
    """The rank that `rank` sends to in a step; -1 if it sends nothing."""
    if kind == SHIFT:
        base = rank - rank % block
        return base + (rank - base + amount) % block
    if kind == XOR:
        return rank ^ amount
    target = rank + amount
    return target if 0 <= target < ranks else -1


@jit
def destinations(kind: int, amount: int, block: int, ranks: int) -> np.ndarray:
    """`destination` of every rank."""
    out = np.empty(ranks, np.int64)
    for rank in range(ranks):
        out[rank] = destination(kind, amount, block, ranks, rank)
    return out


def choose_pattern(ranks: int) -> Pattern:
    """The pattern a slice is given when the job names none: halving-doubling where it is defined, otherwise ring.

    Both move the same bytes; halving-doubling needs log2 N steps instead of N - 1.
    """
    return Pattern("ring" if ranks & (ranks - 1) else "halving-doubling")


def clean_patterns(ranks: int, width: int, group: int) -> list[Pattern]:
    """The patterns that the theorem promises clean on a slice of `width` ranks (or padded links) a leaf."""
    candidates = [Pattern(name, group if name in ("hybrid", "hierarchical-ring") else 0) for name in PATTERNS]
    defined = [pattern for pattern in candidates if not why_undefined(pattern, ranks)]
    if width == 0:
        return defined
    return [pattern for pattern in defined if _promised(pattern, width)]


def _promised(pattern: Pattern, width: int) -> bool:
    """One pattern of the theorem on `width` ranks a leaf."""
    if pattern.name == "halving-doubling":
        return width & (width - 1) == 0
    if pattern.group:
        return width % pattern.group == 0 or pattern.group % width == 0
    return True
