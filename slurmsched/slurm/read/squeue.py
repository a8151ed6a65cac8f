"""The queue from squeue: one call, one table of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any

import numpy as np

from ...clock import local_zone
from ...cluster.columns import declared, dtype_of
from ...cluster.jobs import JobState, JobTable, deadlines, job_table
from ...cluster.node_request import request_of
from ...cluster.squeue_values import each, labels, least_and_most_nodes
from ...cluster.text.tres import NOTHING, count, memory_mib, requests_in
from ..versions import JOB_STATES, QUEUED_FIRST, WHOLE_NODE, WHOLE_NODE_OVERSUBSCRIBE, SlurmRelease
from .records import RecordColumns

_COLUMNS = declared(JobTable)

FIELDS = tuple(dict.fromkeys(name for one in _COLUMNS.values() if not one.optional for name in one.fields))
"""Names of ``squeue -O`` fields (squeue(1)), in the order of the output; ``fields_of`` adapts them to a release."""

(EXCLUDED,) = _COLUMNS["excluded_nodes"].fields
"""The field of excluded nodes, which only squeue -o prints: it is read apart, where somebody needs it."""

_NODE_REQUEST = ("NumTasks", "NumCPUs", "cpus-per-task", "MinCpus", "MinMemory", "tres", "NumNodes")
_NODE_RANGE = ("tres", "NumNodes", "MaxNodes", "tres-per-node")
REQUEST = (*_NODE_REQUEST, "MaxNodes", "tres-per-node")
"""Fields with the CPUs, memory and nodes that pending jobs ask for: they are read apart, where somebody needs them."""


def node_requests(columns: RecordColumns) -> dict[str, str]:
    """Return the text of the column ``node_request`` by job id; empty of a job whose request cannot be told."""
    return _by_job(columns, _NODE_REQUEST, _node_request)


def node_ranges(columns: RecordColumns) -> dict[str, str]:
    """Return the text of the column ``node_range`` by job id: LEAST-MOST nodes, each with as many GPUs, else nothing.

    After a change to fewer nodes that Slurm took in part, LEAST is what it counts, and MOST, which is less, what it
    took.
    """
    return _by_job(columns, _NODE_RANGE, _node_range)


def _by_job(columns: RecordColumns, names: Sequence[str], text_of: Callable[..., str]) -> dict[str, str]:
    """Return what *text_of* makes of the columns *names*, by job id; once for equal rows."""
    rows = list(zip(*(columns[name] for name in names), strict=True))
    texts = {row: text_of(*row) for row in set(rows)}
    return {job: texts[row] for job, row in zip(columns["JobID"], rows, strict=True)}


def _node_range(tres: str, nodes: str, most: str, per_node: str) -> str:
    least, most_nodes = least_and_most_nodes(tres, nodes, most)
    return f"{least}-{most_nodes}" if 0 < least != most_nodes > 0 and requests_in(per_node) else ""


def _node_request(tasks: str, cpus: str, per_task: str, per_node: str, memory: str, tres: str, nodes: str) -> str:
    whole = dict(part.split("=", 1) for part in tres.split(",") if "=" in part)
    try:
        numbers = count(cpus), count(per_task), count(per_node)
        on = count(whole.get("node", "")) or count(nodes)
        if numbers[0] != count(tasks) * numbers[1]:  # CPUs that are no tasks': other ones for the tasks would lose them
            return ""
        return request_of(*numbers, memory_mib(memory), memory_mib(whole.get("mem", "")), on)
    except ValueError:
        return ""


def fields_of(release: SlurmRelease) -> tuple[str, ...]:
    """Return ``FIELDS`` under the names that *release* uses."""
    if not release.can("exclusive_field"):
        return FIELDS
    return tuple("Exclusive" if name == "OverSubscribe" else name for name in FIELDS)


def read_jobs(columns: RecordColumns, zone: tzinfo | None = None) -> JobTable:
    """Return a table with one row per record of squeue; the waiting tasks of an array are merged into one row.

    *zone* is the controller's time zone, in which comments give local times; by default this machine's. A text in a
    form that only a newer release has becomes the neutral value, never an error.
    """
    made = _states(columns) | {"exclusive": _whole_nodes(columns)}
    read: dict[Any, Any] = {}
    for name, one in _COLUMNS.items():
        if one.optional:
            made |= {name: labels(columns[name])} if name in columns.by_name else {}
        elif one.each is not None:
            made[name] = each(columns[one.fields[0]], one.each, one.neutral, dtype_of(JobTable, name))
        elif one.read is not None and one.fields:
            if (one.read, one.fields) not in read:
                read[one.read, one.fields] = one.read(*(columns[field] for field in one.fields))
            found = read[one.read, one.fields]
            made[name] = found if one.part is None else found[one.part]
    jobs = job_table(len(columns["JobID"]), **made, first_submit_s=made["submitted_s"])
    return _one_row_per_array(jobs.changed(deadline_s=deadlines(jobs, zone or local_zone())))


REQUESTED = (("node_request", node_requests), ("node_range", node_ranges))
"""The columns of a table that ``REQUEST`` serves, and what makes them."""


def _states(columns: RecordColumns) -> dict[str, Any]:
    texts = columns["State"]
    if QUEUED_FIRST in texts:
        pairs = zip(texts, columns["NodeList"], strict=True)
        texts = ["PENDING" if text == QUEUED_FIRST and nodes in NOTHING else text for text, nodes in pairs]
    states = each(texts, lambda text: JOB_STATES.get(text, JobState.OTHER), JobState.OTHER, np.int64)
    return {"state": states}


def _whole_nodes(columns: RecordColumns) -> list[bool]:
    if "Exclusive" in columns.by_name:
        return [text in WHOLE_NODE for text in columns["Exclusive"]]
    return [text in WHOLE_NODE_OVERSUBSCRIBE for text in columns["OverSubscribe"]]


def _one_row_per_array(jobs: JobTable) -> JobTable:
    """Merge the waiting tasks of each array into the row with most tasks: writing one task would split the array."""
    waiting = (jobs.state == JobState.PENDING) & (jobs.array_job_id > 0)
    if not waiting.any():
        return jobs
    rows = np.flatnonzero(waiting)
    rows = rows[np.lexsort((jobs.job_id[rows], -jobs.tasks[rows], jobs.array_job_id[rows]))]
    arrays, first, member = np.unique(jobs.array_job_id[rows], return_index=True, return_inverse=True)
    first_rows = rows[first]
    tasks = jobs.tasks.copy()
    tasks[first_rows] = np.bincount(member, weights=jobs.tasks[rows]).astype(np.int64)
    job_id, task_id = jobs.job_id.copy(), jobs.task_id.copy()
    job_id[first_rows], task_id[first_rows] = arrays, -1
    chosen = np.sort(np.concatenate([np.flatnonzero(~waiting), first_rows]))
    return jobs.changed(tasks=tasks, job_id=job_id, task_id=task_id).take(chosen)
