"""Jobs that Slurm does not start though idle nodes could hold them, by all that it shows of their requests. Pure.

The queue does not show everything that keeps a job from nodes, such as the CPUs that each must have, and of a job in
several partitions Slurm's reason is that of one of them. That it stays on idle nodes is all that tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

import numpy as np

from ..cluster.columns import BoolArray
from ..cluster.jobs import JobTable
from ..cluster.reasons import Reason, ReasonKind, reason_of
from ..cluster.state import View
from ..decide.unshown_nodes import unshown_nodes
from ..policies.selection.could_hold import never
from .reserved_nodes import is_kept_out

SETTLED_S = 120.0
"""The time after which Slurm has looked at a job in both of its loops, with the intervals that it has by default."""

LOOKED_AT = 100
"""The jobs that Slurm looks at in a pass by default (default_queue_depth): one behind them may have no reason yet."""

_PLANNED = "idle+planned"
"""The state of a node that backfill keeps for a job: from 24.11 on for one that it never starts, too."""


def unexplained(view: View) -> dict[int, tuple[str, str]]:
    """Return, by row of the pending jobs that idle nodes could hold and Slurm leaves waiting, this and what helps."""
    waits = _waits(view)
    waits[list(unshown_nodes(view))] = False
    if not waits.any():
        return {}
    alone = waits & _in_partitions_of_no_other(view.pending)
    found = [*_that_could_run(view, waits & ~alone, {"idle"}), *_that_could_run(view, alone, {"idle", _PLANNED})]
    return {row: _words(view, row) for row in sorted(found) if not is_kept_out(view, row)}


def _that_could_run(view: View, jobs: BoolArray, states: Set[str]) -> list[int]:
    """Return the rows of *jobs* that nodes in some *states* could hold on which nothing runs."""
    rows, nodes = np.flatnonzero(jobs), view.nodes
    idle = nodes.state.map([text in states for text in nodes.state.names], np.bool_)
    idle = np.flatnonzero(idle & (nodes.cpus_used == 0) & (nodes.gpus_used == 0))
    if not len(rows) or not len(idle):
        return []
    too_large = never(view.pending.take(rows), nodes.take(idle), view.partitions)
    return [row for at, row in enumerate(rows.tolist()) if at not in too_large]


def _in_partitions_of_no_other(jobs: JobTable) -> BoolArray:
    """Select jobs for which alone Slurm can plan with the nodes of their partitions."""
    many: Counter[str] = Counter()
    for names, count in zip(jobs.partition.names, np.bincount(jobs.partition.codes).tolist(), strict=False):
        many.update(dict.fromkeys(names.split(","), count))
    return jobs.partition.map(
        [all(many[one] == 1 for one in names.split(",")) for names in jobs.partition.names], np.bool_
    )


def _waits(view: View) -> BoolArray:
    """Select the jobs that Slurm has looked at, has no start for, and leaves waiting for nodes alone."""
    jobs = view.pending
    alone = [_of_nodes(reason_of(text), len(jobs) <= LOOKED_AT) for text in jobs.reason.names]
    waits = jobs.reason.map(alone, np.bool_) & (jobs.priority > 0) & ~np.isfinite(jobs.started_s)
    for bound in (jobs.dependency, jobs.reservation, jobs.licences):
        waits &= ~bound.nonempty()
    return np.asarray(waits & (jobs.het_job_id == 0) & (view.now_s - jobs.eligible_s >= SETTLED_S), dtype=np.bool_)


def _of_nodes(reason: Reason, unseen: bool) -> bool:
    """Report whether a job waits for nodes, or cannot run in one partition; *unseen*: or has no reason."""
    if reason.kind is ReasonKind.WAITS:
        # Nodes out of service may be idle again: Slurm judged one of several partitions.
        return reason.word == "Resources" or (reason.unseen and unseen) or reason.names_nodes
    return reason.kind is ReasonKind.CANNOT_RUN and reason.one_partition


def _words(view: View, row: int) -> tuple[str, str]:
    jobs = view.pending
    reason = reason_of(jobs.reason[row])
    says = "" if reason.unseen else f" and says {reason.word}"
    return (
        f"It may never start as it is: nodes that could hold all that the queue shows of its request are idle, and "
        f"Slurm does not start it{says}.",
        f"'scontrol show job {jobs.job_id[row]}' has the whole request (MinCPUsNode, MinMemory, NumNodes, "
        "ExcNodeList); 'sbatch --test-only' with the same options says whether it could ever run.",
    )
