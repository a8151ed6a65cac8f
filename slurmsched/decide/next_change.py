"""The next change: the time from which a decision may differ though no job came, started or ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.jobs import SETTLE_S
from ..cluster.plan import Plan, Standing
from ..cluster.state import View
from ..policies.contract import Ordering
from ..policies.deadlines.lateness import notice_s
from .draft import Deciding
from .rules import DeadlineRules, Rules


def next_change_s(view: View, plan: Plan, ordering: Ordering, rules: Rules, powers: Sequence[Deciding]) -> float:
    """Return the time from which the next decision may differ by time alone; now for one that may differ at once.

    Simulations leave out the cycles before it. Keys that change with time and starving jobs are not considered: those
    are seen at the next cycle, which comes with the next event.
    """
    jobs = view.pending
    times = [next_s(jobs.submitted_s[jobs.held_by_us & ~jobs.settled(view.now_s)] + SETTLE_S, view.now_s)]
    if rules.deadlines is not None and rules.deadlines.leases is not None:
        if len(view.pending) or plan.promises.open.any():
            times.append(rules.deadlines.leases.next_beat_s(view.now_s))
    elif rules.deadlines is not None:
        times += _promises(view, plan, rules.deadlines)
    if rules.admission is not None and rules.executor.delays_jobs:
        ends_s = jobs.eligible_s[jobs.held_by_us | (plan.jobs.standing == Standing.OUTSIDE)]
        times.append(float(np.nanmin(ends_s, initial=np.inf)) - rules.admission.hold_s)
        begins_s = view.pending.eligible_s[plan.jobs.standing == Standing.WAITS_FOR_BEGIN]
        times.append(float(np.nanmin(begins_s, initial=np.inf)) - rules.admission.hold_s / 2)
    promising = replace(view, promises=plan.promises)
    for power in powers:
        times += power.changes_s(promising, ordering, rules)
    return float(max(min(times), view.now_s))


def _promises(view: View, plan: Plan, rules: DeadlineRules) -> Iterator[float]:
    """Yield when promised jobs become due or can be in doubt, and when that of jobs asked to stop is over."""
    early_s = rules.lead_s + rules.hold_s + (rules.stop_s if rules.yields else 0.0)
    promises = plan.promises.take(plan.promises.open)
    yield float(np.nanmin(promises.start_by_s, initial=np.inf)) - early_s
    window_s = promises.promised_s - promises.first_submit_s
    yield next_s(promises.promised_s - notice_s(window_s) - rules.lead_s, view.now_s)
    asked = view.running.asked_s >= view.running.started_s
    yield next_s(view.running.asked_s[asked] + rules.stop_s, view.now_s)
    if rules.yields and len(promises):
        yield rules.terms.next_beat_s(view.now_s)


def next_s(times_s: FloatArray, now_s: float) -> float:
    """Return the first of *times_s* that is still to come; infinite where none is. Those before have been decided."""
    return float(np.min(times_s[times_s >= now_s], initial=np.inf))
