"""Sizes: jobs that can run on several numbers of GPUs get the one that serves all jobs best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...cluster.actions import Action
from ...cluster.limits import why_unread
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.rules import ResizingRules, Rules
from ...policies.contract import Ordering
from ..stop_terms import stop_terms
from .sizing import sizing
from .wording import resizing_words

name = "resize"
section = "resizing"
can_wait = True
words = resizing_words


def terms(settings: Settings) -> ResizingRules | None:
    """Return the rules of ``[resize]``, None without power.resize; a stop is as in ``[deadline]``."""
    if not settings.power.resize:
        return None
    names = ("least_s", "restart_s", "doubling", "nodes", "division")
    return ResizingRules(**{name: getattr(settings.resize, name) for name in names}, **stop_terms(settings))


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return other numbers of GPUs, and requests to stop for these; none of these where limits could not be read."""
    found = sizing(draft.view, draft.rules, draft.standings, draft.ranked, draft.asked)
    return {Lane.SIZE: found.resizes, Lane.STOP: () if why_unread(draft.view.limits) else found.stops}


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when running jobs may be stopped for another number of GPUs, and when the time of those asked to is over.

    While jobs wait, what each number of GPUs gains changes with the forecasts of all others. What a restart costs a job
    by Pollux changes with its age.
    """
    if (own := rules.resizing) is None:
        return
    pending, running = view.pending, view.running
    sized = running.most_gpus > running.least_gpus
    if (pending.most_gpus > pending.least_gpus).any() or (len(pending) and sized.any()):
        yield view.now_s
    if own.division != ResizingRules.division and (sized & (running.gpus < running.most_gpus)).any():
        yield view.now_s
    yield next_s(np.fmax(running.started_s, running.stop_requested_s)[sized] + own.least_s, view.now_s)
    yield next_s(running.stop_requested_s[sized] + own.stop_s, view.now_s)
