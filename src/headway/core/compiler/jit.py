"""The one decorator of compiled code. Its cache folder carries a hash of the sources that the code can come from.

Numba's own cache does not see edits in imported modules, so compiled code would go stale silently; a new hash is a new folder. Each
package is hashed with those below it only: an edit in the simulator does not compile the core again.
"""

import hashlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numba

# Policies and placements go in as first-class functions: one compile serves all, and the disk cache hits.
warnings.filterwarnings("ignore", category=numba.NumbaExperimentalFeatureWarning)

PACKAGE = Path(__file__).parents[2]
LAYERS = ("core", "network", "collectives", "policies", "placement", "sim")
UNCOUNTED = ("core", "policies", "placement", "sim")  # layers whose kernels do not count references
_BASE = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else Path.home() / ".cache" / "headway"


@cache
def cache_folder(layer: str) -> Path | None:
    """Where compiled code of a layer is kept (under NUMBA_CACHE_DIR if set); None where nothing can be written."""
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.BOUNDSCHECK}".encode())
    for below in LAYERS[: LAYERS.index(layer) + 1]:
        for source in sorted((PACKAGE / below).rglob("*.py")):
            text = source.read_bytes()
            if b"compiler.jit import" in text:
                digest.update(text)
    folder = _BASE / f"{layer}-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder


def _layer_of(function: Any) -> str | None:
    """The layer a function is written in; None: outside Headway (a user's policy)."""
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == "headway" and len(parts) > 1 and parts[1] in LAYERS else None


def _widest(given: Any) -> Any:
    """Constants and narrow columns go into kernels as int64; else numba compiles a copy for every constant and every width."""
    types: Any = numba.core.types
    plain = types.unliteral(given)
    return types.int64 if isinstance(plain, types.Integer) and plain.signed else plain


def jit(signature: Any = None, *, allocates: bool = False) -> Any:
    """Compile a kernel: `@jit` when called, `@jit(signature)` at once (needed to pass the function as a value).

    Kernels work on tables that Python made and holds: counting references to them took half of the engine's time, so they do not.
    Such a kernel can neither make an array nor return one; `allocates=True` is for those that do, and for those that call them for it.
    """
    if callable(signature) and not isinstance(signature, numba.core.typing.templates.Signature):
        return jit(None)(signature)

    def compiled(function: Any) -> Any:
        layer = _layer_of(function)
        folder = cache_folder(layer) if layer else None
        how: dict[str, bool | str] = {"error_model": "numpy", "_nrt": allocates or layer not in UNCOUNTED}
        kernel = _njit(function, signature, folder, how)
        if signature is None:
            # What other kernels call needs no way in from Python; leaving it out saves a third of the compile.
            how |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
            inner = _njit(function, None, folder / "inner" if folder else None, how)
            kernel.get_call_template = lambda args, kws: inner.get_call_template(tuple(map(_widest, args)), kws)
            kernel.get_overload = inner.get_overload
        return kernel

    return compiled


def _njit(function: Any, signature: Any, folder: Path | None, how: dict[str, bool | str]) -> Any:
    numba.config.CACHE_DIR = str(folder or "")
    return numba.njit(signature, cache=folder is not None, **how)(function)


def compiled_before() -> bool:
    """Whether the kernels of this version are on disk already (the first run compiles for a while)."""
    folder = cache_folder("sim")
    return folder is not None and any(folder.rglob("*.nbi"))
