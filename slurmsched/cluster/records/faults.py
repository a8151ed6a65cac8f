"""Nodes' reports of failures and instabilities of jobs that shared GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """The fault of a job that shared GPUs."""

    job_id: int
    restart: int  #: 0 for the first run
    node: str
    start_s: int  #: Unix time in whole seconds, when it began to share
    end_s: int
    gpus: tuple[int, ...]  #: by the numbers of their device files
    partners: tuple[int, ...]  #: the jobs it shared them with
    fault: str  #: a description of the fault
    own: bool = False  #: True if it harmed no other job


@dataclass(frozen=True)
class Instability:
    """Jobs with an unsteady load on shared GPUs, or too large a load for their memory."""

    job_id: int  #: the one that started last
    restart: int
    node: str
    start_s: int  #: Unix time in whole seconds, when they began to share
    end_s: int  #: when it was detected
    gpus: tuple[int, ...]
    partners: tuple[int, ...]
    partner_restarts: tuple[int, ...]
    why: str  #: in figures


@dataclass(frozen=True)
class Mismatches:
    """Known failures and instabilities of jobs that shared GPUs."""

    failed: tuple[tuple[str, ...], ...] = ()  #: sets of kinds of jobs that must not share again, each sorted
    unstable: tuple[Instability, ...] = ()  #: the latest, newest first
