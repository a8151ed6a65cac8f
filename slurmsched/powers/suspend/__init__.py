"""Suspension: of two jobs that take turns on shared GPUs and harm each other, the guest pauses in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.rules import Rules, SuspensionRules
from ...policies.contract import Ordering
from .pauses import ends_s, resume_wishes, suspend_wishes
from .turns import coming_suspensions
from .wording import pause_words, suspension_words

name = "suspend"
section = "suspension"
can_wait = False
words = suspension_words
halts = coming_suspensions
halt_words = pause_words


def terms(settings: Settings) -> SuspensionRules | None:
    """Return the rules of ``share.suspend_most_s``, None without power.suspend or power.share."""
    on = settings.power.suspend and settings.power.share
    return SuspensionRules(most_s=settings.share.suspend_most_s) if on else None


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return the ends of suspensions of ours, and new ones; without its terms all of ours end."""
    view, rules = draft.view, draft.rules
    return {Lane.GIVE_BACK: resume_wishes(view, rules), Lane.STOP: suspend_wishes(view, rules, draft.asked)}


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when suspensions end, and when jobs have run as long as they were suspended."""
    if rules.suspension is None:
        return
    rows = view.running.suspended_by_us
    yield next_s(ends_s(view, rules.suspension)[rows], view.now_s)
    yield next_s(view.running.rested_s[view.running.rested_s > 0], view.now_s)
