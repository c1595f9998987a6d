"""The one decorator of compiled code.

A kernel is compiled, or loaded from disk (store.py), when it is first needed: importing the engine does neither. It has two forms: the
whole that Python calls, and the part that other kernels call (linking.py).
"""

import warnings
from functools import cached_property, update_wrapper
from typing import Any

import numba
from numba.core.typing.templates import Signature

from headway.core.compiler.linking import Part, PartCompiler, Whole, WholeCompiler
from headway.core.compiler.store import LAYERS, Store, cache_folder

# Policies and placements go in as first-class functions: one compile serves all, and the disk cache hits.
warnings.filterwarnings("ignore", category=numba.NumbaExperimentalFeatureWarning)

types: Any = numba.core.types
UNCOUNTED = ("core", "policies", "placement", "sim")  # layers whose kernels do not count references


def jit(signature: Any = None, *, allocates: bool = False) -> Any:
    """Make a kernel of a function: `@jit`, or `@jit(signature)` to pass it as a value or to fix the types Python calls it with.

    Kernels work on tables that Python made and holds: counting references to them took half of the engine's time, so they do not.
    Such a kernel can neither make an array nor return one; `allocates=True` is for those that do, and for those that call them for it.
    """
    if callable(signature) and not isinstance(signature, Signature):
        return Kernel(signature)
    return lambda function: Kernel(function, signature, allocates)


class Kernel:
    """A function that is compiled when it is first called, from Python or from another kernel."""

    def __init__(self, function: Any, signature: Any = None, allocates: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func, self.signature = function, signature
        parts = function.__module__.split(".")
        self._layer = parts[1] if parts[0] == "headway" and parts[1] in LAYERS else None  # None: a user's function
        self._how = {"error_model": "numpy", "_nrt": allocates or self._layer not in UNCOUNTED}

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # pickled by name, as functions are

    @cached_property
    def entry(self) -> Any:
        """The numba function that Python calls, compiled or loaded if the signature is known."""
        dispatcher = numba.njit(pipeline_class=WholeCompiler, **self._how)(self.py_func)
        self._keep(dispatcher, Whole)
        if self.signature is not None:
            dispatcher.compile(self.signature)
            dispatcher.disable_compile()
        return dispatcher

    @cached_property
    def part(self) -> Any:
        """The numba function that other kernels call: it needs no way in from Python."""
        how = self._how | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        dispatcher = numba.njit(pipeline_class=PartCompiler, **how)(self.py_func)
        self._keep(dispatcher, Part)
        resolve = dispatcher.get_call_template
        dispatcher.get_call_template = lambda arguments, named: resolve(tuple(map(_widest, arguments)), named)
        return dispatcher

    @property
    def stored_layer(self) -> str | None:
        """The layer in whose folder compiled code is stored: the highest of the kernel and the kernels in its closure; None: not stored."""
        if self._layer is None:
            return None
        calls = [cell.cell_contents for cell in self.py_func.__closure__ or ()]
        layers = [self._layer, *(getattr(kernel, "stored_layer", None) for kernel in calls)]
        return None if None in layers else max(layers, key=LAYERS.index)

    def _keep(self, dispatcher: Any, library: type[Part | Whole]) -> None:
        if self.stored_layer:
            dispatcher._cache = Store(self.py_func, self.stored_layer, library)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes the kernel for when another one calls it."""
        return types.Dispatcher(self.part)


def _widest(kind: Any) -> Any:
    """Constants and narrow columns go into kernels as int64; else numba compiles a copy for every constant and every width."""
    plain = types.unliteral(kind)
    if isinstance(plain, types.IntEnumMember):
        plain = plain.dtype
    return types.int64 if isinstance(plain, types.Integer) and plain.signed else plain


def compiled_before() -> bool:
    """Whether the simulator of this version is on disk already (the first run compiles for a while)."""
    return any(cache_folder("sim").glob("*.whole"))
