"""Types of GPUs that are slices of one: NVIDIA's MIG profiles by their names, others as the site states them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ...errors import ConfigError

if TYPE_CHECKING:  # commands that count GPUs start without numpy
    from ..columns import FloatArray, Labels

_PROFILE = re.compile(
    r"(?:^|[^a-z0-9]|mig)(?:(?P<compute>[1-7])c[._-]?)?(?P<slices>[1-7])g[._-]?(?P<gb>[0-9]{1,3})gb", re.IGNORECASE
)
_FOUR = re.compile(r"a30|rtx_?-?pro", re.IGNORECASE)
_OF_FOUR = frozenset(((1, 6), (2, 12), (4, 24), (2, 48), (4, 96)))  # A30, RTX PRO 6000; no card of seven has these
_STATED = re.compile(r"\s*([^\s=,]{1,100})\s*=\s*([0-9.]{1,20})(?:/([0-9]{1,3}))?\s*")


@dataclass(frozen=True)
class GpuParts:
    """How much of a GPU a unit of each type is: 1 for a whole one, less for a slice."""

    stated: Mapping[str, float] = field(default_factory=dict)  #: by type, in lower case, as the site's settings have it

    @classmethod
    def of_text(cls, text: str) -> GpuParts:
        """Parse types with their parts, ``a100_small=0.25,1g.20gb=1/4``; ConfigError for anything else."""
        stated: dict[str, float] = {}
        for item in filter(str.strip, text.split(",")):
            match = _STATED.fullmatch(item)
            try:
                part = float(match[2]) / float(match[3] or 1) if match else 0.0
            except (ValueError, ZeroDivisionError):
                part = 0.0
            if not match or not 0.0 < part <= 1.0:
                raise ConfigError(
                    f"slurm.gpu_parts: {item.strip()[:80]!r} is no type of GPU with its part; accepted are "
                    "TYPE=PART with a part above 0 and at most 1, as 1g.20gb=0.25 or 1g.20gb=1/4, joined by commas"
                )
            stated[match[1].lower()] = part
        return cls(stated)

    def of(self, gpu_type: str) -> float:
        """Return the part of a GPU that one unit of a type is."""
        part = self.stated.get(gpu_type.lower())
        return mig_part(gpu_type) if part is None else part

    def is_slice(self, gpu_type: str) -> bool:
        """Report whether a type is of slices: a MIG profile, that of a whole card too, or one stated as a part."""
        return self.stated.get(gpu_type.lower(), 1.0) < 1.0 or is_mig(gpu_type)

    def of_each(self, gpu_types: Labels) -> FloatArray:
        """Return the part of each row's type; of several types, joined as 1g.10gb+2g.20gb, their mean."""
        parts = ([self.of(one) for one in several(name)] for name in gpu_types.names)
        return gpu_types.map([sum(each) / len(each) for each in parts], float)


NVIDIAS = GpuParts()
"""The parts of MIG profiles, and no others."""


def several(gpu_types: str) -> list[str]:
    """Split types that are joined by ``+``; 1g.5gb+me is one, and no text is one type that is not known."""
    return re.split(r"\+(?!me\b|gfx\b)", gpu_types)


@lru_cache(maxsize=1000)
def is_mig(gpu_type: str) -> bool:
    """Report whether a type is named by a MIG profile: 1g.10gb, a100_3g.40gb, mig-1c.2g.10gb."""
    return _PROFILE.search(gpu_type) is not None


@lru_cache(maxsize=1000)
def mig_part(gpu_type: str) -> float:
    """Return the part of its card's compute that a MIG profile has; 1 for any other type.

    A30 and RTX PRO 6000 are cut into up to four slices, all other cards into up to seven.
    """
    match = _PROFILE.search(gpu_type)
    if match is None:
        return 1.0
    slices = int(match["slices"])
    of_four = bool(_FOUR.search(gpu_type[: match.start() + 1])) or (slices, int(match["gb"])) in _OF_FOUR
    return min(1.0, int(match["compute"] or slices) / (4 if of_four else 7))
