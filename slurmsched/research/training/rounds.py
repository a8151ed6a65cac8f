"""The replay of training jobs in rounds: they train, then a scaling sees them and divides the cluster anew.

A job that ends within a round frees its GPUs at the next decision. A job with another allocation than before starts
again from where it was, and computes nothing for as long as a restart takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.training import Allocations, StepTimes, TrainingJobs, TrainingView
from ...errors import ConfigError
from ...policies.contract import SCALINGS, Scaling
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.replay import Replay
from ...simulator.setup import Setup
from ...simulator.speeds.performance import Batch, JobResources, Performance
from ...simulator.workload.workload import Workload
from .feasibility import impossible_progress, wrong_amounts
from .progress import advance, no_progress
from .reports import Reports

_PATIENCE = 100  #: rounds in which no job computes


def train(jobs: Workload, fleet: ClusterSpec, setup: Setup, performance: Performance, *, check: bool = False) -> Replay:
    """Replay *jobs* under the scaling of *setup*.

    With *check*, AssertionError names what cannot have happened. ConfigError where a scaling gives jobs nothing, more
    than there is, or what the job cannot run on.
    """
    return _Rounds(jobs, fleet, setup, performance).run(check)


class _Rounds:
    def __init__(self, jobs: Workload, fleet: ClusterSpec, setup: Setup, performance: Performance) -> None:
        self._jobs, self._fleet, self._setup, self._performance = jobs, fleet, setup, performance
        self._scaling: Scaling = SCALINGS.find(setup.scaling)
        count, nodes = len(jobs), len(fleet.nodes)
        self._progress = no_progress(performance.until, performance.epochs)
        self._held = np.zeros((count, nodes), dtype=np.int64)
        self._cpus, self._memory_mib = np.zeros((2, count, nodes))
        self._start_s, self._ran_s = np.full(count, np.nan), np.zeros(count)
        self._restarts, self._spread = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._step_times = np.zeros((0, 0))
        self._memo = np.zeros((count, 0))
        if self._scaling.own_batch and not len(performance.limits):
            raise ConfigError(f"scaling {self._scaling.line!r} chooses the batch, which these jobs never change")
        self._reports = Reports(performance.limits, performance.node_type) if self._scaling.own_batch else None
        types, first = np.unique(performance.node_type, return_index=True)
        several = first[: len(types) * (len(types) > 1)]
        self._first_steps = np.eye(nodes, dtype=np.int64)[several]  #: one GPU of each type, where there are several
        self._batch: dict[int, Batch] = {}
        self._measured_epoch = np.zeros(count, dtype=np.int64)
        self._beside = np.full(count, -1)
        self._plan: object = None

    def run(self, check: bool) -> Replay:
        """Let jobs come, train and end, a round after the other; with *check* see that this can have happened."""
        submit_s, round_s = self._jobs.submit_s, self._setup.beat_s
        active = np.zeros(0, dtype=np.int64)
        come, now_s, moved_s, done = 0, 0.0, 0.0, 0.0
        patience_s = _PATIENCE * round_s + 2 * self._setup.restart_s
        while come < len(submit_s) or len(active):
            if not len(active):
                now_s = max(now_s, float(np.ceil(submit_s[come] / round_s) * round_s))
            last, come = come, int(np.searchsorted(submit_s, now_s, "right"))
            active = np.concatenate([active, np.arange(last, come)])
            if len(active):
                self._decide(now_s, active)
            if come == len(submit_s) and len(active) and not self._held[active].any():
                raise ConfigError(f"scaling {self._scaling.line!r} gives no GPUs to the {len(active)} jobs left")
            now_s += round_s
            self._train(now_s, active[self._progress.gpus[active] > 0])
            if self._progress.done.sum() > done or last < come:
                moved_s, done = now_s, float(self._progress.done.sum())
            elif now_s > moved_s + patience_s:
                gives = f"scaling {self._scaling.line!r} gives {len(active)} jobs no GPUs, or others in each round"
                raise ConfigError(f"{gives}: none has computed for {now_s - moved_s:g} s")
            ended = np.isfinite(self._progress.end_s[active])
            self._held[active[ended]] = 0
            active = active[~ended]
        if check and (problems := impossible_progress(self._progress, submit_s, self._start_s)):
            raise AssertionError("; ".join(problems))
        return self._replay()

    def _train(self, until_s: float, rows: IntArray) -> None:
        """Let *rows* train for a round that ends at *until_s*."""
        progress, round_s, rule = self._progress, self._setup.beat_s, self._performance.end_rule
        span_s = np.full(len(self._jobs), round_s)
        self._ran_s[rows] += round_s
        if self._setup.interference:
            progress.slowed[rows] = np.where(_interfering(self._held[rows]), 1 - self._setup.interference, 1.0)
        advance(progress, rows, span_s, until_s, rule)
        while self._reports is not None and len(rows):
            rows = self._report(rows)
            advance(progress, rows, span_s, until_s, rule)

    def _report(self, rows: IntArray) -> IntArray:
        """Let *rows* report what they measured since the last time; return those that chose another batch since."""
        progress, reports = self._progress, self._reports
        assert reports is not None
        for row in rows[progress.worked[rows]].tolist():
            batch, epoch = self._batch[row], int(self._measured_epoch[row])
            places = [self._held[row]] if reports.known[row] else [*self._first_steps, self._held[row]]
            for gpus in places:
                reports.add(row, gpus, batch, self._performance.measured(row, gpus, batch, epoch))
        progress.worked[rows] = False
        crossed: IntArray = rows[np.isnan(progress.end_s[rows]) & (progress.epoch[rows] != self._measured_epoch[rows])]
        for row in crossed.tolist():
            self._set_rates(row)
        return crossed

    def _decide(self, now_s: float, rows: IntArray) -> None:
        new = self._scaling(self._view(now_s, rows))
        self._plan = new.plan
        if problem := wrong_amounts(new, len(rows), self._fleet.nodes):
            raise ConfigError(f"scaling {self._scaling.line!r} gives {problem}")
        if new.memo is not None:
            if not self._memo.size:
                self._memo = np.full((len(self._jobs), new.memo.shape[1]), np.nan)
            self._memo[rows] = new.memo
        beside = np.full(len(rows), -1) if new.beside is None else np.append(rows, -1)[new.beside]
        changed = self._changed(rows, new) | (beside != self._beside[rows])
        self._beside[rows] = beside
        for place in np.flatnonzero(changed).tolist():
            self._allocate(now_s, int(rows[place]), new, place)

    def _view(self, now_s: float, rows: IntArray) -> TrainingView:
        jobs, progress, performance = self._jobs, self._progress, self._performance
        left = performance.left[rows, progress.epoch[rows]]
        left = np.where(performance.epochs[rows] > 1, left, left - progress.done[rows])  # else there is no forecast
        training = TrainingJobs(
            jobs.job_id[rows],
            jobs.submit_s[rows],
            jobs.work.take(rows),
            jobs.gpus[rows],
            jobs.batch[rows],
            self._most_gpus(rows),
            jobs.weight[rows],
            progress.done[rows],
            left,
            progress.served_gpu_s[rows],
            self._ran_s[rows],
            self._restarts[rows],
            self._held[rows],
            self._memo[rows],
        )
        needs = self._scaling.needs
        return TrainingView(
            now_s,
            self._setup.beat_s,
            self._setup.restart_s,
            training,
            self._fleet.nodes,
            step_times=self._known_step_times(rows) if "step_times" in needs else None,
            curves=self._known("curves", rows, progress.epoch[rows]),
            goodputs=self._reports.of(rows) if self._reports is not None else None,
            type_speeds=self._known("type_speeds", rows, always=True),
            cpu_needs=self._known("cpu_needs", rows),
            plan=self._plan,
        )

    def _most_gpus(self, rows: IntArray) -> IntArray:
        """Return the GPUs that each of *rows* may have: with its own batch twice as many as it was measured on."""
        most = self._performance.most_gpus[rows]
        if self._reports is not None:
            limits = self._performance.limits[rows]
            scales = limits[:, 3] < limits[:, 1]
            most = np.minimum(limits[:, 1] // limits[:, 2], self._performance.measured_gpus[rows])
            most = np.where(scales, most, 1)
            most = np.minimum(most, np.maximum(2 * self._reports.most_gpus[rows], 1))
        return np.minimum(most, self._fleet.total)

    def _known(self, name: str, rows: IntArray, *state: IntArray, always: bool = False) -> Any:
        """Return what the files of this run say of *rows* and their state.

        None if the scaling does not need it, unless it is *always* in the view where the files say it.
        """
        said = hasattr(self._performance, name)
        if name not in self._scaling.needs and not (always and said):
            return None
        if not said:
            raise ConfigError(f"scaling {self._scaling.line!r} needs {name.replace('_', ' ')}, which these jobs lack")
        return getattr(self._performance, name)(rows, *state)

    def _known_step_times(self, rows: IntArray) -> StepTimes:
        if not len(self._step_times):
            total = self._fleet.total
            self._step_times = np.full((len(self._jobs), total + 1), np.nan)
        most = np.minimum(self._performance.most_gpus, self._fleet.total)
        for row in rows[np.isnan(self._step_times[rows, 0])].tolist():
            self._step_times[row, : most[row] + 1] = self._performance.step_times(row, int(most[row]))
        return StepTimes(self._step_times[rows])

    def _changed(self, rows: IntArray, new: Allocations) -> BoolArray:
        changed: BoolArray = (new.gpus != self._held[rows]).any(axis=1)
        for given, has in ((new.cpus, self._cpus), (new.memory_mib, self._memory_mib)):
            if given is not None:
                changed |= (given != has[rows]).any(axis=1)
        return changed

    def _allocate(self, now_s: float, row: int, new: Allocations, place: int) -> None:
        progress = self._progress
        gpus = new.gpus[place]
        self._held[row] = gpus
        for given, has in ((new.cpus, self._cpus), (new.memory_mib, self._memory_mib)):
            if given is not None:
                has[row] = given[place]
        many = int(gpus.sum())
        progress.gpus[row] = many
        if not many:
            return
        if np.isnan(self._start_s[row]):
            self._start_s[row] = now_s
        else:
            self._restarts[row] += 1
        self._spread[row] = max(self._spread[row], int(np.count_nonzero(gpus)))
        progress.restart_s[row] = self._setup.restart_s
        self._set_rates(row)

    def _set_rates(self, row: int) -> None:
        """Set the speed of a job on what it has, with the best batch that it knows if it chooses one."""
        progress, gpus, batch = self._progress, self._held[row], None
        many = int(gpus.sum())
        if self._reports is not None:
            batch, chooses = self._performance.first_batch(row, many)
            if chooses and self._reports.known[row]:
                batch = self._reports.best(row, gpus)
            self._batch[row], progress.pauses[row] = batch, True
            self._measured_epoch[row] = progress.epoch[row]
        cpus, memory_mib = float(self._cpus[row].sum()), float(self._memory_mib[row].sum())
        got = JobResources(gpus, cpus, memory_mib, batch, int(self._beside[row]))
        rates = self._performance.rates(row, got)
        if not (rates > 0).all():
            job = self._jobs.job_id[row]
            raise ConfigError(f"scaling {self._scaling.line!r}: job {job} cannot run on {many} GPUs so placed")
        progress.rate[row, : len(rates)] = rates

    def _replay(self) -> Replay:
        progress = self._progress
        return Replay(
            self._setup,
            self._fleet,
            self._jobs,
            self._start_s,
            progress.end_s.copy(),
            self._spread,
            self._restarts,
            np.full(len(self._jobs), np.nan),
            served_gpu_s=progress.served_gpu_s.copy(),
        )


def _interfering(held: IntArray) -> BoolArray:
    """Select the jobs on several nodes that share one of them with another such job."""
    spread = (held > 0) & (np.count_nonzero(held, axis=1) > 1)[:, None]
    found: BoolArray = (spread & (spread.sum(axis=0) > 1)).any(axis=1)
    return found
