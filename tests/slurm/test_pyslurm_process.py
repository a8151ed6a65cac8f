"""What is read of pyslurm's objects, on objects with the same attributes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from slurmsched.cluster.jobs import JobTable
from slurmsched.slurm.adapters.pyslurm_process import jobs
from slurmsched.slurm.read.records import RecordColumns
from slurmsched.slurm.read.squeue import read_jobs

ORDINARY: dict[str, object] = {
    "id": 7, "array_id": None, "array_task_id": None, "array_tasks_waiting": None, "heterogeneous_id": None,
    "name": "train", "user_id": 0, "account": "astro", "qos": "normal", "partition": "gpu", "state": "PENDING",
    "state_reason": "Priority", "num_nodes": 1, "ntasks": 1, "cpus": 1, "memory": 100, "gres_per_node": {"gres/gpu": 2},
    "time_limit": 20, "submit_time": 1795263385, "eligible_time": 1795263385, "start_time": None, "end_time": None,
    "priority": 17166, "nice": 0, "requeue_count": 0, "is_requeueable": True, "is_batch_job": True,
    "resource_sharing": "OK", "reservation": None, "required_nodes": None, "allocated_nodes": None, "comment": None,
    "constraints": [], "licenses": None, "dependencies": None,
}  # fmt: skip


class Undecodable(SimpleNamespace):
    """A job whose name is no UTF-8, which pyslurm finds out when it is asked."""

    @property
    def name(self) -> str:
        return b"\xff\xfe latin".decode()


def table(*found: SimpleNamespace) -> JobTable:
    queue = dict(enumerate(found))
    return read_jobs(RecordColumns(jobs(SimpleNamespace(Jobs=SimpleNamespace(load=lambda: queue)))))


def job(**changes: object) -> SimpleNamespace:
    return SimpleNamespace(**ORDINARY | changes)


def test_an_ordinary_job_is_read():
    read = table(job())
    assert (read.job_id[0], read.name[0], read.gpus[0], read.time_limit_s[0]) == (7, "train", 2, 1200)
    assert (read.user[0], read.task_id[0], read.array_job_id[0]) == ("root", -1, 0)


def test_a_name_that_is_no_text_costs_no_job():
    strange = {name: value for name, value in ORDINARY.items() if name != "name"} | {"id": 8}
    read = table(job(), Undecodable(**strange))
    assert list(read.name) == ["train", "\udcff\udcfe latin"]


@pytest.mark.parametrize(("said", "task"), [(None, 0), (3, 3)])
def test_the_number_0_of_a_task_is_none_to_pyslurm_and_a_task_to_us(said, task):
    read = table(job(id=9, array_id=7, array_task_id=said, state="RUNNING"))
    assert (read.task_id[0], read.array_job_id[0], read.job_id[0]) == (task, 7, 9)


def test_an_array_that_waits_counts_its_tasks():
    read = table(job(array_id=7, array_tasks_waiting="1,3,5"))
    assert (read.tasks[0], read.task_id[0], read.array_job_id[0]) == (3, -1, 7)
