"""Turns: powers whose decisions take long sit out cycles, so that the others and the order are not late for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

TURN_S = 0.25
"""Processor time that one power may take in every cycle; one that takes n times as much decides in every n-th one."""

LONGEST_WAIT = 20
"""Most cycles that a power sits out after one decision."""

ORDER = "order"
"""The part of a decision that no power takes."""

DEADLINES = "deadlines"
"""The part of a decision that makes, keeps and answers promises."""

Watch = Callable[[str], None]
"""Called with the name of each part of a decision as it begins."""


def unwatched(part: str) -> None:
    """Let a part of a decision begin."""


class PartTimes:
    """Processor time of this thread by part of a decision, in seconds; a part that comes again adds to its time."""

    def __init__(self) -> None:
        self.took_s: dict[str, float] = {}
        self._part, self._began_s = "", 0.0

    def enter(self, part: str) -> None:
        """End the part that runs, and begin *part*; an empty name begins none."""
        now_s = time.thread_time()
        if self._part:
            self.took_s[self._part] = self.took_s.get(self._part, 0.0) + now_s - self._began_s
        self._part, self._began_s = part, now_s


class Turns:
    """The powers that wait their turn: over the cycles, each takes at most *turn_s* of processor time a cycle.

    *able* are those that can wait: they start changes, and a change that is not started yet can be started later.
    """

    def __init__(self, turn_s: float, able: Collection[str] = ()) -> None:
        self._turn_s, self._able = turn_s, tuple(able)
        self._owed_s: dict[str, float] = {}

    @property
    def waiting(self) -> frozenset[str]:
        """The powers that sit out the next decision."""
        return frozenset(power for power, owed_s in self._owed_s.items() if owed_s > 0)

    def decided(self, took_s: Mapping[str, float]) -> None:
        """Count one decision, whose parts took so long."""
        most_s = LONGEST_WAIT * self._turn_s
        for power in self._able:
            owed_s = self._owed_s.get(power, 0.0) + took_s.get(power, 0.0) - self._turn_s
            self._owed_s[power] = min(max(owed_s, 0.0), most_s)
