"""Weighted division of GPUs: a compiled loop."""

from __future__ import annotations

from ...cluster.columns import FloatArray
from ...policies.compiled import compiled


@compiled
def share_out(gpus: float, weights: FloatArray, wanted: FloatArray, share: FloatArray) -> None:
    """Fill *share* with GPUs in proportion to *weights*, each at most *wanted*; none stays unused if any wants more."""
    count = len(wanted)
    weight, left = 0.0, gpus
    for at in range(count):
        share[at] = 0.0
        if wanted[at] > 0:
            weight += weights[at]
            share[at] = -1.0
    met = True
    while met and weight > 0:
        met = False
        rate = max(left, 0.0) / weight
        for at in range(count):
            if share[at] < 0 and wanted[at] <= weights[at] * rate:
                share[at] = wanted[at]
                left -= wanted[at]
                weight -= weights[at]
                met = True
    weight = 0.0
    for at in range(count):
        if share[at] < 0:
            weight += weights[at]
    for at in range(count):
        if share[at] < 0:
            share[at] = max(left, 0.0) * weights[at] / weight
