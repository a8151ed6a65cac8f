"""The jobs that a report is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scope:
    """A choice of jobs; what is empty chooses all."""

    user: str = ""
    account: str = ""
    partition: str = ""  #: that the job ran in
    job_id: int = 0

    @property
    def everybody(self) -> bool:
        """True if it leaves no job out."""
        return self == Scope()
