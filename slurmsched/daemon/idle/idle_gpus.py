"""The answer about GPUs that run nothing: who holds them, and who waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...explain.freed_queue import IdleHold


@dataclass(frozen=True)
class Delayed:
    """A pending job that would start sooner were the idle GPUs free now."""

    job_id: int
    user: str
    account: str
    gpus: int
    start_s: float
    start_if_free_s: float


@dataclass(frozen=True)
class IdleGpus:
    """GPUs without a process, and who waits for them."""

    holds: Sequence[IdleHold] = ()
    waiting: int = 0  #: jobs that would run by now, had they been free
    waited_gpu_hours: float = 0.0  #: of these and those before them, since the daemon began
    delayed: Sequence[Delayed] = ()  #: the jobs that are delayed most
    trouble: str = ""  #: why the queue was not played forward
