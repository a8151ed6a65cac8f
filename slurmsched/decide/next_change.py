"""The next change: the time from which a decision may differ though no job came, started or ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.plan import Plan
from ..cluster.state import View
from ..policies.contract import Ordering
from .draft import Deciding
from .rules import Rules


def next_change_s(view: View, plan: Plan, ordering: Ordering, rules: Rules, powers: Sequence[Deciding]) -> float:
    """Return the time from which the next decision may differ by time alone; now for one that may differ at once.

    Simulations leave out the cycles before it. Keys that change with time and starving jobs are not considered: those
    are seen at the next cycle, which comes with the next event.
    """
    promising = view.changed(promises=plan.promises)
    times = (at_s for power in powers for at_s in power.changes_s(promising, plan, ordering, rules))
    return float(max(min(times, default=np.inf), view.now_s))


def next_s(times_s: FloatArray, now_s: float) -> float:
    """Return the first of *times_s* that is still to come; infinite where none is. Those before have been decided."""
    return float(np.min(times_s[times_s >= now_s], initial=np.inf))
