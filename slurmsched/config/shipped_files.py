"""The location of files that an admin copies: units, drop-ins of slurm.conf, the submit plugin, the nodes' scripts."""

from __future__ import annotations

import sysconfig
from pathlib import Path

_PLACES = (
    Path(sysconfig.get_path("data"), "share/slurmsched"),
    Path("/usr/share/slurmsched"),
    Path(__file__).resolve().parents[2],
)
"""Installed by pip, by a package, or in a checkout."""


def shipped(name: str) -> Path:
    """Return the path of a file named as in a checkout, for example ``contrib/node.conf``; the bare name if absent."""
    return next((place / name for place in _PLACES if (place / name).exists()), Path(name))
