"""The figures of a burst."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from ..cluster.records.outcomes import OutcomeTable


@dataclass(frozen=True)
class BurstSummary:
    """Job completion times of one burst, from first submit to end, in sacct's whole seconds."""

    avg_jct_s: float
    median_jct_s: float
    p90_jct_s: float
    makespan_s: float  #: from the first submit to the last end

    @classmethod
    def of(cls, outcomes: OutcomeTable) -> BurstSummary:
        """Compute the figures of *outcomes*, one row per job."""
        jct_s = outcomes.ended_s - outcomes.first_submit_s
        return cls(
            avg_jct_s=round(float(jct_s.mean()), 3),
            median_jct_s=round(float(np.median(jct_s)), 3),
            p90_jct_s=round(float(np.percentile(jct_s, 90)), 3),
            makespan_s=round(float(outcomes.ended_s.max() - outcomes.first_submit_s.min()), 3),
        )

    def over(self, other: BurstSummary) -> dict[str, float]:
        """Return each figure as a multiple of *other*'s."""
        mine, others = asdict(self), asdict(other)
        return {name: round(mine[name] / others[name], 3) for name in mine}
