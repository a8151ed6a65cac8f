"""The dynamic strategy: how Lucid packs from one ten-minute step to the next (section 3.3)."""

from __future__ import annotations

import numpy as np

from ...models.arrivals import LAG, STEP_S, Arrivals
from ...models.throughput import USUAL, ThroughputModel
from ..cluster_spec import Mode
from ..workload.workload import Workload
from .packing import LEAST

APATHETIC = 0.95  #: what the slower must keep while little is going on and no more is to come: Tiny beside Tiny
IDLE = 0.25  #: little: fewer jobs in an hour than in three of four
RISING = 0.1  #: more: by this share


def modes(model: ThroughputModel, jobs: Workload, history: Workload, *, eager: bool = False) -> tuple[Mode, ...]:
    """A mode for each step in which *jobs* come, from what had been submitted before it.

    What comes does not depend on the policy, so all modes are known before a replay. While more is forecast for the
    next hour than came in the last, the surplus counts as waiting already; *eager* counts all that is forecast.
    """
    last_s = float(jobs.submit_s.max(initial=-np.inf))
    if not np.isfinite(last_s):
        return (Mode(-np.inf, LEAST),)
    both = history.joined(jobs)
    arrivals = Arrivals.of(both.submit_s, both.gpus, last_s + STEP_S)
    predicted = np.nan_to_num(model.predict(arrivals, "jobs", LAG))
    hour = np.convolve(arrivals.jobs, np.ones(LAG))[: len(arrivals)]
    found = [Mode(-np.inf, LEAST)]
    for step in np.flatnonzero(arrivals.start_s >= float(jobs.submit_s.min()) - STEP_S).tolist():
        # What is forecast for the next six steps looks at nothing younger than this one.
        now, ahead = hour[step - 1] if step else 0.0, predicted[step : step + LAG].sum()
        usual = hour[max(0, step - USUAL) : step]
        rare = len(usual) > 0 and float((usual <= now).mean()) < IDLE
        rising = ahead > now * (1 + RISING)
        idle = rare and not rising
        surplus = float(ahead - now) if rising else 0.0
        coming = float(ahead) if eager and not idle else surplus
        found.append(Mode(float(arrivals.start_s[step]), APATHETIC if idle else LEAST, not idle, coming))
    return tuple(found)
