"""What the adapter over pyslurm does beside the port's promises; needs a pyslurm of the Slurm that is here."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields

import numpy as np
import pytest

from slurmsched.cluster.actions import Rank
from slurmsched.cluster.columns import Table
from slurmsched.cluster.jobs import JobTable
from slurmsched.errors import LabError, SlurmUnavailable
from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.backend import SlurmBackend
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner


class Calls(Counter[str]):
    def __call__(self, command: str, result: str, seconds: float, size_b: int) -> None:
        self[command] += 1


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def cluster(lab: Lab, calls: Calls) -> Iterator[SlurmBackend]:
    console = CommandRunner(
        environment=lab.env(), prefix=tuple(lab.command([], user="operator")), called=calls, timeout_s=5
    )
    backend = SlurmBackend.of(console, "auto")
    facts = backend.facts()
    if not facts.backend.startswith("pyslurm"):
        pytest.skip(facts.backend_reason)
    yield backend
    backend.close()


PER_GPU = ("--gres=gpu:1", "--cpus-per-gpu=2", "--mem-per-gpu=100")
ASKED = {
    PER_GPU: 1,
    ("--gres=gpu:2",): 2,
    ("--gpus=3",): 3,
    ("-N2", "--gres=gpu:4"): 8,
    ("--gpus-per-task=1", "-n3"): 3,
    (): 0,
}


def test_gpus_are_counted_however_they_were_asked_for_and_asked_about_once(lab, cluster, calls):
    gpus = {
        lab.submit(*options, "--hold", "--time=10", "--output=/dev/null", "--wrap=sleep 60", user="alice"): count
        for options, count in ASKED.items()
    }
    for _ in range(3):
        pending = cluster.observe().pending
        assert dict(zip(pending.job_id.tolist(), pending.gpus.tolist(), strict=True)) == gpus
    assert calls["squeue"] == 1
    assert calls["pyslurm jobs"] == 3


def test_both_adapters_see_the_same_queue(lab, cluster):
    for options in ASKED:
        lab.submit(*options, "--time=20", "--comment=slurmsched:ckpt", "--wrap=sleep 900", "-o/dev/null", user="alice")
    lab.submit("--array=1-7%3", "--gres=gpu:4", "--nice=5", "--wrap=sleep 900", "-o/dev/null", user="bob")
    console = cluster.command.console
    wait_until(lambda: len(cluster.observe().running) > 2, 120.0, "jobs running")
    apart: list[dict[str, object]] = []

    def the_same() -> bool:
        """Jobs may still start between the two looks; then all lasts."""
        one, other = cluster.observe(), SlurmCommand(console).observe()
        tables = ("pending", "running", "nodes", "partitions", "qos")
        apart.append({table: differing(getattr(one, table), getattr(other, table)) for table in tables})
        return not any(apart[-1].values())

    with suppress(LabError):
        wait_until(the_same, 120.0, "two looks that are the same")
    assert apart[-1] == {table: {} for table in apart[-1]}


def differing(one: Table, other: Table) -> dict[str, object]:
    """The columns that are not the same, both ways."""
    if isinstance(one, JobTable):  # squeue tells jobs by their priority
        one, other = (jobs.take(np.argsort(jobs.job_id)) for jobs in (one, other))
    both = {field.name: (list(getattr(one, field.name)), list(getattr(other, field.name))) for field in fields(one)}
    return {name: pair for name, pair in both.items() if repr(pair[0]) != repr(pair[1])}


def test_points_are_written_through_pyslurm_and_taken_away_by_scontrol(lab, cluster, calls):
    job = lab.submit("--hold", "--gres=gpu:1", "--wrap=sleep 60", "-o/dev/null", user="alice")
    array = lab.submit("--hold", "--array=1-3", "--gres=gpu:1", "--wrap=sleep 60", "-o/dev/null", user="alice")
    lab.ask(["scontrol", "release", f"{job},{array}"])
    cluster.observe()
    answers = cluster.act([Rank(job, 70), Rank(array, 60), Rank(job, 0), Rank(999_999, 5)])
    assert [bool(answer.refused) for answer in answers] == [False, False, False, True]
    assert "nvalid job id" in str(answers[3].refused)
    assert (calls["pyslurm act"], calls["scontrol"] >= 1) == (2, True)


def test_a_controller_that_is_silent_costs_one_time_limit_and_is_read_again_when_it_answers(lab, cluster):
    lab.pause_controller()
    with pytest.raises(SlurmUnavailable, match="no answer within"):
        cluster.observe()
    lab.resume_controller()
    wait_until(lambda: _answers(cluster), 120.0, "an answer again")


def _answers(cluster: SlurmBackend) -> bool:
    try:
        cluster.observe()
    except SlurmUnavailable:
        return False
    return True


def test_a_killed_worker_is_a_lost_look_and_nothing_more(lab, cluster):
    cluster.observe()
    child = next(pid for pid in _children() if b"slurmsched.slurm.adapters.pyslurm_process" in _command_line(pid))
    os.kill(child, signal.SIGKILL)
    with pytest.raises(SlurmUnavailable):
        cluster.observe()
    assert len(cluster.observe().nodes) == 4


def _children() -> list[int]:
    listed = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    with open(listed) as file:
        return [int(pid) for pid in file.read().split()]


def _command_line(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
