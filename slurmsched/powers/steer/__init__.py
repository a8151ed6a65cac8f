"""Steering: untyped pending jobs go to the type of GPU on which they end soonest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.rules import Rules, SteeringRules
from ...policies.contract import Ordering
from .types import steer_wishes
from .wording import steering_words

name = "steer"
section = "steering"
can_wait = True
words = steering_words


def terms(settings: Settings) -> SteeringRules | None:
    """Return the rules of ``[steer]``, None without power.steer."""
    steer = settings.steer
    return SteeringRules(steer.patience_s, steer.again_s, steer.least_gain) if settings.power.steer else None


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return changes of excluded nodes."""
    wanted = steer_wishes(draft.view, draft.rules, draft.standings, draft.ranked, draft.starving)
    return {Lane.EXCLUDE: wanted}


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when the patience with full types is over, and when jobs that were let go may be sent to a type again."""
    if rules.steering is None:
        return
    jobs = view.pending
    ours = jobs.steered.map([bool(types) for types in jobs.steered.names], np.bool_)
    since_s = np.maximum(jobs.steered_s, jobs.submitted_s)
    yield next_s(since_s[ours] + rules.steering.patience_s, view.now_s)
    yield next_s(jobs.steered_s[~ours & (jobs.steered_s > 0)] + rules.steering.again_s, view.now_s)
