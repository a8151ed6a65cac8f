"""MIG slices, GPUs of other makers and resources that are no GPUs: requests and nodes read as Slurm counts them."""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from lab_search import passes, search

from slurmsched.clock import local_zone
from slurmsched.cluster.columns import table_of
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.sbatch_probe import Probe, Site, probe
from slurmsched.cluster.state import ClusterState, View
from slurmsched.cluster.text.sbatch import read_options
from slurmsched.daemon.predictions.hypothetical_job import new_job
from slurmsched.decide.rules import Rules
from slurmsched.errors import ConfigError
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

TYPES = ("a100", "1g.10gb", "a100_3g.40gb", "mi300x", "max1550", "3090", "1g.5gb+me")
SHAPES = (
    "CPUs=8 RealMemory=16000 Gres=gpu:a100:2,gpu:1g.10gb:4,gpu:a100_3g.40gb:2",
    "CPUs=8 RealMemory=16000 Gres=gpu:1g.10gb:7,npu:2",
    "CPUs=8 RealMemory=16000 Gres=gpu:mi300x:4,gpu:max1550:2,gpu:3090:1,gpu:1g.5gb+me:1,bandwidth:lustre:4",
)
TRACKED = ",".join(("gres/gpu", *(f"gres/gpu:{kind}" for kind in TYPES)))
SPEC = LabSpec(
    nodes=len(SHAPES),
    gpus=16,
    shapes=SHAPES,
    users={},
    operators=(),
    extra_conf=(
        f"AccountingStorageTRES={TRACKED}",
        "GresTypes=gpu,npu,bandwidth",
        "SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,batch_sched_delay=0",
        "SelectTypeParameters=CR_Core",
    ),
)
TOGETHER = 20

kinds = st.one_of(st.sampled_from(TYPES), st.sampled_from(("1G.10GB", "1g", "nope", "2g.20gb", "a100_1g.10gb")))
numbers = st.sampled_from(("1", "2", "3", "7", "0", "1k", "1g", "2M", "01", "1.5", "+2", "-1", "2x", "0x2", "x"))
one = st.one_of(
    st.tuples(kinds, numbers).map(":".join),
    numbers,
    kinds,
    st.tuples(kinds, numbers).map("=".join),
    kinds.map("{}:".format),
)
some = st.lists(one, min_size=1, max_size=2).map(",".join)
others = st.sampled_from(("npu:1", "npu", "bandwidth:lustre:2", "bandwidth:1"))
gres = st.lists(st.one_of(one.map("gpu:{}".format), others), min_size=1, max_size=3).map(",".join)
requests = st.one_of(
    gres.map("--gres={}".format),
    some.map("--gpus={}".format),
    some.map("--gpus-per-node={}".format),
    some.map("--gpus-per-task={} -n1".format),
    st.sampled_from(("--gres=", "--gres=gpu:1,", "--gpus=2,", "--gres=gres:gpu:1", "--gres=gres/gpu:1", "--gpus==1")),
)

counts: Counter[str] = Counter()


@pytest.fixture(scope="module")
def shared() -> Iterator[Lab]:
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    with Lab(directory / "lab", SPEC) as made:
        yield made


@pytest.fixture
def lab(shared: Lab) -> Iterator[Lab]:
    yield shared
    shared.cancel_all()


def observed(lab: Lab) -> ClusterState:
    return SlurmCommand(CommandRunner(environment=lab.env())).observe()


def misread(lab: Lab, batch: list[str]) -> list[str]:
    """Submit held jobs, and return the requests of which we and Slurm count different GPUs, or which one refuses."""
    cluster = SlurmCommand(CommandRunner(environment=lab.env()))
    state, permissions = cluster.observe(), cluster.known_facts().permissions
    site = Site(state.partitions, state.nodes, permissions=permissions)
    jobs: dict[int, tuple[str, Probe | None]] = {}
    found: list[str] = []
    for request in batch:
        argv = ["sbatch", "--parsable", "-o/dev/null", *request.split(), "--wrap=true"]
        try:
            tried = probe(read_options(request), "root", time.time(), local_zone(), site)
        except ConfigError:
            tried = None
        taken = lab.run([*argv, "--test-only"])
        counts["refused" if taken.returncode else "taken"] += 1
        if tried is None and not taken.returncode:
            found.append(f"{request}: we refuse it, Slurm takes it")
        if tried is not None and taken.returncode and not tried.not_understood:
            found.append(f"{request}: we take it, Slurm refuses it: {taken.stderr.strip()[-100:]}")
        held = lab.run([*argv, "-H"])
        if not held.returncode:
            jobs[int(held.stdout.split()[-1])] = request, tried
    shown = dict(re.findall(r"JobId=(\d+) .*?TRES=(\S+)", lab.ask(["scontrol", "-o", "show", "job"])))
    state = observed(lab)
    for job, (request, tried) in jobs.items():
        tres = dict(part.split("=", 1) for part in shown[str(job)].split(","))
        row = state.pending.row_of(job)
        theirs = min(int(tres.get("gres/gpu", "0")), 2**31 - 1)
        if row is None or state.pending.gpus[row] != theirs:
            found.append(f"{request}: {None if row is None else state.pending.gpus[row]} GPUs, Slurm has {theirs}")
        if tried is not None and tried.job.gpus[0] != theirs and not tried.not_understood:
            found.append(f"{request}: we would ask for {tried.job.gpus[0]} GPUs, Slurm has {theirs}")
        named = {name.partition(":")[2] for name in tres if name.startswith("gres/gpu:")}
        if row is not None and len(named) == 1 and {state.pending.gpu_type[row]} != named:
            found.append(f"{request}: of {state.pending.gpu_type[row]!r}, Slurm has {named}")
    lab.cancel_all()
    return found


