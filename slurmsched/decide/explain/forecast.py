"""Forecasts as products: the terms of an additive model of log runtime, as a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...models.runtime.point_predictors import Reason
from ..phrasing import spell
from .explain import Explanation

SHOWN = 6  #: factors in the sentence; the others are multiplied together


def with_factors(explanation: Explanation, reasons: Sequence[Reason], *, runs: bool = False) -> Explanation:
    """Add the factors of the forecast to *explanation* if *reasons* has any; *runs* is true for a running job."""
    if len(reasons) < 2:
        return explanation
    first, *others = reasons
    parts = [f"x {reason.factor:.2f} ({reason.words})" for reason in others[:SHOWN]]
    if rest := others[SHOWN:]:
        product = math.prod(reason.factor for reason in rest)
        parts.append(f"x {product:.2f} ({len(rest)} more)")
    before = "the time limit and what it has run already" if runs else "the time limit"
    sentence = f"Forecast = {spell(first.factor)} ({first.words}) {' '.join(parts)}, before {before}."
    return replace(
        explanation, factors=tuple(reasons), sentences=(explanation.sentences[0], sentence, *explanation.sentences[1:])
    )
