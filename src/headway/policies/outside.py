"""Policies from outside Headway: any object with a key, checked before a run relies on it."""

import math
from collections.abc import Callable
from dataclasses import Field, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from headway.core.protocols import GROUPED_BY, Policy, readable
from headway.core.tables.groups import EVERY
from headway.core.tables.jobs import job_table
from headway.core.tables.options import RELEASE_COST
from headway.errors import BadInput
from headway.io.outside import raised
from headway.job_state import JobState
from headway.policies import MOST_QUEUES, SHORTEST_QUANTUM_S

MOST_FINITE = 1e300  # of numbers that may not be infinite
FUNCTIONS = ("change", "preempt_at", "ended", "allot")


def from_object(found: Any) -> Policy:
    """A policy from any object with a `key`, and attributes named as in Policy where it differs from the default."""
    if isinstance(found, type):
        raise BadInput(f"{found.__name__} is a class: give an object of it, such as {found.__name__}()")
    if not callable(getattr(found, "key", None)):
        raise BadInput(f"{found!r} is not a policy: it needs a method key(job, now, options) -> (first, second)")
    name = str(getattr(found, "name", type(found).__name__))
    declared = [field for field in fields(Policy) if field.name != "name" and hasattr(found, field.name)]
    policy = Policy(
        name, **{field.name: _checked(f"policy {name}", field, getattr(found, field.name)) for field in declared}
    )
    _try_out(policy)
    return policy


def _checked(whose: str, field: Field[Any], value: Any) -> Any:
    """Return an attribute of a policy as the engine takes it, or raise BadInput. The types of Policy say what it may be."""
    name, good, wanted = field.name, True, ""
    if field.type is bool:
        good, wanted = isinstance(value, bool | np.bool_), "True or False"
    elif field.type is float:
        least = SHORTEST_QUANTUM_S if name == "quantum" else 0.0
        most = math.inf if field.default == math.inf else MOST_FINITE
        good, wanted = _is_number(value) and least <= value <= most, f"a number of at least {least:g}"
    elif name in FUNCTIONS:
        good, wanted = callable(value) or (value is None and name in ("ended", "allot")), "a function"
    elif name == "group":
        value = (value,) if isinstance(value, str) else value
        good = isinstance(value, list | tuple) and all(part in GROUPED_BY for part in value)
        wanted = f"of {', '.join(GROUPED_BY)}"
    elif name == "thresholds":
        good = _rises(value)
        wanted = f"at most {MOST_QUEUES - 1} rising numbers of GPU-seconds, such as (3250.0, 7200.0)"
    elif name == "parameters":
        good = isinstance(value, list | tuple | np.ndarray) and all(map(_is_number, value))
        wanted = "a list of numbers"
    elif name == "samples" and value is not None:
        return _samples(whose, value)
    if not good:
        raise BadInput(f"{whose}: {name} is {value!r}, not {wanted}")
    if name == "group":
        return tuple(value)
    return tuple(map(float, value)) if name in ("thresholds", "parameters") else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _rises(bounds: Any) -> bool:
    listed = isinstance(bounds, list | tuple | np.ndarray) and len(bounds) < MOST_QUEUES
    good = listed and all(_is_number(bound) and 0 < bound < math.inf for bound in bounds)
    return good and all(a < b for a, b in pairwise(bounds))


def _samples(whose: str, value: Any) -> Any:
    try:
        samples = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        samples = np.zeros(0)
    if samples.ndim != 1 or not len(samples) or not (np.isfinite(samples) & (samples > 0)).all():
        raise BadInput(f"{whose}: samples is not a list of numbers of GPU-seconds above 0")
    return samples


def _try_out(policy: Policy) -> None:
    """Call its functions once, about a job that was just submitted and, for `ended`, cancelled at once: every policy meets one."""
    jobs = job_table(1)
    jobs["asked"] = jobs["gpus"] = 1
    jobs["state"] = JobState.PENDING
    if policy.oracle:
        jobs["left"] = 60.0
    over, stops = jobs.copy(), np.zeros(1, RELEASE_COST)
    over["state"], over["end"] = JobState.COMPLETED, 0.0
    for table in (jobs, over, stops):
        table.flags.writeable = False  # a policy reads a job, and never writes
    job, ended, stop = (table.view(np.recarray)[0] for table in (jobs, over, stops))
    options, whose = readable(policy.options(1)), f"policy {policy.name}"
    call = f"{whose}: key(job, now, options)"
    key = _called(call, policy.key, (job, 0.0, options), (0.0, 0.0))
    if not isinstance(key, tuple | list | np.ndarray) or len(key) != 2 or not all(map(_is_number, key)):
        raise BadInput(f"{call} must return two numbers, not {key!r}")
    if any(math.isnan(part) for part in key):
        raise BadInput(
            f"{call} must return two numbers, not NaN (job.left is NaN unless the policy says oracle = True)"
        )
    _time(f"{whose}: change(job, now, options)", policy.change, (job, 0.0, options))
    _time(f"{whose}: preempt_at(job, stops, now, options)", policy.preempt_at, (job, stop, 0.0, options))
    if policy.ended is not None:
        group = options.history.groups[EVERY]
        group.jobs = 1
        _called(f"{whose}: ended(job, now, group, options)", policy.ended, (ended, 0.0, group, options), None)


def _time(call: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Call a function that has to return a time."""
    at = _called(call, function, arguments, math.inf)
    if not _is_number(at) or math.isnan(at):
        raise BadInput(f"{call} must return a time (infinity: never), not {at!r}")


def _called(call: str, function: Callable[..., Any], arguments: tuple[Any, ...], otherwise: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return getattr(function, "py_func", function)(*arguments)
    except NumbaError:  # it calls compiled code that takes no Python objects: nothing can be said yet
        return otherwise
    except Exception as error:
        raise BadInput(f"{call} failed: {raised(error, __file__)}") from error
