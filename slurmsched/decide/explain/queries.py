"""Answers about one decision: the same for the daemon's latest cycle and for a recorded one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...cluster.plan import Plan
from ...cluster.state import View
from ...models.runtime.point_predictors import Reason
from ..deadlines.deadline_usage import claims
from ..rules import Rules
from . import explain
from .admission import with_admission
from .deadlines import deadline, deadlines
from .explain import Explanation, Why
from .forecast import with_factors
from .impact import advice
from .lease_chart import chart
from .migration import with_migration
from .profiling import with_profiling
from .resizing import with_resizing
from .rightsizing import with_rightsizing
from .sharing import with_eviction, with_score, with_sharing
from .steering import with_steering


def why(view: View, plan: Plan, rules: Rules, job_id: int) -> Why:
    """Explain why a job waits: admission, profiling, sharing, steering, migration and sizes have their parts."""
    placed = with_admission(explain.why(view, plan, job_id), view, plan, rules)
    placed = with_profiling(placed, view, rules.profiling)
    placed = with_steering(with_sharing(placed, view, plan, rules), view, plan, rules)
    placed = with_rightsizing(with_migration(placed, view, plan, rules), view, plan, rules)
    return with_resizing(placed, view, plan, rules)


def explanation(
    view: View, plan: Plan, rules: Rules, job_id: int, *, score: str = "", reasons: Sequence[Reason] = ()
) -> Explanation:
    """Explain the terms of the place of a job.

    If a model is loaded, it adds the derivation of the share *score* and the *reasons* for the forecast.
    """
    made = with_eviction(explain.explain(view, plan, job_id), view, rules)
    made = with_migration(with_steering(made, view, plan, rules), view, plan, rules)
    made = with_rightsizing(made, view, plan, rules)
    made = with_resizing(made, view, plan, rules)
    if score:
        made = with_score(made, score)
    return with_factors(made, reasons, runs=view.running.row_of(job_id) is not None)


Answer = Callable[[View, Plan, Rules, int], Any]
"""A function from a decision, its rules and a job id to an answer; answers about all jobs ignore the id."""

ANSWERS: Mapping[str, Answer] = {
    "why": why,
    "explain": explanation,
    "queue": lambda view, plan, rules, job_id: explain.queue(view, plan),
    "advice": lambda view, plan, rules, job_id: advice(view, plan),
    "deadline": lambda view, plan, rules, job_id: deadline(view, plan, job_id),
    "deadlines": lambda view, plan, rules, job_id: deadlines(view, plan),
    "claims": lambda view, plan, rules, job_id: claims(view, plan, rules.deadlines),
    "chart": lambda view, plan, rules, job_id: chart(view, plan, job_id, rules),
}
"""The queries that a decision alone can answer."""
