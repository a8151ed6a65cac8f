"""Presets: named compositions of a policy's parts."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError
from .registry import load_research_parts
from .research_names import RESEARCH_PARTS


class Preset(NamedTuple):
    """A composition by the names of its parts; in a simulation, and on Slurm as far as Slurm starts the jobs."""

    ordering: str
    selection: str
    placement: str = "consolidate"
    admission: str = "accept-all"
    sharing: str = "none"  #: in a simulation; on Slurm ``policy.sharing`` itself decides, with power.share


PRESETS = {
    "fifo": Preset("fifo", "strict"),
    **{name: Preset(name, "backfill") for name in ("sjf", "qssf", "edf", "wfq", "mlfs-rl")},
    **{
        name: Preset(name, "preemptive") for name in ("srtf", "srsf", "las", "tiresias", "tiresias-promoting", "mlfs-h")
    },
    "chronus": Preset("chronus", "leases"),
    "lucid": Preset("lucid", "backfill", sharing="indolent"),
    "pcs": Preset("wfq", "backfill"),
    "slurm": Preset("fifo", "easy"),
}
"""The presets; the research adds its own. Most are an ordering with the selection of it, under the ordering's name."""


def find_preset(name: str) -> Preset | None:
    """Return the preset *name*, None if there is none; ResearchMissing for one of the research where that is absent."""
    if name not in PRESETS and name in RESEARCH_PARTS["preset"]:
        load_research_parts(f"preset {name!r}")
    return PRESETS.get(name)


def preset_of(name: str) -> Preset:
    """Return the preset *name*; ConfigError lists those there are."""
    preset = find_preset(name)
    if preset is None:
        names = ", ".join(sorted(RESEARCH_PARTS["preset"].union(PRESETS)))
        raise ConfigError(f"preset {name!r} is not known; there are: {names}")
    return preset
