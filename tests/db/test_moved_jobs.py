"""Partitions of ours and of others, told apart by the database: after a kill between any two steps too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from db_worlds import STEPS, CheckedMemory, carried_out

from slurmsched.cluster.actions import MovePartition
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.slurm.adapters.fake import FakeSlurm

BOTH = "fast,gpu"


@pytest.fixture
def cluster():
    """A full cluster with a job that waits in two partitions."""
    slurm = FakeSlurm(partitions={"gpu": 0, "fast": 0})
    for _ in range(4):
        slurm.submit(1e6, gpus=4)
    slurm.advance(0.0)
    slurm.submit(60.0, partition=BOTH)
    return slurm


def daemon(store):
    return CheckedMemory(store, cluster="c")


def look(memory, cluster):
    return memory.remember(cluster.observe(), cluster.now_s, acting=True).state.pending


def told(store, cluster):
    """What a daemon that starts now knows of the job, and what the release unit would do."""
    memory = daemon(store)
    pending = look(memory, cluster)
    return pending.own_partition[0], undone(OwnIntents.among(memory.intents()), pending)


@pytest.mark.parametrize("step", STEPS)
def test_wherever_the_daemon_is_killed_the_next_one_knows_the_own_partitions_and_gives_them_back(store, cluster, step):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, MovePartition(job, "gpu", BOTH), step)
    assert told(store, cluster) == (("", []) if step == "intended" else (BOTH, [MovePartition(job, BOTH, BOTH)]))


@pytest.mark.parametrize("step", STEPS)
def test_so_it_is_while_they_go_back(store, cluster, step):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, MovePartition(job, "gpu", BOTH))
    carried_out(memory, cluster, MovePartition(job, BOTH, BOTH), step, cycle=2)
    assert told(store, cluster)[0] == (BOTH if step == "intended" else "")


def test_partitions_that_somebody_chose_after_us_are_theirs(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, MovePartition(job, "gpu", BOTH))
    cluster.jobs[job] = replace(cluster.jobs[job], partition="fast")
    assert told(store, cluster) == ("", [])
