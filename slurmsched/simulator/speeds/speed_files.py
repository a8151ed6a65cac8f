"""The files that say how fast the jobs of a workload train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ...extensions import SIMULATION, load_research
from ..cluster_spec import ClusterSpec
from ..workload.workload import Workload
from .performance import Performance
from .type_speeds import ROUND_S, TypedJobs, read_throughputs


class SpeedReader(Protocol):
    """A reader of one kind of speeds, which the research registers."""

    @property
    def defaults(self) -> Mapping[str, float]:
        """The parts of a Setup that belong to these speeds unless the user says otherwise."""

    def read(self, path: str, jobs: Workload, fleet: ClusterSpec) -> Performance:
        """Read the speeds of *jobs*; ConfigError for files that cannot be read, and jobs they do not describe."""


@dataclass(frozen=True)
class SpeedFiles:
    """The source of the true speeds, one of three; small, so that another process can load the same."""

    applications: str = ""  #: a directory of measured applications
    throughputs: str = ""  #: a file of speeds by type of GPU
    profiles: str = ""  #: a file of speeds by CPUs and memory

    @property
    def kind(self) -> str:
        """The name of the field that is given."""
        return "throughputs" if self.throughputs else "profiles" if self.profiles else "applications"

    @property
    def defaults(self) -> dict[str, float]:
        """The parts of a Setup that belong to these speeds unless the user says otherwise."""
        if self.throughputs:
            return {"restart_s": 0.0, "beat_s": ROUND_S}
        return dict(self._reader.defaults)

    def performance(self, jobs: Workload, fleet: ClusterSpec) -> Performance:
        """Return the true speed of *jobs*; ConfigError for files that cannot be read, and jobs they do not describe."""
        if self.throughputs:
            return TypedJobs(jobs, read_throughputs(self.throughputs), fleet.nodes)
        return self._reader.read(self.profiles or self.applications, jobs, fleet)

    @property
    def _reader(self) -> SpeedReader:
        reader: SpeedReader = load_research(SIMULATION, self.kind, f"the key {self.kind}")
        return reader
