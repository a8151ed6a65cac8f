"""What nodes tell of jobs that shared GPUs and do not go together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """What one job of a pair that failed left behind."""

    job_id: int
    restart: int  #: 0 for the first run
    node: str
    start_s: int  #: Unix time in whole seconds, when it began to share
    end_s: int
    gpus: tuple[int, ...]  #: by the numbers of their device files
    partners: tuple[int, ...]  #: the jobs it shared them with
    fault: str  #: what was seen of the fault


@dataclass(frozen=True)
class Instability:
    """Jobs whose load of the GPUs that they share does not keep its level, or is too much for their memory."""

    job_id: int  #: the one that came last
    restart: int
    node: str
    start_s: int  #: Unix time in whole seconds, when they came together
    end_s: int  #: when it was seen
    gpus: tuple[int, ...]
    partners: tuple[int, ...]
    partner_restarts: tuple[int, ...]
    why: str  #: in figures


@dataclass(frozen=True)
class Mismatches:
    """What is known of jobs that do not go together."""

    failed: tuple[tuple[str, ...], ...] = ()  #: sets of kinds of jobs that share no more, each sorted
    unstable: tuple[Instability, ...] = ()  #: the latest, newest first
