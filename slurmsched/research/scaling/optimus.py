"""Optimus (Peng et al., EuroSys'18): one GPU each, then each further one where it shortens the remaining time most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.training import Allocations, TrainingView
from ...errors import ConfigError
from ...policies.contract import scaling
from ...policies.size_choice import divided
from .learnt_speed import iterations_left, step_seconds
from .placing import placed


@dataclass(frozen=True)
class Optimus:
    """The division by remaining times, which are known, or *learnt* from losses and from steps on 1, 2, 4, ... GPUs."""

    learnt: bool = False

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of the view that it reads."""
        return frozenset({"step_times", "curves"} if self.learnt else {"step_times"})

    def __call__(self, view: TrainingView) -> Allocations:
        """Return the allocation of each job."""
        jobs = view.jobs
        assert view.step_times is not None
        step_s, left = view.step_times.seconds, jobs.left
        if self.learnt:
            assert view.curves is not None
            size = int(view.nodes.gpus.max())
            step_s = np.stack([_learnt(row, most, size) for row, most in zip(step_s, jobs.most_gpus, strict=True)])
            left = iterations_left(view.curves, step_s[:, 1])
        gpus = divided(step_s, left, jobs.most_gpus, int(view.nodes.gpus.sum()))
        return Allocations(placed(gpus, jobs.held, view.nodes.gpus, np.argsort(gpus, kind="stable")))


def _learnt(step_s: FloatArray, most: int, size: int) -> FloatArray:
    """Return the seconds of a step that follow from those on 1, 2, 4, ... GPUs."""
    most = min(int(most), len(step_s) - 1)
    learnt = step_seconds(step_s[1 << np.arange(most.bit_length())], most, size)
    return np.append(learnt, np.full(len(step_s) - len(learnt), np.nan))


def _tuned(settings: Mapping[str, str]) -> Optimus:
    forecast = settings.get("forecast", "")
    if set(settings) != {"forecast"} or forecast not in ("known", "learnt"):
        raise ConfigError("optimus: accepted is forecast=known or learnt: where remaining times come from")
    return Optimus(forecast == "learnt")


@scaling("optimus", needs=("step_times",), tuned=_tuned, defaults="forecast=known")
def optimus(view: TrainingView) -> Allocations:
    """One GPU for each job, then one at a time where it shortens a job's remaining time most (Optimus, EuroSys'18)."""
    return Optimus()(view)
