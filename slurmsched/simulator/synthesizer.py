"""Replays in which the composition of ordering and admission is chosen anew every few rounds, by playing forward."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import process_time
from typing import NamedTuple

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.forecast import Forecast
from ..cluster.outlook.remaining import MIDDLE, left_s
from ..decide.synthesis import (
    UNKNOWN_S,
    ActiveComposition,
    Candidate,
    Outlook,
    SynthesisDecision,
    SynthesisRules,
    choose,
    expected_arrivals,
    scores_of,
)
from ..policies.contract import find_ordering
from ..policies.placement import POOL
from .cluster_spec import ClusterSpec
from .engine.keys import Keys
from .machine.direct import direct, run_direct
from .machine.event_loop import goes_on
from .machine.starters import reorder, seat
from .ordering_keys import keys_of
from .slurmctld.state import (
    ARRIVED,
    MAIN_DUE,
    NOW,
    SUBMITTED,
    Controller,
)
from .workload.workload import Workload


@dataclass(frozen=True)
class CompositionSwitch:
    """A change of the composition, and the reason."""

    at_s: float
    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class SynthesisFigures:
    """The decisions of a replay; those with GPUs for every job need none."""

    decisions: int
    switches: int
    max_decision_s: float  #: processor time
    changes: tuple[CompositionSwitch, ...]


class ExpectedJobs(NamedTuple):
    """The jobs that are there, in order of submission, then those expected to come."""

    rows: IntArray  #: of the trace; of a job to come, one like it
    runs: BoolArray  #: of those that are there
    submit_s: FloatArray
    come_s: FloatArray  #: now, for those that are there
    start_s: FloatArray  #: first start; NaN where there was none
    ran_s: FloatArray
    left_s: FloatArray


@dataclass
class Synthesizer:
    """A preemptive replay on one pool of equal nodes, under one composition at a time."""

    jobs: Workload
    forecast: Forecast
    rules: SynthesisRules
    model: Controller  #: before the first event
    active: ActiveComposition = field(init=False)
    _took_s: list[float] = field(init=False, default_factory=list)
    _changes: list[CompositionSwitch] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.active = ActiveComposition(self.rules.candidates[0], -np.inf)
        self.model = self._under(self.active.candidate)

    def run(self) -> SynthesisFigures:
        """Run to the end of the awaited jobs."""
        every_s = self.rules.rounds * self.model.rules.poll_s
        now_s = float(np.ceil(self.jobs.submit_s[0] / every_s)) * every_s
        while self.advance(now_s):
            if self._contended:
                if not self._took_s:
                    self.outlooks(now_s)  # compiles, which is no part of a decision's time
                began_s = process_time()
                decision = choose(now_s, scores_of(*self.outlooks(now_s), self.rules), self.active, self.rules)
                self._took_s.append(process_time() - began_s)
                self._carry_out(decision)
                self.model.clock[MAIN_DUE] = now_s
            now_s += every_s
        return SynthesisFigures(
            len(self._took_s), len(self._changes), max(self._took_s, default=0.0), tuple(self._changes)
        )

    def advance(self, until_s: float) -> bool:
        """Continue up to the events at *until_s* under the composition in force; return False once there are none."""
        self.model = run_direct(self.model, float(np.nextafter(until_s, -np.inf)))
        return bool(goes_on(self.model))

    def outlooks(self, now_s: float) -> tuple[Mapping[Candidate, Outlook], Outlook]:
        """Play the present state forward under each composition, on forecasts, with the expected arrivals.

        The second is the outcome without any delay from now on.
        """
        future = self._future(now_s)
        ahead = self._ahead(future, now_s)
        outlooks = {candidate: self._outlook(candidate, future, ahead) for candidate in self.rules.candidates}
        start_s = np.where(np.isnan(future.start_s), future.come_s, future.start_s)
        return outlooks, Outlook(future.submit_s, start_s, future.come_s + future.left_s)

    def _future(self, now_s: float) -> ExpectedJobs:
        """Return the present jobs, and those that are expected to come; of jobs that ended the runtime is known."""
        rows, arrived, on, life = self._present, int(self.model.clock[SUBMITTED]), self._on_gpus, self.model.stage.life
        again, comes_s = expected_arrivals(self.jobs.submit_s[:arrived], now_s, self.rules.arrivals_s)
        none, start_s = np.zeros(len(again)), life.first_s
        ran_s = life.ran_s[rows] + np.where(np.isin(rows, on), now_s - life.since_s[rows], 0.0)
        ended = ~np.isnan(life.ended_s[again])
        whole_s = np.where(ended, self.jobs.runtime_s[again], self._runtime_s[again])
        return ExpectedJobs(
            rows=np.concatenate([rows, again]),
            runs=np.isin(rows, on),
            submit_s=np.concatenate([self.jobs.submit_s[rows], comes_s]),
            come_s=np.concatenate([np.full(len(rows), now_s), comes_s]),
            start_s=np.concatenate([start_s[rows], np.full(len(again), np.nan)]),
            ran_s=np.concatenate([ran_s, none]),
            left_s=np.concatenate([left_s(self._runtime_s[rows], ran_s, MIDDLE), whole_s]),
        )

    def _ahead(self, future: ExpectedJobs, now_s: float) -> Controller:
        """Return a machine whose nodes are one pool, before the jobs that are there are put into it."""
        jobs = replace(self.jobs.take(future.rows), submit_s=future.come_s, runtime_s=future.left_s)
        none = np.zeros(len(jobs), dtype=np.int64)
        machine = direct(jobs, ClusterSpec.of(1, self._total), self.model.rules, self._now_keys, none + POOL)
        machine.stage.life.first_s[:], machine.stage.life.ran_s[:] = future.start_s, future.ran_s
        machine.clock[NOW] = now_s
        return machine

    def _outlook(self, candidate: Candidate, future: ExpectedJobs, ahead: Controller) -> Outlook:
        """Play forward under *candidate*."""
        keys, ahead = self._keys[candidate.ordering], deepcopy(ahead)
        rules = ahead.rules._replace(admission=candidate.most(self._total))
        keys = Keys(np.ascontiguousarray(keys.at[:, future.rows]), keys.slope[future.rows], keys.steps)
        ahead, there = ahead._replace(given=keys, rules=rules), len(future.runs)
        inside = int((self._present < self.model.clock[ARRIVED]).sum())
        seat(ahead, inside, there, future.runs, float(ahead.clock[NOW]))
        life = run_direct(ahead).stage.life
        return Outlook(future.submit_s, life.first_s, life.ended_s)

    def _carry_out(self, decision: SynthesisDecision) -> None:
        if not decision.switched:
            return
        names = str(self.active.candidate), str(decision.active.candidate)
        self._changes.append(CompositionSwitch(decision.now_s, *names, decision.reason))
        self.active = decision.active
        self.model = self._under(self.active.candidate)
        reorder(self.model, decision.now_s)

    def _under(self, candidate: Candidate) -> Controller:
        """Return the machine under the order and the bound of *candidate*; jobs inside stay inside."""
        rules = self.model.rules._replace(admission=candidate.most(self._total))
        return self.model._replace(rules=rules, given=self._keys[candidate.ordering])

    @property
    def _now_keys(self) -> Keys:
        return self._keys[self.active.candidate.ordering]

    @property
    def _contended(self) -> bool:
        """True if the present jobs ask for more GPUs than there are."""
        return bool(self.jobs.gpus[self._present].sum() > self._total)

    @cached_property
    def _total(self) -> int:
        return int(self.model.stage.resources.has.gpus.sum())

    @property
    def _present(self) -> IntArray:
        """The jobs that have arrived and not ended."""
        return np.flatnonzero(np.isnan(self.model.stage.life.ended_s[: int(self.model.clock[SUBMITTED])]))

    @property
    def _on_gpus(self) -> IntArray:
        line = self.model.stage.running
        return line.rows[: line.many[0]]

    @cached_property
    def _runtime_s(self) -> FloatArray:
        """The forecast runtimes; that of a job without one is the mean of the others."""
        known = self.forecast.rank_s[np.isfinite(self.forecast.rank_s)]
        return np.nan_to_num(self.forecast.rank_s, nan=float(known.mean()) if len(known) else UNKNOWN_S)

    @cached_property
    def _keys(self) -> Mapping[str, Keys]:
        """The keys of all jobs under each ordering."""
        return {name: keys_of(self.jobs, find_ordering(name), self.forecast) for name in self.rules.orderings}