@pytest.mark.lab
def test_requests_for_slices_and_other_types_are_counted_as_slurm_counts_them(lab, capsys):
    batches = st.lists(requests, min_size=TOGETHER, max_size=TOGETHER)
    search(batches, 2, lambda batch: misread(lab, batch), {"requests": counts}, capsys)


@pytest.mark.lab
@pytest.mark.soak
def test_many_requests_for_slices_and_other_types_are_counted_as_slurm_counts_them(lab, capsys):
    batches = st.lists(requests, min_size=TOGETHER, max_size=TOGETHER)
    search(batches, 100, lambda batch: misread(lab, batch), {"requests": counts}, capsys, derandomize=False)


def predicted(state: ClusterState) -> tuple[View, dict[int, float], dict[int, str]]:
    """Return the view of *state*, and when each pending job starts by the predictions and why it does not by ours."""
    model, now_s = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {})), time.time()
    forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
    view = View(now_s, state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)
    plan = decide(view, find_ordering("fifo"), Rules())
    table = predict_completion(view, plan.jobs.rank, plan.jobs.standing, {})
    starts = dict(zip(table.job_id.tolist(), table.start_s.tolist(), strict=True))
    return view, starts, {job: why(view, plan, Rules(), job).reason for job in state.pending.job_id.tolist()}


@pytest.mark.lab
def test_a_job_waits_for_gpus_of_its_own_type_though_others_of_its_node_are_free(lab):
    held = lab.submit("-o/dev/null", "--gres=gpu:a100:2", "-t10", "--wrap=sleep 900")
    untyped = lab.submit("-o/dev/null", "-wn1", "--gres=gpu:1", "-t20", "--wrap=sleep 900")
    running = ["squeue", "-h", "-t", "R", "-o", "%i"]
    wait_until(lambda: len(lab.ask(running).split()) == 2, 60.0, "two jobs that run", every_s=0.2)
    state = observed(lab)
    row = [state.nodes.name[at] for at in range(len(state.nodes))].index("n1")
    for kind, free in (("a100", 0), ("1g.10gb", 3), ("a100_3g.40gb", 2), ("nope", 0), ("", 5)):
        assert int(state.nodes.free_gpus_of(kind)[row]) == free, kind
    assert state.nodes.gpus.tolist() == [8, 7, 8], "other resources count as no GPUs"
    assert {state.running.gpu_type[state.running.row_of(job)] for job in (held, untyped)} == {"a100", "1g.10gb"}
    waits = lab.submit("-o/dev/null", "--gres=gpu:a100:1", "-t5", "--wrap=sleep 900")
    shown = ["squeue", "-h", "-j", str(waits), "-o", "%T %r"]
    wait_until(lambda: "Resources" in lab.ask(shown), 60.0, "a job that waits for its type", every_s=0.5)
    state = observed(lab)
    view, starts, whys = predicted(state)
    ends = {int(job): float(at) for job, at in zip(state.running.job_id, view.remaining.median_s, strict=True)}
    assert starts[waits] >= view.now_s + 0.9 * ends[held], "it starts when one of its type is free"
    assert starts[waits] <= view.now_s + ends[held] + 120
    assert "0 GPUs of 2 on them are free" in whys[waits], whys[waits]
    lab.ask(["scontrol", "update", f"jobid={waits}", "nice=1000"])
    slices = lab.submit("-o/dev/null", "-wn1", "--gres=gpu:1g.10gb:3", "-t5", "--wrap=sleep 900")
    wait_until(lambda: str(slices) in lab.ask(running).split(), 60.0, "slices of the same node start", every_s=0.5)
    more = lab.submit("-o/dev/null", "-wn1", "--gres=gpu:1g.10gb:2", "-t5", "--wrap=sleep 900")
    shown = ["squeue", "-h", "-j", str(more), "-o", "%T %r"]
    wait_until(lambda: "PENDING" in lab.ask(shown) and "None" not in lab.ask(shown), 60.0, "it waits", every_s=0.5)
    view, starts, whys = predicted(observed(lab))
    assert starts[more] > view.now_s + 60
    assert "MIG slices" in whys[more], whys[more]


