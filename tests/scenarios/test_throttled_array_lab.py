"""A job behind a throttled array, as it is predicted and as it starts on a real Slurm."""

from __future__ import annotations

import time

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.state import View
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

pytest.importorskip("numba")

TASKS, TASK_S = 6, 12
WHOLE = ("-N4", "--gres=gpu:4", "-c1", "--mem=1000", "-t3", "-o/dev/null")
SLACK_S = 5.0 * TASKS
"""What Slurm's loops, launches and a busy machine take for each task."""


def forecast(jobs: JobTable) -> Forecast:
    """As a history of such runs would have it."""
    runtime_s = np.where(jobs.time_limit_s > 0, float(TASK_S), 0.0)
    return Forecast(runtime_s, runtime_s, runtime_s, Labels.of(["median of 7 runs"] * len(jobs)))


@pytest.mark.soak
def test_a_job_behind_a_throttled_array_is_predicted_behind_all_its_tasks(lab: Lab):
    wrap = f"--wrap=sleep {TASK_S}"
    array = lab.submit(*WHOLE, f"--array=0-{TASKS - 1}%1", wrap, user="alice")
    behind = lab.submit(*WHOLE, wrap, user="alice")

    def states(job: int) -> list[str]:
        return lab.ask(["squeue", "-h", "-t", "all", "-r", "-j", str(job), "-o", "%T"]).split()

    wait_until(lambda: "RUNNING" in states(array), 60.0, "the first task", every_s=0.2)
    cluster = SlurmCommand(
        CommandRunner(environment=lab.env("operator"), prefix=tuple(lab.command([], user="operator")))
    )
    state, now_s = cluster.observe(), time.time()
    seen = View(
        *(now_s, state.pending, state.running, state.nodes, state.partitions, state.qos),
        *(forecast(state.pending), forecast(state.running)),
        limits=state.limits,
    )
    unranked, standing = np.full(len(state.pending), -1), np.zeros(len(state.pending), dtype=np.int64)
    table = predict_completion(seen, unranked, standing, cluster.facts().config)
    predicted_s = float(table.start_s[table.row_of(behind)]) - now_s
    wait_until(lambda: "RUNNING" in states(behind), 30.0 * TASKS, "the job behind", every_s=0.2)
    waited_s = time.time() - now_s
    assert predicted_s == pytest.approx(waited_s, abs=SLACK_S)
    assert predicted_s >= TASK_S * (TASKS - 2), "it stands behind all tasks, not behind one"
