"""From what a person writes to a policy: a name with options, or `module:Name` for one that lives outside Headway."""

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from headway.core import spec as specs
from headway.core.errors import BadInput, unknown
from headway.core.protocols import Policy
from headway.policies import TABLE


def find_policy(spec: str | Policy | Any) -> Policy:
    """The policy for a spec such as ``tiresias-l?threshold=3200&promote=8``, ``my_module:MyPolicy``, or an object with a key."""
    if isinstance(spec, Policy):
        return spec
    if not isinstance(spec, str):
        return _from_object(spec)
    name, given = specs.split(spec)
    if ":" in name:
        return _from_module(name, given)
    specs.check_named("policy", spec, TABLE)
    module = TABLE[name][0]
    built_in: Policy = importlib.import_module(f"headway.policies.{module}").POLICY
    return replace(_with_options(built_in, given), name=spec)


def _with_options(policy: Policy, given: Mapping[str, str]) -> Policy:
    changes: dict[str, Any] = {}
    if "quantum" in given:
        changes["quantum"] = specs.number(given, "quantum")
        if policy.turn:
            changes["turn"] = changes["quantum"]
    if "promote" in given:
        changes["promote"] = math.inf if given["promote"] == "inf" else specs.number(given, "promote")
    if {"queues", "threshold", "thresholds"} & set(given):
        changes["thresholds"] = _thresholds(policy, given)
    if "index" in given:
        if given["index"] not in ("printed", "plotted"):
            raise unknown("index of gittins", given["index"], ("printed", "plotted"))
        changes["plotted"] = given["index"] == "plotted"
    if "distribution" in given:
        changes["samples"] = read_distribution(given["distribution"])
    return replace(policy, **changes)


def _thresholds(policy: Policy, given: Mapping[str, str]) -> tuple[float, ...]:
    """Bounds of the queues: all of them, or the first; each further queue then ends at twice the bound before."""
    if "thresholds" in given:
        if "threshold" in given:
            raise BadInput(f"{policy.name}: give threshold or thresholds, not both")
        parts = given["thresholds"].split(":")
        bounds = tuple(specs.number({"thresholds": part}, "thresholds") for part in parts)
        if any(a >= b for a, b in pairwise(bounds)):
            raise BadInput(f"thresholds={given['thresholds']} must rise, such as 3250:7200")
        if "queues" in given and specs.whole(given, "queues", 2, 1) != len(bounds) + 1:
            raise BadInput(f"queues={given['queues']} needs {given['queues']} - 1 thresholds, not {len(bounds)}")
        return bounds
    first = specs.number(given, "threshold") if "threshold" in given else policy.thresholds[0]
    return tuple(first * 2**i for i in range(specs.whole(given, "queues", 2, 1) - 1))


def read_distribution(path: str) -> Any:
    """One sample of GPU-seconds a line."""
    samples = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                try:
                    value = float(text) if text else None
                except ValueError:
                    value = math.nan
                if value is not None and not (math.isfinite(value) and value > 0):
                    raise BadInput(f"{path}, line {number}: {text!r} is not a number of GPU-seconds above 0")
                if value is not None:
                    samples.append(value)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the distribution {path}: {getattr(error, 'strerror', None) or error}") from None
    if not samples:
        raise BadInput(f"{path} has no samples: write one number of GPU-seconds a line")
    return np.array(samples)


def _from_module(name: str, given: Mapping[str, str]) -> Policy:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise BadInput(f"policy {name!r}: cannot import {module!r} ({error}); is it on PYTHONPATH?") from None
    except AttributeError:
        raise BadInput(f"policy {name!r}: {module} has no {attribute!r}") from None
    if isinstance(found, type):
        try:
            found = found(**given)
        except TypeError as error:
            raise BadInput(f"policy {name!r}: {error}") from None
    elif given:
        raise BadInput(f"policy {name!r} is a value and takes no options; make it a class to give it some")
    return replace(find_policy(found), name=name if not given else f"{name}?{'&'.join(map('='.join, given.items()))}")


def _from_object(found: Any) -> Policy:
    """A policy from any object with a `key`, and attributes named as in Policy where it differs from the default."""
    key = getattr(found, "key", None)
    if not callable(key):
        raise BadInput(f"{found!r} is not a policy: it needs a method key(job, now, options) -> (first, second)")
    names = {field.name for field in fields(Policy)} - {"name", "key"}
    given = {name: getattr(found, name) for name in names if hasattr(found, name)}
    return Policy(str(getattr(found, "name", type(found).__name__)), key, **given)
