"""From what a person writes to a placement: a name with options."""

import importlib
from dataclasses import replace
from typing import Any

from headway.core import spec as specs
from headway.core.errors import BadInput
from headway.core.protocols import Placement
from headway.placement import TABLE


def find_placement(spec: str | Placement | Any) -> Placement:
    """The placement for a spec such as ``consolidated?strict=no``."""
    if isinstance(spec, Placement):
        return spec
    name, given = specs.split(spec)
    specs.check_named("placement", spec, TABLE)
    if given.get("strict", "yes") not in ("yes", "no"):
        raise BadInput(f"strict={given['strict']} must be yes or no")
    made: Placement = importlib.import_module(f"headway.placement.{TABLE[name][0]}").make(given)
    return replace(made, name=spec)
