"""How a setting is declared: its level, its default, one line of help, and its bounds."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Any

LEVELS = ("basic", "power", "expert")


def _setting(level: str, default: Any, help: str, **rules: Any) -> Any:  # noqa: A002 - the word an admin sees
    """Return a field with its help line and rules (``choices``, ``least``, ``most``, ``needs``, ``secret``)."""
    return field(default=default, metadata={"level": level, "help": help, **rules}, repr=not rules.get("secret"))


basic, power, expert = (partial(_setting, level) for level in LEVELS)
"""Settings that a site sets first; those of a power, for sites that use it; those that hardly any site changes."""
