"""Traces from the project's own database, to replay a site's last weeks under another policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...clock import local_zone
from ...cluster.columns import FloatArray, Labels
from ...cluster.jobs import JobState, JobTable, deadlines, job_table
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.profiles import ProfileTable
from ...db.records.gpu_usage import SAME_S
from ...db.tracking.story import Submission
from ...models.arrival_counter import KEPT_S
from ...policies.deadlines.value_steps import steps_of
from ..workload.rewards import written
from ..workload.workload import EarlierJobs, Workload
from .cleaning import Raw, cleaned, per_node
from .job_runs import arrivals, only_last_runs
from .trace import Trace, TraceError

if TYPE_CHECKING:
    from ...db.store import Store

NO_SUBMISSIONS: Mapping[tuple[int, int], Submission] = MappingProxyType({})


def from_store(
    store: Store, cluster: str, since_s: float | None = None, until_s: float | None = None, *, cpu_jobs: bool = False
) -> Trace:
    """Read the jobs of *cluster* whose runs ended in [since, until); TraceError where there are none.

    Jobs that ended before are its earlier jobs. MemoryUnavailable where the database does not answer.
    """
    outcomes = store.history(cluster, since_s, until_s)
    if not len(outcomes):
        raise TraceError(
            f"reading the history of cluster {cluster} from {store.place}: no run ended in that time;"
            " try: slurmsched history import"
        )
    submissions = store.submissions(cluster, float(np.nanmin(outcomes.first_submit_s)))
    measured = store.profiles(cluster, float(np.nanmin(outcomes.ended_s)))
    trace = from_outcomes(outcomes, submissions, measured, cpu_jobs=cpu_jobs)
    if not len(trace):
        left_out = "; ".join(map(str, trace.notes))
        raise TraceError(f"reading the history of cluster {cluster} from {store.place}: no job is left: {left_out}")
    if since_s is None:
        return trace
    past, known = past_runs(store, cluster, since_s)
    before = (
        (past.restart == 0) & (past.first_submit_s < trace.workload.submit_s[0]) & (past.ended_s >= since_s - KEPT_S)
    )
    earlier = EarlierJobs(past.first_submit_s[before], past.gpus[before])
    return replace(trace, earlier=earlier, past=known)


def past_runs(store: Store, cluster: str, until_s: float) -> tuple[OutcomeTable, Workload | None]:
    """Return the runs that ended before *until_s*, and the jobs of these, None without any: what fair share knows."""
    past = store.history(cluster, None, until_s)
    return past, from_outcomes(past, cpu_jobs=True).workload if len(past) else None


def from_outcomes(
    outcomes: OutcomeTable,
    submissions: Mapping[tuple[int, int], Submission] = NO_SUBMISSIONS,
    measured: ProfileTable | None = None,
    *,
    cpu_jobs: bool = False,
) -> Trace:
    """Convert a history to jobs, each once: with its first submit and its last run.

    A job whose *submissions* entry says ``ckpt`` keeps its work: it needs the time of all its runs. Partitions,
    deadlines and consent are those of the submission; the GPU use is that which nodes *measured*.
    """
    raw = Raw(
        {
            "job_id": outcomes.job_id,
            "submit_s": outcomes.first_submit_s,
            "runtime_s": outcomes.runtime_s,
            "gpus": outcomes.gpus,
            "nodes": outcomes.nodes,
            "cpus": per_node(outcomes.cpus, outcomes.nodes),
            "time_limit_s": outcomes.time_limit_s,
            **{name: getattr(outcomes, name) for name in ("user", "account", "qos", "name")},
            **_submitted(outcomes, submissions),
            **_use(outcomes, measured),
        }
    )
    unseen = int(np.count_nonzero(outcomes.state == JobState.OTHER))
    raw.note("unseen", unseen, "the end of {jobs} was not observed, only that they were gone")
    arrival_s = arrivals(raw, outcomes.first_submit_s, outcomes.eligible_s, outcomes.started_s)
    key = np.stack([outcomes.job_id, outcomes.first_submit_s], axis=1)
    job = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    all_runs_s = np.bincount(job, outcomes.runtime_s, minlength=1)[job]
    raw.columns["runtime_s"] = np.where(raw.columns["ckpt"], all_runs_s, outcomes.runtime_s)
    only_last_runs(raw, job, outcomes.restart.astype(np.float64), arrival_s)
    jobs, notes = cleaned(raw, cpu_jobs=cpu_jobs)
    return Trace(jobs, notes, "database")


def _submitted(outcomes: OutcomeTable, submissions: Mapping[tuple[int, int], Submission]) -> dict[str, Any]:
    """Return the columns that jobs had at their submission; those of the run where that was not observed."""
    first_s = np.nan_to_num(outcomes.first_submit_s)
    keys = zip(outcomes.job_id.tolist(), first_s.astype(np.int64).tolist(), strict=True)
    found = [submissions.get(key, Submission()) for key in keys]
    jobs = job_table(len(found), comment=[one.request for one in found], first_submit_s=first_s)
    jobs = replace(jobs, deadline_s=deadlines(jobs, local_zone()))
    has = np.isfinite(jobs.deadline_s)
    rewards = {row: written(_after_submit(jobs, row)) for row in np.flatnonzero(has).tolist()}
    return {
        "partition": Labels.of(one.partition or ran for one, ran in zip(found, outcomes.partition, strict=True)),
        "ckpt": jobs.ckpt,
        "amp": jobs.amp,
        "deadline_s": jobs.deadline_s,
        "best_effort": ~has,
        "rewards": Labels.of(rewards.get(row, "") for row in range(len(found))),
    }


def _after_submit(jobs: JobTable, row: int) -> list[tuple[float, float]]:
    """Return the ends, in seconds after the submission, and what each is worth."""
    return [(at_s - float(jobs.first_submit_s[row]), worth) for at_s, worth in steps_of(jobs, row)]


def _use(outcomes: OutcomeTable, measured: ProfileTable | None) -> dict[str, FloatArray]:
    """Return the GPU use of each run; NaN where it was not measured."""
    names = {"gpu_util": "gpu_util", "memory_util": "memory_util", "gpu_memory_mib": "memory_mib"}
    use = {name: np.full(len(outcomes), np.nan) for name in names}
    if measured is None:
        return use
    rows = {run: row for row, run in enumerate(zip(measured.job_id.tolist(), measured.restart.tolist(), strict=True))}
    for at, run in enumerate(zip(outcomes.job_id.tolist(), outcomes.restart.tolist(), strict=True)):
        row = rows.get(run)
        if row is not None and outcomes.started_s[at] - SAME_S <= measured.start_s[row] <= outcomes.ended_s[at]:
            for name, column in names.items():
                share = measured.gpus[row] if name == "gpu_memory_mib" else 1
                use[name][at] = getattr(measured, column)[row] / share
    return use
