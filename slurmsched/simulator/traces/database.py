"""Traces from the project's own database, to replay a site's last weeks under another policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...cluster.jobs import JobState
from ...cluster.records.outcomes import OutcomeTable
from .cleaning import Raw, cleaned, per_node
from .job_runs import arrivals, only_last_runs
from .trace import Trace, TraceError

if TYPE_CHECKING:
    from ...db.store import Store


def from_store(
    store: Store, cluster: str, since_s: float | None = None, until_s: float | None = None, *, cpu_jobs: bool = False
) -> Trace:
    """Read the jobs of *cluster* whose runs ended in [since, until); TraceError where there are none.

    MemoryUnavailable where the database does not answer.
    """
    outcomes = store.history(cluster, since_s, until_s)
    if not len(outcomes):
        raise TraceError(
            f"reading the history of cluster {cluster} from {store.place}: no run ended in that time;"
            " try: slurmsched history import"
        )
    trace = from_outcomes(outcomes, cpu_jobs=cpu_jobs)
    if not len(trace):
        left_out = "; ".join(map(str, trace.notes))
        raise TraceError(f"reading the history of cluster {cluster} from {store.place}: no job is left: {left_out}")
    return trace


def from_outcomes(outcomes: OutcomeTable, *, cpu_jobs: bool = False) -> Trace:
    """Convert a history to jobs, each once: with its first submit and its last run."""
    raw = Raw(
        {
            "job_id": outcomes.job_id,
            "submit_s": outcomes.first_submit_s,
            "runtime_s": outcomes.runtime_s,
            "gpus": outcomes.gpus,
            "nodes": outcomes.nodes,
            "cpus": per_node(outcomes.cpus, outcomes.nodes),
            "time_limit_s": outcomes.time_limit_s,
            **{name: getattr(outcomes, name) for name in ("user", "account", "partition", "qos", "name")},
        }
    )
    unseen = int(np.count_nonzero(outcomes.state == JobState.OTHER))
    raw.note("unseen", unseen, "the end of {jobs} was not observed, only that they were gone")
    arrival_s = arrivals(raw, outcomes.first_submit_s, outcomes.eligible_s, outcomes.started_s)
    job = np.unique(np.stack([outcomes.job_id, outcomes.first_submit_s], axis=1), axis=0, return_inverse=True)[1]
    only_last_runs(raw, job.reshape(-1), outcomes.restart.astype(np.float64), arrival_s)
    jobs, notes = cleaned(raw, cpu_jobs=cpu_jobs)
    return Trace(jobs, notes, "database")
