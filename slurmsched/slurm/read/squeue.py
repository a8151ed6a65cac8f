"""The queue from squeue: one call, one table of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, TypeVar

import numpy as np

from ...clock import local_zone
from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.jobs import JobState, JobTable, deadlines, job_table
from ...cluster.node_request import request_of
from ...cluster.text.tres import count, gpus_in, last_of_each, memory_mib, requests_in, seconds, slots_in
from ..versions import JOB_STATES, NOTHING, WHOLE_NODE, WHOLE_NODE_OVERSUBSCRIBE, SlurmRelease
from .records import RecordColumns

FIELDS = (
    "JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "Name", "UserName", "Account", "QOS", "Partition", "State",
    "Reason", "NumNodes", "NumTasks", "tres", "tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task",
    "cpus-per-tres", "mem-per-tres", "TimeLimit", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "PriorityLong",
    "Nice", "RestartCnt", "Requeue", "BatchFlag", "OverSubscribe", "Reservation", "Feature", "Licenses", "Dependency",
    "ReqNodes", "NodeList", "Comment",
)  # fmt: skip
"""Names of ``squeue -O`` fields (squeue(1)), in the order of the output; ``fields_of`` adapts them to a release."""

EXCLUDED = "ExcNodes"
"""The column of excluded nodes, which only squeue -o prints: it is read apart, where somebody needs it."""

_NODE_REQUEST = ("NumTasks", "NumCPUs", "cpus-per-task", "MinCpus", "MinMemory", "tres", "NumNodes")
_NODE_RANGE = ("tres", "NumNodes", "MaxNodes", "tres-per-node")
REQUEST = (*_NODE_REQUEST, "MaxNodes", "tres-per-node")
"""Fields with the CPUs, memory and nodes that pending jobs ask for: they are read apart, where somebody needs them."""

NODE_REQUEST = "NodeRequest"
"""The column of CPUs and memory among these, as ``node_requests`` makes it."""

NODE_RANGE = "NodeRange"
"""The column of nodes among these, as ``node_ranges`` makes it."""

T = TypeVar("T")


def node_requests(columns: RecordColumns) -> dict[str, str]:
    """Return the text of the column ``node_request`` by job id; empty of a job whose request cannot be told."""
    return _by_job(columns, _NODE_REQUEST, _node_request)


def node_ranges(columns: RecordColumns) -> dict[str, str]:
    """Return the text of the column ``node_range`` by job id: LEAST-MOST nodes, each with as many GPUs, else nothing.

    NumNodes is often the most of a range, as soon as slurmctld has looked at a job, and the TRES have the least. After
    a change to fewer nodes that Slurm took in part, LEAST is what it counts, and MOST, which is less, what it took.
    """
    return _by_job(columns, _NODE_RANGE, _node_range)


def _by_job(columns: RecordColumns, names: Sequence[str], text_of: Callable[..., str]) -> dict[str, str]:
    """Return what *text_of* makes of the columns *names*, by job id; once for equal rows."""
    rows = list(zip(*(columns[name] for name in names), strict=True))
    texts = {row: text_of(*row) for row in set(rows)}
    return {job: texts[row] for job, row in zip(columns["JobID"], rows, strict=True)}


def _node_range(tres: str, nodes: str, most: str, per_node: str) -> str:
    least = _lenient(count, _part(tres, "node"), 0)
    taken = _lenient(count, most, 0)
    highest = max(_lenient(count, nodes, 0), taken)
    if 0 < taken < least == highest and requests_in(per_node):
        return f"{least}-{taken}"
    return f"{least}-{highest}" if 0 < least < highest and requests_in(per_node) else ""


def _part(tres: str, name: str) -> str:
    """Return the amount of *name* in a TRES text such as ``cpu=4,mem=2000M,node=4``; empty where it has none."""
    return next((part.partition("=")[2] for part in tres.split(",") if part.startswith(f"{name}=")), "")


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
    length = len(columns["JobID"])
    tres = _tres(columns["tres"])
    gpus, gpu_type = _gpus(columns)
    task_text = columns["ArrayTaskID"]
    submitted_s = _times(columns["SubmitTime"])
    array_job_id = _ints(columns["ArrayJobID"])
    array_job_id[[text in NOTHING for text in task_text]] = 0
    jobs = job_table(
        length,
        job_id=np.array(columns["JobID"], dtype=np.int64),
        array_job_id=array_job_id,
        task_id=[int(text) if text.isdecimal() else -1 for text in task_text],
        tasks=_each(task_text, _tasks, 1, np.int64),
        array_limit=_each(task_text, _array_limit, 0, np.int64),
        het_job_id=_ints(columns["HetJobID"]),
        state=_each(columns["State"], lambda text: JOB_STATES.get(text, JobState.OTHER), JobState.OTHER, np.int64),
        gpus=gpus,
        gpu_type=gpu_type,
        nodes=np.where(tres["node"] > 0, tres["node"], _each(columns["NumNodes"], count, 1, np.int64)).astype(np.int64),
        ntasks=_each(columns["NumTasks"], count, 0, np.int64),
        cpus=tres["cpu"].astype(np.int64),
        memory_mib=tres["mem"],
        time_limit_s=_each(columns["TimeLimit"], seconds, np.inf, np.float64),
        submitted_s=submitted_s,
        first_submit_s=submitted_s,
        eligible_s=_times(columns["EligibleTime"]),
        started_s=_times(columns["StartTime"]),
        ended_s=_times(columns["EndTime"]),
        priority=_ints(columns["PriorityLong"]),
        nice=_ints(columns["Nice"]),
        restarts=_ints(columns["RestartCnt"]),
        requeueable=[text == "1" for text in columns["Requeue"]],
        interactive=[text != "1" for text in columns["BatchFlag"]],
        exclusive=_whole_nodes(columns),
        per_node=_requests(columns),
        per_job=_is_given(columns["tres-per-job"]),
        per_task=_beside_nodes(columns),
        per_gpu=_is_given(columns["cpus-per-tres"]) | _is_given(columns["mem-per-tres"]),
        gpu_cpus=_each(columns["cpus-per-tres"], lambda text: gpus_in(text)[0], 0, np.int64),
        comment=_labels(columns["Comment"]),
        **{name: _labels(columns[field]) for name, field in _TEXTS.items()},
        **{name: _labels(columns[field]) for name, field in _APART.items() if field in columns.by_name},
    )
    return _one_row_per_array(replace(jobs, deadline_s=deadlines(jobs, zone or local_zone())))


_TEXTS = {
    "name": "Name",
    "user": "UserName",
    "account": "Account",
    "qos": "QOS",
    "partition": "Partition",
    "reason": "Reason",
    "reservation": "Reservation",
    "features": "Feature",
    "licences": "Licenses",
    "dependency": "Dependency",
    "required_nodes": "ReqNodes",
    "node_list": "NodeList",
}
_APART = {"excluded_nodes": EXCLUDED, "node_request": NODE_REQUEST, "node_range": NODE_RANGE}

REQUESTED = (("node_request", NODE_REQUEST, node_requests), ("node_range", NODE_RANGE, node_ranges))
"""The columns of a table that ``REQUEST`` serves, those of records, and what makes these."""


def _is_given(texts: list[str]) -> BoolArray:
    """Return a boolean per text: True where it has a value."""
    distinct = Labels.of(texts)
    is_given: BoolArray = distinct.map([text not in NOTHING for text in distinct.names], np.bool_)
    return is_given


def _requests(columns: RecordColumns) -> Labels:
    pairs = zip(columns["tres-per-job"], columns["tres-per-node"], strict=True)
    return Labels.of([",".join(last_of_each(text) for text in pair if text not in NOTHING) for pair in pairs])


def _beside_nodes(columns: RecordColumns) -> BoolArray:
    """Return a boolean per job: True where it asks for resources by task or by socket."""
    pairs = zip(columns["tres-per-task"], columns["tres-per-socket"], strict=True)
    distinct = Labels.of([f"{task},{socket}" for task, socket in pairs])
    by_task: BoolArray = distinct.map([bool(requests_in(text)) for text in distinct.names], np.bool_)
    return by_task


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
    columns = {name: getattr(jobs, name) for name in jobs.__dataclass_fields__}
    return JobTable(**(columns | {"tasks": tasks, "job_id": job_id, "task_id": task_id})).take(chosen)


def _tasks(text: str) -> int:
    """Count the tasks in an array expression such as ``1-10:2,15%4``."""
    total = 0
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        total += (int(high or low) - int(low)) // int(step or 1) + 1
    return max(total, 1)


def _array_limit(text: str) -> int:
    """Return the most tasks of ``1-10%4`` that run at once; 0 where there is no such limit."""
    return int(text.partition("%")[2] or 0)


def _gpus(columns: RecordColumns) -> tuple[IntArray, Labels]:
    """Return GPUs per job and their type: Slurm's total where it counts GPUs, else the sum of the request."""
    names = ("tres", "tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task", "NumNodes", "NumTasks")
    requests = list(zip(*(columns[name] for name in names), strict=True))
    gpus_by_request = {request: _gpus_of(*request) for request in set(requests)}
    found = [gpus_by_request[request] for request in requests]
    return np.array([gpus for gpus, _ in found], dtype=np.int64), Labels.of([kind for _, kind in found])


