"""Forecasts as products: the terms of an additive model of log runtime, as a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..decide.phrasing import spell
from ..models.runtime.point_predictors import Reason

SHOWN = 6  #: factors in the sentence; the others are multiplied together


def factor_words(reasons: Sequence[Reason], *, runs: bool = False) -> str:
    """Return a sentence with the factors of a forecast, empty where *reasons* has none; *runs* is of a running job."""
    if len(reasons) < 2:
        return ""
    first, *others = reasons
    parts = [f"x {reason.factor:.2f} ({reason.words})" for reason in others[:SHOWN]]
    if rest := others[SHOWN:]:
        product = math.prod(reason.factor for reason in rest)
        parts.append(f"x {product:.2f} ({len(rest)} more)")
    before = "the time limit and what it has run already" if runs else "the time limit"
    return f"Forecast = {spell(first.factor)} ({first.words}) {' '.join(parts)}, before {before}."
