"""Ids that Slurm gives out again: each job has its own story, and nothing of what was asked of the one before it."""

from __future__ import annotations

from db_worlds import CheckedMemory, jobs, look

from slurmsched.cluster.actions import AskToStop, Rank, SetAdminComment, Share
from slurmsched.cluster.jobs import JobState
from slurmsched.db.tracking.story import StoryEvent

FIRST_S, SECOND_S = 100.0, 5000.0


def job(user, since_s, **columns):
    times = {key: [since_s] for key in ("submitted_s", "first_submit_s", "eligible_s")}
    return jobs(1, 7, user=[user], name=["theirs"], **times, **columns)


def had_and_has(memory):
    """Id 7 is alice's, then, with nobody looking in between, bob's."""
    memory.remember(look(job("alice", FIRST_S)), 110.0)
    memory.intend(1, [Rank(7, 5), SetAdminComment(7, "slurmsched:promised")], 120.0)
    memory.answered(1, [(Rank(7, 5), "no such job"), (SetAdminComment(7, "slurmsched:promised"), None)], 121.0)
    return memory.remember(look(job("bob", SECOND_S)), SECOND_S + 10.0)


def kinds(store, *since_s):
    return [event.kind for event in store.story("c", 7, *since_s)]


def test_each_job_of_an_id_has_its_own_story(store):
    memory = CheckedMemory(store, cluster="c")
    had_and_has(memory)
    assert kinds(store, FIRST_S) == ["submitted", "told", "refused", "ended"]
    assert kinds(store, SECOND_S) == ["submitted"]
    assert [event.details.get("user") for event in store.story("c", 7)] == ["bob"], "without a time the last one counts"
    memory.intend(2, [Rank(7, 9)], SECOND_S + 20.0)
    memory.answered(2, [(Rank(7, 9), None)], SECOND_S + 21.0)
    assert kinds(store) == ["submitted", "ranked"]
    assert kinds(store, 1234.0) == []


def test_a_requeue_and_a_new_process_go_on_with_the_same_story(store):
    CheckedMemory(store, cluster="c").remember(look(None, job("alice", FIRST_S, state=[JobState.RUNNING])), 210.0)
    again = job("alice", FIRST_S, restarts=[1])
    CheckedMemory(store, cluster="c").remember(look(again), 410.0)
    assert kinds(store, FIRST_S)[0] == "submitted"
    assert "requeued" in kinds(store, FIRST_S)


def test_what_was_asked_of_the_job_before_is_not_taken_for_the_new_ones(store):
    memory = CheckedMemory(store, cluster="c")
    seen = had_and_has(memory)
    assert seen.state.pending.sent_comment[0] == ""
    assert memory.recently_refused(SECOND_S + 11.0) == set()
    assert memory.intents() == ()


def test_what_slurm_refused_of_the_job_before_keeps_nothing_from_the_new_one_after_a_restart_either(store):
    memory, rank = CheckedMemory(store, cluster="c"), Rank(7, 5)
    memory.remember(look(job("alice", FIRST_S)), 110.0)
    memory.intend(1, [rank], 111.0)
    memory.answered(1, [(rank, "Access/permission denied")], 112.0)
    memory.remember(look(job("bob", 300.0)), 310.0)
    assert memory.recently_refused(311.0) == set()
    later = CheckedMemory(store, cluster="c")
    later.remember(look(job("bob", 300.0)), 320.0)
    assert later.recently_refused(321.0) == set()


def test_what_slurm_refused_of_a_job_counts_after_a_restart_also_where_it_was_queued_again(store):
    memory, rank = CheckedMemory(store, cluster="c"), Rank(7, 5)
    memory.remember(look(job("alice", FIRST_S)), 110.0)
    memory.remember(look(None, job("alice", FIRST_S, state=[JobState.RUNNING])), 210.0)
    memory.intend(1, [rank], 211.0)
    memory.answered(1, [(rank, "Access/permission denied")], 212.0)
    again = job("alice", FIRST_S, restarts=[1])
    for each in (memory, CheckedMemory(store, cluster="c")):
        each.remember(look(again), 310.0)
        assert each.recently_refused(311.0) == {7}


def test_that_the_job_before_was_asked_to_stop_does_not_count_against_the_new_one(store):
    memory = CheckedMemory(store, cluster="c")
    memory.remember(look(None, job("alice", FIRST_S, state=[JobState.RUNNING])), 210.0)
    memory.intend(1, [AskToStop(7, "URG")], 211.0)
    memory.answered(1, [(AskToStop(7, "URG"), None)], 212.0)
    for later in (memory, CheckedMemory(store, cluster="c")):
        seen = later.remember(look(None, job("bob", SECOND_S, state=[JobState.RUNNING])), SECOND_S + 10.0)
        assert seen.state.running.stop_requests.tolist() == [0]


def test_what_slurm_refused_of_the_job_before_is_not_told_of_the_new_one(store):
    memory, share = CheckedMemory(store, cluster="c"), Share(7, "gpu", "shared", "n2", "0", "", 9.0)
    memory.remember(look(job("alice", FIRST_S)), 110.0)
    memory.intend(1, [share], 111.0)
    memory.answered(1, [(share, "Requested node configuration is not available")], 112.0)
    for later in (memory, CheckedMemory(store, cluster="c")):
        seen = later.remember(look(job("bob", 300.0)), 310.0)
        assert list(seen.state.pending.share_refusal) == [""]


def test_what_nodes_tell_belongs_to_the_job_that_had_the_id_then(store):
    memory = CheckedMemory(store, cluster="c")
    had_and_has(memory)
    from slurmsched.db.pending_writes import PendingWrites

    store.save("c", PendingWrites(story=[StoryEvent(300.0, "failed together", {}, 7)]))
    assert "failed together" in kinds(store, FIRST_S)
    assert "failed together" not in kinds(store)
