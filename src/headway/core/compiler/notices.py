"""Messages to show while kernels are compiled. Imports no compiler, so that the command line starts quickly."""

from collections.abc import Callable

COMPILING = "compiling the engine for this machine, once: about half a minute"
COMPILING_AGAIN = "compiling the engine: about half a minute"
LARGE = 10  # kernels; compiling fewer is over before it is worth a word

_listeners: list[Callable[[str], None]] = []
_said: set[str] = set()
_compiled = 0


def listen(listener: Callable[[str], None]) -> None:
    """Call `listener` with each line, once per process; without a listener nothing is said."""
    if listener not in _listeners:
        _listeners.append(listener)


def compiling() -> None:
    """Count one more kernel that is compiled; say so when there are many."""
    global _compiled
    _compiled += 1
    if _compiled == LARGE:
        _say(COMPILING_AGAIN if any("NUMBA_CACHE_DIR" in line for line in _said) else COMPILING)


def not_kept(where: object, why: object) -> None:
    """Say that compiled code cannot be kept, and what to do about it."""
    if not any("NUMBA_CACHE_DIR" in line for line in _said):
        _say(
            f"compiled code cannot be kept in {where} ({why}), so every run compiles again: "
            "set NUMBA_CACHE_DIR to a folder that can be written"
        )


def _say(line: str) -> None:
    _said.add(line)
    for listener in _listeners:
        listener(line)
