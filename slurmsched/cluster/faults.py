"""Faults of jobs that shared GPUs, as their nodes tell of them."""

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
