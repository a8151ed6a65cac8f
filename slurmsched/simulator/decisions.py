"""Figures about the decisions of a simulated run: their number and time, and what they promised and moved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..cluster.actions import Start
from ..cluster.records.promises import NO_PROMISES, PromiseState, PromiseTable
from ..db.records.promises import changed_rows
from ..policies.deadlines.lateness import notice_s

if TYPE_CHECKING:
    from ..cycle import CycleReport


@dataclass(frozen=True)
class DecisionFigures:
    """The decisions of a run."""

    decided_by: str  #: decide, the daemon's own function; fast, compiled loops held equal to it
    cycles: int = 0
    decide_ms: tuple[float, float] = (np.nan, np.nan)  #: median and 99th percentile
    promised: int = 0  #: promises made, whatever became of them
    refused: int = 0  #: deadlines that were not promised
    broken: int = 0
    warned: int = 0  #: promises broken after a warning in time: with 10 minutes and a tenth of the window left
    alarms: int = 0  #: promises kept after a warning
    pairs: int = 0  #: changes of jobs to shared GPUs, and starts beside a running job
    yields: int = 0  #: requeues and stop requests of ours


FAST = DecisionFigures("fast")


@dataclass
class DecisionWatch:
    """Watches the cycles of a run; ``entering`` gets each phase as it begins, ``watch`` each report."""

    _began_s: float | None = None
    _took_s: list[float] = field(default_factory=list)
    _states: dict[tuple[int, float], int] = field(default_factory=dict)
    _last: PromiseTable = NO_PROMISES
    _doubtful: set[tuple[int, float]] = field(default_factory=set)  #: promises whose owners were ever warned
    _in_time: dict[tuple[int, float], bool] = field(default_factory=dict)  #: broken promises, warned in time or not
    _actions: Counter[str] = field(default_factory=Counter)
    _joined: int = 0

    def entering(self, phase: str) -> None:
        """Time the phase decide."""
        now_s = perf_counter()
        if self._began_s is not None:
            self._took_s.append(now_s - self._began_s)
        self._began_s = now_s if phase == "decide" else None

    def watch(self, report: CycleReport) -> None:
        """Count actions, and note what became of promises."""
        self._actions.update(report.actions)
        self._joined += sum(isinstance(action, Start) and action.beside > 0 for action in report.plan.actions)
        promises = report.plan.promises
        if promises is self._last:
            return
        promises, self._last = promises.take(changed_rows(self._last, promises)), promises
        keys = list(zip(promises.job_id.tolist(), promises.asked_s.tolist(), strict=True))
        self._states.update(zip(keys, promises.state.tolist(), strict=True))
        self._doubtful |= {keys[row] for row in np.flatnonzero(np.isfinite(promises.announced_s)).tolist()}
        broken = np.flatnonzero(promises.state == PromiseState.BROKEN)
        ahead_s = promises.promised_s[broken] - promises.announced_s[broken]
        in_time = ahead_s >= notice_s((promises.promised_s - promises.first_submit_s)[broken])
        self._in_time.update(zip([keys[row] for row in broken.tolist()], in_time.tolist(), strict=True))

    def figures(self) -> DecisionFigures:
        """Return the figures so far."""
        states = Counter(self._states.values())
        refused = states[PromiseState.REFUSED]
        took_ms = np.array(self._took_s) * 1000.0
        quantiles = np.percentile(took_ms, (50, 99)) if len(took_ms) else (np.nan, np.nan)
        return DecisionFigures(
            "decide",
            len(self._took_s),
            (float(quantiles[0]), float(quantiles[1])),
            promised=len(self._states) - refused,
            refused=refused,
            broken=states[PromiseState.BROKEN],
            warned=sum(self._in_time.values()),
            alarms=sum(self._states[key] == PromiseState.MET for key in self._doubtful),
            pairs=self._actions["Share"] + self._joined,
            yields=self._actions["Requeue"]
            + self._actions["AskToStop"]
            + self._actions["Preempt"]
            + self._actions["Move"],
        )
