"""From what a person writes to a policy: a name with options, or `module:Name` for one that lives outside Headway."""

import importlib
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from headway.core.protocols import Policy
from headway.errors import BadInput, unknown
from headway.io import specs, units
from headway.io.files import read_file
from headway.io.outside import is_outside, made
from headway.policies import FREE_MOVES, TABLE
from headway.policies.outside import MOST_QUEUES, SHORTEST_QUANTUM_S, from_object

# Far above any use: 82,000 finished jobs of the Philly trace are some 1 MB.
MOST_DISTRIBUTION_BYTES = 64 << 20


def find_policy(spec: str | Policy | Any) -> Policy:
    """The policy for a spec such as ``tiresias-l?threshold=3200&promote=8``, ``my_module:MyPolicy``, or an object with a key."""
    if isinstance(spec, Policy):
        return spec
    if not isinstance(spec, str):
        return from_object(spec)
    name, given = specs.split(spec)
    if is_outside(name):
        return replace(find_policy(made("policy", name, given)), name=spec)
    specs.check_named("policy", spec, TABLE)
    module = TABLE[name][0]
    built_in: Policy = importlib.import_module(f"headway.policies.{module}").POLICY
    return replace(_with_options(built_in, given), name=spec)


def _with_options(policy: Policy, given: Mapping[str, str]) -> Policy:
    changes: dict[str, Any] = {}
    if "quantum" in given:
        changes["quantum"] = specs.number(given, "quantum")
        if changes["quantum"] < SHORTEST_QUANTUM_S:
            raise BadInput(f"quantum={given['quantum']} is too short: at least {SHORTEST_QUANTUM_S:g} s")
        if policy.turn:
            changes["turn"] = changes["quantum"]
    if "limit" in given:
        changes["limit"] = units.seconds(given["limit"], "limit")
        if not changes["limit"]:
            raise BadInput(f"limit={given['limit']} must be a time above 0, such as 8h")
    if "requested" in given:
        changes |= {"requested": specs.number(given, "requested"), "oracle": True}
    if "rent" in given:
        changes["rent"] = 0.0 if given["rent"] == "0" else specs.number(given, "rent")
    if "clears" in given:
        changes |= _clears(given["clears"])
    if "promote" in given:
        changes["promote"] = math.inf if given["promote"] == "inf" else specs.number(given, "promote")
    if given.get("threshold") == "auto":
        given = {name: value for name, value in given.items() if name != "threshold"}
        if "thresholds" in given:
            raise BadInput(
                f"{policy.name}: threshold=auto fits the thresholds: leave out thresholds={given['thresholds']}"
            )
        changes |= {"fits": True, "learns": True}
    if {"queues", "threshold", "thresholds"} & set(given):
        changes["thresholds"] = _thresholds(policy, given)
    if changes.get("fits") and not changes.get("thresholds", policy.thresholds):
        raise BadInput("queues=1 has no threshold: leave out threshold=auto, or take more queues")
    if "index" in given:
        if given["index"] not in ("printed", "plotted"):
            raise unknown("index of gittins", given["index"], ("printed", "plotted"))
        changes["plotted"] = given["index"] == "plotted"
    if "distribution" in given:
        changes["samples"] = read_distribution(given["distribution"])
    return replace(policy, **changes)


def _clears(text: str) -> dict[str, Any]:
    """When smaller jobs are moved: after a time, or where that costs nothing, or never."""
    if text in ("inf", FREE_MOVES):
        return {"clears": math.inf, "tidies": text == FREE_MOVES}
    try:
        return {"clears": units.seconds(text), "tidies": False}
    except BadInput as error:
        raise BadInput(f"clears is {FREE_MOVES}, inf or a time; {error}") from None


def _thresholds(policy: Policy, given: Mapping[str, str]) -> tuple[float, ...]:
    """Bounds of the queues: all of them, or the first; each further queue then ends at twice the bound before."""
    queues = specs.whole(given, "queues", 2, 1, MOST_QUEUES)
    if "thresholds" in given:
        if "threshold" in given:
            raise BadInput(f"{policy.name}: give threshold or thresholds, not both")
        wrong = f"thresholds={given['thresholds']}: {{!r}} is not a number above 0; write 3250:7200"
        bounds = tuple(_number(part, wrong.format(part)) for part in given["thresholds"].split(":"))
        if any(a >= b for a, b in pairwise(bounds)):
            raise BadInput(f"thresholds={given['thresholds']} must rise, such as 3250:7200")
        if "queues" in given and queues != len(bounds) + 1:
            raise BadInput(f"queues={queues} needs {queues} - 1 thresholds, not {len(bounds)}")
        if len(bounds) >= MOST_QUEUES:
            raise BadInput(f"thresholds: {len(bounds) + 1} queues are too many: at most {MOST_QUEUES}")
        return bounds
    if queues == 1 and "threshold" in given:
        raise BadInput(f"queues=1 has no threshold: leave out threshold={given['threshold']}, or take more queues")
    first = specs.number(given, "threshold") if "threshold" in given else policy.thresholds[0]
    return tuple(first * 2.0**i for i in range(queues - 1))


def _number(text: str, wrong: str) -> float:
    """Return a number above 0, or raise BadInput with what is wrong."""
    try:
        return specs.number({"": text}, "")
    except BadInput:
        raise BadInput(wrong) from None


def read_distribution(path: str) -> Any:
    """Read a distribution: one sample of GPU-seconds per line."""
    try:
        lines = [line.strip() for line in read_file(path, MOST_DISTRIBUTION_BYTES).decode("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read the distribution {path}: {getattr(error, 'strerror', None) or error}") from None
    samples = [
        _number(text, f"{path}, line {number}: {text!r} is not a number of GPU-seconds above 0")
        for number, text in enumerate(lines, 1)
        if text
    ]
    if not samples:
        raise BadInput(f"{path} has no samples: write one number of GPU-seconds per line")
    return np.array(samples)
