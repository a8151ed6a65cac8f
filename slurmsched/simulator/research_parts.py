"""What the research adds to simulations, found by its entry points, so that no simulation imports it."""

from __future__ import annotations

from typing import Protocol

from ..extensions import SIMULATION, load_research
from .cluster_spec import ClusterSpec
from .replay import Replay
from .setup import Setup
from .speeds.performance import Performance
from .workload.workload import Workload


class TrainingReplay(Protocol):
    """Replays jobs that train under the scaling of a set-up; ConfigError for a scaling that gives what is not there."""

    def __call__(
        self, jobs: Workload, fleet: ClusterSpec, setup: Setup, performance: Performance, *, check: bool = False
    ) -> Replay:
        """Replay *jobs*; with *check*, AssertionError names what cannot have happened."""


class TaskReplay(Protocol):
    """Replays jobs as gangs of tasks under the ordering of a set-up; ConfigError where the jobs have no tasks."""

    def __call__(self, jobs: Workload, fleet: ClusterSpec, setup: Setup, *, check: bool = False) -> Replay:
        """Replay *jobs*; with *check*, AssertionError names what cannot have happened."""


def training_replay() -> TrainingReplay:
    """Return what replays jobs that train; ResearchMissing where it is not installed."""
    replay: TrainingReplay = load_research(SIMULATION, "scaling", "the replay of jobs that train")
    return replay


def task_replay() -> TaskReplay:
    """Return what replays gangs of tasks; ResearchMissing where it is not installed."""
    replay: TaskReplay = load_research(SIMULATION, "tasks", "executor tasks")
    return replay
