"""Jobs that need nodes of one block or one switch: explained and predicted as Slurm starts them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import ClusterState, View
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

LOOPS = "bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=0,max_switch_wait=86400"
CONF = (f"SchedulerParameters={LOOPS}", "SelectTypeParameters=CR_Core")
TREE = """\
SwitchName=s1 Nodes=n[1-4]
SwitchName=s2 Nodes=n[5-8]
SwitchName=s3 Nodes=n[9-12]
SwitchName=top Switches=s[1-3]
"""
BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockName=b3 Nodes=n[9-12]\nBlockSizes=4\n"
UNITS = (range(1, 5), range(5, 9), range(9, 13))
LIMITS_MIN = {"n1": 30, "n5": 10, "n9": 20}
"""Jobs with a node of each unit each, and their time limits: that of n5 ends first."""


@pytest.fixture(scope="module", params=["tree", "block"])
def shared(request: pytest.FixtureRequest) -> Iterator[tuple[str, Lab]]:
    if request.param == "block" and slurm_release(None) < (24, 11):
        pytest.skip("topology/block is tried from 24.11 on")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    files = {"topology.conf": TREE if request.param == "tree" else BLOCKS}
    conf = (*CONF, f"TopologyPlugin=topology/{request.param}")
    with Lab(directory / "lab", LabSpec(nodes=12, accounting=False, files=files, extra_conf=conf)) as made:
        yield request.param, made


@pytest.fixture
def site(shared: tuple[str, Lab]) -> Iterator[tuple[str, Lab, SlurmCommand]]:
    plugin, lab = shared
    yield plugin, lab, SlurmCommand(CommandRunner(environment=lab.env()))
    lab.ask(["scontrol", "update", "partitionname=gpu", "state=up"])
    lab.cancel_all()


def hold(lab: Lab) -> dict[str, int]:
    """Let a job run on one node of each unit."""
    jobs = {
        node: lab.submit("-o/dev/null", f"-w{node}", "--exclusive", f"-t{limit}", "--wrap=sleep 3600")
        for node, limit in LIMITS_MIN.items()
    }
    shown = ["squeue", "-h", "-t", "R", "-o", "%i"]
    wait_until(lambda: len(lab.ask(shown).split()) == len(jobs), 60.0, "a job in each unit", every_s=0.2)
    return jobs


def waits(lab: Lab, *options: str) -> int:
    """Submit a job and return it when Slurm has looked at it and lets it wait."""
    job = lab.submit("-o/dev/null", "--exclusive", "-t5", *options, "--wrap=sleep 3600")
    asked = ["squeue", "-h", "-j", str(job), "-o", "%T %r"]
    wait_until(lambda: lab.ask(asked).split()[1] not in ("None", "Priority"), 60.0, "a reason", every_s=0.5)
    assert lab.ask(asked).split()[0] == "PENDING", lab.ask(asked)
    return job


def predicted(state: ClusterState) -> tuple[View, Mapping[int, float], Mapping[int, str]]:
    """Return a view, with when each pending job starts by the predictions and why it does not run."""
    model, now_s = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {})), time.time()
    forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
    tables = (state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)
    view = View(now_s, *tables, topology=state.topology)
    plan = decide(view, find_ordering("fifo"), Rules())
    table = predict_completion(view, plan.jobs.rank, plan.jobs.standing, {})
    starts = dict(zip(table.job_id.tolist(), table.start_s.tolist(), strict=True))
    return view, starts, {job: why(view, plan, Rules(), job).reason for job in state.pending.job_id.tolist()}


def shows_segments(lab: Lab) -> bool:
    """Report whether the release shows the segments of a job."""
    job = lab.submit("-H", "-o/dev/null", "-N4", "--segment=2", "--wrap=true")
    shown = lab.ask(["scontrol", "--oneliner", "show", "job", str(job)])
    lab.ask(["scancel", str(job)])
    return "SegmentSize=2" in shown


def nodes_of(lab: Lab, job: int) -> set[int]:
    names = lab.ask(["scontrol", "show", "hostnames", lab.ask(["squeue", "-h", "-j", str(job), "-o", "%N"]).strip()])
    return {int(name[1:]) for name in names.split()}


@pytest.mark.lab
def test_a_job_behind_fragmented_units_is_explained_and_starts_when_one_is_free(site):
    plugin, lab, cluster = site
    held = hold(lab)
    job = waits(lab, "-N4", *(["--switches=1@20:00:00"] if plugin == "tree" else []))
    state = cluster.observe()
    assert state.topology.plugin == plugin
    view, starts, whys = predicted(state)
    noun = "block" if plugin == "block" else "switch"
    assert f"it needs 4 nodes of one {noun}; the most free in one is 3" in whys[job], whys[job]
    first = state.running.job_id.tolist().index(held["n5"])
    end_s = float(state.running.started_s[first]) + 60.0 * LIMITS_MIN["n5"]
    assert end_s - 60 <= starts[job] <= end_s + 120, (starts[job] - view.now_s, end_s - view.now_s)
    lab.ask(["scancel", str(held["n5"])])
    wait_until(
        lambda: "RUNNING" in lab.ask(["squeue", "-h", "-j", str(job), "-o", "%T"]), 60.0, "its start", every_s=0.5
    )
    assert nodes_of(lab, job) == set(UNITS[1])


@pytest.mark.lab
def test_what_fits_beside_fragmented_units_starts_now_by_the_predictions_and_by_slurm(site):
    plugin, lab, cluster = site
    hold(lab)
    units = {"tree": [("-N3", "--switches=1@20:00:00"), ("-N6", "--switches=2@20:00:00"), ("-N9",)]}
    many = units.get(plugin, [("-N3",), ("-N6",), ("-N9",)])
    if plugin == "block" and shows_segments(lab):
        many += [("-N6", "--segment=3"), ("-N4", "--segment=2")]
    for options in many:
        lab.ask(["scontrol", "update", "partitionname=gpu", "state=down"])
        job = lab.submit("-o/dev/null", "--exclusive", "-t5", *options, "--wrap=sleep 3600")
        state = cluster.observe()
        up = state.partitions.changed(up=state.partitions.up | True)
        free = state.pending.reason.renamed("None" for _ in state.pending.reason.names)
        state = ClusterState(**{**vars(state), "partitions": up, "pending": state.pending.changed(reason=free)})
        view, starts, whys = predicted(state)
        assert starts[job] <= view.now_s + 60, (options, starts[job] - view.now_s)
        assert "needs" not in whys[job], whys[job]
        lab.ask(["scontrol", "update", "partitionname=gpu", "state=up"])
        shown = ["squeue", "-h", "-j", str(job), "-o", "%T"]
        wait_until(lambda shown=shown: "RUNNING" in lab.ask(shown), 60.0, f"the start of {options}", every_s=0.3)
        lab.ask(["scancel", str(job)])
        wait_until(lambda shown=shown: not lab.run(shown).stdout.strip(), 60.0, "its end", every_s=0.3)


@pytest.mark.lab
def test_a_segment_or_a_block_of_its_own_waits_for_one_that_is_free(site):
    plugin, lab, cluster = site
    if plugin == "tree":
        return  # segments are of blocks
    hold(lab)
    alone = waits(lab, "-N2", "--exclusive=topo")
    view, starts, whys = predicted(cluster.observe())
    assert "2 nodes of one block without other jobs; the most free in one is 0" in whys[alone], whys[alone]
    assert starts[alone] >= view.now_s + 60 * (LIMITS_MIN["n5"] - 1)
    if not shows_segments(lab):
        return
    segments = waits(lab, "-N8", "--segment=4")
    _, starts, whys = predicted(cluster.observe())
    assert "2 segments of 4 nodes, each within one block; there is room for 0 of them" in whys[segments].lower(), whys
    assert starts[segments] >= view.now_s + 60 * (LIMITS_MIN["n9"] - 1)


@pytest.mark.lab
def test_the_topology_is_read_once_and_again_after_slurmctld_started_anew(site):
    plugin, lab, _ = site
    path = lab.layout.etc / "topology.conf"
    kept = path.read_text()
    asked: list[str] = []
    cluster = SlurmCommand(
        CommandRunner(environment=lab.env(), called=lambda command, *_: asked.append(command)),
    )
    before = cluster.observe().topology
    assert before.levels[0][0].nodes == ("n1", "n2", "n3", "n4")
    first = asked.count("scontrol")
    asked.clear()
    cluster.facts()
    cluster.observe()
    assert asked.count("scontrol") < first
    if plugin == "block":
        return  # blocks keep their size
    try:
        path.write_text(kept.replace("n[1-4]", "n[1-3]").replace("n[5-8]", "n[4-8]"))
        lab.restart_controller()
        cluster.facts()
        assert cluster.observe().topology.levels[0][0].nodes == ("n1", "n2", "n3")
    finally:
        path.write_text(kept)
        lab.restart_controller()
