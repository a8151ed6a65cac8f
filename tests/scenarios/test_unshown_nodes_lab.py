"""Nodes of a cloud that Slurm hides while they are switched off (22.05): jobs may get them all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_could_run_differential import view_of

from slurmsched.clock import Timer
from slurmsched.cluster.text.hostlist import expanded
from slurmsched.decide.unshown_nodes import NOT_SHOWN, unshown_partitions
from slurmsched.explain.obstacles import cannot_run, obstacles
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import PARTITIONS_EVERY_S, SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

PLACE = "NodeHostname=cloud NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 Gres=gpu:2"
SPEC = LabSpec(
    nodes=1,
    gpus=2,
    accounting=False,
    extra_conf=(
        "MaxNodeCount=9",
        "ResumeProgram=/bin/true",
        "SuspendProgram=/bin/true",
        "SuspendTime=600",
        "SuspendExcNodes=n1",
        f"NodeName=c[1-2] {PLACE} Port=[39001-39002] State=CLOUD",
        f"NodeName=f1 {PLACE} Port=39003 State=FUTURE",
        "PartitionName=cloud Nodes=c[1-2] State=UP",
        "PartitionName=later Nodes=f1 State=UP",
        "PartitionName=both Nodes=c[1-2],n1 MaxTime=30 State=UP",
    ),
)
ASKED = (
    ("-p", "cloud", "-w", "c2"),
    ("-p", "cloud", "--gres=gpu:2"),
    ("-p", "both", "-N3"),
    ("-p", "both", "-N2", "-x", "n1"),
)
"""What Slurm gives hidden nodes to."""


@pytest.mark.lab
def test_no_job_is_said_to_find_no_nodes_that_slurm_switches_hidden_ones_on_for_new_ones_too(lab_directory: Path):
    with Lab(lab_directory, SPEC) as lab:
        passed_s = [0.0]
        runner = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([])))
        cluster = SlurmCommand(runner, _partitions_wait=Timer(lambda: passed_s[0]))
        held = [lab.submit("-H", "-t9", "--mem=1", *words, "-o/dev/null", "--wrap=true") for words in ASKED]
        never = lab.submit("-H", "-p", "later", "--mem=1", "-o/dev/null", "--wrap=true")
        too_long = lab.submit("-H", "-t60", "-p", "both", "--mem=1", "-o/dev/null", "--wrap=true")
        state = cluster.observe()
        shown = set(state.nodes.name)
        unshown = dict(zip(state.partitions.name, map(expanded, state.partitions.unshown), strict=True))
        hides = "c1" not in shown
        assert unshown == {
            "gpu": (), "cloud": ("c1", "c2") * hides, "later": (), "both": ("c1", "c2") * hides,
        }  # fmt: skip
        view = view_of(state)
        cannot = {view.pending.job_id[row] for row in cannot_run(view)}
        told = {view.pending.job_id[row]: words for row, words in obstacles(view).items()}
        assert cannot == {never, too_long}
        assert bool(list(unshown_partitions(state.partitions, state.nodes))) == hides
        assert not hides or all(told[job].startswith(NOT_SHOWN) for job in held)
        for job in held[:2]:  # the others need the same nodes
            lab.ask(["scontrol", "release", str(job)])
            shown_of = ["squeue", "-h", "-j", str(job), "-o", "%N"]
            given = wait_until(lambda asked=shown_of: lab.ask(asked).strip(), 120.0, "nodes for the job")
            assert given in ("c1", "c2")
        lab.cancel_all()
        lab.ask(["scontrol", "create", "nodename=c3", "cpus=4", "realmemory=8000", "state=cloud"])
        lab.ask(["scontrol", "update", "partitionname=both", "nodes=c[1-3],n1"])
        job = lab.submit("-H", "-t9", "--mem=1", "-p", "both", "-N4", "-o/dev/null", "--wrap=true")
        cluster.observe()
        passed_s[0] += PARTITIONS_EVERY_S
        state = cluster.observe()
        row = list(state.partitions.name).index("both")
        assert ("c3" in expanded(state.partitions.unshown[row])) != ("c3" in set(state.nodes.name))
        assert job not in {state.pending.job_id[row] for row in cannot_run(view_of(state))}
        lab.cancel_all()
        lab.ask(["scontrol", "update", "partitionname=both", "nodes=c[1-2],n1"])
        lab.ask(["scontrol", "delete", "nodename=c3"])
        passed_s[0] += PARTITIONS_EVERY_S
        state = cluster.observe()
        assert "c3" not in {*state.nodes.name, *expanded(state.partitions.unshown[row])}
