"""Jobs that wait for a part of the network's topology: Slurm's reason is one of waiting, whatever the plugin."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.reasons import ReasonKind, reason_of
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.predictions import PredictionKind
from slurmsched.cluster.state import ClusterState, View
from slurmsched.cluster.topology import FLAT
from slurmsched.daemon.predictions.hypothetical_job import new_job
from slurmsched.decide.rules import Rules
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.programs import slurm_release
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

CONF = ("SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=0",)
TORUS = """\
- topology: pods
  cluster_default: true
  torus3d:
    toruses:
      - name: pod1
        dims: {x: 2, y: 2, z: 1}
        nodes: n[1-4]
        placements:
          - dims: {x: 1, y: 1, z: 1}
          - dims: {x: 2, y: 1, z: 1}
          - dims: {x: 1, y: 2, z: 1}
"""
PLUGINS = {
    "tree": ((22, 5), {"topology.conf": "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n"}),
    "block": ((23, 11), {"topology.conf": "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"}),
    "ring": ((26, 5), {"topology.conf": "RingName=r1 Nodes=n1,n2,n4,n3\n"}),
    "torus3d": ((26, 5), {"topology.yaml": TORUS}),
}
"""The first release of each plugin that is tried, and its files: of four nodes, n1 and n4 never belong together."""


@pytest.fixture(params=PLUGINS)
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    since, files = PLUGINS[request.param]
    if slurm_release(None) < since:
        pytest.skip(f"topology/{request.param} is tried from {since[0]}.{since[1]:02} on")
    plugin = () if "topology.yaml" in files else (f"TopologyPlugin=topology/{request.param}",)
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    with Lab(directory / "lab", LabSpec(nodes=4, accounting=False, files=files, extra_conf=(*CONF, *plugin))) as made:
        yield made


@dataclass(frozen=True)
class Between:
    """A lab with jobs on the two nodes in the middle."""

    lab: Lab

    @classmethod
    def of(cls, lab: Lab) -> Between:
        """Start the jobs and wait for them."""
        words = ("-o/dev/null", "--exclusive", "-t20", "--wrap=sleep 900")
        held = [lab.submit(*words, f"-w{node}") for node in ("n2", "n3")]
        shown = ["squeue", "-h", "-t", "R", "-o", "%i"]
        wait_until(lambda: len(lab.ask(shown).split()) == len(held), 60.0, "the jobs that stand between", every_s=0.2)
        return cls(lab)

    def seen(self, state: ClusterState) -> View:
        """The view of *state* without history."""
        model, now_s = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {})), time.time()
        forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
        tables = (state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)
        return View(now_s, *tables, topology=state.topology)


@pytest.mark.lab
def test_a_job_whose_free_nodes_do_not_lie_together_is_ordered_explained_and_has_a_time(lab):
    between = Between.of(lab)
    job = lab.submit("-o/dev/null", "-N2", "--exclusive", "-t10", "--wrap=true")
    asked = ["squeue", "-h", "-j", str(job), "-o", "%T %r"]
    wait_until(lambda: lab.ask(asked).split(maxsplit=1)[1].strip() not in ("None", ""), 60.0, "a reason", every_s=0.5)
    state = SlurmCommand(CommandRunner(environment=lab.env())).observe()
    reason = state.pending.reason[0]
    assert state.pending.job_id.tolist() == [job]
    assert slurm_release(None) < (26, 5) or "topology" in reason, "26.05 says so in words of its own"
    assert (reason_of(reason).kind, reason_of(reason).known) == (ReasonKind.WAITS, True), reason
    seen = replace(between.seen(state), topology=FLAT)
    plan = decide(seen, find_ordering("fifo"), Rules())
    assert plan.jobs.standing.tolist() == [Standing.RANKED]
    assert plan.jobs.rank.tolist() == [0]
    table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, {})
    waits = table.job_id == job
    assert table.kind[waits].tolist() in ([PredictionKind.PREDICTED], [PredictionKind.NO_HISTORY])
    assert np.isfinite(table.start_s[waits]).all()
    told = why(seen, plan, Rules(), job)
    assert "cannot" not in told.reason
    assert ("topology" in told.reason) == ("topology" in reason), told.reason


ASKED = ("-N1", "-N2", "-N2 --switches=2", "-N2 --segment=1", "-N1 --exclusive=topo", "-N2 --exclusive=topo", "-N3")
START = re.compile(r"to start at (\d+) ")


@pytest.mark.lab
def test_a_job_to_try_out_does_not_start_before_slurm_would_start_it(lab):
    cluster = SlurmCommand(CommandRunner(environment=lab.env()))
    seen, facts = Between.of(lab).seen(cluster.observe()), cluster.facts()
    model = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {}))
    agree = 0
    for words in ASKED:
        asked = ["env", "SLURM_TIME_FORMAT=%s", "sbatch", "--test-only", "-t10", "--exclusive", *words.split()]
        done = lab.run([*asked, "--wrap=true"])
        if "unrecognized option" in done.stderr or "Invalid --exclusive" in done.stderr:
            continue
        theirs = START.search(done.stderr)
        tried = new_job(seen, facts.permissions, f"-t10 --exclusive {words}", "root")
        view = replace(seen, pending=tried.job, forecast=model.forecast(tried.job, seen.now_s))
        table = predict_completion(view, np.array([0]), np.array([Standing.RANKED]), facts.config)
        ours_s = float(table.start_s[0])
        print(
            words, tried.not_understood, ours_s - seen.now_s, float(theirs[1]) - seen.now_s if theirs else done.stderr
        )
        if theirs is None:
            assert np.isnan(ours_s) or tried.not_understood, (words, done.stderr)
            continue
        assert tried.not_understood or ours_s > float(theirs[1]) - 90.0, (words, done.stderr)
        agree += abs(ours_s - float(theirs[1])) <= 90.0
    assert agree >= (3 if seen.topology.levels else 1)


BLOCKS = ("n[1-4]", "n[5-8]", "n[9-12]")
THREE = {
    "tree": [*(f"SwitchName=s{at} Nodes={on}" for at, on in enumerate(BLOCKS)), "SwitchName=top Switches=s[0-2]"],
    "block": [*(f"BlockName=b{at} Nodes={on}" for at, on in enumerate(BLOCKS)), "BlockSizes=4"],
}
BUSY = (("n[1-2]", 9), ("n5", 1), ("n[9-11]", 9))
"""What runs in each block, and the minutes for which it may: the second is free first."""


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.draws
@pytest.mark.parametrize("plugin", THREE)
def test_a_job_behind_fragmented_blocks_is_explained_and_starts_when_it_was_predicted(plugin):
    if slurm_release(None) < PLUGINS[plugin][0]:
        pytest.skip(f"topology/{plugin} is tried from {PLUGINS[plugin][0][0]}.{PLUGINS[plugin][0][1]:02} on")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    files, conf = {"topology.conf": "\n".join([*THREE[plugin], ""])}, (*CONF, f"TopologyPlugin=topology/{plugin}")
    with Lab(directory / "lab", LabSpec(nodes=12, accounting=False, files=files, extra_conf=conf)) as lab:
        words = ("-o/dev/null", "--exclusive")
        held = [lab.submit(*words, f"-w{on}", f"-t{minutes}", f"--wrap=sleep {60 * minutes}") for on, minutes in BUSY]
        shown = ["squeue", "-h", "-t", "R", "-o", "%i"]
        wait_until(lambda: len(lab.ask(shown).split()) == len(held), 60.0, "the jobs in the blocks", every_s=0.2)
        together = ("--switches=1",) if plugin == "tree" else ()
        job = lab.submit(*words, "-N4", "-t5", *together, "--wrap=sleep 290")
        asked = ["squeue", "-h", "-j", str(job), "-o", "%T %r"]
        waits = lambda: lab.ask(asked).split(maxsplit=1)[1].strip()  # noqa: E731
        wait_until(lambda: waits() not in ("None", ""), 60.0, "a reason", every_s=0.5)
        cluster = SlurmCommand(CommandRunner(environment=lab.env()))
        config = cluster.facts().config
        cluster.observe()  # after which each job is asked what it needs of the topology
        seen = Between(lab).seen(cluster.observe())
        plan = decide(seen, find_ordering("fifo"), Rules())
        unit = "switch" if plugin == "tree" else "block"
        assert f"it needs 4 nodes of one {unit}; the most free in one is 3" in why(seen, plan, Rules(), job).reason
        table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, config)
        said_s = float(table.start_s[table.job_id == job][0])
        assert seen.now_s < said_s < seen.now_s + 120.0
        started = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-j", str(job), "-t", "R", "-o", "%S"]
        start_s = float(wait_until(lambda: lab.ask(started).strip(), 240.0, "its start", every_s=1.0))
        print(plugin, "said", said_s - seen.now_s, "was", start_s - seen.now_s)
        assert abs(start_s - said_s) <= 60.0
