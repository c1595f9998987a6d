"""Return the policy that a text names: a name with options, or `module:Name` for code outside Headway."""

import importlib
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from headway.core.protocols import Policy
from headway.errors import unknown
from headway.io import options, specs
from headway.io.outside import is_outside, made
from headway.policies import MODULES
from headway.policies.outside import from_object


def find_policy(spec: str | Policy | Any) -> Policy:
    """Return the policy of a spec such as ``tiresias-l?threshold=3200`` or ``my_module:MyPolicy``, or of an object with a key."""
    if isinstance(spec, Policy):
        return spec
    if not isinstance(spec, str):
        return from_object(spec)
    name, written = specs.split(spec)
    if is_outside(name):
        return replace(find_policy(made("policy", name, written)), name=spec)
    check_policy(spec)
    policy: Policy = options.call(_module(name).make, written)
    return replace(policy, name=spec)


def check_policy(spec: str) -> None:
    """Refuse a name or an option that no built-in policy has, naming the closest."""
    name, written = specs.split(spec)
    if name not in MODULES:
        raise unknown("policy", name, MODULES)
    specs.check(written, options.declared(_module(name).make), f"policy {name}")


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A built-in policy as lists show it."""

    summary: str
    options: dict[str, options.Declared]
    oracle: bool

    @property
    def defaults(self) -> dict[str, str]:
        """The defaults of its options as lists show them."""
        return {name: each.shown for name, each in self.options.items()}


@cache
def listed() -> dict[str, ListedPolicy]:
    """Return all built-in policies by name."""
    modules = {name: _module(name) for name in MODULES}
    return {
        name: ListedPolicy(module.SUMMARY, options.declared(module.make), module.make().oracle)
        for name, module in modules.items()
    }


def meanings() -> dict[str, str]:
    """Return what the options of all built-in policies mean, by name."""
    return {name: each.option.help for policy in listed().values() for name, each in policy.options.items()}


def _module(name: str) -> Any:
    return importlib.import_module(f"headway.policies.{MODULES[name]}")
