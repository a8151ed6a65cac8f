"""Explanations of a place under the ordering in force, and under the one in shadow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cluster.state import View
from ..decide.policy import Policy
from ..powers.shadow import shadow_placing
from .order_terms import terms_of


def order_words(view: View, policy: Policy, job_id: int) -> Iterator[str]:
    """Yield the terms of a pending job's key in the order of *policy*, and its place under the one in shadow."""
    row = view.pending.row_of(job_id)
    if row is not None:
        yield from terms_of(view, policy.ordering, row)
        yield from shadow_words(view, policy, job_id)


def shadow_words(view: View, policy: Policy, job_id: int) -> Iterator[str]:
    """Yield the place that a job would have under the ordering in shadow, and the reasons."""
    row = view.pending.row_of(job_id)
    if policy.shadow is None or row is None:
        return
    placing, name = shadow_placing(view, policy), policy.shadow.name
    ranked = int(np.count_nonzero(placing.rank >= 0))
    if placing.rank[row] < 0:
        return
    now = ", and would run now" if placing.runs[row] else ""
    yield f"In shadow, {name} would have it in place {placing.rank[row] + 1} of {ranked}{now}; this is recorded only."
    yield from terms_of(view, policy.shadow, row)
