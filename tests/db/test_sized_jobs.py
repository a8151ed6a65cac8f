"""CPUs and memory of ours and of others, told apart by the database: after a kill between any two steps too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from db_worlds import STEPS, CheckedMemory, carried_out

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import RestoreSize, Rightsize
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.daemon.release import give_back
from slurmsched.decide.rules import SharingRules
from slurmsched.slurm.adapters.fake import FakeSlurm

OWN, LESS, LEAST, OTHER = (f"cpus={n},task={n},node={n},mem={n}000Mn" for n in (6, 4, 2, 5))


@pytest.fixture
def cluster():
    """A full cluster with a job that waits."""
    slurm = FakeSlurm()
    for _ in range(4):
        slurm.submit(1e6, gpus=4)
    slurm.advance(0.0)
    slurm.submit(60.0, node_request=OWN)
    return slurm


JOB = 5


def daemon(store, cluster=None):
    """A new process, which has looked at the *cluster*."""
    memory = CheckedMemory(store, cluster="c")
    if cluster is not None:
        look(memory, cluster)
    return memory


def look(memory, cluster):
    return memory.remember(cluster.observe(), cluster.now_s, acting=True).state.pending


def known(store, cluster):
    """What a daemon that starts now knows of the job: its own request, others' changes, what release-all would do."""
    memory = daemon(store)
    pending = look(memory, cluster)
    return pending.own_request[0], bool(pending.request_changed[0]), undone(OwnIntents.among(memory.intents()), pending)


def by_hand(cluster, text):
    cluster.jobs[JOB] = replace(cluster.jobs[JOB], node_request=text)


@pytest.mark.parametrize("step", STEPS)
def test_wherever_the_daemon_is_killed_the_next_one_knows_its_own_change_and_can_end_it(store, cluster, step):
    carried_out(daemon(store, cluster), cluster, Rightsize(JOB, OWN, OWN, LESS), step)
    expected = ("", False, []) if step == "intended" else (OWN, False, [RestoreSize(JOB, LESS, OWN)])
    assert known(store, cluster) == expected


@pytest.mark.parametrize("step", STEPS)
def test_a_second_size_and_its_end_are_known_too(store, cluster, step):
    memory = daemon(store, cluster)
    carried_out(memory, cluster, Rightsize(JOB, OWN, OWN, LESS))
    carried_out(memory, cluster, Rightsize(JOB, OWN, LESS, LEAST), step, cycle=2)
    present = LESS if step == "intended" else LEAST
    assert known(store, cluster) == (OWN, False, [RestoreSize(JOB, present, OWN)])
    memory = daemon(store)
    look(memory, cluster)
    carried_out(memory, cluster, RestoreSize(JOB, present, OWN), step, cycle=3)
    expected = (OWN, False, [RestoreSize(JOB, present, OWN)]) if step == "intended" else ("", False, [])
    assert known(store, cluster) == expected


def test_what_somebody_else_asked_for_later_is_theirs(store, cluster):
    memory = daemon(store, cluster)
    carried_out(memory, cluster, Rightsize(JOB, OWN, OWN, LESS))
    by_hand(cluster, OTHER)
    assert known(store, cluster) == ("", True, [])
    by_hand(cluster, OWN)
    assert known(store, cluster) == ("", True, []), "the owner wants what he asked for first"
    by_hand(cluster, LESS)
    assert known(store, cluster)[0] == OWN, "just what we wrote counts as ours"


def test_a_change_that_slurm_lost_or_refused_leaves_the_job_free(store, cluster):
    memory = daemon(store, cluster)
    carried_out(memory, cluster, Rightsize(JOB, OWN, OWN, LESS), "answered")
    by_hand(cluster, OWN)
    assert known(store, cluster) == ("", False, [])
    carried_out(memory, cluster, Rightsize(JOB, OWN, OTHER, LEAST), cycle=2)
    assert known(store, cluster) == ("", False, []), "over another request nothing is written"
    assert JOB in daemon(store).recently_refused(cluster.now_s) or JOB in memory.recently_refused(cluster.now_s)


def test_a_change_that_slurm_refused_and_made_all_the_same_is_ours(store, cluster):
    memory = daemon(store, cluster)
    size = Rightsize(JOB, OWN, OWN, LESS)
    memory.intend(1, [size], cluster.now_s)
    memory.answered(1, [(size, "Requested partition configuration not available now")], cluster.now_s)
    by_hand(cluster, LESS)
    assert known(store, cluster) == (OWN, False, [RestoreSize(JOB, LESS, OWN)])


def test_a_request_that_was_not_read_is_nobodys_and_columns_are_read_as_long_as_some_may_be_ours(store, cluster):
    memory = daemon(store)
    assert memory.optional_columns() == frozenset()
    look(memory, cluster)
    carried_out(memory, cluster, Rightsize(JOB, OWN, OWN, LESS))
    assert memory.optional_columns() == {"node_request"}
    by_hand(cluster, "")
    assert known(store, cluster) == ("", False, [])


def test_what_release_all_gave_back_is_no_wish_of_the_owner(store, cluster):
    memory = daemon(store, cluster)
    carried_out(memory, cluster, Rightsize(JOB, OWN, OWN, LESS))

    def keep(news):
        store.save_intents("c", news)

    report = give_back(cluster, memory.intents(), ManualClock(cluster.now_s + 1), 60.0, SharingRules(), keep)
    assert report.restored == 1
    assert cluster.jobs[JOB].node_request == OWN
    assert known(store, cluster) == ("", False, [])


def test_the_story_tells_of_both(store, cluster):
    memory = daemon(store, cluster)
    carried_out(memory, cluster, Rightsize(JOB, OWN, OWN, LESS))
    carried_out(memory, cluster, RestoreSize(JOB, LESS, OWN), cycle=2)
    told = [(event.kind, event.details.get("value")) for event in store.story("c", JOB)]
    assert told[-2:] == [("sized", f"{OWN} {LESS}"), ("size restored", OWN)]


@pytest.mark.parametrize("count", [30, pytest.param(100, marks=pytest.mark.soak)])
def test_many_changes_with_a_kill_between_any_two_steps_leave_none_that_nobody_knows(store, cluster, count):
    random = np.random.default_rng(11)
    for cycle in range(1, count + 1):
        memory = daemon(store)
        pending = look(memory, cluster)
        present, own = pending.node_request[0], pending.own_request[0]
        assert not pending.request_changed[0]
        assert (present == OWN) == (own == "")
        sizes = [text for text in (LESS, LEAST, OTHER) if text != present]
        action = RestoreSize(JOB, present, own) if own and random.random() < 0.4 else None
        action = action or Rightsize(JOB, own or present, present, sizes[random.integers(len(sizes))])
        carried_out(memory, cluster, action, STEPS[random.integers(len(STEPS))], cycle)
        cluster.now_s += 1.0
    own, _, restored = known(store, cluster)
    cluster.act(restored)
    assert cluster.jobs[JOB].node_request == OWN
    assert bool(own) == bool(restored)
