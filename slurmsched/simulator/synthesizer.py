"""Replays in which the composition of ordering and admission is chosen anew every few rounds, by playing forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from .fast.allocations import PoolNodes, no_segments
from .fast.context import PoolContext, PoolTrace, stage
from .fast.loops import Keys, Progress, RunningJobs, admit_and_seat, no_progress, nothing_runs, reorder, run_on
from .fast.queue import NEVER, PoolQueue, nobody
from .ordering_keys import keys_of
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
    context: PoolContext  #: before the first event
    active: ActiveComposition = field(init=False)
    _waiting: PoolQueue = field(init=False)
    _running: RunningJobs = field(init=False)
    _progress: Progress = field(init=False, default_factory=no_progress)
    _took_s: list[float] = field(init=False, default_factory=list)
    _changes: list[CompositionSwitch] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.active = ActiveComposition(self.rules.candidates[0], -np.inf)
        self._waiting = nobody(self.jobs.gpus, self.context.site.how)
        steps = max(len(keys.steps) for keys in self._keys.values())
        self._running = nothing_runs(self.context.trace, self.context.books.unused[0], steps)
        self.context = self._under(self.active.candidate)

    def run(self) -> SynthesisFigures:
        """Run to the end of the awaited jobs."""
        every_s = self.rules.rounds * self.context.beat_s
        now_s = float(np.ceil(self.jobs.submit_s[0] / every_s)) * every_s
        while self.advance(now_s):
            if self._contended:
                if not self._took_s:
                    self.outlooks(now_s)  # compiles, which is no part of a decision's time
                began_s = process_time()
                decision = choose(now_s, scores_of(*self.outlooks(now_s), self.rules), self.active, self.rules)
                self._took_s.append(process_time() - began_s)
                self._carry_out(decision)
                self._progress.decide_s[0] = now_s
            now_s += every_s
        return SynthesisFigures(
            len(self._took_s), len(self._changes), max(self._took_s, default=0.0), tuple(self._changes)
        )

    def advance(self, until_s: float) -> bool:
        """Continue up to the events at *until_s* under the composition in force; return False once there are none."""
        more: bool = run_on(self.context, self._now_keys, self._waiting, self._running, self._progress, until_s)
        return more

    def outlooks(self, now_s: float) -> tuple[Mapping[Candidate, Outlook], Outlook]:
        """Play the present state forward under each composition, on forecasts, with the expected arrivals.

        The second is the outcome without any delay from now on.
        """
        future = self._future(now_s)
        outlooks = {candidate: self._outlook(candidate, now_s, future) for candidate in self.rules.candidates}
        start_s = np.where(np.isnan(future.start_s), future.come_s, future.start_s)
        return outlooks, Outlook(future.submit_s, start_s, future.come_s + future.left_s)

    def _future(self, now_s: float) -> ExpectedJobs:
        """Return the present jobs, and those that are expected to come; of jobs that ended the runtime is known."""
        rows, arrived, on = self._present, int(self.context.gate.arrived[0]), self._on_gpus
        again, comes_s = expected_arrivals(self.jobs.submit_s[:arrived], now_s, self.rules.arrivals_s)
        none, start_s = np.zeros(len(again)), self.context.result.start_s
        ran_s = self._running.ran_s[rows] + np.where(np.isin(rows, on), now_s - self._running.since_s[rows], 0.0)
        ended = ~np.isnan(self.context.result.end_s[again])
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

    def _outlook(self, candidate: Candidate, now_s: float, future: ExpectedJobs) -> Outlook:
        """Play forward under *candidate*."""
        keys, context = self._keys[candidate.ordering], self.context
        keys = Keys(keys.at[:, future.rows], keys.slope[future.rows], keys.steps)
        restart_s = context.trace.restart_s[future.rows]
        trace = PoolTrace(future.come_s, future.left_s, context.trace.gpus[future.rows], restart_s)
        total = len(self._running.rows) - 1
        pool = PoolNodes(np.array([total]), total, np.zeros(len(future.rows), dtype=np.int64))
        ahead = stage(trace, pool, candidate.most(total), context.beat_s, no_segments())
        ahead.result.start_s[:] = future.start_s
        waiting, running = nobody(trace.gpus, pool.how), nothing_runs(trace, total, len(keys.steps))
        running.ran_s[:] = future.ran_s
        progress = no_progress()
        progress.decide_s[0] = now_s
        inside = int((self._present < context.gate.inside[0]).sum())
        admit_and_seat(ahead, keys, waiting, running, inside, future.runs, now_s)
        run_on(ahead, keys, waiting, running, progress, NEVER)
        return Outlook(future.submit_s, ahead.result.start_s, ahead.result.end_s)

    def _carry_out(self, decision: SynthesisDecision) -> None:
        if not decision.switched:
            return
        names = str(self.active.candidate), str(decision.active.candidate)
        self._changes.append(CompositionSwitch(decision.now_s, *names, decision.reason))
        self.active = decision.active
        self.context = self._under(self.active.candidate)
        reorder(self.context, self._now_keys, self._waiting, self._running, decision.now_s)

    def _under(self, candidate: Candidate) -> PoolContext:
        """Return the context under the bound of *candidate*; jobs inside stay inside."""
        most = candidate.most(len(self._running.rows) - 1)
        return self.context._replace(gate=self.context.gate._replace(most=most))

    @property
    def _now_keys(self) -> Keys:
        return self._keys[self.active.candidate.ordering]

    @property
    def _contended(self) -> bool:
        """True if the present jobs ask for more GPUs than there are."""
        return bool(self.jobs.gpus[self._present].sum() >= len(self._running.rows))

    @property
    def _present(self) -> IntArray:
        """The jobs that have arrived and not ended."""
        arrived = int(self.context.gate.arrived[0])
        return np.flatnonzero(np.isnan(self.context.result.end_s[:arrived]))

    @property
    def _on_gpus(self) -> IntArray:
        return self._running.rows[: self._running.many[0]]

    @cached_property
    def _runtime_s(self) -> FloatArray:
        """The forecast runtimes; that of a job without one is the mean of the others."""
        known = self.forecast.rank_s[np.isfinite(self.forecast.rank_s)]
        return np.nan_to_num(self.forecast.rank_s, nan=float(known.mean()) if len(known) else UNKNOWN_S)

    @cached_property
    def _keys(self) -> Mapping[str, Keys]:
        """The keys of all jobs under each ordering."""
        return {name: keys_of(self.jobs, find_ordering(name), self.forecast) for name in self.rules.orderings}
