"""What an admin lets a decision do: the part of the settings that decide() reads, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..cluster.actions import POWERS

Scope = Literal["points", "qos", "queue"]


@dataclass(frozen=True)
class Rules:
    """Bounds on a Plan; kept in every decision record, so that a replay has them."""

    powers: frozenset[str] = frozenset()  #: switched on, out of ``POWERS``, whatever the mode
    scope: Scope = "points"
    max_points: int = 1_000_000  #: most points a job can get where scope is points
    window: int = 500  #: jobs from the top that get points
    only_partitions: frozenset[str] = field(default_factory=frozenset)  #: empty means all
    starvation_s: float = 604800.0  #: waited longer: stands only behind jobs that waited longer

    def __post_init__(self) -> None:
        unknown = self.powers - set(POWERS)
        if unknown:
            raise ValueError(f"no such power: {sorted(unknown)}; there are {', '.join(POWERS)}")
