"""Terms of stops by the settings: those of ``[deadline]``, whether promises are made or not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..config import Settings
from ..decide.rules import StopTerms


def stop_terms(settings: Settings, *more: str) -> dict[str, Any]:
    """Return how running jobs are asked to stop, and *more* settings of ``[deadline]``, by field of the rules."""
    names = (*(field.name for field in fields(StopTerms)), *more)
    return {name: getattr(settings.deadline, name) for name in names}
