"""The parts of a daemon beside its cycles: what each may do, and what it does by default."""

from __future__ import annotations

from ..cycle import CycleReport


class Follower:
    """A part beside the cycles: started, fed after each cycle, stopped, and heard by ``status``, all in one list."""

    leader_only = False  #: of several daemons of a cluster, only the one that leads it is followed

    def start(self) -> None:
        """Start to work."""

    def before_first_cycle(self) -> None:
        """Do once what the first cycle would wait for; the daemon has said that it is ready."""

    def observe(self, report: CycleReport) -> None:
        """Note a cycle; return at once."""

    def renew(self) -> None:
        """Use the settings that were read again."""

    def close(self) -> None:
        """Stop."""

    @property
    def degraded(self) -> str:
        """What fails beside the cycles, which go on, in a sentence; empty where nothing does."""
        return ""
