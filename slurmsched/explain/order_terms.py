"""Explanations of an order whose key is a sum: its terms for one job."""

from __future__ import annotations

import numpy as np

from ..cluster.state import View
from ..policies.contract import Ordering


def terms_of(view: View, ordering: Ordering, row: int) -> tuple[str, ...]:
    """Return sentences with the terms of the key of pending job *row*, where its function has ``parts`` that give them.

    Sentences of its ``remarks`` follow, in which case its parameters are too long to show; they may be all there is.
    """
    remarks_on = getattr(ordering.function, "remarks", None)
    parts_of = getattr(ordering.function, "parts", None)
    if parts_of is None:
        return () if remarks_on is None else tuple(remarks_on(view, row))
    terms = {name: float(part[row]) for name, part in parts_of(view).items()}
    words = " + ".join(f"{name} {value:.3g}" for name, value in terms.items())
    name = ordering.line if remarks_on is None else ordering.name
    total = f"By {name} its key is {np.sum(list(terms.values())):.4g} = {words}; smaller runs sooner."
    sentences: tuple[str, ...] = (total,)
    place = float(ordering(view)[row])
    if not np.isclose(place, np.sum(list(terms.values())), rtol=1e-9, atol=1e-9):
        sentences += (f"Among the jobs of its account that gives it the place of the key {place:.4g}.",)
    return sentences if remarks_on is None else (*sentences, *remarks_on(view, row))
