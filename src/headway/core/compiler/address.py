"""A compiled function as a value that Python can pass quickly."""

from functools import cache
from typing import Any

import numba.experimental.function_type  # noqa: F401  (makes functions values; numba imports it only when it compiles)
from numba.core.types import FunctionType, WrapperAddressProtocol
from numba.extending import typeof_impl


class Compiled(WrapperAddressProtocol):
    """A compiled function whose address and type were looked up once; numba does that for a dispatcher at every call, in 130 us."""

    def __init__(self, function: Any, signature: Any) -> None:
        result = function.get_compile_result(signature)
        self._address = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
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
    """Pass a function of Headway by its address. One from outside stays as it is: an exception that it raises would be lost on the way."""
    return _compiled(function, signature) if given.__module__.startswith("headway.") else function


_compiled = cache(Compiled)
