"""The terms of leases and promises (Chronus): the numbers that an admin may want to change."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...errors import ConfigError
from .lateness import DOUBT

_SHARES = ("reserve", "foreseen", "doubt", "lost")
_LENGTHS = ("lease_s", "beat_s")

GONE = dict.fromkeys(
    ("kept_back", "crowded", "kept_whole", "largest_s"),
    "promises leave room for as many smaller jobs as asked lately: foreseen=0 turns that off",
)
"""What is written in place of terms of earlier versions."""

YEAR_S = 365 * 86_400.0


@dataclass(frozen=True)
class LeaseTerms:
    """The lengths of leases, the reserves of plans, and the limits of promises; times are seconds.

    ConfigError for a number that makes no sense.
    """

    lease_s: float = 1_200.0
    """Length of a lease of a promised job, after which it may have to yield."""

    beat_s: float = 300.0
    """Length of a lease of any other job. Leases end at whole multiples of it, and plans count in it."""

    restart_s: float = 0.0
    """Planned cost of resuming a job of one GPU after a stop."""

    restart_doubling_s: float = 0.0
    """Additional cost for each doubling of its GPUs."""

    slack_s: float = 3_600.0
    """Promised jobs run so as to end this long before their deadline where they can: three leases.

    It leaves room for jobs that have not come yet: less refuses more of them, more makes best effort wait."""

    reserve: float = 0.05
    """Share of the GPUs that promises leave to what plans do not include: stops, and the ends of leases."""

    foreseen: float = 1.0
    """Part of the GPUs that smaller jobs with deadlines asked for in the last ``memory_s`` which promises leave to such
    jobs; 0 for none.

    Without it a few large jobs that came first would have many small ones refused."""

    memory_s: float = 86_400.0
    """Time over which requests are counted."""

    last_s: float = 300.0
    """A job that was refused is answered again once it must start within this time; less is kept back from it."""

    doubt: float = DOUBT
    """Probability of breaking a promise above which its owner is warned in time; see ``in_doubt``."""

    lost: float = 0.9
    """Probability of breaking a promise above which it no longer stands before others."""

    solver_s: float = 0.0
    """Seconds for the solver after a decision, on promises without a place and refused jobs; 0 for none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, share = getattr(self, field.name), field.name in _SHARES
            if not 0 <= value <= (1.0 if share else YEAR_S) or (not value and field.name in _LENGTHS):
                accepted = "0 to 1" if share else f"0 to {YEAR_S:.0f} seconds, for lengths above 0"
                raise ConfigError(f"leases: {field.name} = {value:g}: accepted are {accepted}")
        if self.lease_s % self.beat_s:
            raise ConfigError(f"leases: lease_s = {self.lease_s:g} is no multiple of beat_s = {self.beat_s:g}")

    def on_beat(self, now_s: float) -> bool:
        """Return True where the leases of jobs without a promise end."""
        return now_s % self.beat_s < 1e-6

    def next_beat_s(self, now_s: float) -> float:
        """Return the first moment after *now_s* at which leases end."""
        return (now_s // self.beat_s + 1) * self.beat_s
