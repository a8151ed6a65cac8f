"""Deadlines: promises to jobs with ``deadline=``, the stops that they need, and the answers that owners read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.deadlines.preemption import stop_wishes
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.rules import DeadlineRules, Rules, read_steps
from ...decide.turns import DEADLINES
from ...policies.contract import PREEMPTIONS, Ordering
from ...policies.deadlines.lateness import notice_s
from ...policies.deadlines.milp_solver import check_installed
from ..stop_terms import stop_terms
from .answers import answer_wishes
from .wording import promise_in_brief, promise_words

name = DEADLINES
section = "deadlines"
can_wait = False
words = promise_words
in_brief = promise_in_brief

DAY_S = 86400.0


def terms(settings: Settings) -> DeadlineRules | None:
    """Return the rules of ``[deadline]``, None where it is off; ConfigError for settings that contradict.

    MissingExtra where they need a solver that is not installed.
    """
    section = settings.deadline
    if not section.enabled:
        return None
    if section.solver_s:
        check_installed()
    return DeadlineRules(
        margin=section.margin,
        reserve=section.reserve,
        foreseen=section.foreseen,
        long_s=section.long_s,
        long_share=section.long_share,
        lead_s=section.lead_s,
        hold_s=2 * settings.daemon.every_s,
        hold_most_s=section.hold_most_s,
        user_gpu_hours=section.user_gpu_hours,
        account_gpu_hours=section.account_gpu_hours,
        window_s=section.quota_days * DAY_S,
        user_gpus=section.user_gpus,
        interval_s=section.interval_s,
        user_share=section.user_share,
        exempt=tuple(sorted(section.exempt)),
        soft_steps=read_steps(section.soft_steps),
        yields=section.yields,
        preemption=PREEMPTIONS.find(settings.policy.preemption).line,
        lease_s=section.lease_s,
        promised_lease_s=section.promised_lease_s,
        slack_s=section.slack_s,
        again_s=section.again_s,
        solver_s=section.solver_s,
        **stop_terms(settings, "restart_s", "restart_doubling_s"),
    )


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return requests to stop for promises, and the answers to requests."""
    view, rules = draft.view, draft.rules
    found: dict[Lane, Sequence[Action]] = {}
    if draft.promised is not None and rules.deadlines is not None:
        found[Lane.STOP] = stop_wishes(view, draft.promised, rules.deadlines, draft.stopping)
    if "comment" in rules.powers:
        found[Lane.ANSWER] = answer_wishes(view, view.promises)
    return found


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when promised jobs become due or can be in doubt, and when that of jobs asked to stop is over."""
    own, promises = rules.deadlines, plan.promises.take(plan.promises.open)
    if own is None:
        return
    if own.leases is not None:
        if len(view.pending) or len(promises):
            yield own.leases.next_beat_s(view.now_s)
        return
    early_s = own.lead_s + own.hold_s + (own.stop_s if own.yields else 0.0)
    yield float(np.nanmin(promises.start_by_s, initial=np.inf)) - early_s
    window_s = promises.promised_s - promises.first_submit_s
    yield next_s(promises.promised_s - notice_s(window_s) - own.lead_s, view.now_s)
    asked = view.running.stop_requested_s >= view.running.started_s
    yield next_s(view.running.stop_requested_s[asked] + own.stop_s, view.now_s)
    if own.yields and len(promises):
        yield own.terms.next_beat_s(view.now_s)
