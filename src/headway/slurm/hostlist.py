"""Slurm's short form of many host names: `gpu[01-03,7],login1` is gpu01, gpu02, gpu03, gpu7, login1."""

import itertools
import re

from headway.errors import BadInput

MOST_HOSTS = 100_000
_PIECE = re.compile(r"\[([^\[\]]*)\]")


def expand(text: str) -> list[str]:
    """All names, in order."""
    hosts: list[str] = []
    for part in _parts(text):
        if "[" in _PIECE.sub("", part):
            raise BadInput(f"{text[:80]!r} is not a list of hosts such as gpu[01-16]")
        pieces = _PIECE.split(part)  # text, numbers, text, numbers, ..., text
        choices = [[piece] if k % 2 == 0 else _numbers(piece, text) for k, piece in enumerate(pieces)]
        hosts += ["".join(names) for names in itertools.islice(itertools.product(*choices), MOST_HOSTS + 1)]
        if len(hosts) > MOST_HOSTS:
            raise BadInput(f"{text[:80]!r} names more than {MOST_HOSTS:,} hosts")
    return hosts


def _parts(text: str) -> list[str]:
    """Split at the commas that are outside of brackets."""
    parts, depth, first = [], 0, 0
    for k, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(text[first:k])
            first = k + 1
    return [part.strip() for part in [*parts, text[first:]] if part.strip()]


def _numbers(text: str, whole: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        if not re.fullmatch("[0-9]{1,9}(?:-[0-9]{1,9})?", part):
            raise BadInput(f"{whole[:80]!r} is not a list of hosts such as gpu[01-16]")
        low, _, high = part.partition("-")
        last = int(high or low)
        if last - int(low) > MOST_HOSTS:
            raise BadInput(f"{whole[:80]!r} names more than {MOST_HOSTS:,} hosts")
        numbers += [f"{number:0{len(low)}d}" for number in range(int(low), last + 1)]
    return numbers
