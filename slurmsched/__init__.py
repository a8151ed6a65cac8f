"""The scheduler brain for GPU clusters that run stock Slurm.

What authors of plug-ins import stands here: ``from slurmsched import ordering``. Other names may move in any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cluster.actions import AskToStop, Hold, Steer
    from .cluster.jobs import JobTable
    from .cluster.state import View
    from .policies.contract import (
        admission,
        find_ordering,
        ordering,
        power,
        preemption,
        scaling,
        selection,
        sharing,
        stopping,
    )
    from .policies.placement import placement

__version__ = "0.2.0.dev0"

_PLACES = {
    ".cluster.actions": ("AskToStop", "Hold", "Steer"),
    ".cluster.jobs": ("JobTable",),
    ".cluster.state": ("View",),
    ".policies.contract": (
        *("admission", "find_ordering", "ordering", "power", "preemption"),
        *("scaling", "selection", "sharing", "stopping"),
    ),
    ".policies.placement": ("placement",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [
    "AskToStop",
    "Hold",
    "JobTable",
    "Steer",
    "View",
    "__version__",
    "admission",
    "find_ordering",
    "ordering",
    "placement",
    "power",
    "preemption",
    "scaling",
    "selection",
    "sharing",
    "stopping",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: commands start without NumPy."""
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACE_OF[name], __name__), name)
