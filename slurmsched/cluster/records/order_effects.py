"""What other orders would do to the jobs that wait now: the queue played forward under each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UserLoss:
    """A user whose jobs wait longer than as now, and by how long in the mean."""

    user: str
    jobs: int
    wait_s: float


@dataclass(frozen=True)
class OrderEffect:
    """The jobs that start under every order, under this one; spans are from now on, NaN where no job does."""

    order: str  #: an ordering, or "as now"
    mean_wait_s: float
    median_wait_s: float
    last_end_s: float
    sooner: int  #: jobs that start sooner than as now
    later: int
    losers: tuple[UserLoss, ...]  #: those who lose most


@dataclass(frozen=True)
class OrderEffects:
    """Every order beside the present one, which comes first."""

    played_s: float  #: Unix time of the state that was played
    queued: int
    counted: int  #: jobs that start under every order
    draws: int  #: times that runtimes were drawn from the forecasts
    rows: tuple[OrderEffect, ...]
