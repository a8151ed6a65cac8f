"""The child process that uses pyslurm, the only module that imports it, and answers its parent.

libslurm exits where it finds no slurm.conf, holds Python's lock while it waits for slurmctld, and belongs to one
release of Slurm: none of that may happen inside a daemon. It is started as
``python -m slurmsched.slurm.adapters.pyslurm_process FD``, reads requests from that socket and answers each with
(outcome, value). It imports nothing else of this package, so that it starts quickly.
"""

from __future__ import annotations

import pwd
import sys
from collections.abc import Callable, Iterable
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

Fields = dict[str, list[str]]

_JOB_TEXTS = {
    "JobID": "id",
    "ArrayJobID": "array_id",
    "HetJobID": "heterogeneous_id",
    "Name": "name",
    "Account": "account",
    "QOS": "qos",
    "Partition": "partition",
    "State": "state",
    "Reason": "state_reason",
    "NumNodes": "num_nodes",
    "NumTasks": "ntasks",
    "SubmitTime": "submit_time",
    "EligibleTime": "eligible_time",
    "StartTime": "start_time",
    "EndTime": "end_time",
    "PriorityLong": "priority",
    "Nice": "nice",
    "RestartCnt": "requeue_count",
    "OverSubscribe": "resource_sharing",
    "Reservation": "reservation",
    "ReqNodes": "required_nodes",
    "NodeList": "allocated_nodes",
    "Comment": "comment",
}
"""Fields of squeue(1) and the attribute of ``pyslurm.Job`` with the same meaning."""

_UNSAID = ("tres-per-job", "tres-per-socket", "tres-per-task", "cpus-per-tres", "mem-per-tres")
"""Forms of request that pyslurm does not report."""

_CALLS = ("modify", "suspend", "unsuspend")


def jobs(slurm: Any) -> Fields:
    """Return the whole queue by squeue's field names, one text per job; ``tres`` has no GPUs: pyslurm omits them."""
    found = list(slurm.Jobs.load().values())
    fields = {field: _texts(_column(found, name)) for field, name in _JOB_TEXTS.items()}
    return fields | {
        "ArrayTaskID": [_task(job) for job in found],
        "UserName": [_user(job.user_id) for job in found],
        "tres": [f"cpu={job.cpus or 0},mem={job.memory or 0}M,node={job.num_nodes or 0}" for job in found],
        "tres-per-node": [_gres(job.gres_per_node) for job in found],
        "TimeLimit": ["UNLIMITED" if (limit := job.time_limit) is None else str(limit) for job in found],
        "Requeue": ["1" if job.is_requeueable else "0" for job in found],
        "BatchFlag": ["1" if job.is_batch_job else "0" for job in found],
        "Feature": [",".join(job.constraints or ()) for job in found],
        "Licenses": [",".join(job.licenses or ()) for job in found],
        "Dependency": [_dependency(job.dependencies) for job in found],
        **{field: [""] * len(found) for field in _UNSAID},
    }


def nodes(slurm: Any) -> Fields:
    """Return nodes and partitions by sinfo's field names, one record per node and partition."""
    partitions = slurm.Partitions.load()
    rows = [
        (node, partitions[name])
        for node in slurm.Nodes.load().values()
        for name in node.partitions or ()
        if name in partitions
    ]
    return {
        "NodeList": [node.name for node, _ in rows],
        "PartitionName": [partition.name for _, partition in rows],
        "Partition": [f"{partition.name}{'*' * bool(partition.is_default)}" for _, partition in rows],
        "PriorityTier": _texts([partition.priority_tier for _, partition in rows]),
        "Available": [str(partition.state).lower() for _, partition in rows],
        "Time": [
            "infinite" if isinstance(limit := partition.max_time, str) or limit is None else str(limit)
            for _, partition in rows
        ],
        "DefaultTime": ["n/a" if (limit := partition.default_time) is None else str(limit) for _, partition in rows],
        "StateComplete": [str(node.state).lower() for node, _ in rows],
        "CPUs": _texts([node.total_cpus for node, _ in rows]),
        "CPUsState": [f"{node.allocated_cpus or 0}/" for node, _ in rows],
        "Memory": _texts([node.real_memory for node, _ in rows]),
        "AllocMem": _texts([node.allocated_memory for node, _ in rows]),
        "Gres": [_gres(node.configured_gres) for node, _ in rows],
        "GresUsed": [_gres(node.allocated_gres) for node, _ in rows],
        "Features": [",".join(node.active_features or ()) for node, _ in rows],
    }


