"""Where the files lie that an admin copies: units, drop-ins of slurm.conf, the submit plugin, the scripts of nodes."""

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
    """The path of a file called as in a checkout, ``contrib/node.conf`` for one; the bare name where it is nowhere."""
    return next((place / name for place in _PLACES if (place / name).exists()), Path(name))
