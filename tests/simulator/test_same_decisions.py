"""One state of a real Slurm, seen by its adapter and by a simulation that goes on from it, gives the same Plan."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.state import View
from slurmsched.decide.engine import decide
from slurmsched.decide.rules import Rules
from slurmsched.lab import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.snapshot import resumed
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

POLICIES = ("fifo", "sjf", "qssf", "srtf", "las")


def view_of(state, now_s: float) -> View:
    model = RuntimeModel.fit(outcomes_of(()))
    return View(
        now_s,
        state.pending,
        state.running,
        state.nodes,
        state.partitions,
        state.qos,
        model.forecast(state.pending, now_s),
        model.forecast(state.running, now_s),
    )


@pytest.fixture
def recorded(lab):
    """A busy lab as its adapter sees it: jobs that run, wait, are held, begin later, and an array.

    The state lasts: what runs does so for an hour, and no pending job fits into the one GPU that two nodes have left.
    """
    for gpus in (4, 4, 3, 3):
        lab.submit(f"--gres=gpu:{gpus}", "--time=60", "--output=/dev/null", "--wrap=sleep 3600", user="alice")
    cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator"))))
    wait_until(lambda: len(cluster.observe().running) == 4, 120.0, "four jobs to run")
    for number, (gpus, minutes, more) in enumerate(
        (
            (4, 30, []),
            (2, 3, []),
            (4, 9, ["--nodes=2"]),
            (1, 45, ["--hold"]),
            (3, 7, ["--begin=now+1hour"]),
            (4, 2, ["--array=1-3"]),
            (2, 20, ["--nice=50"]),
            (4, 11, ["--comment=slurmsched:off"]),
        )
    ):
        options = (f"--gres=gpu:{gpus}", f"--time={minutes}", f"--job-name=train_{number}", "--output=/dev/null")
        lab.submit(*options, *more, "--wrap=sleep 60", user=("alice", "bob")[number % 2])
    state = wait_until(lambda: seen if len((seen := cluster.observe()).pending) == 8 else None, 120.0, "eight to wait")
    by_id = {
        name: (jobs := getattr(state, name)).take(np.argsort(jobs.job_id)) for name in ("pending", "running")
    }  # squeue(1) lists jobs in an order of its own
    return replace(state, **by_id), cluster.facts().config, time.time()


@pytest.mark.lab
def test_a_simulation_that_goes_on_from_a_lab_decides_as_the_daemon_beside_it(recorded):
    state, config, now_s = recorded
    rules = Rules(powers=frozenset({"order"}), scope="queue")
    real = view_of(state, now_s)
    simulated = view_of(resumed(real, config).observe(), now_s)
    for name in POLICIES:
        plan, again = (decide(view, find_ordering(name), rules) for view in (real, simulated))
        assert plan.actions == again.actions
        assert plan.refusals == again.refusals
        assert plan.jobs.equals(again.jobs)
        assert name == "fifo" or plan.actions, "there was something to decide"


@pytest.mark.lab
def test_the_simulation_sees_the_jobs_as_slurm_shows_them_and_ends_all_but_the_held_one(recorded):
    state, config, now_s = recorded
    cluster = resumed(view_of(state, now_s), config)
    again = cluster.observe()
    for name in ("job_id", "tasks", "gpus", "nodes", "priority", "site_points", "nice", "state"):
        expected = getattr(state.pending, name).tolist()
        assert getattr(again.pending, name).tolist() == pytest.approx(expected, nan_ok=True), name
    eligible = np.isfinite(state.pending.eligible_s)  # a held job is not
    assert (again.pending.eligible_s[eligible] == state.pending.eligible_s[eligible]).all()
    assert again.nodes.gpus_used.tolist() == state.nodes.gpus_used.tolist()
    assert again.nodes.cpus_used.tolist() == state.nodes.cpus_used.tolist()
    assert list(again.running.node_list) == list(state.running.node_list)
    cluster.advance(now_s + 1e6)
    assert list(cluster.observe().pending.reason) == ["JobHeldUser"]
