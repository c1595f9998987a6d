"""Groups of tables go into kernels by address.

Numba takes a tuple of arrays apart wherever it is passed: the state, the options and the scratch of a decision are three hundred words,
which every call would copy, and a policy's key would be called with sixty. A class marked with `@by_address` is one word instead. Python
passes its tuples as they are; their words are laid out once per call from Python, and kernels read them from there.
"""

from hashlib import sha256
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    box,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

types: Any = numba.core.types


class Tables(types.Type):  # type: ignore[misc]
    """The type of a named tuple that is passed by address."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.index = {name: i for i, name in enumerate(inner.fields)}
        digest = sha256(str(inner).encode()).hexdigest()[:16]  # names of compiled functions contain the types
        super().__init__(f"{inner.instance_class.__name__}.{digest}")

    @property
    def key(self) -> Any:
        """Return the name: two types of one name are equal. Numba hashes types often, and hashing `inner` is slow."""
        return self.name


def by_address(cls: Any) -> Any:
    """Pass instances of this named tuple to kernels by address. Kernels read its fields, and can neither make one nor take it apart."""
    typeof_impl.register(cls)(_type_of)
    return cls


def _type_of(value: Any, context: Any) -> Tables:
    return Tables(types.NamedTuple([typeof_impl(field, context) for field in value], type(value)))


@register_model(Tables)
class _Address(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Tables) -> None:
        super().__init__(manager, kind, manager.lookup(kind.inner).get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = Tables

    def generic_resolve(self, kind: Tables, name: str) -> Any:
        """The type of a field."""
        return kind.inner.types[kind.index[name]] if name in kind.index else None


@lower_getattr_generic(Tables)
def _read(context: Any, builder: Any, kind: Tables, value: Any, name: str) -> Any:
    i = kind.index[name]
    word = _load(builder, cgutils.gep_inbounds(builder, value, 0, i))
    return impl_ret_borrowed(context, builder, kind.inner.types[i], word)


def _load(builder: Any, address: Any) -> Any:
    """Load a value word by word, each marked as never changing: LLVM leaves out those not used, and keeps the others in registers."""
    kind = address.type.pointee
    if isinstance(kind, ir.ArrayType | ir.LiteralStructType):
        value = ir.Constant(kind, ir.Undefined)
        for i in range(len(kind.elements) if isinstance(kind, ir.LiteralStructType) else kind.count):
            value = builder.insert_value(value, _load(builder, cgutils.gep_inbounds(builder, address, 0, i)), i)
        return value
    word = builder.load(address)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@unbox(Tables)
def _lay_out(kind: Tables, tables: Any, c: Any) -> NativeValue:
    native = c.unbox(kind.inner, tables)
    memory = cgutils.alloca_once_value(c.builder, native.value)
    # The address comes back as one that LLVM knows nothing of, or it might take "never changes" to include the time before this.
    identity = ir.FunctionType(memory.type, [memory.type])
    address = c.builder.asm(identity, "", "=r,0,~{memory}", [memory], True)
    return NativeValue(address, cleanup=native.cleanup, is_error=native.is_error)


@box(Tables)
def _as_tuple(kind: Tables, address: Any, c: Any) -> Any:
    """For functions that stay in Python."""
    return c.box(kind.inner, _load(c.builder, address))
