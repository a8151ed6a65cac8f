"""Several QOS per job, preemption, PrivateData, a federation, and a plugin that we refuse, as a lab has them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slurmsched.clock import local_zone
from slurmsched.cluster.actions import Rank
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.sbatch_probe import Site, probe
from slurmsched.cluster.text.sbatch import read_job
from slurmsched.config import Settings
from slurmsched.decide.ordering.eligibility import standing
from slurmsched.decide.ordering.ranking import qos_classes
from slurmsched.errors import SlurmError
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.programs import slurm_release
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.checkup import checkup
from slurmsched.slurm.port import unreadable_selection

pytestmark = [pytest.mark.lab, pytest.mark.soak, pytest.mark.releases]

CONF = (
    "SchedulerParameters=bf_interval=1,bf_continue,sched_interval=1,batch_sched_delay=0",
    "AccountingStorageEnforce=associations,limits,qos",
    "PrivateData=accounts,events,jobs,nodes,partitions,reservations,usage,users",
    "FederationParameters=fed_display",
    "PreemptType=preempt/qos",
    "PreemptMode=REQUEUE",
    "PartitionName=tier Nodes=n1 PriorityTier=10 State=UP",
)
LISTS_SINCE = (24, 11)
"""The release from which on a job may name several QOS."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    with Lab(Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp")), LabSpec(nodes=2, gpus=2, extra_conf=CONF)) as lab:
        lab.ask(["sacctmgr", "-i", "modify", "qos", "high", "set", "preempt=low"])
        lab.ask(["sacctmgr", "-i", "modify", "qos", "low", "set", "maxwall=10", "maxjobsperuser=1"])
        lab.ask(["sacctmgr", "-i", "add", "federation", "grid", f"clusters={lab.cluster}"])
        shown = ["scontrol", "show", "federation"]
        wait_until(lambda: "ACTIVE" in lab.ask(shown), 60.0, "a federation", every_s=0.2)
        yield lab


