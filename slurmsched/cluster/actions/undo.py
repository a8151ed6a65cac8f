"""The way back of what is ours: the actions that end our changes of pending jobs."""

from __future__ import annotations

from ..jobs import JobTable
from .base import Action
from .own_columns import OwnIntents
from .partitions import MovePartition, moved_back
from .resize import Resize, gpus_restored
from .rightsize import RestoreSize, Rightsize, sizes_restored
from .steer import Steer, let_go


def undone(own: OwnIntents, pending: JobTable) -> list[Action]:
    """Return the ends of our changes of *pending* jobs that still ask for just what we wrote.

    Points, holds, answers and shared GPUs go back by what Slurm shows, and are not among them.
    """
    return [
        *moved_back(own.of(MovePartition), pending),
        *let_go(own.of(Steer), pending),
        *sizes_restored(own.of(Rightsize), own.of(RestoreSize), pending),
        *gpus_restored(own.of(Resize), pending),
    ]
