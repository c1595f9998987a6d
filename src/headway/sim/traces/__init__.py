"""Trace readers, one file a format; `load` picks by content."""

from headway.sim.traces.load import load

__all__ = ["load"]
