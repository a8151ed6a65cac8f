"""Powers of plug-ins: what they want of the actions that slurmsched has, judged like the wishes of its own powers.

They run where parts of plug-ins run: in a process of its own, within a time limit. One that raises, hangs or wants what
it may not costs a decision no more than its wishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.actions import Action, AskToStop, Hold, Steer
from ..cluster.actions.hold import HOLD_WITHIN_S
from ..cluster.plan import Plan, Standing
from ..cluster.state import View
from ..config import Settings
from ..decide.draft import Draft, Lane
from ..decide.rules import Rules
from ..policies.contract import GUESTS, Guest, Ordering

LANES: Mapping[type[Action], Lane] = {Hold: Lane.KEEP_OUT, Steer: Lane.EXCLUDE, AskToStop: Lane.STOP}
"""The actions that a power of a plug-in may want, and where they line up: behind those of slurmsched's own powers."""

LONGEST_S = 3_600.0
"""The longest delay at a time: what a plug-in holds comes free by itself if it never speaks again."""


@dataclass(frozen=True)
class GuestPower:
    """A power of a plug-in as a power like the others."""

    part: Guest

    @property
    def name(self) -> str:
        """Its name with its parameters."""
        return self.part.line

    @property
    def section(self) -> str:
        """Nothing: its terms are its parameters."""
        return ""

    @property
    def can_wait(self) -> bool:
        """False: it has a time limit already."""
        return False

    def terms(self, settings: Settings) -> None:
        """Return nothing, likewise."""

    def wishes(self, draft: Draft) -> Mapping[Lane, Sequence[Action]]:
        """Return its wishes by lane; ValueError for a value that is none of ``LANES``."""
        found: dict[Lane, list[Action]] = {}
        for wish in self.part.function(draft.view):
            if type(wish) not in LANES:
                accepted = ", ".join(kind.__name__ for kind in LANES)
                raise ValueError(f"the power {self.part.name!r} wants {wish!r}; accepted are {accepted}")
            found.setdefault(LANES[type(wish)], []).append(wish)
        holds = [wish for wish in found.get(Lane.KEEP_OUT, ()) if isinstance(wish, Hold)]
        return found | {Lane.KEEP_OUT: list(_delays(draft, holds))}

    def words(self, view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
        """Yield nothing: the story names what was done."""
        yield from ()

    def changes_s(self, view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
        """Yield now: nobody knows when it may want something else."""
        yield view.now_s


def _delays(draft: Draft, holds: Sequence[Hold]) -> Iterator[Hold]:
    """Yield the holds of jobs that stand in the order or that we delay already; those in force stay as they are."""
    jobs, now_s = draft.view.pending, draft.view.now_s
    ours = np.isin(draft.standings, (Standing.RANKED, Standing.OUTSIDE)) | jobs.held_by_us
    for hold in holds:
        row = jobs.row_of(hold.job_id)
        until_s = min(hold.until_s, now_s + LONGEST_S)
        if row is None or not ours[row] or not until_s > now_s:
            continue
        draft.kept.add(row)
        if not (jobs.held_by_us[row] and jobs.eligible_s[row] >= until_s - HOLD_WITHIN_S):
            yield replace(hold, until_s=until_s)


def guests(rules: Rules) -> list[GuestPower]:
    """Return the powers of plug-ins that take part; ConfigError for one that is not there."""
    return [GuestPower(GUESTS.find(line)) for line in rules.guests]
