"""Delays: jobs that block a promise, and those that no admission lets in, wait under begin times that expire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..cluster.actions import Action, Hold, Release
from ..cluster.columns import IntArray
from ..cluster.jobs import SETTLE_S, JobTable
from ..cluster.plan import Plan, Standing
from ..cluster.state import View
from ..config import Settings
from ..decide.admission import hold_wishes, kept_by_users
from ..decide.draft import Draft, Lane
from ..decide.excluded_nodes import unsafe
from ..decide.next_change import next_s
from ..decide.rules import AdmissionRules, Rules
from ..decide.sharing.pair_eviction import unsteady
from ..errors import ConfigError
from ..policies.admission import accept_all, find_admission
from ..policies.contract import Ordering

name = "hold"
section = "admission"
can_wait = False


def terms(settings: Settings) -> AdmissionRules | None:
    """Return the rules of ``policy.admission``, None for ``accept-all``; ConfigError where no hold can do it."""
    part = find_admission(settings.policy.admission)
    if part.function is accept_all:
        return None
    if more := part.powers - {Hold.power}:
        raise ConfigError(
            f"policy.admission = {settings.policy.admission!r} needs to {min(more)} jobs, and a cluster only holds "
            "them back: MaxSubmitJobs and GrpTRES of sacctmgr(1) refuse jobs, load:X lets them wait"
        )
    if not settings.power.hold:
        raise ConfigError(
            f"policy.admission = {settings.policy.admission!r} holds jobs back: it needs power.hold = true"
        )
    hold_s, hours = 2 * settings.daemon.every_s, settings.policy.interactive_gpu_hours
    return AdmissionRules(settings.policy.admission, hold_s=hold_s, interactive_gpu_hours=hours)


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return the begin times that jobs get and lose; those that are kept off nodes wait until these are excluded."""
    view, rules = draft.view, draft.rules
    outside = np.flatnonzero(draft.standings == Standing.OUTSIDE)
    by_users = kept_by_users(view, rules, draft.standings, draft.starving)
    kept = np.array(sorted(draft.kept), dtype=np.int64)
    keeping = np.concatenate([draft.held, outside, by_users, unsafe(view, draft.kept_off), kept])
    found: dict[Lane, Sequence[Action]] = {
        Lane.RELEASE: _release_wishes(view.pending, view.now_s, keeping, rules),
        Lane.KEEP_OUT: hold_wishes(view, rules, outside, by_users),
    }
    if rules.deadlines is not None:
        until_s = view.now_s + rules.deadlines.hold_s
        found[Lane.HOLD] = [Hold(job, until_s) for job in view.pending.job_id[draft.held].tolist()]
    return found


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield nothing: why a job is delayed is the reason why it waits, which ``why`` tells first."""
    yield from ()


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when jobs have settled after a requeue, when delays are renewed, and when jobs come into the line."""
    jobs = view.pending
    yield next_s(jobs.submitted_s[jobs.held_by_us & ~jobs.settled(view.now_s)] + SETTLE_S, view.now_s)
    if rules.admission is not None and rules.executor.delays_jobs:
        ends_s = jobs.eligible_s[jobs.held_by_us | (plan.jobs.standing == Standing.OUTSIDE)]
        yield float(np.nanmin(ends_s, initial=np.inf)) - rules.admission.hold_s
        begins_s = jobs.eligible_s[plan.jobs.standing == Standing.WAITS_FOR_BEGIN]
        yield float(np.nanmin(begins_s, initial=np.inf)) - rules.admission.hold_s / 2


def _release_wishes(jobs: JobTable, now_s: float, held: IntArray, rules: Rules) -> list[Action]:
    """Return Releases of our begin times that no policy needs any more, once a requeue has settled.

    Jobs in *held* keep theirs. So does a job that left an unstable pair, which would start on the same GPUs again: the
    change back to its own GPUs ends the begin time too.
    """
    if not jobs.held_by_us.any():
        return []
    ours = jobs.held_by_us & (jobs.eligible_s > now_s) & jobs.settled(now_s)
    ours[held] = False
    if rules.sharing is not None:
        ours &= ~(jobs.shares & unsteady(jobs, rules.sharing))
    return [Release(job_id) for job_id in jobs.job_id[ours].tolist()]
