"""What research adds to simulations, found by its entry points, so that no simulation imports it."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from ..errors import ConfigError

GROUP = "slurmsched_simulation"
"""The group of entry points: what plays jobs, or says how fast they train."""


def research_part(name: str) -> Any:
    """Return what research registered as *name*; ConfigError where it is not there."""
    for entry in entry_points(group=GROUP, name=name):
        return entry.load()
    raise ConfigError(f"{name} is a part of slurmsched's research, and none is registered: install slurmsched again")
