"""GENIE (Chen et al., TPDS'20) as an order."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.state import View
from ...policies.contract import ordering
from ...policies.ordering.attained_service import srtf
from ...policies.ordering.static import FAR_S


@ordering("genie", changes="with_time")
def genie(view: View) -> FloatArray:
    """Least time to spare before the deadline first; then jobs that must miss it, then jobs without one.

    The time to spare is that until the deadline less the remaining runtime by forecast, which counts as 0 where there
    is none. The other jobs are in order of submission (Chen et al., TPDS'20, as Chronus section 4.3 has it).
    """
    pending = view.pending
    left_s = np.nan_to_num(np.maximum(srtf(view), 0.0))
    spare_s = pending.deadline_s - view.now_s - left_s
    level = np.where(np.isinf(spare_s), 2, spare_s < 0) * FAR_S
    return level + np.where(level > 0, pending.came_s, spare_s)
