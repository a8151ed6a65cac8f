"""Writes that Slurm refused and yet took over, whole or in part: our intents tell that they are ours.

What the queue shows after each is what a real Slurm 22.05.8 showed: it keeps counting the former request (TRES), so
that CPUs and memory contradict themselves and cannot be read, and the GPUs asked for are not those that are counted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from db_worlds import CheckedMemory

from slurmsched.cluster.actions import Avoid, Resize, RestoreSize, Rightsize, Steer, Unsteer
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.cluster.avoided import read_avoided
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.exclusions import UNREAD
from slurmsched.slurm.adapters.fake import FakeSlurm

OWN, OURS = "cpus=2,task=2,node=2,mem=4000Mn", "cpus=3,task=3,node=3,mem=12000Mn"
MIXED, THEIRS = "cpus=3,task=3,node=3,mem=4000Mn", "cpus=3,task=3,node=3,mem=5000Mn"
REFUSED = "Requested partition configuration not available now for job 5"
JOB = 5


@pytest.fixture
def cluster():
    """A full cluster with a job that waits."""
    slurm = FakeSlurm()
    for _ in range(4):
        slurm.submit(1e6, gpus=4)
    slurm.advance(0.0)
    slurm.submit(60.0, gpus=1, node_request=OWN)
    return slurm


def look(memory, cluster, **shown):
    """What a daemon knows of the job, where squeue has these texts of it."""
    state = cluster.observe()
    columns = {name: Labels.of(v) if isinstance(v[0], str) else np.array(v) for name, v in shown.items()}
    state = replace(state, pending=state.pending.changed(**columns))
    return memory.remember(state, cluster.now_s, acting=True).state.pending


def sent(store, cluster, action, answer):
    """A daemon that sent *action*, and was killed before the *answer* where that is empty."""
    memory = CheckedMemory(store, cluster="c")
    look(memory, cluster)
    memory.intend(1, [action], cluster.now_s)
    if answer != "":
        memory.answered(1, [(action, answer)], cluster.now_s)
    return memory


@pytest.mark.parametrize("present", ["", MIXED])
@pytest.mark.parametrize("answer", [REFUSED, None, ""])
@pytest.mark.parametrize("daemon", ["same", "next"])
def test_cpus_and_memory_taken_in_part_are_ours_by_our_intent(store, cluster, present, answer, daemon):
    memory = sent(store, cluster, Rightsize(JOB, OWN, OWN, OURS), answer)
    memory = memory if daemon == "same" else CheckedMemory(store, cluster="c")
    pending = look(memory, cluster, node_request=[present])
    assert (pending.own_request[0], pending.half_written[0]) == (OWN, "rightsize")
    assert not pending.request_changed[0]
    assert undone(OwnIntents.among(memory.intents()), pending) == [RestoreSize(JOB, present, OWN)]


def test_what_somebody_else_wrote_is_not_ours(store, cluster):
    memory = sent(store, cluster, Rightsize(JOB, OWN, OWN, OURS), None)
    pending = look(memory, cluster, node_request=[THEIRS])
    assert (pending.own_request[0], bool(pending.request_changed[0])) == ("", True)


def test_a_request_that_was_not_read_is_nobodys(store, cluster):
    memory = sent(store, cluster, Rightsize(JOB, OWN, OWN, OURS), REFUSED)
    assert look(memory, cluster, node_request=[UNREAD]).own_request[0] == ""


def test_once_ours_was_seen_whole_an_unreadable_request_is_ours_only_where_the_job_cannot_start(store, cluster):
    memory = sent(store, cluster, Rightsize(JOB, OWN, OWN, OURS), None)
    look(memory, cluster, node_request=[OURS])
    assert look(memory, cluster, node_request=[""]).own_request[0] == ""
    assert look(memory, cluster, node_request=[""], reason=["MaxMemPerLimit"]).own_request[0] == OWN


def test_once_its_own_is_back_an_unreadable_request_is_not_ours(store, cluster):
    memory = sent(store, cluster, Rightsize(JOB, OWN, OWN, OURS), REFUSED)
    look(memory, cluster, node_request=[""])
    memory.intend(2, [RestoreSize(JOB, "", OWN)], cluster.now_s + 1)
    memory.answered(2, [(RestoreSize(JOB, "", OWN), None)], cluster.now_s + 1)
    assert look(memory, cluster, node_request=[""]).own_request[0] == ""


@pytest.mark.parametrize("answer", [REFUSED, None, ""])
def test_excluded_nodes_that_slurm_refused_and_took_over_are_ours(store, cluster, answer):
    memory = sent(store, cluster, Steer(JOB, "v100", "n[1-2]"), answer)
    pending = look(memory, cluster, excluded_nodes=["n[1-2]"])
    assert pending.steered[0] == "v100"
    assert undone(OwnIntents.among(memory.intents()), pending) == [Unsteer(JOB, "n[1-2]")]


def test_excluded_nodes_that_were_not_even_sent_are_somebody_elses(store, cluster):
    memory = sent(store, cluster, Steer(JOB, "v100", "n[1-2]"), "its request was changed meanwhile")
    assert look(memory, cluster, excluded_nodes=["n[1-2]"]).steered[0] == ""


@pytest.mark.parametrize("answer", [REFUSED, None, ""])
@pytest.mark.parametrize(("counted", "asked"), [(1, 2), (2, 1)])
def test_gpus_that_slurm_counts_otherwise_than_they_are_asked_for_are_ours(store, cluster, answer, counted, asked):
    memory = sent(store, cluster, Resize(JOB, 2, 1, 1), answer)
    pending = look(memory, cluster, gpus=[counted], per_node=[f"gres:gpu:{asked}"])
    assert (int(pending.own_gpus[0]), pending.half_written[0]) == (1, "resize")
    assert undone(OwnIntents.among(memory.intents()), pending) == [Resize(JOB, 1, asked, 1)]


HALVES = [  # of a job with two GPUs on each of so many nodes, per node and for the whole job: as 22.05.8 showed them
    ((2, 4), {"gpus": [4], "nodes": [2], "per_node": ["gres:gpu:2"], "node_range": ["2-4"], "per_job": [False]}),
    ((4, 2), {"gpus": [8], "nodes": [4], "per_node": ["gres:gpu:2"], "node_range": ["4-2"], "per_job": [False]}),
    ((1, 2), {"gpus": [2], "nodes": [1], "per_node": ["gres:gpu:2"], "node_range": ["1-2"], "per_job": [False]}),
    ((2, 4), {"gpus": [4], "nodes": [2], "per_node": ["gres:gpu:8"], "per_job": [True]}),
    ((2, 1), {"gpus": [4], "nodes": [2], "per_node": ["gres:gpu:2"], "per_job": [True]}),
    ((1, 2), {"gpus": [2], "nodes": [1], "per_node": ["gres:gpu:4"], "per_job": [True]}),
]


@pytest.mark.parametrize("answer", [REFUSED, None, ""])
@pytest.mark.parametrize(("nodes", "shown"), HALVES)
def test_nodes_of_which_slurm_counts_others_than_it_took_are_ours(store, cluster, nodes, shown, answer):
    before, after = (2 * many for many in nodes)
    memory = sent(store, cluster, Resize(JOB, after, before, before, 2), answer)
    pending = look(memory, cluster, **shown)
    assert (int(pending.own_gpus[0]), pending.half_written[0]) == (before, "resize")
    assert (int(pending.taken_nodes[0]), pending.node_range[0]) == (nodes[1], "")
    seen = cluster.observe().pending.changed(
        **{name: Labels.of(v) if isinstance(v[0], str) else np.array(v) for name, v in shown.items()}
    )
    assert undone(OwnIntents.among(memory.intents()), seen) == [Resize(JOB, before, before, before, 2, nodes[1])]


@pytest.mark.parametrize(("nodes", "shown"), HALVES)
def test_a_range_of_nodes_that_we_did_not_write_is_its_owners(store, cluster, nodes, shown):
    memory = sent(store, cluster, Resize(JOB, 2 * nodes[1] + 2, 2 * nodes[0], 2 * nodes[0], 2), REFUSED)
    pending = look(memory, cluster, **shown)
    assert (int(pending.own_gpus[0]), pending.half_written[0], int(pending.taken_nodes[0])) == (0, "", 0)


def test_what_blocked_a_job_is_known_to_the_next_daemon_while_it_waits_and_while_it_runs(store, cluster):
    memory = sent(store, cluster, Avoid(JOB, "rightsize+resize", "12.34", "-", "MaxMemPerLimit"), None)
    memory.intend(2, [Avoid(JOB, "steer", "12.34", "56", "BadConstraints")], cluster.now_s)
    (one, two) = read_avoided(look(CheckedMemory(store, cluster="c"), cluster).avoided[0])
    assert (one.changes, one.request, one.limits, one.reason) == ("rightsize+resize", "12.34", "-", "MaxMemPerLimit")
    assert (two.changes, two.reason) == ("steer", "BadConstraints")
    cluster.advance(1e6 + 1.0)
    memory = CheckedMemory(store, cluster="c")
    state = memory.remember(cluster.observe(), cluster.now_s, acting=True).state
    assert read_avoided(state.running.avoided[list(state.running.job_id).index(JOB)])[0] == one
