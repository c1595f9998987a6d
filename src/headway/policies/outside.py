"""Policies from outside Headway: any object with a key, checked before a run relies on it."""

import math
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from headway.core.protocols import Policy
from headway.core.tables.jobs import job_table
from headway.errors import BadInput
from headway.io.outside import raised
from headway.job_state import JobState

MOST_QUEUES = 64
SHORTEST_QUANTUM_S = 1e-3  # deciding more often than that, time hardly moves on
SWITCHES = ("preempts", "blocks", "moving", "learns", "oracle", "packs", "migrates", "plotted")
# Numbers of a policy: the least value and the largest; infinity may be one.
NUMBERS = {"quantum": (SHORTEST_QUANTUM_S, math.inf), "promote": (0.0, math.inf), "turn": (0.0, 1e300)}


def from_object(found: Any) -> Policy:
    """A policy from any object with a `key`, and attributes named as in Policy where it differs from the default."""
    if isinstance(found, type):
        raise BadInput(f"{found.__name__} is a class: give an object of it, such as {found.__name__}()")
    if not callable(getattr(found, "key", None)):
        raise BadInput(f"{found!r} is not a policy: it needs a method key(job, now, options) -> (first, second)")
    names = [field.name for field in fields(Policy) if field.name != "name"]
    given = {name: getattr(found, name) for name in names if hasattr(found, name)}
    name = str(getattr(found, "name", type(found).__name__))
    policy = Policy(name, **{key: _checked(f"policy {name}", key, value) for key, value in given.items()})
    _try_out(policy)
    return policy


def _checked(whose: str, name: str, value: Any) -> Any:
    """An attribute of a policy, as the engine takes it."""
    good, wanted = True, ""
    if name in SWITCHES:
        good, wanted = isinstance(value, bool | np.bool_), "True or False"
    elif name in NUMBERS:
        least, most = NUMBERS[name]
        good, wanted = _is_number(value) and least <= value <= most, f"a number of at least {least:g}"
    elif name in ("change", "allot"):
        good, wanted = value is None or callable(value), "a function"
    elif name == "thresholds":
        good = _rises(value)
        wanted = f"at most {MOST_QUEUES - 1} rising numbers of GPU-seconds, such as (3250.0, 7200.0)"
    elif name == "samples" and value is not None:
        return _samples(whose, value)
    if not good:
        raise BadInput(f"{whose}: {name} is {value!r}, not {wanted}")
    return tuple(map(float, value)) if name == "thresholds" else value


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
    """Call the key and the change once, on a job that was just submitted: every policy meets one."""
    jobs = job_table(1)
    jobs["asked"] = jobs["gpus"] = 1
    jobs["state"] = JobState.PENDING
    if policy.oracle:
        jobs["left"] = 60.0
    jobs.flags.writeable = False  # a policy reads a job, and never writes
    job, options = jobs.view(np.recarray)[0], policy.options(1)
    call = f"policy {policy.name}: key(job, now, options)"
    key = _called(call, policy.key, job, options, (0.0, 0.0))
    if not isinstance(key, tuple | list | np.ndarray) or len(key) != 2 or not all(map(_is_number, key)):
        raise BadInput(f"{call} must return two numbers, not {key!r}")
    if any(math.isnan(part) for part in key):
        raise BadInput(
            f"{call} must return two numbers, not NaN (job.left is NaN unless the policy says oracle = True)"
        )
    call = f"policy {policy.name}: change(job, now, options)"
    at = _called(call, policy.change, job, options, math.inf)
    if not _is_number(at) or math.isnan(at):
        raise BadInput(f"{call} must return a time (infinity: never), not {at!r}")


def _called(call: str, function: Callable[..., Any], job: Any, options: Any, otherwise: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return getattr(function, "py_func", function)(job, 0.0, options)
    except NumbaError:  # it calls compiled code that takes no Python objects: nothing can be said yet
        return otherwise
    except Exception as error:
        raise BadInput(f"{call} failed: {raised(error, __file__)}") from error
