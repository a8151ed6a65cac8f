"""Named tuples that compiled functions pass by reference. Import it only where Numba is there.

The state of a cluster is a named tuple of some hundred arrays. Numba passes each of their parts as an argument of its
own: most of the time of a short function went into copying them, and most of the time of compiling it. A reference is
one pointer. The entry from Python makes it, so that it lives as long as the call.

An entry that takes such a tuple apart takes seconds to compile, too. So ``by_address`` has one function for all of its
entries write the tuple to memory, whose address they take.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.types.abstract import Type
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, intrinsic, unbox


class Reference(Type):
    """The type of a pointer to a named tuple of type *target*."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(name=f"Reference({target})")


@register_default(Reference)
class ReferenceModel(models.PrimitiveModel):
    """A pointer."""

    def __init__(self, manager: Any, of: Reference) -> None:
        super().__init__(manager, of, manager.lookup(of.target).get_value_type().as_pointer())


@infer_getattr
class ReferenceAttribute(AttributeTemplate):
    """The fields of the tuple: arrays and numbers as they are, tuples by reference."""

    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:
        """Return the type of a field; None for anything else."""
        if name not in reference.target.fields:
            return None
        return _shown(_field(reference.target, name))


@lower_getattr_generic(Reference)
def get_field(context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:
    """Load a field."""
    field = _field(reference.target, name)
    place = cgutils.gep_inbounds(builder, pointer, 0, reference.target.fields.index(name))
    if isinstance(field, BaseNamedTuple):
        return place
    return impl_ret_borrowed(context, builder, field, builder.load(place))


@intrinsic
def refer(_typing: Any, value: Any) -> Any:
    """Return a reference to a named tuple, and anything else as it is."""

    def place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if isinstance(value, BaseNamedTuple):
            return cgutils.alloca_once_value(builder, arguments[0])
        return impl_ret_borrowed(context, builder, value, arguments[0])

    return _shown(value)(value), place


def _shown(kind: Any) -> Any:
    return Reference(kind) if isinstance(kind, BaseNamedTuple) else kind


def _field(target: Any, name: str) -> Any:
    return target.types[target.fields.index(name)]


@unbox(Reference)
def take_address(reference: Reference, packed: Any, native: Any) -> Any:
    """Return the address of a packed tuple."""
    number = native.pyapi.object_getattr_string(packed, "address")
    address = native.pyapi.long_as_voidptr(number)
    native.pyapi.decref(number)
    pointer = native.builder.bitcast(address, native.context.get_value_type(reference))
    return NativeValue(pointer, is_error=cgutils.is_not_null(native.builder, native.pyapi.err_occurred()))


@intrinsic
def _write(_typing: Any, value: Any, address: Any, room: Any) -> Any:
    def store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(value)
        size = context.get_constant(types.intp, context.get_abi_sizeof(kind))
        with builder.if_then(builder.icmp_signed(">=", arguments[2], size)):
            builder.store(arguments[0], builder.inttoptr(arguments[1], kind.as_pointer()))
        return size

    return types.intp(value, types.intp, types.intp), store


def write(value: Any, address: int, room: int) -> int:
    """Write a named tuple to an *address* with *room* for so many bytes; return how many it needs. To be compiled."""
    return int(_write(value, address, room))
