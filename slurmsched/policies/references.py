"""Named tuples that compiled functions pass by reference. Import it only where Numba is there.

The state of a cluster is a named tuple of some hundred arrays. Numba passes each of their parts as an argument of its
own: most of the time of a short function went into copying them, and most of the time of compiling it. A reference is
one pointer. The entry from Python makes it, so that it lives as long as the call.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.types.abstract import Type
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic


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
