"""Outcomes: one row per ended run of a job."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..columns import FloatArray, IntArray, Labels, Table

NO_TYPES = Labels(np.zeros(0, dtype=np.int64), ("",))
"""The types of GPUs of runs from a source that does not know them; the table fills in a row for each run."""

NOT_KNOWN = np.zeros(0, dtype=np.int64)
"""The interactive runs of such a source."""


@dataclass(frozen=True)
class RefusedRecord:
    """A record of accounting that is no run, with the reason in words that many records share."""

    reason: str
    record: str


@dataclass(frozen=True, eq=False)
class OutcomeTable(Table):
    """Runs that ended, oldest end first. A requeued job has one row per start, all with one first submit time.

    Times are Unix seconds; a job that never started has NaN for ``started_s`` and a runtime of 0.
    """

    job_id: IntArray
    restart: IntArray  #: 0 for the first run
    name: Labels
    user: Labels
    account: Labels
    qos: Labels
    partition: Labels
    gpus: IntArray
    nodes: IntArray
    cpus: IntArray
    time_limit_s: FloatArray  #: infinite where unlimited
    first_submit_s: FloatArray
    eligible_s: FloatArray
    started_s: FloatArray
    ended_s: FloatArray
    runtime_s: FloatArray  #: ended - started, less time suspended where Slurm reports it
    state: IntArray  #: a JobState that has ended
    #: of all nodes of the run; empty where unknown, or of several types
    gpu_type: Labels = field(default_factory=lambda: NO_TYPES)
    interactive: IntArray = field(default_factory=lambda: NOT_KNOWN)  #: 1 without a batch script; 0 where not known

    def __post_init__(self) -> None:
        if self.gpu_type is NO_TYPES:
            object.__setattr__(self, "gpu_type", Labels(np.zeros(len(self.job_id), dtype=np.int64), NO_TYPES.names))
        if self.interactive is NOT_KNOWN:
            object.__setattr__(self, "interactive", np.zeros(len(self.job_id), dtype=np.int64))
