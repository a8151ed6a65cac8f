"""What ended runs used of the CPUs and the memory of their nodes."""

from __future__ import annotations

from dataclasses import dataclass

from ..columns import FloatArray, IntArray, Labels, Table, table_of


@dataclass(frozen=True, eq=False)
class UsageTable(Table):
    """Runs that ended, oldest end first, with their use per node."""

    job_id: IntArray
    user: Labels
    name: Labels
    gpus: IntArray
    nodes: IntArray
    cpus: FloatArray  #: the mean number of CPUs kept busy; NaN where unknown
    memory_mib: FloatArray  #: the most memory of all its processes at once; infinite if it needed more; NaN if unknown
    runtime_s: FloatArray
    ended_s: FloatArray
    state: IntArray  #: a JobState that has ended
    held_memory_mib: FloatArray  #: that Slurm gave it on a node; NaN where unknown


@dataclass(frozen=True, eq=False)
class KeptUsage(Table):
    """The use of ended runs as the database keeps it, per node; see UsageTable."""

    job_id: IntArray
    ended_s: FloatArray
    nodes: IntArray
    cpus: FloatArray
    memory_mib: FloatArray
    held_memory_mib: FloatArray


NO_USAGE = table_of(UsageTable, 0, {}, {})
"""The use of no runs."""

NO_KEPT_USAGE = table_of(KeptUsage, 0, {}, {})
"""The same."""
