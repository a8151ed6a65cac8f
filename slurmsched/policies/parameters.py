"""Parameters of parts that are numbers: the fields of a dataclass, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from ..errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def of_numbers(kind: type[T], part: str, settings: Mapping[str, str], gone: Mapping[str, str] | None = None) -> T:
    """Return a *kind* with *settings*, texts by name; ConfigError for an unknown name or a text that is no number.

    *gone* says what is written in place of names of earlier versions.
    """
    if old := sorted(set(settings) & set(gone or {})):
        raise ConfigError(f"{part}: there is no {old[0]} any more: {(gone or {})[old[0]]}")
    try:
        return kind(**{name: float(text) for name, text in settings.items()})
    except (TypeError, ValueError):
        names = ", ".join(field.name for field in fields(kind))
        raise ConfigError(f"{part}: accepted are numbers for {names}") from None


def defaults_of(kind: type[DataclassInstance]) -> str:
    """Return the default of each field as ``name=value``, separated by blanks."""
    return " ".join(f"{field.name}={field.default:g}" for field in fields(kind))
