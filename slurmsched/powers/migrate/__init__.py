"""Migration: running jobs with ``ckpt`` leave overloaded nodes where that gains more than it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.rules import MigrationRules, Rules
from ...errors import ConfigError
from ...policies.contract import Ordering
from ..stop_terms import stop_terms
from .leaving import leave_wishes
from .wording import migration_words

name = "migrate"
section = "migration"
can_wait = True
words = migration_words


def terms(settings: Settings) -> MigrationRules | None:
    """Return the rules of ``[migrate]``, None without power.migrate; a stop is as in ``[deadline]``.

    ConfigError where jobs are to be stopped and none may be requeued.
    """
    if not settings.power.migrate:
        return None
    if not settings.power.requeue:
        raise ConfigError(
            "power.migrate = true stops jobs, which queue themselves again: it needs power.requeue = true"
        )
    own = {name: getattr(settings.migrate, name) for name in ("overload", "for_s", "every_s", "patience_s")}
    return MigrationRules(**own, **stop_terms(settings, "restart_s", "restart_doubling_s"))


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return requests to leave overloaded nodes."""
    return {Lane.STOP: leave_wishes(draft.view, draft.ordering, draft.rules, draft.standings, draft.asked)}


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when jobs are no longer kept off nodes that they left; loads may change at any time."""
    if rules.migration is None:
        return
    jobs = view.pending
    left = jobs.left_s > 0
    yield next_s(jobs.left_s[left] + rules.migration.every_s, view.now_s)
    yield next_s(jobs.submitted_s[left] + rules.migration.patience_s, view.now_s)
    if np.isfinite(view.nodes.cpu_load).any():
        yield view.now_s
