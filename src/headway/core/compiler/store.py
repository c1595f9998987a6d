"""Compiled kernels on disk: one file per kernel and signature, in a folder named after the sources that the code can come from.

Numba's own cache does not see edits in imported modules, so compiled code would go stale silently; a new hash is a new folder. Each layer
is hashed with those below it only: an edit in the simulator does not compile the core again. Loading needs none of numba's registries,
which import half of SciPy.
"""

import hashlib
import pickle
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.compiler import compile_result
from numba.core.runtime import _nrt_python
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from headway.core.compiler import notices
from headway.core.compiler.linking import Part, Whole

PACKAGE = Path(__file__).parents[2]
LAYERS = ("core", "network", "collectives", "iteration", "policies", "placement", "sim")
PLAIN = ("policies",)  # layers with functions that are compiled without a decorator
KERNELS = b"compiler.jit import"  # what a source with kernels contains
IMPORTED = re.compile(rb"^\s*from headway\.([\w.]+) import", re.MULTILINE)


@cache
def _base() -> Path:
    """NUMBA_CACHE_DIR if it is set, else a folder in the user's home."""
    try:
        return Path(numba.config.CACHE_DIR or Path.home() / ".cache" / "headway")
    except RuntimeError:  # a user without a home
        return Path("/nonexistent")


@cache
def _texts(layer: str) -> dict[str, bytes]:
    """The sources of a layer by the name of their module, without `headway.`."""
    root = len(str(PACKAGE)) + 1
    paths = sorted(map(str, (PACKAGE / layer).rglob("*.py")))
    return {path[root:-3].replace("\\", "/").replace("/", "."): Path(path).read_bytes() for path in paths}


def _sources(layer: str) -> dict[str, bytes]:
    """The sources of a layer that have functions to compile, and what they import, for constants are compiled into the code."""
    texts = _texts(layer)
    sources = {name: text for name, text in texts.items() if KERNELS in text or layer in PLAIN}
    imported = {name.decode() for text in sources.values() for name in IMPORTED.findall(text)}
    for name in imported - set(sources):
        whose = name.partition(".")[0]
        if whose in LAYERS and name in _texts(whose):
            sources[name] = _texts(whose)[name]
    return sources


@cache
def cache_folder(layer: str) -> Path:
    """Where compiled code of a layer is kept."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version} {numba.config.BOUNDSCHECK} {PACKAGE}".encode())
    for below in LAYERS[: LAYERS.index(layer) + 1]:
        for name, text in sorted(_sources(below).items()):
            digest.update(name.encode() + text)
    return _base() / f"{layer}-{digest.hexdigest()[:16]}"


@cache
def _runtime_found() -> None:
    """Tell LLVM where numba's functions for memory are. Numba does so only after it has compiled some more, which nothing here needs."""
    for name, address in _nrt_python.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _calls(function: Any) -> list[Any]:
    """Return the names of the kernels in a function's closure, and of those in theirs."""
    kernels = [cell.cell_contents for cell in function.__closure__ or ()]
    return [(kernel.__module__, kernel.__qualname__, _calls(kernel.py_func)) for kernel in kernels]


class Store:
    """The compiled code of one kernel on disk, as numba's dispatchers ask for it."""

    cache_path = None

    def __init__(self, function: Any, layer: str, library: type[Part | Whole]) -> None:
        self._function, self._layer, self._library = function, layer, library

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled kernel for a signature, or None."""
        try:
            content = pickle.loads(self._path(signature, context).read_bytes())
        except Exception:  # not there, or damaged, which pickle reports in many ways
            return None
        packed, described, environment, stored_signature, others = content
        _runtime_found()
        library = self._library.unpacked(context.codegen(), packed)
        entry = context.get_executable(library, described, environment)
        for other in others:
            library.codegen.set_env(other.env_name, other)
        return compile_result(
            target_context=context,
            typing_context=context.typing_context,
            library=library,
            environment=environment,
            entry_point=entry,
            fndesc=described,
            signature=stored_signature,
            objectmode=False,
            lifted=(),
            referenced_envs=others,
        )

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled kernel, where that can be done."""
        packed = result.library.packed()
        if packed is None or result.lifted or result.reload_init:
            return
        described = result.fndesc
        described.typemap = described.calltypes = None  # of no use any more, and large
        content = (packed, described, result.environment, result.signature, result.library.environments())
        path = self._path(signature, result.target_context)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{uuid4().hex}")
            part.write_bytes(dumps(content))
            part.replace(path)
        except OSError as error:
            notices.not_kept(path.parent.parent, error.strerror or error)

    def _path(self, signature: Any, context: Any) -> Path:
        arguments, _ = normalize_signature(signature)
        key = repr(
            (arguments, context.codegen().magic_tuple(), self._function.__code__.co_firstlineno, _calls(self._function))
        )
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return cache_folder(self._layer) / f"{name}-{digest}.{self._library.__name__.lower()}"
