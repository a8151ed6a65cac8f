"""The nodes that jobs were asked to leave, as daemons know them after a kill between any two steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from db_worlds import STEPS, CheckedMemory, carried_out

from slurmsched.cluster.actions import AskToStop, Steer, Unsteer
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.cluster.exclusions import ANY_TYPE
from slurmsched.cluster.jobs import JobState
from slurmsched.slurm.adapters.fake import FakeSlurm

LEAVES = AskToStop(1, "URG", "n1")


@pytest.fixture
def cluster():
    """A cluster with a job that runs, and saves its work in 20 s when it is asked to stop."""
    slurm = FakeSlurm()
    slurm.submit(1e6, gpus=4, saves_s=20.0)
    slurm.advance(1.0)
    return slurm


def daemon(store):
    return CheckedMemory(store, cluster="c")


def look(memory, cluster):
    return memory.remember(cluster.observe(), cluster.now_s, acting=True).state


@pytest.mark.parametrize("step", STEPS)
def test_wherever_the_daemon_is_killed_the_next_one_knows_what_the_job_was_asked_to_leave(store, cluster, step):
    memory = daemon(store)
    look(memory, cluster)
    carried_out(memory, cluster, LEAVES, step)
    asked_s = cluster.now_s
    memory = daemon(store)
    running = look(memory, cluster).running
    assert (running.left_nodes[0], running.left_s[0]) == ("n1", asked_s), "sent or not, it counts"
    assert memory.optional_columns() == {"excluded_nodes"}, "its excluded nodes are read from now on"
    if step == "intended":
        return
    cluster.advance(30.0)
    pending = look(daemon(store), cluster).pending
    assert (pending.left_nodes[0], pending.left_s[0]) == ("n1", asked_s)


def test_it_is_known_for_a_day_through_the_next_run_and_by_every_daemon(store, cluster):
    memory = daemon(store)
    look(memory, cluster)
    carried_out(memory, cluster, LEAVES)
    cluster.advance(30.0)
    look(memory, cluster)
    cluster.advance(200.0)
    for one in (memory, daemon(store)):
        running = look(one, cluster).running
        assert (running.state[0], running.left_nodes[0]) == (JobState.RUNNING, "n1")
    cluster.advance(86_400.0)
    for one in (memory, daemon(store)):
        assert look(one, cluster).running.left_s[0] == 0.0
    assert not memory.optional_columns()


def test_the_exclusion_of_nodes_that_it_left_is_ours_and_is_lifted_like_that_of_steering(store, cluster):
    memory = daemon(store)
    look(memory, cluster)
    carried_out(memory, cluster, LEAVES)
    cluster.advance(30.0)
    look(memory, cluster)
    carried_out(memory, cluster, Steer(1, ANY_TYPE, "n1"), cycle=2)
    memory = daemon(store)
    pending = look(memory, cluster).pending
    assert pending.steered[0] == ANY_TYPE
    assert undone(OwnIntents.among(memory.intents()), pending) == [Unsteer(1, "n1")]
    cluster.advance(200.0)
    assert look(memory, cluster).running.steered[0] == ANY_TYPE, "so it is while it runs: the list is not its owner's"
    kinds = [event.kind for event in store.story("c", 1)]
    assert [kind for kind in kinds if kind in ("asked to leave", "requeued", "kept off")] == [
        "asked to leave",
        "requeued",
        "kept off",
    ]


def test_a_request_in_vain_or_refused_leaves_nothing_to_keep_the_job_off(store, cluster):
    memory = daemon(store)
    look(memory, cluster)
    cluster.jobs[1] = replace(cluster.jobs[1], state=JobState.SUSPENDED)
    carried_out(memory, cluster, LEAVES)
    assert look(memory, cluster).running.left_nodes[0] == ""
    cluster.jobs[1] = replace(cluster.jobs[1], state=JobState.RUNNING)
    memory.intend(2, [LEAVES], cluster.now_s)
    memory.answered(2, [(LEAVES, "Access/permission denied")], cluster.now_s)
    assert look(memory, cluster).running.left_nodes[0] == ""


def test_a_later_request_without_nodes_does_not_hide_the_earlier_one(store, cluster):
    memory = daemon(store)
    look(memory, cluster)
    carried_out(memory, cluster, LEAVES)
    cluster.now_s += 10.0
    carried_out(memory, cluster, AskToStop(1, "URG"), cycle=2)
    assert look(memory, cluster).running.left_nodes[0] == "n1"


def test_another_job_with_the_same_id_was_asked_nothing(store, cluster):
    memory = daemon(store)
    look(memory, cluster)
    carried_out(memory, cluster, LEAVES)
    del cluster.jobs[1]
    cluster.advance(1000.0)
    memory.remember(cluster.observe(), cluster.now_s, acting=True, forgotten=[1])
    number = cluster.submit(1e6)
    cluster.jobs[1] = replace(cluster.jobs.pop(number), job_id=1)
    assert look(memory, cluster).pending.left_s[0] == 0.0
    assert look(daemon(store), cluster).pending.left_s[0] == 0.0
