"""The clusters that the port's conformance suite runs over: real Slurm through its commands, and the fake."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pytest

from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.state import ClusterState
from slurmsched.slurm.command import SlurmCommand
from slurmsched.slurm.console import Console
from slurmsched.slurm.fake import FakeSlurm
from slurmsched.slurm.port import Slurm


class World(Protocol):
    """A cluster with a way to submit to it and to let time pass."""

    cluster: Slurm

    def submit(self, runtime_s: float, gpus: int = 1, comment: str = "", name: str = "job", tasks: int = 1) -> int:
        """Queue a job that may be requeued and return its id."""
        ...

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 40.0) -> ClusterState:
        """The first look at the cluster that is as wanted."""
        ...

    def now_s(self) -> float:
        """The cluster's own time."""
        ...


@dataclass
class FakeWorld:
    cluster: FakeSlurm

    def submit(self, runtime_s: float, gpus: int = 1, comment: str = "", name: str = "job", tasks: int = 1) -> int:
        if tasks > 1:
            pytest.skip("the fake has no job arrays")
        return self.cluster.submit(runtime_s, gpus=gpus, comment=comment, name=name)

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 40.0) -> ClusterState:
        for _ in range(4000):
            state = self.cluster.observe()
            if wanted(state):
                return state
            self.cluster.advance(0.25)
        raise AssertionError(f"the fake never had {what}")

    def now_s(self) -> float:
        return self.cluster.now_s


@dataclass
class LabWorld:
    cluster: SlurmCommand
    lab: object

    def submit(self, runtime_s: float, gpus: int = 1, comment: str = "", name: str = "job", tasks: int = 1) -> int:
        options = [f"--gres=gpu:{min(gpus, 4)}", f"--nodes={(gpus + 3) // 4}", f"--job-name={name}", "--requeue"]
        options += [f"--comment={comment}"] if comment else []
        options += [f"--array=1-{tasks}"] if tasks > 1 else []
        return self.lab.submit(*options, "--time=10", "--output=/dev/null", f"--wrap=sleep {runtime_s}", user="alice")

    def until(self, wanted: Callable[[ClusterState], bool], what: str, timeout_s: float = 40.0) -> ClusterState:
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends:
            state = self.cluster.observe()
            if wanted(state):
                return state
            time.sleep(0.1)
        raise AssertionError(f"the lab had not {what} within {timeout_s} s: {_lines(state)}")

    def now_s(self) -> float:
        return time.time()


def _lines(state: ClusterState) -> list[str]:
    return [
        f"{jobs.job_id[row]} state={jobs.state[row]} reason={jobs.reason[row]} priority={jobs.priority[row]}"
        for jobs in (state.pending, state.running)
        for row in range(len(jobs))
    ]


@pytest.fixture(params=["fake", pytest.param("command", marks=pytest.mark.lab)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each cluster in turn; at its end no GPU was ever handed out twice."""
    if request.param == "fake":
        yield FakeWorld(FakeSlurm())
        return
    lab = request.getfixturevalue("lab")
    operator = Console(environment=lab.env(), prefix=tuple(lab.command([], user="operator")))
    yield LabWorld(SlurmCommand(operator), lab)


def row(jobs: JobTable, job_id: int) -> int:
    """Where *job_id* stands; it must be there."""
    found = jobs.row_of(job_id)
    assert found is not None, f"job {job_id} is not among {jobs.job_id.tolist()}"
    return found
