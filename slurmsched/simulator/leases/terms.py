"""On which terms promises are made and kept: the figures of Chronus that an admin could want to change."""

from __future__ import annotations

from dataclasses import dataclass

from ...policies.deadlines.lateness import DOUBT


@dataclass(frozen=True)
class Terms:
    """What is kept in hand, and when an owner is told."""

    slack_s: float = 3_600.0
    """Promised jobs are run so as to end this long before their deadline where they can: three leases.

    What is kept in hand for jobs that have not come yet: less refuses more of them, more makes best effort wait."""

    reserve: float = 0.05
    """Of the GPUs, the share that promises leave to what plans do not know: stops, and the ends of leases."""

    kept_back: float = 0.8
    """Of the GPUs, the further share that promises to the largest jobs leave to smaller ones that come later.

    Only after somebody has been refused for want of GPUs: who holds a promise keeps it, so that without this a few
    large jobs would have many small ones refused (trunk reservation)."""

    largest_s: float = 86_400.0
    """So many GPU-seconds the largest jobs take in this sense; from smaller ones proportionally less is kept back."""

    memory_s: float = 86_400.0
    """So long a refusal is remembered."""

    doubt: float = DOUBT
    """An owner is told in time where the promise will more likely be broken than this; see ``in_doubt``."""

    lost: float = 0.9
    """A promise that will more likely be broken than this does not stand before others any more."""

    hope: float = 0.125
    """The remaining time of a job without a promise counts for so much where it may make a deadline if it runs now.

    On one GPU; on more for the square root of their number times as much, up to all of it, since it earns no more by
    them. 1 runs it like best effort, 0 before all of that; never before a promise."""

    hope_least: float = 0.5
    """How likely it must be to make it."""

    limit_s: float = 2.0
    """Seconds that a solver may take for one admission."""
