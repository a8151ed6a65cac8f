"""Costs of stops: the time that jobs which stop and go on later lose by it, in all plans and choices."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.jobs import JobTable
from ...cluster.ties import to_ms


class RestartTerms(Protocol):
    """The planned cost of going on from saved work, in seconds."""

    @property
    def restart_s(self) -> float:
        """Return the cost of a job of one GPU."""

    @property
    def restart_doubling_s(self) -> float:
        """Return the additional cost of each doubling of its GPUs."""


def resume_costs_s(jobs: JobTable, terms: RestartTerms) -> FloatArray:
    """Return the time from its next start until each job is as far again: longer where its owner says ``coldstart``."""
    planned_s = to_ms(terms.restart_s + terms.restart_doubling_s * np.log2(np.maximum(jobs.gpus, 1)))
    return np.asarray(np.maximum(planned_s, jobs.coldstart_s), np.float64)


def stop_costs_s(jobs: JobTable, terms: RestartTerms, away_s: float) -> FloatArray:
    """Return the time that a stop costs each job: *away_s* until its next start, and the time to be as far again."""
    return away_s + resume_costs_s(jobs, terms)
