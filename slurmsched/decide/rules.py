"""What an admin lets a decision do: the part of the settings that decide() reads, as one value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..cluster.actions import POWERS
from ..cluster.records.faults import Instability
from ..errors import ConfigError
from ..policies.sharing import PackingLimits

Scope = Literal["points", "qos", "queue"]


SOFT_STEPS = ((0.8, 1.1), (0.5, 1.2), (0.2, 1.5))
"""What a soft deadline without steps of its own is worth by so many times its time from the first submit."""


@dataclass(frozen=True)
class DeadlineRules:
    """What may be promised to jobs with deadlines, and how promises are kept."""

    margin: float = 0.9  #: the share of such runs that end within the runtime planned with
    reserve: float = 0.05  #: of the GPUs, the share that new promises leave
    lead_s: float = 120.0  #: from a job's being first in the order to its start, as plans allow for
    hold_s: float = 30.0  #: how long a job that is in a promise's way is delayed at a time
    hold_most_s: float = 3_600.0  #: the same over all its delays
    user_gpu_hours: float = 0.0  #: most that one user is promised in a window; 0 for no limit
    account_gpu_hours: float = 0.0  #: the same for an account
    window_s: float = 604_800.0
    user_gpus: int = 0  #: most GPUs that one user asks deadlines for in an interval; 0 for no limit
    interval_s: float = 3_600.0
    user_share: float = 1.0  #: of the GPUs' time until any moment, the most that one user is promised; 1 for no limit
    exempt: tuple[str, ...] = ()  #: users and accounts without a quota
    soft_steps: tuple[tuple[float, float], ...] = SOFT_STEPS
    yields: bool = False  #: running jobs that said ckpt are asked to make room for promises
    lease_s: float = 300.0  #: how long a job runs at least before it is asked, and asked again
    stop_s: float = 120.0  #: how long it may take to save its work before it is requeued
    stop_signal: str = "URG"  #: what asks it
    asks_a_day: int = 4  #: no job is asked more often


@dataclass(frozen=True)
class ProfilingRules:
    """Which new jobs are measured in a partition of their own first, and for how long (Lucid section 3.2)."""

    partition: str  #: where they are measured
    n_max: int = 8  #: most GPUs of a job that is (N_prof)
    n_least: int = 1  #: the same in a burst
    t_s: float = 200.0  #: for how long at most (T_prof)
    t_least_s: float = 60.0  #: the same in a burst
    wait_s: float = 600.0  #: a job that waited longer is not measured first any more
    home: str = ""  #: the partition that lends nodes and borrows them; empty for none
    nodes_most: int = 2  #: most nodes that the profiling partition has beyond its own

    def under(self, pressure: float) -> ProfilingRules:
        """The same rules under a *pressure* of new jobs, from 0 for none to 1 for a burst."""
        n_max = self.n_max + round(pressure * (min(self.n_least, self.n_max) - self.n_max))
        t_s = self.t_s + pressure * (min(self.t_least_s, self.t_s) - self.t_s)
        return replace(self, n_max=n_max, t_s=t_s)


@dataclass(frozen=True)
class SharingRules:
    """Which jobs may share GPUs, and where; see ``policies.sharing.Packing``."""

    partition: str = "shared"  #: of the nodes on which GPUs are shared
    capacity: int = 2  #: the largest sum of share scores on a GPU, now
    memory_mib: float = 0.0  #: what two jobs may take of a GPU together
    other_users: bool = False
    wait_s: float = 30.0  #: how long a job that is being changed may not start
    patience_s: float = 300.0  #: how long it then waits to start, before it has its own GPUs again
    failed: tuple[tuple[str, ...], ...] = ()  #: kinds of jobs that failed together
    evict: bool = True  #: one of two jobs whose load together is unstable stops, if it said ckpt
    unstable: tuple[Instability, ...] = ()  #: the latest such pairs, newest first

    def packing(self) -> PackingLimits:
        """The part of it that says who shares with whom."""
        failed = frozenset(frozenset(kinds) for kinds in self.failed)
        return PackingLimits(self.capacity, self.memory_mib, self.other_users, failed=failed)


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
    sharing: SharingRules | None = None  #: who joins whom takes power.share, the way there and back does not
    profiling: ProfilingRules | None = None  #: None where no job is measured in a partition of its own first

    def __post_init__(self) -> None:
        unknown = self.powers - set(POWERS)
        if unknown:
            raise ValueError(f"no such power: {sorted(unknown)}; there are {', '.join(POWERS)}")


def read_steps(texts: Sequence[str]) -> tuple[tuple[float, float], ...]:
    """Steps of a soft deadline from texts such as ``80@1.1``: worth in per cent at so many times its time."""
    steps: list[tuple[float, float]] = []
    for text in texts:
        match = re.fullmatch(r"(\d{1,2})@(\d+(?:\.\d+)?)", text)
        worth, times = (int(match[1]) / 100, float(match[2])) if match else (0.0, 0.0)
        before = steps[-1] if steps else (1.0, 1.0)
        if not (0 < worth < before[0] and times > before[1]):
            raise ConfigError(
                f"deadline.soft_steps: {text!r} is no step; accepted are PERCENT@TIMES such as 80@1.1: 99 to 1 per cent"
                " and falling, with times above 1 and rising"
            )
        steps.append((worth, times))
    return tuple(steps)
