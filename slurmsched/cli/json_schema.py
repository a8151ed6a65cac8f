"""JSON Schemas from types: dataclasses, TypedDicts and what they hold."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import getdoc
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[Any, dict[str, Any]] = {
    Any: {},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},  # NaN and infinity are null
    str: {"type": "string"},
    type(None): {"type": "null"},
}


def schema_of(kind: Any, *, closed: bool = False) -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the values of a type; a *closed* one permits no further keys."""
    return _Schemas(closed).of(kind)


class _Schemas:
    def __init__(self, closed: bool) -> None:
        self._more = {"additionalProperties": False} if closed else {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type; TypeError for one that has no form in JSON."""
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if is_typeddict(kind) or is_dataclass(kind):
            return self._object(kind)
        origin, inner = get_origin(kind) or kind, get_args(kind)
        if origin is NotRequired:
            return self.of(inner[0])
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in inner]}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(inner[1]) if inner else {}}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of(inner[0]) if inner else {}}
        raise TypeError(f"{kind!r} has no form in JSON")

    def _object(self, kind: Any) -> dict[str, Any]:
        # Of annotations that are texts, TypedDict itself does not know which keys may be absent.
        hints = get_type_hints(kind, include_extras=True)
        names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(hints)
        always = [name for name in names if get_origin(hints[name]) is not NotRequired]
        about = (getdoc(kind) or "").partition("\n")[0]
        return {
            "type": "object",
            **({"description": about} if about else {}),
            "properties": {name: self.of(hints[name]) for name in names},
            "required": always,
            **self._more,
        }
