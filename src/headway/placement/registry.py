"""From what a person writes to a placement: a name with options."""

import importlib
from dataclasses import replace
from typing import Any

from headway.core.protocols import Placement
from headway.errors import BadInput
from headway.io import specs as specs
from headway.placement import TABLE


def find_placement(spec: str | Placement | Any) -> Placement:
    """The placement for a spec such as ``consolidated?strict=no``."""
    if isinstance(spec, Placement):
        return spec
    if not isinstance(spec, str):
        raise BadInput(f"placement {spec!r} is not a name, such as consolidated")
    name, given = specs.split(spec)
    specs.check_named("placement", spec, TABLE)
    if given.get("strict", "yes") not in ("yes", "no"):
        raise BadInput(f"strict={given['strict']} must be yes or no")
    if "packlimit" in given and specs.number(given, "packlimit") > 1:
        raise BadInput(f"packlimit={given['packlimit']} is above every skew: the largest tensor's share is at most 1")
    made: Placement = importlib.import_module(f"headway.placement.{TABLE[name][0]}").make(given)
    return replace(made, name=spec)
