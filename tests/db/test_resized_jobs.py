"""Numbers of GPUs of ours and of others, told apart by the database: after a kill between any two steps too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from db_worlds import STEPS, CheckedMemory, carried_out

from slurmsched.cluster.actions import Requeue, Resize
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.slurm.adapters.fake import FakeSlurm


@pytest.fixture
def cluster():
    """A full cluster with a job of two GPUs that waits."""
    slurm = FakeSlurm()
    for _ in range(4):
        slurm.submit(1e6, gpus=4)
    slurm.advance(0.0)
    slurm.submit(60.0, gpus=2)
    return slurm


def daemon(store):
    return CheckedMemory(store, cluster="c")


def look(memory, cluster):
    return memory.remember(cluster.observe(), cluster.now_s, acting=True).state.pending


def told(store, cluster):
    """The own number of the job as a daemon knows it that starts now, and what the release unit would do."""
    memory = daemon(store)
    pending = look(memory, cluster)
    return int(pending.own_gpus[0]), undone(OwnIntents.among(memory.intents()), pending)


@pytest.mark.parametrize("step", STEPS)
def test_wherever_the_daemon_is_killed_the_next_one_knows_the_own_number_and_can_restore_it(store, cluster, step):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Resize(job, 4, 2, 2), step)
    assert told(store, cluster) == ((0, []) if step == "intended" else (2, [Resize(job, 2, 4, 2)]))


@pytest.mark.parametrize("step", STEPS)
def test_so_it_is_while_the_number_is_changed_again_or_restored(store, cluster, step):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Resize(job, 4, 2, 2))
    carried_out(memory, cluster, Resize(job, 3, 4, 2), step, cycle=2)
    assert told(store, cluster)[0] == 2
    memory = daemon(store)
    now = int(look(memory, cluster).gpus[0])
    carried_out(memory, cluster, Resize(job, 2, now, 2), step, cycle=3)
    assert told(store, cluster) == ((2, [Resize(job, 2, now, 2)]) if step == "intended" else (0, []))
    assert look(daemon(store), cluster).resized_s.tolist() == [cluster.now_s], "it does not grow again at once"


def test_a_number_that_somebody_else_wrote_since_is_theirs(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Resize(job, 4, 2, 2))
    cluster.jobs[job] = replace(cluster.jobs[job], gpus=3)
    assert told(store, cluster) == (0, [])
    assert cluster.act([Resize(job, 2, 4, 2)])[0].refused is not None, "and a late change of ours finds another one"


def test_a_requeued_job_keeps_its_number_and_that_is_still_ours(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Resize(job, 4, 2, 2))
    cluster.jobs = {job: cluster.jobs[job]}
    cluster.advance(1.0)
    running = memory.remember(cluster.observe(), cluster.now_s, acting=True).state.running
    assert (running.own_gpus.tolist(), running.gpus.tolist()) == ([2], [4])
    carried_out(memory, cluster, Requeue(job), cycle=2)
    assert told(store, cluster) == (2, [Resize(job, 2, 4, 2)])


def test_the_time_of_the_last_change_is_known_to_the_next_daemon(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Resize(job, 4, 2, 2))
    changed_s = cluster.now_s
    cluster.advance(50.0)
    assert look(daemon(store), cluster).resized_s.tolist() == [changed_s]
