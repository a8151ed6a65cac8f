"""Long jobs: a limit on the GPUs that promises cannot have for hours."""

from __future__ import annotations

import numpy as np

from ...cluster.records.promises import PromiseTable
from ...cluster.state import View
from ..rules import DeadlineRules
from .gpu_availability import GpuAvailability


class LongJobs:
    """Jobs without a promise that cannot be stopped, planned for more than ``long_s``.

    They may hold ``long_share`` of the GPUs. Deadlines that are close can be promised only where GPUs become free in
    time, and such jobs keep theirs from all of them.
    """

    def __init__(self, view: View, promises: PromiseTable, availability: GpuAvailability, rules: DeadlineRules) -> None:
        self._long_s, count = rules.long_s, len(view.pending)
        promised = np.isin(view.running.job_id, promises.job_id[promises.open])
        lasting = (availability.needs_s[count:] > rules.long_s) & ~availability.stoppable[count:] & ~promised
        total = int(view.nodes.gpus[view.nodes.usable].sum())
        self._left = rules.long_share * total - int(view.running.gpus[lasting].sum())
        self._limited = rules.long_share < 1

    def may_start(self, gpus: int, needs_s: float) -> bool:
        """Return whether a pending job of *gpus*, planned for *needs_s*, stays within the limit."""
        return not self._limited or needs_s <= self._long_s or gpus <= self._left

    def start(self, gpus: int, needs_s: float) -> None:
        """Count a pending job that starts now."""
        if needs_s > self._long_s:
            self._left -= gpus
