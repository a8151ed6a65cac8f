"""Excluded nodes of ours and of others, told apart by the database: after a kill between any two steps too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from db_worlds import STEPS, CheckedMemory, carried_out

from slurmsched.cluster.actions import Requeue, Steer, Unsteer
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.exclusions import UNREAD, same_nodes
from slurmsched.slurm.adapters.fake import FakeSlurm

TO_A100, TO_V100 = "a100", "v100"


@pytest.fixture
def cluster():
    """A full cluster with a job that waits."""
    slurm = FakeSlurm()
    for _ in range(4):
        slurm.submit(1e6, gpus=4)
    slurm.advance(0.0)
    slurm.submit(60.0)
    return slurm


def daemon(store):
    return CheckedMemory(store, cluster="c")


def look(memory, cluster):
    return memory.remember(cluster.observe(), cluster.now_s, acting=True).state.pending


def told(store, cluster):
    """What a daemon that starts now knows of the job, and what the release unit would do."""
    memory = daemon(store)
    pending = look(memory, cluster)
    return pending.steered[0], undone(OwnIntents.among(memory.intents()), pending)


@pytest.mark.parametrize("step", STEPS)
def test_wherever_the_daemon_is_killed_the_next_one_knows_its_own_exclusion_and_can_lift_it(store, cluster, step):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Steer(job, TO_A100, "n[2-3]"), step)
    expected = ("", []) if step == "intended" else (TO_A100, [Unsteer(job, "n[2-3]")])
    assert told(store, cluster) == expected


@pytest.mark.parametrize("step", STEPS)
def test_so_it_is_while_the_type_is_changed_or_the_job_let_go(store, cluster, step):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Steer(job, TO_A100, "n[2-3]"))
    carried_out(memory, cluster, Steer(job, TO_V100, "n1", "n[2-3]"), step, cycle=2)
    assert told(store, cluster)[0] == (TO_A100 if step == "intended" else TO_V100)
    memory = daemon(store)
    look(memory, cluster)
    ours = cluster.jobs[job].excluded_nodes
    carried_out(memory, cluster, Unsteer(job, ours), step, cycle=3)
    assert told(store, cluster)[1] == ([Unsteer(job, ours)] if step == "intended" else [])
    if step != "intended":
        assert daemon_sees_time(store, cluster) == cluster.now_s, "it is not sent to a type again at once"


def daemon_sees_time(store, cluster):
    return look(daemon(store), cluster).steered_s[0]


def test_what_a_user_excludes_before_or_after_us_is_the_users(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    theirs = cluster.submit(60.0, excluded_nodes="n2")
    carried_out(memory, cluster, Steer(job, TO_A100, "n[2-3]"))
    cluster.act([Steer(job, "by hand", "n[2-4]", "n[2-3]")])
    pending = look(memory, cluster)
    assert list(pending.steered) == ["", ""]
    assert undone(OwnIntents.among(memory.intents()), pending) == []
    assert pending.job_id.tolist() == [job, theirs]


def test_an_update_that_slurmctld_undoes_leaves_the_earlier_one_ours(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Steer(job, TO_A100, "n[2-3]"))
    carried_out(memory, cluster, Steer(job, TO_V100, "n1", "n[2-3]"), cycle=2)
    cluster.act([Steer(job, "backfill", "n[2-3]", "n1")])
    assert told(store, cluster) == (TO_A100, [Unsteer(job, "n[2-3]")])


def test_a_requeued_job_keeps_our_exclusion_and_it_stays_ours(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Steer(job, TO_A100, "n[2-3]"))
    cluster.jobs |= {number: replace(cluster.jobs[number], left_s=0.0) for number in range(1, 5)}
    cluster.advance(1.0)
    assert not len(look(memory, cluster))
    assert memory.optional_columns() == {"excluded_nodes"}
    cluster.act([Requeue(job)])
    assert told(store, cluster) == (TO_A100, [Unsteer(job, "n[2-3]")])


def test_another_job_with_the_same_id_is_not_ours(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Steer(job, TO_A100, "n2"))
    del cluster.jobs[job]
    cluster.advance(1000.0)
    memory.remember(cluster.observe(), cluster.now_s, acting=True, forgotten=[job])
    cluster.jobs[job] = cluster.jobs[cluster.submit(60.0, excluded_nodes="n2")]
    assert not any(look(memory, cluster).steered)


def test_a_list_that_was_not_read_is_nobodys():
    assert same_nodes("n[1-2]", "n2,n1")
    assert not any(same_nodes(*pair) for pair in (("", ""), (UNREAD, UNREAD), ("n1", "n[1-2]"), ("n[", "n1")))


def test_a_refused_exclusion_is_told_in_the_story_and_is_not_ours(store, cluster):
    memory = daemon(store)
    job = int(look(memory, cluster).job_id[0])
    carried_out(memory, cluster, Steer(4711, TO_A100, "n2"))
    carried_out(memory, cluster, Steer(job, TO_A100, "n2"), cycle=2)
    assert [event.kind for event in store.story("c", job)][-1] == "steered"
    assert [event.kind for event in store.story("c", 4711)] == ["refused"]


def test_the_columns_are_those_of_a_table_of_jobs(store, cluster):
    pending = look(daemon(store), cluster)
    assert isinstance(pending.steered, Labels)
    assert pending.steered_s.dtype == np.float64


@pytest.mark.parametrize("count", [30, pytest.param(100, marks=pytest.mark.soak)])
def test_many_steerings_with_a_kill_between_any_two_steps_leave_no_exclusion_that_nobody_knows(store, cluster, count):
    random = np.random.default_rng(23)
    jobs = [cluster.submit(60.0) for _ in range(10)]
    theirs = cluster.submit(60.0, excluded_nodes="n2")
    memory = daemon(store)
    look(memory, cluster)
    for cycle in range(1, count + 1):
        job, step = int(random.choice(jobs)), str(random.choice(STEPS))
        types, nodes = [(TO_A100, "n[2-3]"), (TO_V100, "n1"), ("k80", "n[1-2]")][int(random.integers(3))]
        ours = cluster.jobs[job].excluded_nodes and random.random() < 0.3
        carried_out(memory, cluster, Unsteer(job) if ours else Steer(job, types, nodes), step, cycle)
        cluster.now_s += 1.0
        memory = daemon(store)
        pending = look(memory, cluster)
        known = {int(one) for one, types in zip(pending.job_id, pending.steered, strict=True) if types}
        assert known == {one for one in jobs if cluster.jobs[one].excluded_nodes}, f"after cycle {cycle}, {step}"
    assert known
    cluster.act(undone(OwnIntents.among(memory.intents()), pending))
    assert {number for number, one in cluster.jobs.items() if one.excluded_nodes} == {theirs}