@pytest.fixture(autouse=True)
def empty(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").cancel_all()


def seen_by(lab: Lab, user: str | None) -> SlurmCommand:
    """The cluster as *user* sees it; None for root."""
    return SlurmCommand(CommandRunner(environment=lab.env(user), prefix=tuple(lab.command([], user=user))))


def sleeper(lab: Lab, *options: str, user: str = "alice") -> int:
    return lab.submit("-o/dev/null", "-t5", "--mem=10", *options, "--wrap=sleep 600", user=user)


def state_of(lab: Lab, job: int) -> str:
    return lab.ask(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T"]).strip()


def test_an_operator_sees_all_that_is_private_and_others_are_told_what_they_lack(lab):
    jobs = [sleeper(lab, "-H", user=user) for user in ("alice", "carol")]
    states = [seen_by(lab, user).observe() for user in (None, "operator")]
    assert [sorted(state.pending.job_id.tolist()) for state in states] == [sorted(jobs)] * 2
    assert [list(state.nodes.name) for state in states] == [["n1", "n2"]] * 2
    assert states[1].qos.priority.tolist() == states[0].qos.priority.tolist()
    assert seen_by(lab, "operator").facts().permissions.associations is not None
    with pytest.raises(SlurmError, match=r"denied|may not see"):
        seen_by(lab, "bob").observe()


def test_a_cluster_of_a_federation_is_read_and_written_alone_and_says_so(lab):
    cluster = seen_by(lab, "operator")
    busy, job = sleeper(lab, "-N2", "--exclusive"), sleeper(lab, "-N2", "--exclusive")
    assert min(busy, job) > 2**26, "the jobs of a federation have long numbers"
    facts = cluster.facts()
    (found,) = [found for found in checkup(facts, Settings()) if found.name == "federation"]
    assert found.text.startswith(f"grid: {lab.cluster} alone is read and ordered")
    wait_until(lambda: cluster.observe().running.job_id.tolist() == [busy], 60.0, "a running job", every_s=0.5)
    (answer,) = cluster.act([Rank(job, 7)])
    assert answer.refused is None
    wait_until(lambda: cluster.observe().pending.site_points.tolist() == [7], 60.0, "its points", every_s=0.5)


def test_a_job_with_several_qos_stands_by_its_highest_and_no_limit_of_one_bars_it(lab):
    if slurm_release(None) < LISTS_SINCE:
        pytest.skip("a job has one QOS before 24.11")
    busy = sleeper(lab, "-qhigh", "-N2", "--exclusive")
    wait_until(lambda: state_of(lab, busy) == "RUNNING", 60.0, "a job on all nodes")
    job = lab.submit("-o/dev/null", "-t30", "-qlow,normal", "--wrap=true", user="alice")
    cluster = seen_by(lab, "operator")
    wait_until(lambda: cluster.observe().pending.reason[0] not in ("", "None"), 60.0, "a reason", every_s=0.5)
    state = cluster.observe()
    assert state.pending.qos.names[state.pending.qos.codes[0]] == "low,normal"
    assert qos_classes(state.pending, state.qos).tolist() == [50]
    assert standing(state.pending, state.partitions).tolist() == [Standing.RANKED], state.pending.reason[0]
    lab.ask(["scancel", str(busy)])
    wait_until(lambda: state_of(lab, job) == "COMPLETED", 60.0, "a job longer than one of its QOS allows")


@pytest.mark.parametrize(("options", "said"), [("-qhigh", "--qos=high"), ("-qlow", ""), ("-ptier -qlow", "")])
def test_of_a_job_for_which_slurm_stops_others_by_qos_it_is_said_that_times_leave_that_out(lab, options, said):
    state, may = (cluster := seen_by(lab, None)).observe(), cluster.known_facts().permissions
    site = Site(state.partitions, state.nodes, state.limits, may, lambda user: frozenset())
    tried = probe(
        read_job(b"#!/bin/sh\ntrue\n", {}, f"{options} -t5"), lab.user("alice"), time.time(), local_zone(), site
    )
    left_out = [part for part in tried.not_understood if "Slurm stops" in part]
    assert left_out == ([f"{said} (whether Slurm stops running jobs for it)"] if said else [])


def test_a_job_that_slurm_stops_for_another_waits_and_counts_its_requeue(lab):
    low = sleeper(lab, "-qlow", "-N2", "--exclusive", "--requeue")
    wait_until(lambda: state_of(lab, low) == "RUNNING", 60.0, "a job to stop")
    high = sleeper(lab, "-qhigh", "-N2", "--exclusive", user="carol")
    wait_until(lambda: state_of(lab, high) == "RUNNING", 120.0, "the job that stops it")
    state = seen_by(lab, "operator").observe()
    assert state.running.job_id.tolist() == [high]
    assert (state.pending.job_id.tolist(), state.pending.restarts.tolist()) == ([low], [1])
    assert state.pending.state.tolist() == [JobState.PENDING]
    assert np.isfinite(state.pending.eligible_s).all()


def test_partitions_of_a_higher_tier_stop_jobs_where_slurm_says_so_and_linear_selection_is_refused():
    conf = ("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "SelectType=select/linear", CONF[-1])
    spec = LabSpec(nodes=1, accounting=False, extra_conf=(*conf, "SelectTypeParameters=CR_Memory"))
    with Lab(Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp")), spec) as lab:
        facts = seen_by(lab, None).facts()
        assert facts.permissions.preempts_by == "partition_prio"
        assert {name: access.tier for name, access in facts.permissions.partitions.items()} == {"gpu": 1, "tier": 10}
        assert "SelectType is select/linear" in unreadable_selection(facts.config)
        found = {found.name: found.ok for found in checkup(facts, Settings())}
        assert (found["node selection"], found["preemption"]) == (False, None)
