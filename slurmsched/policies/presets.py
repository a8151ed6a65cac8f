"""Presets: named compositions of a policy's parts."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError


class Preset(NamedTuple):
    """A composition by the names of its parts; in a simulation, and on Slurm as far as Slurm starts the jobs."""

    ordering: str
    selection: str
    placement: str = "consolidate"
    admission: str = "accept-all"
    sharing: str = "none"  #: in a simulation; on Slurm ``policy.sharing`` itself decides, with power.share


PRESETS = {
    "fifo": Preset("fifo", "strict"),
    **{
        name: Preset(name, "backfill")
        for name in ("sjf", "qssf", "edf", "wfq", "graphene", "gandiva", "fair", "mlfs-rl")
    },
    **{
        name: Preset(name, "preemptive")
        for name in (
            *("srtf", "srsf", "las", "tiresias", "tiresias-promoting", "afs-l", "themis", "genie"),
            *("mlfs-h", "slaq", "hypersched"),
        )
    },
    "yarn-cs": Preset("fifo", "yarn-cs"),
    "3sigma": Preset("srtf", "3sigma"),
    "chronus": Preset("chronus", "leases"),
    "lucid": Preset("lucid", "backfill", sharing="indolent"),
    "pcs": Preset("wfq", "backfill"),
    "slurm": Preset("fifo", "easy"),
}
"""The presets. Most are an ordering with the selection that belongs to it, under the ordering's own name."""


def preset_of(name: str) -> Preset:
    """Return the preset *name*; ConfigError lists those there are."""
    if name not in PRESETS:
        raise ConfigError(f"preset {name!r} is not known; there are: {', '.join(sorted(PRESETS))}")
    return PRESETS[name]
