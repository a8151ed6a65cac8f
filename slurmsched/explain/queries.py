"""Answers about one decision: the same for the daemon's latest cycle and for a recorded one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide.deadlines.deadline_usage import claims
from ..decide.rules import Rules
from ..models.runtime.point_predictors import Reason
from . import explain
from .deadlines import deadline, deadlines
from .explain import Explanation
from .forecast import factor_words
from .impact import advice
from .lease_chart import chart
from .why import NOTHING_BESIDE, Circumstances, why


def explanation(
    view: View,
    plan: Plan,
    rules: Rules,
    job_id: int,
    beside: Circumstances = NOTHING_BESIDE,
    *,
    score: str = "",
    reasons: Sequence[Reason] = (),
    more: Sequence[str] = (),
) -> Explanation:
    """Explain the terms of the place of a job, with *more* sentences.

    If a model is loaded, it adds the derivation of the share *score* and the *reasons* for the forecast.
    """
    made = explain.explain(view, plan, rules, job_id, beside)
    runs = view.running.row_of(job_id) is not None
    factors = factor_words(reasons, runs=runs)
    first, *others = made.sentences
    sentences = (first, *([factors] if factors else []), *others, *([f"Share score: {score}."] if score else []), *more)
    return replace(made, sentences=sentences, factors=tuple(reasons) if factors else ())


Answer = Callable[[View, Plan, Rules, int, Circumstances], Any]
"""A function from a decision, its rules, a job id and what else is known to an answer.

Answers about all jobs ignore the id, and most ignore the last.
"""

ANSWERS: Mapping[str, Answer] = {
    "why": why,
    "explain": explanation,
    "queue": lambda view, plan, rules, job_id, beside: explain.queue(view, plan),
    "advice": lambda view, plan, rules, job_id, beside: advice(view, plan),
    "deadline": lambda view, plan, rules, job_id, beside: deadline(view, plan, job_id),
    "deadlines": lambda view, plan, rules, job_id, beside: deadlines(view, plan),
    "claims": lambda view, plan, rules, job_id, beside: claims(view, plan, rules.deadlines),
    "chart": lambda view, plan, rules, job_id, beside: chart(view, plan, job_id, rules),
}
"""The queries that a decision alone can answer."""
