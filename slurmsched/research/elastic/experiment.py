"""A replay of elastic applications under one policy, with what was foreseen for each when it came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray
from ...errors import ConfigError
from ...policies.ordering.wfq import Wfq
from .applications import Applications
from .divisions import DIVISIONS, Shares
from .loops import ElasticResult, play
from .state import WFQ, ApplicationData, ElasticRules, fresh

POLICIES = tuple(name for name in DIVISIONS if name != "wfq")
"""The divisions without parameters, by name."""

_ROUNDING = 1e-9  #: as a share; so much two ways of adding up the same time may differ

Policy = str | Wfq
"""The line of a division, or weighted fair queueing."""


@dataclass(frozen=True, eq=False)
class ElasticReplay:
    """What came of a replay, one row per application."""

    apps: Applications
    gpus: int
    jct_s: FloatArray
    predicted_s: FloatArray  #: the JCT foreseen at arrival; NaN where nothing was
    contention: FloatArray  #: mean applications inside during its stay, itself included, over the events
    least_s: float = 0.0  #: shorter foreseen JCTs count as this long in errors

    @property
    def error(self) -> FloatArray:
        """How far each JCT was from the foreseen one, as a share of that (section 2.2)."""
        off = np.abs(self.jct_s - self.predicted_s) / np.maximum(self.predicted_s, self.least_s)
        return np.where(off < _ROUNDING, 0.0, off)

    @property
    def unfairness(self) -> FloatArray:
        """How much longer than on an equal share of the GPUs each took, as a share of that; 0 where it did not."""
        part = np.minimum(self.gpus / self.contention, self.apps.demand)
        fair_s = self.apps.service_s / part
        return np.maximum(self.jct_s / fair_s - 1, 0.0)


def replay(
    apps: Applications, gpus: int, policy: Policy, *, predict: bool = True, size_factor: FloatArray | None = None
) -> ElasticReplay:
    """Replay *apps* on *gpus* GPUs under *policy*.

    With *predict* the state is played forward at each arrival, without those who come later, to foresee its end.
    *size_factor* is by what factor the policy and the predictions mistake the work of each application.
    """
    count = len(apps)
    size_factor = np.ones(count) if size_factor is None else size_factor
    _check(apps, gpus, size_factor)
    shares = shares_of(policy)
    wfq = shares.wfq
    group = wfq.classes(apps.service_s * size_factor)
    weights, limits = np.array(wfq.weights), wfq.limits(apps.curves.speed)
    rules = ElasticRules(shares.kind, float(gpus), shares.lease_s, weights, limits, wfq.overtake)
    speed = apps.curves.speed
    size_s = apps.demand / speed[apps.curve, apps.demand]
    data = ApplicationData(apps.service_s, apps.submit_s, apps.demand, apps.curve, group, size_s, speed)
    state = fresh(count, group, len(wfq.weights), size_factor)
    fork = fresh(count, group, len(wfq.weights), np.ones(count))
    state.clock[0] = fork.clock[0] = apps.submit_s[0] if count else 0.0
    result = ElasticResult(np.full(count, np.nan), np.full(count, np.nan), np.full(count, np.nan))
    play(data, rules, state, fork, result, predict)
    return ElasticReplay(
        apps, gpus, result.end_s - apps.submit_s, result.predicted_s - apps.submit_s, result.contention
    )


def shares_of(policy: Policy) -> Shares:
    """Return the rule that divides the GPUs; ConfigError for an unknown one, or one of a plug-in."""
    if isinstance(policy, Wfq):
        return Shares(WFQ, policy)
    shares = DIVISIONS.find(policy).function
    if not isinstance(shares, Shares):
        raise ConfigError(f"elastic policy {policy!r}: accepted are the built-in ones, whose loops compile")
    return shares


def _check(apps: Applications, gpus: int, size_factor: FloatArray) -> None:
    if gpus < 1:
        raise ConfigError(f"{gpus} GPUs: accepted is 1 and more")
    if len(apps) and not (apps.service_s.min() > 0 and apps.demand.min() > 0 and np.all(np.diff(apps.submit_s) >= 0)):
        raise ConfigError("elastic applications need work and a demand above 0, and stand by submit time")
    if len(size_factor) != len(apps) or not np.all(size_factor > 0):
        raise ConfigError("what a policy is told of the work of applications is one factor above 0 for each")
