"""A job of the fake Slurm."""

from __future__ import annotations

from dataclasses import dataclass

from ...cluster.jobs import JobState


@dataclass(frozen=True)
class FakeJob:
    """One job of the fake; a change makes a new value."""

    job_id: int
    runtime_s: float  #: what it will take: the truth no scheduler sees
    gpus: int = 1
    name: str = "job"
    user: str = "alice"
    account: str = "physics"
    qos: str = "normal"
    partition: str = "gpu"
    comment: str = ""
    time_limit_s: float = 3600.0
    submitted_s: float = 0.0
    begin_s: float = 0.0
    base: int = 1000  #: priority without our points
    points: int = 0
    nice: int = 0
    held: bool = False
    state: JobState = JobState.PENDING
    started_s: float = float("nan")
    ended_s: float = float("nan")
    left_s: float = 0.0
    restarts: int = 0
    requeueable: bool = True
    interactive: bool = False
    per_gpu: bool = False  #: it asks for CPUs or memory per GPU
    required_nodes: str = ""
    per_node: str = ""  #: the slots it asks for in place of its GPUs
    admin_comment: str = ""
    saves_s: float = float("inf")  #: how long it takes to save its work and queue itself again when it is asked to stop
    stops_s: float = float("inf")  #: when it does
    requested_partitions: str = ""  #: the partitions it asked for, while it is in one of them

    @property
    def priority(self) -> int:
        """As squeue would show it."""
        return 0 if self.held else max(1, self.base + self.points - self.nice)
