"""An ordering: the user with the fewest pending jobs first."""

import numpy as np

from slurmsched import ordering


@ordering("fewest")
def fewest(view):
    """Jobs of the user with the fewest pending jobs first, the shorter ones sooner."""
    counts = np.bincount(view.pending.user.codes, weights=view.pending.tasks)
    runtime_s = np.nan_to_num(view.forecast.runtime_s, nan=1e9, posinf=1e9)
    return counts[view.pending.user.codes] + runtime_s / 1e10