def act(slurm: Any, calls: Iterable[tuple[int, str, dict[str, Any]]]) -> list[str | None]:
    """Call a method of each job, in order; return Slurm's message where it refuses, else None.

    The first call without an answer raises, since the others would wait as long.
    """
    answers: list[str | None] = []
    for job_id, method, changes in calls:
        if method not in _CALLS:
            raise ValueError(f"{method!r} is not one of {', '.join(_CALLS)}")
        try:
            job = slurm.Job(job_id)
            job.modify(slurm.JobSubmitDescription(**changes)) if method == "modify" else getattr(job, method)()
            answers.append(None)
        except slurm.RPCError as error:
            if "ontact" in str(error):  # "Unable to contact slurm controller (...)"
                raise
            answers.append(str(error))
    return answers


def release(slurm: Any) -> str:
    """Return the version of pyslurm, whose first two numbers are Slurm's."""
    return str(slurm.__version__)


_ANSWERS: dict[str, Callable[..., Any]] = {"jobs": jobs, "nodes": nodes, "act": act, "release": release}


def serve(connection: Connection) -> None:
    """Answer until the parent exits: ("ok", value), ("refused", message) or ("broken", message)."""
    try:
        import pyslurm  # one per release of Slurm, hence optional
    except Exception as error:
        connection.send(("broken", f"{type(error).__name__}: {error}"))
        return
    connection.send(("ok", release(pyslurm)))
    while True:
        try:
            verb, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send(("ok", _ANSWERS[verb](pyslurm, *arguments)))
        except pyslurm.PyslurmError as error:
            connection.send(("refused", str(error)))
        except Exception as error:
            connection.send(("broken", f"{type(error).__name__}: {error}"))


def _texts(values: list[object]) -> list[str]:
    return ["" if value is None else str(value) for value in values]


def _column(objects: list[Any], name: str) -> list[object]:
    try:
        return [getattr(each, name) for each in objects]
    except UnicodeDecodeError:
        return [_as_written(each, name) for each in objects]


def _as_written(one: Any, name: str) -> object:
    """Return an attribute; pyslurm takes every text for UTF-8 and raises where a user wrote something else."""
    try:
        value: object = getattr(one, name)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")
    return value


def _task(job: Any) -> str:
    waiting = job.array_tasks_waiting
    if waiting:
        most = getattr(job, "array_tasks_parallel", None)  # which pyslurm cuts off the tasks
        return f"{waiting}%{most}" if most and "%" not in str(waiting) else str(waiting)
    task = job.array_task_id
    if task is None and job.array_id is not None:
        return "0"  # which pyslurm takes for "not set"
    return "N/A" if task is None else str(task)


@cache
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _gres(counts: dict[str, object] | None) -> str:
    """Write GRES as Slurm does; pyslurm has a count, or a dict with one, by ``name`` or ``name:type``."""
    counts_by_name = {
        name: value["count"] if isinstance(value, dict) else value for name, value in (counts or {}).items()
    }
    return ",".join(f"{name}:{count}" for name, count in counts_by_name.items())


def _dependency(dependency: dict[str, Any] | None) -> str:
    """Write a dependency as sbatch takes it, from pyslurm's lists by kind."""
    kinds = {kind: value for kind, value in (dependency or {}).items() if kind != "satisfy" and value}
    return ",".join(
        f"{kind}:{':'.join(map(str, jobs))}" if isinstance(jobs, list) else kind for kind, jobs in kinds.items()
    )


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
