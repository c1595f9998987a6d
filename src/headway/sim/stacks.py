"""Stacks: named combinations of policy, placement, network and collective.

A stack says what a cluster's software decides. What the world is like (the cluster, its fabric, what a stop costs) is the same for all
stacks of a comparison. People write their own in the same way as `headway stacks` prints ours:

    --stacks "yarn,headway,mine=policy:tiresias-l,placement:profile,network:ecmp?qps=4"
    --stacks "headway,reports=headway,progress_reports:1"          # one that begins as another

This module loads neither NumPy nor the engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headway.errors import BadInput, unknown
from headway.io.numbers import plain_number
from headway.io.specs import check_name
from headway.sim.experiment import check, options

# What a stack may say; what it does not say is the default.
WORDS: Final = ("policy", "placement", "network", "collective", "min_runtime", "progress_reports", "progress_error")


@dataclass(frozen=True, slots=True)
class Stack:
    """A name and what it stands for."""

    name: str
    settings: Mapping[str, Any]
    summary: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.name}={','.join(f'{word}:{value}' for word, value in self.full.items())}"

    @property
    def written(self) -> str:
        """As `--stacks` takes it: one of ours by its name, any other in full."""
        return self.name if STACKS.get(self.name) == self else str(self)

    @property
    def full(self) -> dict[str, Any]:
        """The four parts in any case, the other words where they are not the default."""
        values = {word: self.settings.get(word, options()[word].default) for word in WORDS}
        return {word: value for word, value in values.items() if word in WORDS[:4] or value != options()[word].default}


def _stack(name: str, summary: str, *parts: str) -> Stack:
    return Stack(name, dict(zip(WORDS, parts, strict=False)), summary)


STACKS: Final[dict[str, Stack]] = {
    one.name: one
    for one in (
        _stack(
            "yarn",
            "first come, first served on the fewest nodes, as in YARN's capacity scheduler",
            *("fifo", "consolidated", "ecmp", "baseline"),
        ),
        _stack(
            "tiresias",
            "two queues by attained service (NSDI'19), on the fewest nodes: its own placement by profile does worse",
            *("tiresias-l", "consolidated", "ecmp", "baseline"),
        ),
        _stack("vclos", "a slice of the fabric for every job", *("fifo", "vclos", "isolated", "baseline")),
        _stack(
            "themis",
            "collectives planned by bandwidth (ISCA'22), everything else as in yarn",
            *("fifo", "consolidated", "ecmp", "themis"),
        ),
        _stack(
            "headway",
            "order, nodes, links and plan in one decision",
            *("headway", "joint", "source", "best"),
        ),
    )
}


def parse_stacks(text: str) -> list[Stack]:
    """The stacks of a list such as ``yarn,mine=policy:fifo,placement:spread``, in its order."""
    lines: list[tuple[str, str, dict[str, Any]]] = []  # name, what it begins as, what it changes
    for part in filter(None, map(str.strip, text.split(","))):
        word, colon, value = part.partition(":")
        name, equals, first = word.partition("=")
        if equals and (colon or "?" not in word):  # a stack of one's own
            check_name("stack", name.strip())
            lines.append((name.strip(), "" if colon else first.strip(), {}))
            if colon:
                _set(lines[-1][2], first.strip(), value, part)
        elif colon:
            if not lines or lines[-1][0] == lines[-1][1]:
                raise BadInput(f"--stacks: {part!r} belongs to no stack of your own: write NAME={part}")
            _set(lines[-1][2], word, value, part)
        else:
            lines.append((part, part, {}))
    return _found(lines)


def _set(settings: dict[str, Any], word: str, value: str, part: str) -> None:
    """One setting, checked."""
    if word not in WORDS:
        raise BadInput(f"--stacks: {part!r}: {unknown('part of a stack', word, WORDS)}")
    if word in settings:
        raise BadInput(f"--stacks: {part!r} gives {word} a second time")
    setting = plain_number(value) if options()[word].kind is float else value
    if setting is None:
        raise BadInput(f"--stacks: {part!r} needs a number")
    settings[word] = check(word, setting)


def _found(lines: Sequence[tuple[str, str, dict[str, Any]]]) -> list[Stack]:
    """Every line with what it begins as: one of ours, or one before it."""
    if not lines:
        raise BadInput(f"--stacks is empty: name at least one, such as {','.join(STACKS)}")
    known: dict[str, Stack] = dict(STACKS)
    stacks: list[Stack] = []
    for name, begins, changes in lines:
        if any(name == one.name for one in stacks):
            raise BadInput(f"--stacks names {name} twice")
        if begins and begins not in known:
            raise unknown("stack", begins, known)
        if not begins and name in STACKS:
            raise BadInput(f"--stacks: {name} is one of ours: give yours another name")
        base = known[begins] if begins else Stack(name, {})
        known[name] = Stack(name, {**base.settings, **changes}, base.summary if name == begins else "")
        stacks.append(known[name])
    return stacks
