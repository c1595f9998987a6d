"""The one decorator of compiled code. Its cache folder carries a hash of every kernel's source.

Numba's own cache does not see edits in imported modules, so compiled code would go stale silently; a new hash is a new folder.
"""

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numba

# Policies and placements go in as first-class functions: one compile serves all, and the disk cache hits.
warnings.filterwarnings("ignore", category=numba.NumbaExperimentalFeatureWarning)

PACKAGE = Path(__file__).parents[1]


def _cache_folder() -> Path:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR if set, else the user's cache folder."""
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.BOUNDSCHECK}".encode())
    for folder in ("core", "policies", "placement", "network", "collectives", "sim"):
        for source in sorted((PACKAGE / folder).rglob("*.py")):
            text = source.read_bytes()
            if b"core.jit import" in text:
                digest.update(text)
    base = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else Path.home() / ".cache" / "headway"
    return base / f"kernels-{digest.hexdigest()[:16]}"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return True


CACHE = _cache_folder()
CACHED = _writable(CACHE)
numba.config.CACHE_DIR = str(CACHE) if CACHED else ""


def jit(signature: Any = None) -> Any:
    """Compile a kernel: `@jit` when called, `@jit(signature)` at once (needed to pass the function as a value)."""
    options = {"cache": CACHED, "error_model": "numpy"}
    if callable(signature) and not isinstance(signature, numba.core.typing.templates.Signature):
        return numba.njit(**options)(signature)
    return numba.njit(signature, **options)


def compiled_before() -> bool:
    """Whether the kernels of this version are on disk already (the first run compiles for some seconds)."""
    return CACHED and any(CACHE.rglob("*.nbi"))
