"""Headway: when, where and how distributed training jobs run on a shared GPU cluster."""

from typing import Any

__version__ = "0.2.0"
_EXPORTS = {
    "simulate": "headway.sim.api",
    "compare": "headway.sim.api",
    "Result": "headway.sim.results.result",
    "Comparison": "headway.sim.results.result",
    "Experiment": "headway.sim.experiment",
    "Client": "headway.client.client",
}
__all__ = ["Client", "Comparison", "Experiment", "Result", "__version__", "compare", "simulate"]


def __getattr__(name: str) -> Any:
    """Load what is asked for only then: importing headway stays quick."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_EXPORTS[name]), name)
