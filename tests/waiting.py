"""Waiting for a condition, and the time-outs of all tests: safety nets that a busy machine, ten times slower, does not reach."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE_S = 300.0
COMPILES_S = 1200.0  # for a command that may have to compile the engine first
_PAUSE_S = 0.02
_GATE_PAUSE_S = 0.1  # every look of a gate is a process

Value = TypeVar("Value")


def wait_for(
    condition: Callable[[], Value | None], otherwise: str | Callable[[], object] = "it did not happen"
) -> Value:
    """Return the first true value of `condition`; fail with `otherwise` after PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(_PAUSE_S)
    return value


def gate(path: Path) -> str:
    """Return a shell command that runs until the file exists; it ends by itself if the test fails before."""
    return f"for i in $(seq {PATIENCE_S / _GATE_PAUSE_S:.0f}); do [ -e {path} ] && break; sleep {_GATE_PAUSE_S}; done"
