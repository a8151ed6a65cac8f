"""The status of a lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slurmsched.lab.manifest import SCHEMA


@dataclass(frozen=True)
class ProcessStatus:
    """The state of a daemon: ``running``, ``stopped`` (paused) or ``gone``."""

    name: str
    pid: int
    state: str


@dataclass(frozen=True)
class NodeStatus:
    """The state of a node, in sinfo's terms."""

    name: str
    state: str


@dataclass(frozen=True)
class LabStatus:
    """A lab at one moment; without nodes when slurmctld does not answer."""

    directory: str
    cluster: str
    slurm_conf: str
    answers: bool  #: slurmctld
    processes: tuple[ProcessStatus, ...]
    nodes: tuple[NodeStatus, ...]
    users: Mapping[str, str]  #: lab name -> unix name
    ports: Mapping[str, int]

    @property
    def healthy(self) -> bool:
        """True if everything that was started still runs, and slurmctld answers."""
        return self.answers and all(process.state == "running" for process in self.processes)

    def to_json(self) -> dict[str, Any]:
        """The status as JSON types, with its schema."""
        return {"schema": SCHEMA, "healthy": self.healthy, **asdict(self)}
