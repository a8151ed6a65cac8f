"""A job of the fake Slurm."""

from __future__ import annotations

from dataclasses import dataclass

from ...cluster.jobs import JobState


@dataclass(frozen=True)
class FakeJob:
    """An immutable job of the fake; a change makes a new value."""

    job_id: int
    runtime_s: float  #: the true runtime, hidden from the scheduler
    gpus: int = 1
    nodes: int = 1
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
    per_gpu: bool = False  #: requests CPUs or memory per GPU
    required_nodes: str = ""
    excluded_nodes: str = ""
    node_request: str = "cpus=1,task=1,node=1,mem=2000Mn"  #: CPUs and memory; all jobs have room for them
    per_node: str = ""  #: requested slots, in place of GPUs
    admin_comment: str = ""
    saves_s: float = float("inf")  #: seconds from a stop request until it has saved its work and requeued itself
    stops_s: float = float("inf")  #: time of that requeue
    requested_partitions: str = ""  #: all requested partitions, while it runs in one of them

    @property
    def priority(self) -> int:
        """The priority as squeue would show it; 0 for a held job."""
        return 0 if self.held else max(1, self.base + self.points - self.nice)
