"""pyslurm and Slurm's commands say the same of the same jobs, as recorded (scripts/record-golden)."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from headers import headed

from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.nodes import NodeTable, PartitionTable
from slurmsched.slurm import versions
from slurmsched.slurm.read import sinfo, squeue
from slurmsched.slurm.read.records import RecordColumns, cut

GOLDEN = Path(__file__).parent.parent / "golden"
RELEASES = sorted(path.parent.name for path in GOLDEN.glob("*/pyslurm.json"))
MARKS = ("~field~", "~record~")

UNTOLD = {
    "gpus": {"gpus", "per_task", "cpus_per_gpu"},  # asked for per job and per task: the binding asks squeue about these
    "per_task": {"per_task"},
    "per_job": {"gpus", "cpus_per_gpu"},
    "array_limit": {"array"},
    "per_node": {"gpus", "cpus_per_gpu"},
    "per_gpu": {"cpus_per_gpu", "memory_per_gpu"},  # the binding asks squeue about these too
    "gpu_cpus": {"cpus_per_gpu"},
    "memory_mib": {"memory_per_gpu"},  # what is for each GPU pyslurm takes for all of the node's
    "dependency": {"dependent"},  # singleton, which pyslurm drops once Slurm has added what became of it
}
"""The columns that differ, and the kinds of jobs of which they may."""


class Both:
    """One moment of one release, as the commands told it and as pyslurm did."""

    def __init__(self, release: str) -> None:
        def text(of: str) -> str:
            return (GOLDEN / release / of).read_bytes().decode("utf-8", "surrogateescape")

        self.release = versions.SlurmRelease(tuple(int(part) for part in release.split(".")))
        self.told = json.loads(text("pyslurm.json"))
        self.ids: dict[str, int] = json.loads(text("jobs.json"))
        fields = squeue.fields_of(self.release)
        jobs = headed(fields, *MARKS, text("squeue.txt").replace("~field~forged~record~", "forged"))
        nodes = headed(sinfo.FIELDS, *MARKS, text("sinfo.txt"))
        told = json.loads(text("pyslurm.json").replace("~field~forged~record~", "forged"))
        self.jobs = squeue.read_jobs(cut("squeue", jobs, fields, "JobID", *MARKS))
        self.bound_jobs = squeue.read_jobs(RecordColumns(told["jobs"]))
        self.nodes = cut("sinfo", nodes, sinfo.FIELDS, "NodeList", *MARKS)
        self.bound_nodes = RecordColumns(told["nodes"])

    def differing(self, column: str) -> set[str]:
        """The kinds of the jobs of which *column* is not the same."""
        ours, theirs = (
            {int(job): str(value) for job, value in zip(jobs.job_id, getattr(jobs, column), strict=True)}
            for jobs in (self.jobs, self.bound_jobs)
        )
        return {kind for kind, job in self.ids.items() if job in ours and ours[job] != theirs.get(job)}


@pytest.fixture(params=RELEASES, scope="module")
def both(request: pytest.FixtureRequest) -> Both:
    return Both(request.param)


@pytest.mark.parametrize("column", [column.name for column in fields(JobTable)])
def test_a_column_of_the_jobs_is_the_same_but_where_pyslurm_does_not_tell(both, column):
    assert both.differing(column) == UNTOLD.get(column, set())


def test_pyslurm_is_of_the_release_and_tells_every_job(both):
    assert (
        versions.SlurmRelease(tuple(int(part) for part in both.told["release"].split("."))).series
        == both.release.series
    )
    assert set(both.ids.values()) <= set(both.bound_jobs.job_id.tolist()), "the name with forged marks too"


def test_a_running_task_with_the_number_0_is_a_task(both):
    row = both.bound_jobs.row_of(both.ids["first_task"])
    assert (both.bound_jobs.task_id[row], both.bound_jobs.array_job_id[row]) == (0, both.ids["first_task"])


@pytest.mark.parametrize("column", [column.name for column in fields(NodeTable)])
def test_a_column_of_the_nodes_is_the_same(both, column):
    ours, theirs = (list(getattr(sinfo.read_nodes(seen), column)) for seen in (both.nodes, both.bound_nodes))
    assert all(one == other or (one != one and other != other) for one, other in zip(theirs, ours, strict=True))


@pytest.mark.parametrize("column", [column.name for column in fields(PartitionTable)])
def test_a_column_of_the_partitions_is_the_same(both, column):
    ours, theirs = (sinfo.read_partitions(seen) for seen in (both.nodes, both.bound_nodes))
    assert list(getattr(theirs, column)) == list(getattr(ours, column))
