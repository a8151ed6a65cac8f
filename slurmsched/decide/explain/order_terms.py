"""Explanations of an order whose key is a sum: its terms for one job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...cluster.state import View
from ...policies.contract import Ordering
from .explain import Explanation


def with_order_terms(explanation: Explanation, view: View, ordering: Ordering) -> Explanation:
    """Return *explanation* with the terms of the job's key, where the key function has ``parts`` that give them."""
    parts_of, row = getattr(ordering.function, "parts", None), view.pending.row_of(explanation.job_id)
    if parts_of is None or row is None:
        return explanation
    terms = {name: float(part[row]) for name, part in parts_of(view).items()}
    words = " + ".join(f"{name} {value:.3g}" for name, value in terms.items())
    total = f"By {ordering.line} its key is {np.sum(list(terms.values())):.4g} = {words}; smaller runs sooner."
    sentences = (*explanation.sentences, total)
    if (place := float(ordering(view)[row])) != float(np.sum(list(terms.values()))):
        sentences += (f"Among the jobs of its account that gives it the place of the key {place:.4g}.",)
    return replace(explanation, sentences=sentences)