def _gpus_of(tres: str, job: str, node: str, socket: str, task: str, nodes: str, tasks: str) -> tuple[int, str]:
    counted = _lenient(gpus_in, ",".join(part for part in tres.split(",") if part.startswith("gres")), (0, ""))
    gpus_and_kind = (0, "")
    fewest = _part(tres, "node") or nodes  # of a range of nodes, and NumNodes is often the most
    for text, times_text in ((job, "1"), (node, fewest), (socket, fewest), (task, tasks)):
        gpus, kind = _lenient(gpus_in, last_of_each(text), (0, ""))
        times = _lenient(count, times_text, 1)
        if gpus:
            gpus_and_kind = (gpus * max(times, 1), kind)
            break
    if not counted[0] and not gpus_and_kind[0]:  # GPUs that it shares
        gpus_and_kind = (len(slots_in(job)) + len(slots_in(node)) * max(_lenient(count, fewest, 1), 1), "")
    return (counted[0] or gpus_and_kind[0], counted[1] or gpus_and_kind[1])


def _tres(texts: list[str]) -> dict[str, FloatArray]:
    """Return CPUs, MiB and nodes from TRES texts such as ``cpu=4,mem=2000M,node=4``; 0 where missing."""
    distinct = Labels.of(texts)
    rows = [dict(part.split("=", 1) for part in text.split(",") if "=" in part) for text in distinct.names]
    readers: dict[str, Callable[[str], float]] = {"cpu": _float_count, "node": _float_count, "mem": memory_mib}
    return {
        key: distinct.map([_lenient(reader, row.get(key, ""), 0.0) for row in rows], np.float64)
        for key, reader in readers.items()
    }


def _float_count(text: str) -> float:
    return float(count(text))


def _lenient(reader: Callable[[str], T], text: str, otherwise: T) -> T:
    if text in NOTHING:
        return otherwise
    try:
        return reader(text)
    except ValueError:
        return otherwise


def _each(texts: list[str], reader: Callable[[str], Any], otherwise: Any, dtype: Any) -> Any:
    """Return an array of *reader* of each text, called once per distinct text; *otherwise* where it fails."""
    distinct = Labels.of(texts)
    return distinct.map([_lenient(reader, text, otherwise) for text in distinct.names], dtype)


def _ints(texts: list[str]) -> IntArray:
    try:
        return np.array(texts, dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array([_lenient(int, text, 0) for text in texts], dtype=np.int64)


def _times(texts: list[str]) -> FloatArray:
    try:
        return np.array(texts, dtype=np.int64).astype(np.float64)
    except (ValueError, OverflowError):
        return np.array([float(text) if text.isdecimal() else np.nan for text in texts], dtype=np.float64)


def _labels(texts: list[str]) -> Labels:
    column = Labels.of(texts)
    return column.renamed("" if text in {"(null)", "N/A"} else text for text in column.names)
