"""A compiled function as a value that Python can pass quickly."""

from typing import Any

import numba.experimental.function_type  # noqa: F401  (makes functions values; numba imports it only when it compiles)
from numba.core.types import FunctionType, WrapperAddressProtocol
from numba.extending import typeof_impl


class Compiled(WrapperAddressProtocol):
    """A compiled function with its address and type looked up once: numba looks those of a dispatcher up at every call, in 130 us."""

    def __init__(self, function: Any, signature: Any) -> None:
        found = function.get_compile_result(signature)
        self._address = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)
        self._signature, self._function = signature, function  # the function must live as long as its address
        self.type = FunctionType(signature)

    def __wrapper_address__(self) -> int:
        return int(self._address)

    def signature(self) -> Any:
        """Its arguments and what it returns, as numba asks for them."""
        return self._signature


@typeof_impl.register(Compiled)
def _type_of(value: Compiled, context: Any) -> Any:
    return value.type


def by_address(given: Any, function: Any, signature: Any) -> Any:
    """A function of Headway's own, by its address. Others stay as they are: an exception is lost on the way through an address."""
    return Compiled(function, signature) if given.__module__.startswith("headway.") else function
