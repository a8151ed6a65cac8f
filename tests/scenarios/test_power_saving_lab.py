"""Nodes that a real Slurm switches off and on: when they can run jobs again."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.power_saving import LEAST, NodePower, ResumeTimes, power_of
from slurmsched.cluster.state import ClusterState
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

TAKES_S, TIMEOUT_S, CYCLE_S = 20, 180, 15.0
LAUNCH_S = 30.0
"""Slurm starts a batch job at once, 15 s or 30 s after its node is up, by no rule that we see (24.11 and 26.05)."""

RESUME = """#!/bin/bash
export SLURM_CONF={conf}
sleep {takes_s}
for node in $(scontrol show hostnames "$1"); do
    pid=$(cat {run}/slurmd.$node.pid)
    kill -KILL $pid  # slurmctld starts programs with SIGTERM blocked, and so is it in this slurmd
    while grep -q '^State:.[^Z]' /proc/$pid/status 2> /dev/null; do sleep 0.1; done  # the lab may not collect it
    setsid $(command -v slurmd || echo /usr/sbin/slurmd) -b -D -N $node > /dev/null 2>&1 < /dev/null &
    until [ "$(cat {run}/slurmd.$node.pid)" != "$pid" ]; do sleep 0.1; done  # else newer ones kill it
done
"""
"""Switch nodes on: a slurmd that says that its machine has just started (slurmd(8), -b)."""


@pytest.fixture
def saving_lab() -> Iterator[Lab]:
    """Two nodes, of which the second is switched off when it has nothing to do."""
    if os.geteuid():
        pytest.skip("slurmd starts as root")
    with tempfile.TemporaryDirectory() as directory:
        programs = {name: Path(directory) / name for name in ("resume", "suspend")}
        spec = LabSpec(
            nodes=2,
            gpus=2,
            accounting=False,
            extra_conf=(
                f"ResumeProgram={programs['resume']}",
                f"SuspendProgram={programs['suspend']}",
                f"ResumeTimeout={TIMEOUT_S}",
                "SuspendTimeout=4",
                "SuspendTime=5",
                "SuspendExcNodes=n1",
            ),
        )
        try:
            lab = Lab(Path(directory) / "lab", spec)
            programs["suspend"].write_text("#!/bin/bash\n")
            programs["resume"].write_text(
                RESUME.format(takes_s=TAKES_S, run=lab.layout.run, conf=lab.layout.slurm_conf)
            )
            for path in (Path(directory), *programs.values()):
                path.chmod(0o755)
            lab.up()
        except LabError as error:
            pytest.skip(f"no lab: {error}")
        yield lab
        lab.down()


def started_s(state: ClusterState, job: int) -> float | None:
    """When a job began to run; None before."""
    row = state.running.row_of(job)
    runs = row is not None and state.running.state[row] == JobState.RUNNING
    return float(state.running.started_s[row]) if runs else None


@pytest.mark.lab
@pytest.mark.soak
def test_what_is_said_of_a_node_that_is_switched_off_comes_true(saving_lab):
    prefix = tuple(saving_lab.command([]))
    cluster = SlurmCommand(CommandRunner(environment=saving_lab.env(), prefix=prefix))
    config = cluster.facts().config
    times = ResumeTimes(time.time, lambda: config)

    def look() -> ClusterState:
        return times.filled(cluster.observe())

    def off() -> bool:
        return power_of(look().nodes.state[1]) == NodePower.DOWN

    errors_s = []
    for _ in range(LEAST + 2):
        wait_until(off, 60.0, "n2 is switched off", every_s=1.0)
        state, now_s = look(), time.time()
        assert state.nodes.usable.all()
        said_s = now_s + float(state.nodes.ready_s[1])
        job = saving_lab.submit("--nodelist=n2", "--gres=gpu:1", "--wrap=sleep 15")
        start_s = wait_until(lambda job=job: started_s(look(), job), TIMEOUT_S + 60.0, "the job runs", every_s=1.0)
        errors_s.append(said_s - start_s)
    assert min(errors_s[:LEAST]) > 0, "before, no node is said to be ready sooner than ResumeTimeout allows"
    assert max(map(abs, errors_s[LEAST:])) <= CYCLE_S + LAUNCH_S, errors_s
    assert min(errors_s[:LEAST]) > TIMEOUT_S - TAKES_S - CYCLE_S - 2 * LAUNCH_S, "they are learnt after that only"
    print(errors_s)
