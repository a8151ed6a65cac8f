"""The next change: the time from which a decision may differ though no job came, started or ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.jobs import SETTLE_S
from ..cluster.plan import Plan, Standing
from ..cluster.state import View
from ..policies.contract import Ordering
from ..policies.deadlines.lateness import notice_s
from .deadlines.order_leases import next_lease_change_s
from .profiling import both, limits_s
from .rules import DeadlineRules, MigrationRules, ProfilingRules, ResizingRules, Rules, SteeringRules


def next_change_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> float:
    """Return the time from which the next decision may differ by time alone; now for one that may differ at once.

    Simulations leave out the cycles before it. Keys that change with time and starving jobs are not considered: those
    are seen at the next cycle, which comes with the next event.
    """
    jobs = view.pending
    times = [_next_s(jobs.submitted_s[jobs.held_by_us & ~jobs.settled(view.now_s)] + SETTLE_S, view.now_s)]
    if rules.deadlines is not None and rules.deadlines.leases is not None:
        if len(view.pending) or plan.promises.open.any():
            times.append(rules.deadlines.leases.next_beat_s(view.now_s))
    elif rules.deadlines is not None:
        times += _promises(view, plan, rules.deadlines)
    if rules.admission is not None and rules.composition is None:
        ends_s = jobs.eligible_s[jobs.held_by_us | (plan.jobs.standing == Standing.OUTSIDE)]
        times.append(float(np.nanmin(ends_s, initial=np.inf)) - rules.admission.hold_s)
        begins_s = view.pending.eligible_s[plan.jobs.standing == Standing.WAITS_FOR_BEGIN]
        times.append(float(np.nanmin(begins_s, initial=np.inf)) - rules.admission.hold_s / 2)
    times.append(next_lease_change_s(replace(view, promises=plan.promises), ordering, rules))
    if rules.profiling is not None:
        times += _profiling(view, rules.profiling)
    if rules.steering is not None:
        times += _steering(view, rules.steering)
    if rules.migration is not None:
        times += _migration(view, rules.migration)
    if rules.rightsizing is not None:
        sized_s = view.pending.sized_s
        times.append(_next_s(sized_s[sized_s > 0] + rules.rightsizing.again_s, view.now_s))
    if rules.resizing is not None:
        times += _resizing(view, rules.resizing)
    if rules.sharing is not None and view.pending.shares.any():
        times.append(view.now_s)
    return float(max(min(times), view.now_s))


def _promises(view: View, plan: Plan, rules: DeadlineRules) -> Iterator[float]:
    """Yield when promised jobs become due or can be in doubt, and when that of jobs asked to stop is over."""
    early_s = rules.lead_s + rules.hold_s + (rules.stop_s if rules.yields else 0.0)
    promises = plan.promises.take(plan.promises.open)
    yield float(np.nanmin(promises.start_by_s, initial=np.inf)) - early_s
    window_s = promises.promised_s - promises.first_submit_s
    yield _next_s(promises.promised_s - notice_s(window_s) - rules.lead_s, view.now_s)
    asked = view.running.asked_s >= view.running.started_s
    yield _next_s(view.running.asked_s[asked] + rules.stop_s, view.now_s)
    if rules.yields and len(promises):
        yield rules.terms.next_beat_s(view.now_s)


def _profiling(view: View, rules: ProfilingRules) -> Iterator[float]:
    """Yield when jobs have run or waited long enough in the profiling partition."""
    pending, running = view.pending, view.running
    yield _next_s(pending.eligible_s[both(pending, rules)] + rules.wait_s, view.now_s)
    here = running.partition.map([name == rules.partition for name in running.partition.names], np.bool_)
    ends_s = running.started_s[here] + np.array(limits_s(running.take(np.flatnonzero(here)), rules))
    yield _next_s(ends_s, view.now_s)


def _steering(view: View, rules: SteeringRules) -> Iterator[float]:
    """Yield when the patience with full types is over, and when jobs that were let go may be sent to a type again."""
    jobs = view.pending
    ours = jobs.steered.map([bool(types) for types in jobs.steered.names], np.bool_)
    since_s = np.maximum(jobs.steered_s, jobs.submitted_s)
    yield _next_s(since_s[ours] + rules.patience_s, view.now_s)
    yield _next_s(jobs.steered_s[~ours & (jobs.steered_s > 0)] + rules.again_s, view.now_s)


def _migration(view: View, rules: MigrationRules) -> Iterator[float]:
    """Yield when jobs are no longer kept off nodes that they left; loads may change at any time."""
    jobs = view.pending
    left = jobs.left_s > 0
    yield _next_s(jobs.left_s[left] + rules.every_s, view.now_s)
    yield _next_s(jobs.submitted_s[left] + rules.patience_s, view.now_s)
    if np.isfinite(view.nodes.cpu_load).any():
        yield view.now_s


def _resizing(view: View, rules: ResizingRules) -> Iterator[float]:
    """Yield when running jobs may be stopped for another number of GPUs, and when the time of those asked to is over.

    While jobs wait, what each number of GPUs gains changes with the forecasts of all others. What a restart costs a job
    by Pollux changes with its age.
    """
    pending, running = view.pending, view.running
    sized = running.most_gpus > running.least_gpus
    if (pending.most_gpus > pending.least_gpus).any() or (len(pending) and sized.any()):
        yield view.now_s
    if rules.division != ResizingRules.division and (sized & (running.gpus < running.most_gpus)).any():
        yield view.now_s
    yield _next_s(np.fmax(running.started_s, running.asked_s)[sized] + rules.least_s, view.now_s)
    yield _next_s(running.asked_s[sized] + rules.stop_s, view.now_s)


def _next_s(times_s: FloatArray, now_s: float) -> float:
    """Return the first of *times_s* that is still to come; infinite where none is. Those before have been decided."""
    return float(np.min(times_s[times_s >= now_s], initial=np.inf))
