"""The files that say how fast the jobs of a workload train."""

from __future__ import annotations

from dataclasses import dataclass

from ..cluster_spec import ClusterSpec
from ..workload.workload import Workload
from .applications import RESTART_S, ROUND_S, ApplicationJobs, read_applications
from .performance import Performance


@dataclass(frozen=True)
class SpeedFiles:
    """The source of the true speeds; small, so that another process can load the same."""

    applications: str  #: a directory of measured applications

    @property
    def defaults(self) -> dict[str, float]:
        """The parts of a Setup that belong to these speeds unless the user says otherwise."""
        return {"restart_s": RESTART_S, "beat_s": ROUND_S}

    def performance(self, jobs: Workload, fleet: ClusterSpec) -> Performance:
        """Return the true speed of *jobs*; ConfigError for files that cannot be read, and jobs they do not describe."""
        return ApplicationJobs(jobs, read_applications(self.applications), fleet.size)
