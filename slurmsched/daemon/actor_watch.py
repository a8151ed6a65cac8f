"""The reasons to trust a trained actor no longer, from what it makes of each cycle's queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..cluster.state import View
from ..policies.ordering.mlfs_rl import LearnedPriority

MOST_S = 0.020  #: processor time of the scores of a cycle
OUTSIDE_SHARE = 0.05  #: of the cycles whose queue may have features outside the range of the training
CYCLES = 500  #: the latest ones, which count for that share
FEWEST_CYCLES = 100  #: before which no share is known


class ActorWatch:
    """Watches one actor, cycle by cycle. *processor_s* reads a clock of processor time, in seconds."""

    def __init__(self, processor_s: Callable[[], float]) -> None:
        self._processor_s = processor_s
        self._outside: deque[bool] = deque(maxlen=CYCLES)

    def against(self, view: View, priority: LearnedPriority) -> str:
        """Return why the actor of *priority* is not to be used any more, after this cycle's *view*; empty if it is."""
        # A pause of the interpreter is no slow actor: only one that is slow twice in a row is.
        took_s = min(self._timed(view, priority), self._timed(view, priority))
        if took_s > MOST_S:
            return f"its scores of {len(view.pending)} jobs took {1000 * took_s:.0f} ms, and {1000 * MOST_S:.0f} may be"
        outcome = priority.inspected(view)
        if not outcome.finite:
            return "a score was no number"
        self._outside.append(outcome.unfamiliar)
        share = sum(self._outside) / len(self._outside)
        if len(self._outside) >= FEWEST_CYCLES and share > OUTSIDE_SHARE:
            return (
                f"in {share:.0%} of the last {len(self._outside)} cycles the queue had features outside the range that "
                "it was trained on"
            )
        return ""

    def _timed(self, view: View, priority: LearnedPriority) -> float:
        began_s = self._processor_s()
        priority(view)
        return self._processor_s() - began_s
