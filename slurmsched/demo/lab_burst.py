"""A lab with a burst of jobs on it."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ..clock import SystemClock
from ..cluster.jobs import JobState
from ..cluster.records.outcomes import OutcomeTable
from ..errors import LabError
from ..lab import Lab, LabSpec, wait_until
from ..slurm.adapters.command import SlurmCommand
from ..slurm.adapters.command_runner import CommandRunner
from .workload import USERS, Submission

NODES, GPUS = 4, 4
OPERATOR = "operator"
#: As at a site, but a second stands for a minute: backfill plans in seconds, every 2 s instead of 30.
SCHEDULER = "SchedulerParameters=bf_interval=2,bf_resolution=1,bf_continue,sched_interval=2,batch_sched_delay=0"
BUSY_S = 6  #: longer than it takes to submit a burst
DRAIN_S = 240.0
ACCOUNTED_S = 30.0

Say = Callable[[str], None]


class NoLab(LabError):
    """No private Slurm can run on this machine."""


def spec_of(gpus: int) -> LabSpec:
    """Return the demo's lab, with so many GPUs on each of its four nodes."""
    return LabSpec(nodes=NODES, gpus=gpus, users=USERS, operators=(OPERATOR,), qos={}, extra_conf=(SCHEDULER,))


@contextmanager
def fresh_lab(gpus: int = GPUS) -> Iterator[Lab]:
    """Start a lab of four unused nodes, and remove it whatever happens; `NoLab` where none can run."""
    lab = Lab(tempfile.mkdtemp(prefix="slurmsched-demo-", dir="/var/tmp"), spec_of(gpus))
    try:
        try:
            lab.up()
        except LabError as error:
            raise NoLab(str(error)) from error
        yield lab
    finally:
        lab.down()


def occupy(lab: Lab, seconds: int = BUSY_S) -> list[int]:
    """Occupy every GPU for a few *seconds*, as when a burst reaches a busy site, and wait until they are busy.

    Returns the ids of the occupying jobs.

    On idle GPUs the first jobs would start in order of arrival, and hold them for a third of the whole time.
    """
    options = (f"--gres=gpu:{lab.spec.gpus}", "--job-name=busy", "--output=/dev/null", f"--wrap=exec sleep {seconds}")
    minutes = -(-seconds // 60)
    jobs = [lab.submit("--nodes=1", f"--time={minutes}", *options, user=OPERATOR) for _ in range(lab.spec.nodes)]

    def busy() -> bool:
        return len(lab.ask(["squeue", "-h", "-t", "R", "-o", "%A"]).split()) >= lab.spec.nodes

    wait_until(busy, BUSY_S, "all GPUs to be busy")
    return jobs


def free(lab: Lab, jobs: Sequence[int]) -> None:
    """End the *jobs* that occupy GPUs."""
    lab.run(["scancel", *map(str, jobs)])


def submit(lab: Lab, burst: Sequence[Submission]) -> list[int]:
    """Submit every job with sbatch in order, each as its user; return their ids."""
    return [lab.submit(*_options(job, lab), user=job.user) for job in burst]


def _options(job: Submission, lab: Lab) -> Iterator[str]:
    nodes = math.ceil(job.gpus / lab.spec.gpus)
    yield from (f"--job-name={job.name}", f"--time={job.time_limit_min}", "--output=/dev/null")
    yield from (f"--nodes={nodes}", f"--ntasks={nodes}", f"--gres=gpu:{math.ceil(job.gpus / nodes)}")
    yield f"--wrap=exec sleep {job.runtime_s}"


def watch(lab: Lab, jobs: int, print_line: Say, during: Callable[[int], None] = lambda ended: None) -> None:
    """Wait until the queue is empty, reporting every ten seconds; *during* gets the count of ended jobs each second."""
    reported_s = time.monotonic()

    def drained() -> bool:
        nonlocal reported_s
        states = lab.ask(["squeue", "-h", "-o", "%t"]).split()
        ended = max(0, jobs - len(states))
        if time.monotonic() > reported_s + 10:
            reported_s = time.monotonic()
            print_line(f"  {ended} of {jobs} jobs have ended, {states.count('PD')} wait")
        during(ended)
        return not states

    wait_until(drained, DRAIN_S, f"{jobs} jobs to end", every_s=1.0)


def outcomes_of(lab: Lab, jobs: Sequence[int]) -> OutcomeTable:
    """Read the outcomes of *jobs* from sacct; all must have completed."""
    slurm = SlurmCommand(CommandRunner(prefix=tuple(lab.command([], user=OPERATOR)), environment=lab.env()))

    def accounted() -> OutcomeTable | None:
        now_s = SystemClock().now()
        outcomes = slurm.outcomes(now_s - 3600, now_s + 1)
        mine = outcomes.take(np.isin(outcomes.job_id, jobs))
        return mine if len(mine) == len(jobs) else None

    outcomes = wait_until(accounted, ACCOUNTED_S, f"sacct to know of {len(jobs)} ended jobs", every_s=0.5)
    assert outcomes is not None
    if bad := outcomes.job_id[outcomes.state != JobState.COMPLETED].tolist():
        raise LabError(f"jobs {bad} of the demo did not end well, so its figures would mean nothing; see sacct")
    return outcomes