SOME_TYPES = (
    ("n1", "--gres=gpu:1g.10gb:3", 10),
    ("n2", "--gres=gpu:1g.10gb:6", 20),
    ("n3", "--gres=gpu:mi300x:3", 30),
)
NO_CPUS_LEFT = (("n1", "--exclusive", 10), ("n2", "-c8", 20), ("n3", "-c8 --gres=gpu:max1550:1", 30))
"""Running jobs: their node, what they ask for, and their limit in minutes."""

NEW_JOBS = (
    *(f"--gres=gpu:{many}" for many in range(1, 9)),
    *(f"-G {many}" for many in range(1, 24, 2)),
    *("-G 1g.10gb:2", "-G 1g.10gb:4", "-G 1g.10gb:9", "--gres=gpu:1g.10gb:2", "--gres=gpu:mi300x:2"),
    *("-N 2 --gres=gpu:2", "-N 2 --gres=gpu:5", "-N 1 -G 5", "-N 1 -G 6", "-n 3 -G 7", "--exclusive -G 3"),
)
NEAR_S = 30.0


@pytest.mark.parametrize("busy", [SOME_TYPES, NO_CPUS_LEFT])
def test_new_jobs_start_when_slurm_says_so_beside_jobs_with_some_of_the_types_or_all_cpus_of_a_node(lab, busy):
    running = [
        lab.submit(f"-w{node}", *asks.split(), f"-t{limit}", "-o/dev/null", "--wrap=sleep 3000")
        for node, asks, limit in busy
    ]
    squeue = ["squeue", "-h", "-t", "R", "-o", "%A"]
    wait_until(lambda: len(lab.ask(squeue).split()) == len(running), 60.0, "running jobs")
    cluster = SlurmCommand(CommandRunner(environment=lab.env()))
    facts, state, model = cluster.known_facts(), cluster.observe(), RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {}))
    wrong = {}
    for options in NEW_JOBS:
        argv = ["sbatch", "--test-only", "-t5", *options.split(), "--wrap=true"]
        theirs = re.search(r"to start at (\S+)", lab.run(argv).stderr)
        now_s = time.time()
        forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
        view = View(now_s, state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)
        try:
            job = new_job(view, facts.permissions, f"-t 5 {options}", "root").job
        except ConfigError as error:
            if theirs:
                wrong[options] = f"{error}, and Slurm: {theirs[1]}"
            continue
        alone = replace(view, pending=job, forecast=model.forecast(job, now_s))
        table = predict_completion(alone, np.full(1, -1), np.full(1, int(Standing.OUTSIDE)), facts.config)
        ours_s = float(table.start_s[0])
        theirs_s = time.mktime(time.strptime(theirs[1], "%Y-%m-%dT%H:%M:%S")) if theirs else math.nan
        if not abs(ours_s - theirs_s) <= NEAR_S and not (math.isnan(ours_s) and math.isnan(theirs_s)):
            wrong[options] = f"in {ours_s - now_s:.0f} s, and Slurm: in {theirs_s - now_s:.0f} s"
    assert not wrong


@pytest.mark.lab
def test_components_of_a_heterogeneous_job_start_on_different_nodes_or_are_said_never_to(lab):
    jobs = {}
    for second in ("mi300x", "a100"):  # that of n3 alone, as the first one's, and that of another node
        words = ["--gres=gpu:3090:1", "-t5", ":", f"--gres=gpu:{second}:1", "-t5"]
        done = lab.run(["sbatch", "--parsable", "-o/dev/null", *words], input="#!/bin/sh\nsleep 900\n")
        jobs[second] = int(done.stdout.split()[-1])
        lab.ask(["scontrol", "update", f"jobid={jobs['mi300x']}", "nice=1000"])
    running = ["squeue", "-h", "-t", "R", "-o", "%A"]
    started = {str(jobs["a100"]), str(jobs["a100"] + 1)}
    wait_until(lambda: started <= set(lab.ask(running).split()), 60.0, "the components on two nodes", every_s=0.5)
    lab.ask(["scancel", str(jobs["a100"])])
    wait_until(lambda: not lab.ask(running).split(), 60.0, "their end", every_s=0.5)
    _, starts, whys = predicted(observed(lab))
    for job in (jobs["mi300x"], jobs["mi300x"] + 1):
        assert math.isnan(starts[job])
        assert "its components together ask for 2 different nodes, and 1 node could hold them" in whys[job]
    first = passes(lab)
    wait_until(lambda: all(now > then + 1 for then, now in zip(first, passes(lab), strict=True)), 180.0, "two passes")
    assert not lab.ask(running).split()
