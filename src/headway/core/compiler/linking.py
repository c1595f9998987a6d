"""How kernels become machine code: each is lowered to LLVM code by itself, and all are optimised once, in the kernel that Python calls.

Numba optimises every function together with all that it calls, and makes machine code of each: with kernels six calls deep the same code
goes through LLVM six times. Here a kernel that other kernels call (`Part`) stays LLVM code. The kernel that Python calls (`Whole`) takes in
all parts as internal functions, which LLVM inlines far better than exported ones: the engine runs up to twice as fast and compiles in half
the time. These classes replace steps of numba's `JITCodeLibrary`; tests/unit/test_jit.py says when they no longer fit.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment

from headway.core.compiler import notices

ENVIRONMENT = "_ZN08NumbaEnv"  # how numba names the variable that holds the Python objects of a function
DYNAMIC = "numba.dynamic.globals"  # addresses of this process


def _variables(library: Any, prefix: str) -> list[Any]:
    return [variable for variable in library._final_module.global_variables if variable.name.startswith(prefix)]


class Part(JITCodeLibrary):  # type: ignore[misc]
    """A kernel that other kernels call: LLVM code to be linked, never run by itself."""

    def _optimize_final_module(self) -> None:
        """Nothing yet: the whole is optimised."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """What numba tells the addresses of a function's Python objects; a part has no address yet."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Left to the whole."""

    @cached_property
    def _names(self) -> list[str]:
        """The names of all variables: each takes a call of LLVM."""
        return [variable.name for variable in self._final_module.global_variables]

    def environments(self) -> list[Any]:
        """The Python objects that the code refers to."""
        return [lookup_environment(name) for name in self._names if name.startswith(ENVIRONMENT)]

    def packed(self) -> Any:
        """What to keep on disk; None if it holds only in this process."""
        dynamic = any(name.startswith(DYNAMIC) for name in self._names)
        return None if dynamic else (self.name, self._final_module.as_bitcode())

    @classmethod
    def unpacked(cls, codegen: Any, packed: Any) -> "Part":
        """The library again."""
        name, code = packed
        library = cls(codegen, name)
        library._final_module = binding.parse_bitcode(code)
        library._finalized = True
        return library


class Whole(JITCodeLibrary):  # type: ignore[misc]
    """A kernel that Python calls, or that is passed as a value, with all parts in it: machine code."""

    def finalize(self) -> None:
        """Link the parts, optimise, and make machine code."""
        self._own = {variable.name for variable in _variables(self, ENVIRONMENT)}
        super().finalize()

    def _optimize_final_module(self) -> None:
        for function in self._parts(binding.Linkage.linkonce_odr):
            function.linkage = "internal"
        for variable in _variables(self, ENVIRONMENT):
            if variable.name not in self._own:
                variable.linkage = "linkonce_any"  # goes away where nothing refers to it, which is nearly everywhere
        passes, builder = self._codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False)
        passes.run(self._final_module, builder)
        # LLVM may have changed how an internal function takes its arguments; found under the name of the part, which other code links
        # as it is, it would be called wrongly. The loader looks internal names up like any other.
        for function in self._parts(binding.Linkage.internal):
            function.name += ".part"

    def _parts(self, linkage: Any) -> list[Any]:
        """The functions of this linkage, except those that count references: numba leaves pairs of them out, and knows them by name."""
        functions = [f for f in self._final_module.functions if not f.is_declaration and f.linkage == linkage]
        return [function for function in functions if not function.name.startswith("NRT_")]

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for environment in self.environments():
            self._codegen.set_env(environment.env_name, environment)

    def environments(self) -> list[Any]:
        """The Python objects that the parts still refer to."""
        names = {variable.name for variable in _variables(self, ENVIRONMENT)} - self._own
        return [lookup_environment(name) for name in sorted(names)]

    def packed(self) -> Any:
        """What to keep on disk; None if it holds only in this process."""
        if self.has_dynamic_globals:
            return None
        exported = [f.name for f in self.get_defined_functions() if f.linkage == binding.Linkage.external]
        return self.name, self._get_compiled_object(), exported

    @classmethod
    def unpacked(cls, codegen: Any, packed: Any) -> "Whole":
        """The library again, its code loaded."""
        name, code, functions = packed
        library = cls(codegen, name)
        library._own = set()
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        codegen._engine._defined_symbols.update(functions)
        return library


class PartCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, with a `Part` to put the code in."""

    library: type[Part | Whole] = Part

    def compile_extra(self, function: Any) -> Any:
        """Compile a Python function."""
        notices.compiling()
        self.state.library = self.library(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


class WholeCompiler(PartCompiler):
    """Numba's compiler, with a `Whole` to put the code in."""

    library = Whole

    def compile_extra(self, function: Any) -> Any:
        """Compile a Python function, and with it all parts that it calls."""
        with _uncollected():
            return super().compile_extra(function)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which takes a sixth of the time and finds little."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
