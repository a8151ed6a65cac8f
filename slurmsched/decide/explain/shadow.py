"""Explanations of a place under the ordering in shadow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.state import View
from ..policy import Policy
from ..shadow import shadow_placing
from .explain import Explanation
from .order_terms import terms_of


def with_shadow_place(explanation: Explanation, view: View, policy: Policy) -> Explanation:
    """Return *explanation* with the place that the job would have under the ordering in shadow, and the reasons."""
    row = view.pending.row_of(explanation.job_id)
    if policy.shadow is None or row is None:
        return explanation
    placing, name = shadow_placing(view, policy), policy.shadow.name
    ranked = int(np.count_nonzero(placing.rank >= 0))
    if placing.rank[row] < 0:
        return explanation
    now = ", and would run now" if placing.runs[row] else ""
    place = f"In shadow, {name} would have it in place {placing.rank[row] + 1} of {ranked}{now}; this is recorded only."
    return replace(explanation, sentences=(*explanation.sentences, place, *terms_of(view, policy.shadow, row)))
