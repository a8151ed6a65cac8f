"""Forecast outcomes of compositions on a cluster: its present state is played forward under each of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from ..cluster.columns import BoolArray, IntArray, Labels
from ..cluster.forecast import Forecast, no_forecast
from ..cluster.jobs import JobTable, job_table
from ..cluster.plan import Standing
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.state import View
from ..decide.policy import Policy
from ..decide.rules import AdmissionRules
from ..decide.synthesis import ACCEPT_ALL, UNKNOWN_S, Candidate, Outlook, expected_arrivals
from ..policies.contract import find_ordering
from ..powers import decide
from ..simulator.engine.calendar import NEVER
from ..simulator.machine.event_loop import advance
from ..simulator.slurmctld.multifactor import Weights
from ..simulator.slurmctld.slurmconf import SlurmConf
from ..simulator.slurmctld.state import CALC_DUE, Controller
from .few_reservations import with_few_reservations
from .predict_completion import places
from .snapshot import barred, held, one_row_per_task, reprioritize, resumed, unplaced
from .whatif import simulated_tasks, span_s

ARRIVALS_MOST = 2_000
"""Most jobs that are played in; where more came in the span, it is shortened to the latest of them."""

LOOPS, PASSES = 1_000, 50
"""Approximate runs of slurmctld's main loop and of backfill while the queue drains; both come less often than in
reality while it is long."""

_FIXED_ORDER = Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0)


def composition_outlooks(
    view: View,
    policy: Policy,
    candidates: Sequence[Candidate],
    config: Mapping[str, str],
    ended: OutcomeTable,
    arrivals_s: float,
) -> tuple[dict[Candidate, Outlook], Outlook]:
    """Play *view* forward under *policy* with the ordering and the admission of each candidate, on forecasts.

    The second result is the outcome without any delay from now on. A row is a waiting task, or a job that is expected
    to come: the arrivals of the last *arrivals_s* seconds once more, *ended* being the runs that have ended since then.

    The modelled slurmctld starts the jobs, in the order that decide() gives to all of them now. Jobs outside come in by
    their submission, as far as the bound on the whole cluster allows. Jobs that wait for what is not modelled are left
    out, and those that end under no candidate.
    """
    present = view.take(~(held(view.pending) | barred(view.pending, view.reservations)))
    expected = expected_jobs(present, ended, arrivals_s)
    many = len(present.pending)
    future = replace(
        present,
        pending=_without_our_holds(present).joined(expected.pending),
        forecast=_complete(present.forecast.joined(expected.forecast)),
    )
    tasks = simulated_tasks(future.pending).copy()
    tasks[list(unplaced(future, config))] = 0
    able = np.flatnonzero(tasks)
    jobs = one_row_per_task(_numbered(replace(future.take(able), pending=_with_tasks(future.pending, tasks, able))))
    rows = np.repeat(able, tasks[able])
    play = _Play(view, future, policy, config, jobs, rows, rows < many)
    outlooks = {candidate: play.outlook(candidate) for candidate in candidates}
    ends = np.isfinite(np.array([outlook.end_s for outlook in outlooks.values()])).any(axis=0)
    start_s = np.maximum(jobs.pending.submitted_s, view.now_s)
    undelayed = Outlook(jobs.pending.first_submit_s, start_s, start_s + np.fmax(jobs.forecast.runtime_s, 1.0))
    return {candidate: _rows(outlook, ends) for candidate, outlook in outlooks.items()}, _rows(undelayed, ends)


def expected_jobs(view: View, ended: OutcomeTable, span_s: float) -> View:
    """Return *view* with the jobs that are expected to come as its pending ones, by submission."""
    ended = ended.take(np.flatnonzero(_last_runs(ended) & ~np.isin(ended.job_id, _ids(view))))
    forecasts = view.forecast.joined(view.forecast_running)
    present = view.pending.joined(view.running)
    names = ("user", "account", "qos", "partition", "name", "gpus", "nodes", "cpus", "time_limit_s", "first_submit_s")
    past = job_table(len(ended), **{name: getattr(ended, name) for name in names})
    known = job_table(len(present), **{name: getattr(present, name) for name in names}, tasks=present.tasks)
    jobs = known.joined(past)
    jobs = replace(jobs, memory_mib=np.concatenate([present.memory_mib, np.zeros(len(ended))]))
    runtime_s = np.concatenate([forecasts.runtime_s, ended.runtime_s])
    order = np.argsort(jobs.first_submit_s, kind="stable")
    submit_s = jobs.first_submit_s[order]
    if len(submit_s) > ARRIVALS_MOST:
        span_s = min(span_s, view.now_s - float(submit_s[-ARRIVALS_MOST - 1]))
    again, comes_s = expected_arrivals(submit_s, view.now_s, span_s)
    rows = order[again]
    first = int(_ids(view).max(initial=0)) + 1
    coming = replace(
        jobs.take(rows),
        job_id=first + np.arange(len(rows)),
        priority=np.ones(len(rows), dtype=np.int64),
        reason=Labels.of(["Priority"] * len(rows)),
        submitted_s=comes_s,
        eligible_s=comes_s,
        first_submit_s=comes_s,
    )
    forecast = replace(no_forecast(len(rows)), runtime_s=runtime_s[rows])
    return replace(view, pending=coming, forecast=forecast)


class _Play:
    """One state that is played forward under several candidates, each order once and each bound once."""

    def __init__(
        self,
        view: View,
        future: View,
        policy: Policy,
        config: Mapping[str, str],
        jobs: View,
        rows: IntArray,
        present: BoolArray,
    ) -> None:
        self._view, self._future, self._policy, self._config = view, future, policy, config
        self._jobs, self._rows, self._present = jobs, rows, present
        self._ranks: dict[str, IntArray] = {}
        self._outside: dict[str, BoolArray] = {}
        self._span_s = span_s(jobs)
        self._states: dict[tuple[bytes, int], Controller] = {}
        self._played: dict[tuple[bytes, bytes, float], Outlook] = {}

    def outlook(self, candidate: Candidate) -> Outlook:
        """Play forward under *candidate*; equal orders and bounds are played once."""
        place, inside = self._place(candidate.ordering), self._present & ~self._is_outside(candidate.admission)
        most = candidate.most(int(self._future.nodes.gpus.sum()))
        if inside[self._present].all() and self._asked <= most:
            most = np.inf
        key = place.tobytes(), inside.tobytes(), most
        if key not in self._played:
            self._played[key] = self._play(place, inside, most)
        return self._played[key]

    @property
    def _asked(self) -> int:
        return int(self._jobs.pending.gpus.sum() + self._jobs.running.gpus.sum())

    def _place(self, ordering: str) -> IntArray:
        """Return the place of each task in the order."""
        if ordering not in self._ranks:
            rules = replace(self._policy.rules, admission=None, powers=self._policy.rules.powers | {"order"})
            rank = decide(self._future, find_ordering(ordering), rules).jobs.rank
            able = np.unique(self._rows)
            by_job = np.zeros(len(self._future.pending), dtype=np.int64)
            by_job[able] = places(self._future, able, rank)
            self._ranks[ordering] = by_job[self._rows]
        return self._ranks[ordering]

    def _is_outside(self, admission: str) -> BoolArray:
        """Select the tasks that the admission keeps out now."""
        if admission == ACCEPT_ALL:
            return np.zeros(len(self._rows), dtype=np.bool_)
        if admission not in self._outside:
            rules = replace(self._policy.rules, admission=AdmissionRules(admission, hold_s=0.0))
            standing = decide(self._future, self._policy.ordering, rules).jobs.standing
            self._outside[admission] = (standing == Standing.OUTSIDE)[self._rows]
        return self._outside[admission]

    def _play(self, place: IntArray, inside: BoolArray, most: float) -> Outlook:
        jobs = self._jobs
        order, many = np.lexsort((jobs.pending.submitted_s, ~inside)), int(inside.sum())
        model = deepcopy(self._state(order, many))
        model = model._replace(rules=model.rules._replace(admission=most))
        reprioritize(model, len(jobs.running), (len(place) + 1 - place)[order])
        advance(model, np.inf)
        life, begin = model.stage.life, len(jobs.running)
        start_s, end_s = np.full(len(order), np.nan), np.full(len(order), np.nan)
        start_s[order], end_s[order] = life.first_s[begin:], life.ended_s[begin:]
        return Outlook(jobs.pending.first_submit_s, start_s, end_s)

    def _state(self, order: IntArray, many: int) -> Controller:
        """Return the present state, in which the first *many* tasks wait in *order* and the others come later."""
        key = order.tobytes(), many
        if key not in self._states:
            self._states[key] = self._resumed(order, many)
        return self._states[key]

    def _resumed(self, order: IntArray, many: int) -> Controller:
        jobs = self._jobs
        first, later = jobs.take(order[:many]), jobs.take(order[many:])
        first = replace(first, pending=replace(first.pending, job_id=np.arange(1, many + 1)))
        conf = with_few_reservations(SlurmConf.of(self._config), self._view)
        rules = conf.rules._replace(
            calc_period_s=NEVER,
            batch_sched_delay_s=max(conf.rules.batch_sched_delay_s, self._span_s / LOOPS),
            bf_interval_s=max(conf.rules.bf_interval_s, self._span_s / PASSES),
        )
        conf = replace(conf, rules=rules, weights=_FIXED_ORDER)
        model = resumed(first, self._config, conf, arrivals=later).model
        model.clock[CALC_DUE] = _AWAY_S
        return model


_AWAY_S = 1e15
"""A time that never comes: priorities are not computed anew, so that the order stays as it is."""


def _without_our_holds(view: View) -> JobTable:
    jobs = view.pending
    return replace(jobs, eligible_s=np.where(jobs.held_by_us, np.fmin(jobs.eligible_s, view.now_s), jobs.eligible_s))


def _complete(forecast: Forecast) -> Forecast:
    """Return *forecast* with the mean of the others as the runtime of jobs without one."""
    known = np.isfinite(forecast.runtime_s)
    mean_s = float(forecast.runtime_s[known].mean()) if known.any() else UNKNOWN_S
    return replace(forecast, runtime_s=np.where(known, forecast.runtime_s, mean_s))


def _with_tasks(jobs: JobTable, tasks: IntArray, able: IntArray) -> JobTable:
    return replace(jobs.take(able), tasks=tasks[able])


def _numbered(view: View) -> View:
    """Return the view with jobs numbered from 1 on in their present order, none of an array, without our points."""
    waiting, running = len(view.pending), len(view.running)
    zeros = np.zeros(waiting, dtype=np.int64)
    pending = replace(view.pending, job_id=1 + np.arange(waiting), array_job_id=zeros, site_points=zeros, nice=zeros)
    ids = 10**9 + np.arange(running)
    return replace(
        view,
        pending=pending,
        running=replace(view.running, job_id=ids, array_job_id=np.zeros(running, dtype=np.int64)),
    )


def _ids(view: View) -> IntArray:
    return np.concatenate([view.pending.job_id, view.running.job_id])


def _last_runs(ended: OutcomeTable) -> BoolArray:
    """Select the last run of each job."""
    last = np.zeros(len(ended), dtype=np.bool_)
    by_run = np.lexsort((ended.restart, ended.job_id))
    last[by_run[np.flatnonzero(np.diff(ended.job_id[by_run], append=-1))]] = True
    return last


def _rows(outlook: Outlook, rows: BoolArray) -> Outlook:
    return Outlook(outlook.submit_s[rows], outlook.start_s[rows], outlook.end_s[rows])
