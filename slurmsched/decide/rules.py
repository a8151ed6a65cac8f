"""What an admin lets a decision do: the part of the settings that decide() reads, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..cluster.actions import POWERS

Scope = Literal["points", "qos", "queue"]


@dataclass(frozen=True)
class DeadlineRules:
    """What may be promised to jobs with deadlines, and how promises are kept."""

    margin: float = 0.9  #: the share of such runs that end within the runtime planned with
    reserve: float = 0.05  #: of the GPUs, the share that new promises leave
    lead_s: float = 120.0  #: from a job's being first in the order to its start, as plans allow for
    hold_s: float = 30.0  #: how long a job that is in a promise's way is delayed at a time
    user_gpu_hours: float = 0.0  #: most that one user is promised in a window; 0 for no limit
    account_gpu_hours: float = 0.0  #: the same for an account
    window_s: float = 604_800.0
    user_gpus: int = 0  #: most GPUs that one user asks deadlines for in an interval; 0 for no limit
    interval_s: float = 3_600.0
    exempt: tuple[str, ...] = ()  #: users and accounts without a quota


@dataclass(frozen=True)
class Rules:
    """Bounds on a Plan; kept in every decision record, so that a replay has them."""

    powers: frozenset[str] = frozenset()  #: switched on, out of ``POWERS``, whatever the mode
    scope: Scope = "points"
    max_points: int = 1_000_000  #: most points a job can get where scope is points
    window: int = 500  #: jobs from the top that get points
    only_partitions: frozenset[str] = field(default_factory=frozenset)  #: empty means all
    starvation_s: float = 604800.0  #: waited longer: stands only behind jobs that waited longer
    deadlines: DeadlineRules | None = None  #: None where nothing is promised

    def __post_init__(self) -> None:
        unknown = self.powers - set(POWERS)
        if unknown:
            raise ValueError(f"no such power: {sorted(unknown)}; there are {', '.join(POWERS)}")
