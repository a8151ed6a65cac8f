"""The parts of policies that no daemon needs: importing this registers them, as the module of a plug-in does."""

from ..policies.presets import PRESETS, Preset
from . import placement
from .ordering import baselines, genie, laxity, time_shares, training_baselines
from .scaling import fixed_size, gavel, optimus, ordered, pollux, sia, themis
from .selection import capacity, three_sigma

__all__ = [
    "baselines",
    "capacity",
    "fixed_size",
    "gavel",
    "genie",
    "laxity",
    "optimus",
    "ordered",
    "placement",
    "pollux",
    "sia",
    "themis",
    "three_sigma",
    "time_shares",
    "training_baselines",
]

PRESETS.update({name: Preset(name, "backfill") for name in ("graphene", "gandiva", "fair")})
PRESETS.update(
    {name: Preset(name, "preemptive") for name in ("afs-l", "themis", "genie", "laxity", "slaq", "hypersched")},
)
PRESETS["yarn-cs"] = Preset("fifo", "yarn-cs")
PRESETS["3sigma"] = Preset("srtf", "3sigma")
