"""A compiled function as a value that Python can pass quickly."""

from typing import Any

from numba.core.types import WrapperAddressProtocol


class Compiled(WrapperAddressProtocol):
    """A compiled function with its address looked up once. Numba looks a dispatcher's up at every call, which costs 130 of 185 us."""

    def __init__(self, function: Any, signature: Any) -> None:
        found = function.get_compile_result(signature)
        self._address = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)
        self._signature, self._function = signature, function  # the function must live as long as its address

    def __wrapper_address__(self) -> int:
        return int(self._address)

    def signature(self) -> Any:
        """Its type."""
        return self._signature


def by_address(given: Any, function: Any, signature: Any) -> Any:
    """A function of Headway's own, by its address. Others stay as they are: an exception is lost on the way through an address."""
    return Compiled(function, signature) if given.__module__.startswith("headway.") else function
