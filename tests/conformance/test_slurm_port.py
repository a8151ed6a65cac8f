"""What every adapter of the Slurm port promises, over all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slurmsched.cluster.actions import (
    AskToStop,
    Hold,
    MoveNodes,
    MovePartition,
    NodeChange,
    Rank,
    Release,
    Requeue,
    Resize,
    RestoreSize,
    Resume,
    Rightsize,
    Share,
    StartShared,
    Steer,
    Suspend,
    Unmark,
    Unshare,
    Unsteer,
)
from slurmsched.cluster.exclusions import same_nodes
from slurmsched.cluster.jobs import SETTLE_S, JobState
from slurmsched.cluster.node_request import read_request
from slurmsched.cluster.records.node_loans import members
from slurmsched.cluster.state import ClusterState
from slurmsched.cluster.text.hostlist import fold
from slurmsched.cluster.text.tres import requests_in, slots_in

from .conftest import World, row


def fill(world: World, nodes: int = 4) -> list[int]:
    """Occupy all GPUs of so many nodes for the length of a test; there are four."""
    blockers = [world.submit(540, gpus=4, name="blocker") for _ in range(nodes)]
    world.until(lambda state: running(state, *blockers), "all GPUs taken")
    return blockers


def pending(state: ClusterState, *jobs: int) -> bool:
    return all(state.pending.row_of(job) is not None for job in jobs)


def running(state: ClusterState, *jobs: int) -> bool:
    return all(
        (at := state.running.row_of(job)) is not None and state.running.state[at] == JobState.RUNNING for job in jobs
    )


def test_facts_name_the_cluster_its_release_and_our_rights(world):
    facts = world.cluster.facts()
    assert facts.cluster
    assert facts.version >= (22, 5)
    assert facts.multifactor
    assert facts.admin_level == "Operator"


def test_an_empty_cluster_has_nodes_and_no_jobs(world):
    state = world.cluster.observe()
    assert len(state.pending) == len(state.running) == 0
    assert state.nodes.gpus.sum() == 16
    assert state.nodes.usable.all()
    assert "gpu" in state.partitions.name.names


def test_a_waiting_job_is_seen_as_submitted(world):
    fill(world)
    job = world.submit(5, gpus=2, name="train_7", comment="hello slurmsched:ckpt")
    state = world.until(lambda state: pending(state, job), "the job pending")
    jobs, at = state.pending, row(state.pending, job)
    assert jobs.gpus[at] == 2
    assert jobs.name[at] == "train_7"
    assert jobs.user[at].endswith("alice")
    assert jobs.ckpt[at]
    assert not jobs.off[at]
    assert not jobs.interactive[at]
    assert jobs.requeueable[at]
    assert 0 <= world.now_s() - jobs.submitted_s[at] < 600
    assert jobs.first_submit_s[at] == jobs.submitted_s[at]
    assert jobs.site_points[at] == 0


def test_what_is_asked_for_per_gpu_is_seen(world):
    fill(world)
    plain, per_gpu = world.submit(5, gpus=2), world.submit(5, gpus=2, cpus_per_gpu=2)
    state = world.until(lambda state: pending(state, plain, per_gpu), "both pending")
    assert [state.pending.per_gpu[row(state.pending, job)] for job in (plain, per_gpu)] == [False, True]


def test_running_jobs_hold_their_gpus_and_finished_ones_give_them_back(world):
    job, short = world.submit(540, gpus=4), world.submit(1)
    # Nodes and jobs are not read at the same moment.
    state = world.until(
        lambda state: (
            running(state, job) and state.nodes.gpus_used.sum() == 4 and state.ended.row_of(short) is not None
        ),
        "four GPUs in use and one given back",
    )
    assert state.running.node_list[row(state.running, job)]
    assert math.isfinite(state.running.started_s[row(state.running, job)])
    at = row(state.ended, short)
    assert state.ended.state[at] == JobState.COMPLETED
    assert state.ended.ended_s[at] >= state.ended.started_s[at]
    world.end(job)
    world.until(lambda state: state.nodes.gpus_used.sum() == 0, "all GPUs given back")


def test_a_job_is_forgotten_only_when_it_is_gone(world):
    runs, over = world.submit(540, gpus=2), world.submit(1)
    world.until(lambda state: running(state, runs) and state.ended.row_of(over) is not None, "one over, one running")
    assert world.cluster.forgot([])
    assert world.cluster.forgot([4_000_000, 4_000_001])
    for jobs in ([runs], [over], [runs, over], [4_000_000, runs], [over, 4_000_000]):
        assert not world.cluster.forgot(jobs)


def test_accounting_knows_the_runs_of_a_job(world):
    job, other, began_s = world.submit(1), world.submit(1), world.now_s() - 5
    world.until(lambda state: all(state.ended.row_of(one) is not None for one in (job, other)), "both over")
    # Accounting is written a moment later.
    world.until(lambda _: world.cluster.past_runs([job], began_s).job_id.tolist() == [job], "its run accounted")
    runs = world.cluster.past_runs([job], began_s)
    assert (runs.state.tolist(), runs.started_s >= began_s) == ([JobState.COMPLETED], [True])
    assert len(world.cluster.past_runs([job], world.now_s() + 100)) == 0
    assert len(world.cluster.past_runs([], began_s)) == 0


def test_points_put_the_later_job_first(world):
    blockers = fill(world)
    first, second = world.submit(540, gpus=4), world.submit(540, gpus=4)
    world.until(lambda state: pending(state, first, second), "both pending")
    assert [answer.refused for answer in world.cluster.act([Rank(second, 700)])] == [None]
    state = world.until(
        lambda state: state.pending.site_points[row(state.pending, second)] == 700, "the points on the second job"
    )
    priority = state.pending.priority
    assert priority[row(state.pending, second)] > priority[row(state.pending, first)]
    assert not state.pending.fixed.any()
    world.cluster.act([Rank(second, 0)])
    world.until(lambda state: state.pending.site_points[row(state.pending, second)] == 0, "the points gone")
    assert world.cluster.act([Rank(second, 50)])[0].refused is None
    world.end(blockers[0])
    state = world.until(lambda state: running(state, second), "the second job running")
    assert pending(state, first)


def test_an_array_with_tasks_that_are_over_takes_changes_for_those_that_wait(world):
    blockers = [world.submit(300, gpus=4, name="blocker") for _ in range(3)]
    world.until(lambda state: running(state, *blockers), "one node free")
    # One runs after the other: for minutes some are over, one runs and the rest wait.
    array, job = world.submit(5, gpus=4, tasks=40), world.submit(300, gpus=4)
    world.until(lambda state: array in state.ended.array_job_id and pending(state, array, job), "a task over")
    for points in (300, 0):
        assert [answer.refused for answer in world.cluster.act([Rank(array, points), Rank(job, 200)])] == [None, None]
        world.until(
            lambda state, points=points: state.pending.site_points[row(state.pending, array)] == points, "the points"
        )


def test_a_held_job_waits_and_a_released_one_starts(world):
    job = world.submit(540)
    until_s = world.now_s() + 600
    blocked = world.cluster.act([Hold(job, until_s)])[0].refused
    if blocked is not None:  # it had started already: hold a second one that has to wait
        world.end(job)
        fill_rest = [world.submit(540, gpus=4) for _ in range(4)]
        job = world.submit(540, gpus=4)
        world.until(lambda state: pending(state, job), "the job pending")
        assert world.cluster.act([Hold(job, until_s)])[0].refused is None
        world.end(fill_rest[0])
    state = world.until(lambda state: pending(state, job), "the job pending")
    assert abs(state.pending.eligible_s[row(state.pending, job)] - until_s) <= 1
    assert world.cluster.act([Release(job)])[0].refused is None
    world.until(lambda state: running(state, job), "the job running")


def test_a_hold_frees_itself(world):
    fill_all = fill(world)
    job = world.submit(540, gpus=4)
    world.until(lambda state: pending(state, job), "the job pending")
    world.cluster.act([Hold(job, world.now_s() + 3)])
    world.end(fill_all[0])
    world.until(lambda state: running(state, job), "the job running without a release")


def test_a_requeued_job_is_pending_again_with_one_more_restart(world):
    job = world.submit(540, comment="slurmsched:ckpt")
    world.until(lambda state: running(state, job), "the job running")
    assert world.cluster.act([Requeue(job)])[0].refused is None
    state = world.until(lambda state: pending(state, job), "the job pending again")
    assert state.pending.restarts[row(state.pending, job)] == 1
    requeued_s = state.pending.submitted_s[row(state.pending, job)]
    world.until(lambda state: world.now_s() - requeued_s >= SETTLE_S, "the requeue settled")
    assert world.cluster.act([Release(job)])[0].refused is None
    world.until(lambda state: running(state, job), "its second run, without Slurm's two minutes", timeout_s=100)


def test_a_requeue_that_comes_after_the_end_of_a_job_does_not_run_it_again(world):
    job, other = world.submit(1, comment="slurmsched:ckpt"), world.submit(540, comment="slurmsched:ckpt")
    world.until(lambda state: running(state, other), "the other one running")
    world.until(lambda state: not (running(state, job) or pending(state, job)), "the first one over")
    assert world.cluster.act([Requeue(job), Requeue(other)])[1].refused is None
    state = world.until(lambda state: pending(state, other), "the other one pending again")
    assert not running(state, job)
    assert not pending(state, job)


def test_asking_to_stop_ends_no_job_that_does_not_know_the_signal_and_none_that_waits(world):
    first, *_ = fill(world)
    job = world.submit(60, gpus=4)
    world.until(lambda state: pending(state, job), "the job pending")
    asked = [AskToStop(first, "URG"), AskToStop(job, "URG"), AskToStop(4_000_000, "URG")]
    answers = world.cluster.act(asked)
    assert [answer.action for answer in answers] == asked
    assert [answer.refused is None for answer in answers] == [True, True, False]
    assert "Invalid job id" in answers[2].refused
    world.until(lambda state: running(state, first) and pending(state, job), "both as they were")


def test_suspend_and_resume(world):
    job = world.submit(540)
    world.until(lambda state: running(state, job), "the job running")
    assert world.cluster.act([Suspend(job)])[0].refused is None
    state = world.until(
        lambda state: state.running.state[row(state.running, job)] == JobState.SUSPENDED, "the job suspended"
    )
    assert state.nodes.gpus_used.sum() == 1, "a suspended job keeps its GPUs"
    assert state.running.node_list[row(state.running, job)] == "n1", "and stays where it is"
    assert world.cluster.act([Resume(job)])[0].refused is None
    world.until(lambda state: running(state, job), "the job running again")


def test_excluded_nodes_of_pending_jobs_can_be_set_changed_and_lifted(world):
    fill(world)
    job = world.submit(5)
    world.until(lambda state: pending(state, job), "the job pending")
    changes = (Steer(job, "x", "n2"), Steer(job, "y", "n[1,3]", before="n2"), Unsteer(job, before="n[1,3]"))
    for action, wanted in zip(changes, ("n2", "n[1,3]", ""), strict=True):
        assert world.cluster.act([action])[0].refused is None

        def shows(state, wanted=wanted):
            shown = state.pending.excluded_nodes[row(state.pending, job)]
            return same_nodes(shown, wanted) if wanted else not shown

        world.until(shows, f"the excluded nodes {wanted}")
    assert world.cluster.act([Steer(4_000_000, "x", "n2")])[0].refused is not None
    assert world.cluster.act([Steer(job, "x", "n2")])[0].refused is None
    for late in (Steer(job, "x", "n3"), Unsteer(job, before="n3")):
        assert "changed meanwhile" in (world.cluster.act([late])[0].refused or ""), "not the list that we saw"
    assert world.cluster.act([Unsteer(job, before="n2")])[0].refused is None


def test_cpus_and_memory_of_pending_jobs_can_be_changed_and_given_back_and_no_others_overwritten(world):
    fill(world)
    job = world.submit(5)

    def asks(text):
        def shown(state):
            return pending(state, job) and state.pending.node_request[row(state.pending, job)] == text

        return world.until(shown, f"a job that asks for {text}")

    state = world.until(lambda state: pending(state, job), "the job pending")
    own, other = state.pending.node_request[row(state.pending, job)], "cpus=2,task=2,node=2,mem=3000Mn"
    assert read_request(own).changeable
    assert world.cluster.act([Rightsize(job, own, own, other)])[0].refused is None
    asks(other)
    assert (
        "changed meanwhile" in world.cluster.act([Rightsize(job, own, own, "cpus=4,task=4,node=4,mem=1Mn")])[0].refused
    )
    assert "changed meanwhile" in world.cluster.act([RestoreSize(job, own, own)])[0].refused
    asks(other)
    assert world.cluster.act([RestoreSize(job, other, own)])[0].refused is None
    asks(own)
    assert world.cluster.act([RestoreSize(4_000_000, other, own)])[0].refused is not None


def test_the_gpus_of_a_pending_job_can_be_changed_from_what_it_asks_for_and_back(world):
    fill(world)
    job = world.submit(5)
    world.until(lambda state: pending(state, job), "the job pending")
    for gpus, before in ((3, 1), (2, 3), (1, 2)):
        assert world.cluster.act([Resize(job, gpus, before, 1)])[0].refused is None
        world.until(lambda state, gpus=gpus: state.pending.gpus[row(state.pending, job)] == gpus, f"{gpus} GPUs")
    assert world.cluster.act([Resize(job, 4, 3, 1)])[0].refused is not None, "it asks for one by now"
    assert world.cluster.act([Resize(4_000_000, 2, 1, 1)])[0].refused is not None


def test_a_waiting_job_gets_more_and_fewer_nodes_with_its_gpus_and_starts_on_them(world):
    blockers = fill(world)
    job = world.submit(540, gpus=8)
    world.until(lambda state: pending(state, job), "the job pending")
    for gpus, before in ((16, 8), (4, 16), (8, 4), (16, 8), (12, 16)):
        assert world.cluster.act([Resize(job, gpus, before, 8, 4)])[0].refused is None

        def asks(state, gpus=gpus):
            at = row(state.pending, job)
            return (state.pending.gpus[at], state.pending.nodes[at]) == (gpus, gpus // 4)

        world.until(asks, f"{gpus} GPUs")
    assert world.cluster.act([Resize(job, 4, 8, 8, 4)])[0].refused is not None, "it asks for three nodes by now"
    for blocker in blockers:
        world.end(blocker)
    state = world.until(lambda state: running(state, job), "the job on its nodes")
    at = row(state.running, job)
    assert state.running.gpus[at] == 12


def test_what_slurm_refuses_is_told_in_its_words_and_the_rest_is_done(world):
    fill(world)
    job = world.submit(5)
    world.until(lambda state: pending(state, job), "the job pending")
    answers = world.cluster.act([Rank(4_000_000, 5), MovePartition(job, "nowhere"), Requeue(4_000_001)])
    assert [answer.action for answer in answers] == [
        Rank(4_000_000, 5),
        MovePartition(job, "nowhere"),
        Requeue(4_000_001),
    ]
    assert all(answer.refused for answer in answers)
    assert "Invalid job id" in answers[0].refused
    assert "partition" in answers[1].refused
    answers = world.cluster.act([Rank(4_000_000, 5), Rank(job, 9)])
    assert [answer.refused is None for answer in answers] == [False, True]
    world.until(lambda state: state.pending.site_points[row(state.pending, job)] == 9, "the points of the good one")


def test_nothing_to_do_is_no_call(world):
    assert world.cluster.act([]) == []


def test_an_array_waits_as_one_row_and_is_ranked_as_a_whole(world):
    blockers = fill(world)
    array = world.submit(540, gpus=4, tasks=5)
    state = world.until(lambda state: pending(state, array), "the array pending")
    at = row(state.pending, array)
    assert len(state.pending) == 1
    assert state.pending.tasks[at] == 5
    assert state.pending.job_id[at] == array
    assert world.cluster.act([Rank(array, 40)])[0].refused is None
    world.until(lambda state: state.pending.site_points[row(state.pending, array)] == 40, "points on the array")
    world.end(blockers[0])
    state = world.until(
        lambda state: len(state.running) and (state.running.array_job_id == array).any(), "one task running"
    )
    started = state.running.take(state.running.array_job_id == array)
    assert started.task_id.tolist() == [1]
    assert state.pending.tasks[row(state.pending, array)] == 4
    assert len(state.pending) == 1, "starting a task must not split the array"


def test_the_load_of_the_controller_is_known(world):
    load = world.cluster.load()
    assert load.rpc_count > 0
    assert load.rpc_mean_s > 0
    assert load.rpc_total_s == pytest.approx(load.rpc_mean_s * load.rpc_count)


def test_every_look_is_whole_and_every_job_is_in_one_table(world):
    jobs = [world.submit(2, gpus=gpus) for gpus in (1, 2, 4, 1, 2, 4, 4, 4)]
    seen: set[int] = set()
    for _ in range(5):
        state = world.until(lambda state: True, "anything")
        tables = [state.pending.job_id, state.running.job_id, state.ended.job_id]
        everything = np.concatenate(tables).tolist()
        assert sorted(set(everything)) == sorted(everything)
        assert set(jobs) <= set(everything), "no job is lost between two tables"
        assert state.nodes.gpus_used.max() <= 4
        seen |= set(state.running.job_id.tolist())
    world.until(lambda state: set(jobs) <= set(state.ended.job_id.tolist()), "all jobs ended")


def test_a_partition_gets_the_nodes_it_is_given_or_slurm_says_why_not(world):
    def nodes_of_gpu() -> tuple[str, ...]:
        return members(world.until(lambda state: True, "anything").partitions, "gpu")

    own = nodes_of_gpu()
    two = ("n1", "n2")
    refused = world.cluster.act([MoveNodes.between({"gpu": own}, {"gpu": own}, {"gpu": two})])[0].refused
    assert nodes_of_gpu() == (own if refused else ("n1", "n2")), "an Operator is told no, and nothing has changed"
    if not refused:
        state = world.until(lambda state: True, "anything")
        inside = [("gpu" in names.split(",")) for names in state.nodes.partitions]
        assert inside == [True, True, False, False]
        back = MoveNodes.between({"gpu": own}, {"gpu": two}, {"gpu": own})
        assert world.cluster.act([back])[0].refused is None
    assert nodes_of_gpu() == own
    nowhere = MoveNodes((NodeChange("nowhere", "n1", "", "n1"), NodeChange("gpu", fold(own), fold(own), "n[1-2]")))
    fill(world)
    job = world.submit(60)
    world.until(lambda state: pending(state, job), "the job pending")
    (of_nodes, of_job) = world.cluster.act([nowhere, Rank(job, 0)])
    assert of_nodes.refused
    assert of_job.refused is None, "a refused move stands in no job's way"
    assert nodes_of_gpu() == own, "the steps after a refusal are not made"


def test_where_there_are_no_slots_a_share_is_refused_and_can_be_undone(world):
    fill(world)
    job = world.submit(60, gpus=2)
    world.until(lambda state: pending(state, job), "the job pending")
    until_s = world.now_s() + 600.0
    refused = world.cluster.act([Share(job, "gpu", "gpu", "n1", "0+1", "", until_s)])[0].refused
    assert "nvalid generic resource" in refused
    world.cluster.act([Unshare(job, "gpu", 2, "", until_s)])
    state = world.until(lambda state: pending(state, job), "the job pending")
    at = row(state.pending, job)
    assert (state.pending.gpus[at], state.pending.comment[at], state.pending.required_nodes[at]) == (2, "", "")
    assert not state.pending.eligible_s[at] > world.now_s() + 1.0


def sent_to_slots(world: World, job: int, gpus: str, comment: str = "") -> None:
    """Let a waiting job request slots on n2, and start when they are free."""
    until_s = float(int(world.now_s()) + 3000)
    assert world.cluster.act([Share(job, "gpu", "shared", "n2", gpus, comment, until_s)])[0].refused is None
    state = world.until(lambda state: pending(state, job), "the job with slots")
    jobs, at = state.pending, row(state.pending, job)
    assert slots_in(jobs.per_node[at]) == tuple(int(gpu) for gpu in gpus.split("+"))
    assert set(requests_in(jobs.per_node[at])) == {"slot"}
    assert (jobs.partition[at], jobs.required_nodes[at]) == ("shared", "n2")
    assert jobs.comment[at] == f"{comment}{';' if comment else ''}slurmsched:share={gpus}"
    assert jobs.gpus[at] == len(gpus.split("+"))
    assert jobs.eligible_s[at] == until_s
    assert world.cluster.act([StartShared(job, gpus)])[0].refused is None


def test_slots_go_to_two_jobs_a_gpu_and_a_third_waits_for_one_of_them(shared_world):
    world = shared_world
    blocker = world.submit(540, gpus=4)
    world.until(lambda state: running(state, blocker), "the whole GPUs taken")
    first, second, third, other = (world.submit(540, gpus=gpus) for gpus in (2, 2, 2, 1))
    world.until(lambda state: pending(state, first, second, third, other), "all pending")
    for job in (first, second):
        sent_to_slots(world, job, "0+1")
        state = world.until(lambda state, job=job: running(state, job), "the job on slots")
    jobs, at = state.running, row(state.running, second)
    assert (jobs.node_list[at], jobs.partition[at]) == ("n2", "shared")
    assert state.nodes.gpus_used.tolist() == [4, 4], "GPUs with slots are never free as whole ones"
    sent_to_slots(world, other, "3")
    world.until(lambda state: running(state, other), "one on a free GPU")
    sent_to_slots(world, third, "0+1", "note")
    state = world.until(
        lambda state: state.pending.reason[row(state.pending, third)] == "Resources", "the third to wait"
    )
    assert pending(state, third)
    world.end(first)
    world.until(lambda state: running(state, third), "the third in its place")


def test_jobs_run_on_some_gpus_of_a_wider_one_and_outlast_it(shared_world):
    world = shared_world
    blocker = world.submit(540, gpus=4)
    world.until(lambda state: running(state, blocker), "the whole GPUs taken")
    host, two, one, late = (world.submit(540, gpus=gpus) for gpus in (4, 2, 1, 1))
    world.until(lambda state: pending(state, host, two, one, late), "all pending")
    for job, gpus in ((host, "0+1+2+3"), (two, "0+2"), (one, "3")):
        sent_to_slots(world, job, gpus)
        world.until(lambda state, job=job: running(state, job), "the job on slots")
    sent_to_slots(world, late, "2")
    world.until(lambda state: state.pending.reason[row(state.pending, late)] == "Resources", "the fourth to wait")
    world.end(host)
    state = world.until(lambda state: running(state, two, one, late), "the fourth in the place of the wide one")
    has = [state.running.per_node[row(state.running, job)] for job in (two, one, late)]
    assert [slots_in(text) for text in has] == [(0, 2), (3,), (2,)]


def test_a_requeued_job_has_its_slots_and_gets_whole_gpus_back(shared_world):
    world = shared_world
    blocker = world.submit(540, gpus=4)
    world.until(lambda state: running(state, blocker), "the whole GPUs taken")
    job = world.submit(540, gpus=2, comment="slurmsched:ckpt")
    world.until(lambda state: pending(state, job), "the job pending")
    sent_to_slots(world, job, "1+2", "slurmsched:ckpt")
    world.until(lambda state: running(state, job), "the job on slots")
    assert world.cluster.act([Requeue(job)])[0].refused is None
    state = world.until(lambda state: pending(state, job), "the job pending again")
    jobs, at = state.pending, row(state.pending, job)
    assert slots_in(jobs.per_node[at]) == (1, 2)
    requeued_s = jobs.submitted_s[at]
    world.until(lambda state: world.now_s() - requeued_s >= SETTLE_S, "the requeue settled")
    back = Unshare(job, "gpu", 2, "slurmsched:ckpt", world.now_s() + 600.0)
    assert world.cluster.act([back])[0].refused is None
    state = world.until(lambda state: pending(state, job), "the job with its own GPUs")
    jobs, at = state.pending, row(state.pending, job)
    assert (jobs.gpus[at], slots_in(jobs.per_node[at]), jobs.partition[at]) == (2, (), "gpu")
    assert (jobs.required_nodes[at], jobs.comment[at]) == ("", "slurmsched:ckpt")
    world.end(blocker)
    state = world.until(lambda state: running(state, job), "the job on whole GPUs")
    assert state.running.node_list[row(state.running, job)] == "n1"


def test_the_mark_of_a_share_that_got_no_further_is_taken_back(shared_world):
    world = shared_world
    blocker = world.submit(540, gpus=4)
    world.until(lambda state: running(state, blocker), "the whole GPUs taken")
    job = world.submit(540, gpus=1, comment="note")
    world.until(lambda state: pending(state, job), "the job pending")
    assert world.cluster.act([Unmark(job, "mine")])[0].refused is None
    state = world.until(lambda state: pending(state, job), "the job pending")
    jobs, at = state.pending, row(state.pending, job)
    assert (jobs.comment[at], jobs.gpus[at], slots_in(jobs.per_node[at])) == ("mine", 1, ())


def test_a_share_that_does_not_fit_the_request_is_refused_and_changes_nothing_of_it(shared_world):
    world = shared_world
    blocker = world.submit(540, gpus=4)
    world.until(lambda state: running(state, blocker), "the whole GPUs taken")
    job = world.submit(540, gpus=2)
    world.until(lambda state: pending(state, job), "the job pending")
    until_s = world.now_s() + 600.0
    (answer,) = world.cluster.act([Share(job, "gpu", "shared", "n2", "0", "", until_s)])
    assert "which is not 1 GPUs" in answer.refused
    assert "which is not what share=0+1 says" in world.cluster.act([StartShared(job, "0+1")])[0].refused
    state = world.until(lambda state: pending(state, job), "the job pending")
    jobs, at = state.pending, row(state.pending, job)
    assert (jobs.gpus[at], slots_in(jobs.per_node[at]), jobs.partition[at]) == (2, (), "gpu")
