"""Changes of a job that kept it from starting, and are not repeated: what was changed, when, and under which limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

BETWEEN = ";"
"""Between the texts of several such changes of a job in the column ``avoided``."""


@dataclass(frozen=True)
class Avoided:
    """Changes that were given back, by the powers that made them; as text it is one entry of the column ``avoided``."""

    changes: str  #: steer, rightsize, resize and partition, joined as steer+resize
    at_s: float
    request: str  #: a digest of what the job asked for by itself, and of the nodes that it might use
    limits: str  #: a digest of the limits known then; ``UNKNOWN`` where none were
    reason: str  #: Slurm's word, or ``HALF_TAKEN``

    def __str__(self) -> str:
        return f"{self.changes} {self.at_s:.0f} {self.request} {self.limits} {self.reason}"


UNKNOWN = "-"
HALF_TAKEN = "half-taken"
"""The reason where Slurm took over one part of a write and not the other."""


@lru_cache(maxsize=10_000)
def read_avoided(text: str) -> tuple[Avoided, ...]:
    """Return what a row of the column ``avoided`` stands for."""
    parts = (part.split(" ", 4) for part in text.split(BETWEEN) if part)
    return tuple(Avoided(part[0], float(part[1]), *part[2:]) for part in parts)
