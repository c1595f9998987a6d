"""Patterns of communication by name, and what vClos's theorem promises for them on a slice.

Every shift of the ranks is clean on a slice, every XOR when ranks per leaf and N are powers of two, shifts inside blocks of B ranks when
B divides n or n divides B.
"""

from dataclasses import dataclass

from headway.errors import BadInput, unknown
from headway.io.json_file import shown
from headway.io.numbers import plain_whole

PATTERNS = ("ring", "halving-doubling", "hierarchical-ring", "all-to-all", "pipeline", "hybrid")
DEFAULT_GROUP = 8  # GPUs of one server in vClos's evaluation: the inner ring of hierarchical-ring, the hybrid's block


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
    size = plain_whole(group) if group else DEFAULT_GROUP
    if not size:
        raise BadInput(f"pattern '{shown(text)}': the group is a number of ranks, as in {name}:8")
    return Pattern(name, size)


def why_undefined(pattern: Pattern, ranks: int) -> str:
    """Return why a job with this number of ranks cannot run the pattern; empty if it can."""
    if pattern.name == "halving-doubling" and ranks & (ranks - 1):
        return f"halving-doubling needs a power of two of ranks, not {ranks}"
    if pattern.group and ranks % pattern.group:
        return f"{pattern} needs a multiple of {pattern.group} ranks, not {ranks}"
    return ""


def choose_pattern(ranks: int) -> Pattern:
    """The pattern a slice is given when the job names none: halving-doubling where it is defined, otherwise ring.

    Both move the same bytes; halving-doubling needs log2 N steps instead of N - 1.
    """
    return Pattern("ring" if ranks & (ranks - 1) else "halving-doubling")


def clean_patterns(ranks: int, width: int, group: int, unit: int = 1) -> list[Pattern]:
    """The patterns that the theorem promises clean on a slice of `width` ranks (or padded links) per leaf; all of them with width 0.

    On rails the theorem speaks of servers of `unit` GPUs: a shift of ranks is, on every rail, a shift of servers.
    """
    candidates = [Pattern(name, group if name in ("hybrid", "hierarchical-ring") else 0) for name in PATTERNS]
    defined = [pattern for pattern in candidates if not why_undefined(pattern, ranks)]
    return [pattern for pattern in defined if not width or _promised(pattern, width, unit)]


def _promised(pattern: Pattern, width: int, unit: int) -> bool:
    """One pattern of the theorem on `width` ranks (rails: servers) per leaf; blocks of parts of servers are not promised."""
    if pattern.name == "halving-doubling":
        return not (width & (width - 1) or unit & (unit - 1))
    blocks, part = divmod(pattern.group, unit)
    return not part and (blocks <= 1 or not width % blocks or not blocks % width)
