"""Return the placement that a text names: a name with options, `module:Name`, or an object with a `place`."""

import importlib
from dataclasses import fields, replace
from typing import Any

from headway.core.protocols import Placement
from headway.errors import BadInput
from headway.io import specs
from headway.io.outside import is_outside, made
from headway.placement import TABLE


def find_placement(spec: str | Placement | Any) -> Placement:
    """The placement for a spec such as ``consolidated?strict=no`` or ``my_module:MyPlacement``, or for an object with a `place`."""
    if isinstance(spec, Placement):
        return spec
    if not isinstance(spec, str):
        return from_object(spec)
    name, options = specs.split(spec)
    if is_outside(name):
        return replace(find_placement(made("placement", name, options)), name=spec)
    specs.check_named("placement", spec, TABLE)
    if options.get("strict", "yes") not in ("yes", "no"):
        raise BadInput(f"strict={options['strict']} must be yes or no")
    if "packlimit" in options and specs.number(options, "packlimit") > 1:
        raise BadInput(f"packlimit={options['packlimit']} is above every skew: the largest tensor's share is at most 1")
    module, _, function = TABLE[name][0].partition(":")
    make = getattr(importlib.import_module(f"headway.placement.{module}"), function or "make")
    return replace(make(options), name=spec)


def from_object(found: Any) -> Placement:
    """A placement from any object with a `place`, and attributes named as in Placement where it differs from the default."""
    if isinstance(found, type):
        raise BadInput(f"{found.__name__} is a class: give an object of it, such as {found.__name__}()")
    if not callable(getattr(found, "place", None)):
        raise BadInput(
            f"{found!r} is not a placement: give a name such as consolidated, or an object with a method "
            "place(nodes, leaves, fewest, job, options, out) -> bool"
        )
    names = [
        field.name
        for field in fields(Placement)
        if field.name
        not in ("name", "needs_fabric", "knows_leaves", "shares", "patience", "spread_patience", "rewires")
    ]
    name = str(getattr(found, "name", type(found).__name__))
    placement = Placement(name, **{field: getattr(found, field) for field in names if hasattr(found, field)})
    if not isinstance(placement.by_class, bool):
        raise BadInput(f"placement {name}: by_class is {placement.by_class!r}, not True or False")
    if isinstance(placement.pack_limit, bool) or not isinstance(placement.pack_limit, int | float):
        raise BadInput(f"placement {name}: pack_limit is {placement.pack_limit!r}, not a number")
    return replace(placement, pack_limit=float(placement.pack_limit))
