"""Memory: with the database, without it, and after it came back; in both databases."""

from __future__ import annotations

import json
import sqlite3
import time

import numpy as np
import pytest
from db_worlds import NAN, CheckedMemory, decision, jobs, look

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import (
    AskToStop,
    Hold,
    MovePartition,
    Rank,
    Release,
    Requeue,
    Resume,
    SetAdminComment,
    Share,
    Suspend,
    Unshare,
)
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.faults import Instability
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store


@pytest.fixture
def memory(store):
    return CheckedMemory(store, cluster="c")


def kinds(store, job_id):
    return [event.kind for event in store.story("c", job_id)]


def running(count=1, started_s=200.0, **columns):
    states = np.full(count, columns.pop("state", JobState.RUNNING))
    return jobs(count, state=states, started_s=np.full(count, started_s), **columns)


def ended(count=1, **columns):
    return running(count, state=JobState.COMPLETED, ended_s=np.full(count, 300.0), **columns)


def test_a_job_is_remembered_from_submit_to_end(store, memory):
    memory.remember(look(jobs(2)), 110)
    memory.remember(look(jobs(1, 2), running()), 210)
    remembered = memory.remember(look(jobs(1, 2), None, ended()), 310)
    assert remembered.available
    assert remembered.ended.equals(store.history("c"))
    assert remembered.ended.ended_s.tolist() == [300]
    assert kinds(store, 1) == ["submitted", "started", "ended"]
    assert store.story("c", 1)[-1].details == {"state": "COMPLETED", "restart": 0}


def test_interactive_runs_of_a_user_count_for_a_day_after_their_end_and_for_a_new_process_too(store, memory):
    day_s, only = 86_400.0, np.array([True])
    memory.remember(look(None, running(interactive=only, gpus=np.array([2]))), 210)
    memory.remember(look(None, None, ended(interactive=only, gpus=np.array([2]))), 310)
    waiting = jobs(3, 11, interactive=np.array([True, True, False]), user=["user1", "user0", "user0"])
    assert set(store.history("c").user) == {"user0"}
    for later in (memory, CheckedMemory(store, cluster="c")):
        seen = later.remember(look(waiting), 320).state.pending
        assert seen.interactive_used_s.tolist() == [0.0, 200.0, 0.0], "two GPUs from 200 to 300"
        assert later.remember(look(waiting), 301 + day_s).state.pending.interactive_used_s.tolist() == [0.0] * 3
    batch = CheckedMemory(store, cluster="d")
    batch.remember(look(None, running()), 210)
    batch.remember(look(None, None, ended()), 310)
    assert not batch.remember(look(waiting), 320).state.pending.interactive_used_s.any()


def test_a_question_to_stop_that_was_never_answered_counts_but_gives_no_reason_to_requeue(store, memory):
    memory.remember(look(None, running()), 210)
    memory.intend(1, [AskToStop(1, "URG"), SetAdminComment(1, "slurmsched:met")], 211)
    for later in (memory, CheckedMemory(store, cluster="c")):
        seen = later.remember(look(None, running()), 220).state.running
        assert (seen.stop_requests.tolist(), np.isnan(seen.stop_requested_s).all(), seen.sent_comment[0]) == (
            [1],
            True,
            "",
        )
    memory.intend(2, [AskToStop(1, "URG")], 221)
    memory.answered(2, [(AskToStop(1, "URG"), None)], 222)
    seen = memory.remember(look(None, running()), 230).state.running
    assert (seen.stop_requests.tolist(), seen.stop_requested_s.tolist()) == ([1], [222.0])


def test_a_question_to_a_job_that_is_suspended_counts_but_gave_it_no_time(store, memory):
    memory.remember(look(None, running()), 210)
    memory.intend(1, [AskToStop(1, "URG")], 211)
    memory.answered(1, [(AskToStop(1, "URG"), None)], 212)
    memory.remember(look(None, running(state=JobState.SUSPENDED)), 220)
    for later in (memory, CheckedMemory(store, cluster="c")):
        seen = later.remember(look(None, running()), 230).state.running
        assert (seen.stop_requests.tolist(), np.isnan(seen.stop_requested_s).all()) == ([1], True)
        assert later.recently_refused(230) == set(), "it may be asked again at once"
    memory.intend(2, [AskToStop(1, "URG")], 231)
    memory.answered(2, [(AskToStop(1, "URG"), None)], 232)
    seen = memory.remember(look(None, running()), 240).state.running
    assert (seen.stop_requests.tolist(), seen.stop_requested_s.tolist()) == ([2], [232.0])


def test_who_takes_over_knows_what_the_other_daemon_asked_meanwhile(store, memory):
    other = CheckedMemory(store, cluster="c")
    other.remember(look(None, running()), 210)
    memory.remember(look(None, running()), 211, acting=True)
    memory.intend(1, [AskToStop(1, "URG")], 212)
    memory.answered(1, [(AskToStop(1, "URG"), None)], 213)
    assert other.remember(look(None, running()), 220).state.running.stop_requests.tolist() == [0]
    assert other.remember(look(None, running()), 230, acting=True).state.running.stop_requested_s.tolist() == [213.0]


def test_nothing_is_written_where_nothing_changed(store, memory):
    memory.remember(look(jobs(5)), 110)
    store.database.transaction = None  # any use of the database would now be an error
    assert memory.remember(look(jobs(5)), 125).events == ()


def test_ten_thousand_unchanged_pending_jobs_take_less_than_50_ms(store):
    memory = Memory(store, cluster="c")
    state = look(jobs(10_000))
    memory.remember(state, 110)
    memory.intend(1, [Rank(job_id, 5) for job_id in range(1, 501)], 111)
    memory.remember(state, 125)
    took_s = []
    for now_s in (140, 155, 170):
        begun_s = time.process_time()
        memory.remember(state, now_s)
        took_s.append(time.process_time() - begun_s)
    assert min(took_s) < 0.05


def test_a_new_process_goes_on_where_the_old_one_was_killed(store, memory):
    memory.remember(look(None, running()), 210)
    again = jobs(1, submitted_s=[400.0], restarts=[1])
    memory.remember(look(again), 410)
    successor = CheckedMemory(store, cluster="c")
    remembered = successor.remember(look(again), 425)
    assert remembered.events == ()
    assert remembered.state.pending.first_submit_s.tolist() == [100]
    assert store.history("c").state.tolist() == [JobState.REQUEUED]


def test_a_job_that_ended_while_nobody_looked_is_found_in_slurms_memory(store, memory):
    memory.remember(look(None, running()), 210)
    successor = CheckedMemory(store, cluster="c")
    assert successor.remember(look(None, None, ended()), 900).ended.ended_s.tolist() == [300]


def test_our_own_expiring_hold_is_recognised_and_a_users_begin_time_is_not(store, memory):
    memory.remember(look(jobs(2)), 110)
    memory.intend(1, [Hold(1, 150.0)], 111)
    memory.answered(1, [(Hold(1, 150.0), None)], 112)
    held = look(jobs(2, eligible_s=[150.0, 150.0]))
    assert memory.remember(held, 125).state.pending.held_by_us.tolist() == [True, False]
    assert [intent.seen_s for intent in memory.intents()] == [125]
    assert CheckedMemory(store, cluster="c").remember(held, 126).state.pending.held_by_us.tolist() == [True, False]
    assert memory.remember(held, 151).state.pending.held_by_us.tolist() == [False, False]
    assert memory.intents() == ()


def test_the_points_of_a_job_that_we_hold_are_those_that_we_gave_it_since_slurm_shows_none(memory):
    memory.remember(look(jobs(1, priority=np.array([500]))), 110)
    actions = [Rank(1, 30), Hold(1, 200.0)]
    memory.intend(1, actions, 110)
    memory.answered(1, [(action, None) for action in actions], 110)
    held = jobs(1, priority=np.array([530]), eligible_s=np.array([200.0]))
    assert memory.remember(look(held), 120).state.pending.site_points.tolist() == [30]
    emptied = jobs(1, priority=np.array([20]), eligible_s=np.array([200.0]))
    assert memory.remember(look(emptied), 130).state.pending.site_points.tolist() == [0], "somebody took them away"
    listed = jobs(1, priority=np.array([540]), site_points=np.array([40]), eligible_s=np.array([100.0]))
    assert memory.remember(look(listed), 210).state.pending.site_points.tolist() == [40], "as Slurm shows it"


def test_a_hold_that_was_not_renewed_is_still_ours(memory):
    memory.remember(look(jobs(1)), 110)
    memory.intend(1, [Hold(1, 150.0)], 111)
    memory.answered(1, [(Hold(1, 150.0), None)], 112)
    memory.intend(2, [Hold(1, 165.0)], 126)
    memory.answered(2, [(Hold(1, 165.0), "no")], 127)
    assert memory.remember(look(jobs(1, eligible_s=[150.0])), 140).state.pending.held_by_us.tolist() == [True]


def test_waiting_time_counts_on_through_our_own_holds(store, memory):
    memory.remember(look(jobs(1)), 110)
    for cycle, (now_s, until_s) in enumerate(((111, 150.0), (126, 165.0)), start=1):
        memory.intend(cycle, [Hold(1, until_s)], now_s)
        memory.answered(cycle, [(Hold(1, until_s), None)], now_s + 1)
        seen = memory.remember(look(jobs(1, eligible_s=[until_s])), now_s + 14).state.pending
        assert (seen.waiting_since_s.tolist(), seen.delayed_s.tolist()) == ([100], [until_s - 111])
    successor = CheckedMemory(store, cluster="c")
    seen = successor.remember(look(jobs(1, eligible_s=[165.0])), 170).state.pending
    assert (seen.waiting_since_s.tolist(), seen.delayed_s.tolist()) == ([100], [54]), "also once the hold is over"
    ran = running(1, eligible_s=[165.0], state=JobState.COMPLETED, started_s=171.0, ended_s=[300.0])
    assert successor.remember(look(None, None, ran), 310).ended.eligible_s.tolist() == [100]


def test_a_hold_that_is_lifted_early_delays_by_what_has_passed(memory):
    memory.remember(look(jobs(1)), 110)
    memory.intend(1, [Hold(1, 150.0)], 111)
    memory.answered(1, [(Hold(1, 150.0), None)], 111)
    memory.remember(look(jobs(1, eligible_s=[150.0])), 125)
    memory.intend(2, [Release(1)], 126)
    memory.answered(2, [(Release(1), None)], 126)
    seen = memory.remember(look(jobs(1, eligible_s=[126.0])), 140).state.pending
    assert (seen.waiting_since_s.tolist(), seen.delayed_s.tolist()) == ([100], [15])


def test_time_under_a_begin_time_of_the_owner_or_a_dependency_is_no_waiting(memory):
    memory.remember(look(jobs(2, eligible_s=[NAN, 100.0])), 110)
    memory.intend(1, [Hold(2, 150.0)], 111)
    memory.answered(1, [(Hold(2, 150.0), None)], 111)
    memory.remember(look(jobs(2, eligible_s=[120.0, 150.0])), 125)
    seen = memory.remember(look(jobs(2, eligible_s=[120.0, 9000.0])), 140).state.pending
    assert seen.waiting_since_s.tolist() == [120, 9000], "a begin time that is later than any of ours is its owner's"


def test_only_the_beginning_of_a_hold_is_told(store, memory):
    memory.remember(look(jobs(1)), 110)
    for cycle in (1, 2, 3):
        hold = Hold(1, 140.0 + 15 * cycle)
        memory.intend(cycle, [hold], 111 + 15 * cycle)
        memory.answered(cycle, [(hold, None)], 112 + 15 * cycle)
    memory.intend(4, [Release(1)], 180)
    memory.answered(4, [(Release(1), None)], 181)
    memory.remember(look(jobs(1)), 182)
    assert kinds(store, 1) == ["submitted", "held", "released"]
    assert memory.intents() == ()


def test_points_are_believed_when_seen_and_end_with_the_start(store, memory):
    memory.remember(look(jobs(2)), 110)
    memory.intend(1, [Rank(1, 500), Rank(2, 400)], 111)
    assert [(i.job_id, i.value, i.answered_s) for i in memory.intents()] == [(1, 500, None), (2, 400, None)]
    memory.answered(1, [(Rank(1, 500), None), (Rank(2, 400), None)], 112)
    memory.remember(look(jobs(2, site_points=[500, 0])), 125)
    assert [(i.job_id, i.seen_s) for i in memory.intents()] == [(1, 125), (2, None)]
    memory.remember(look(None, running(), jobs(0)), 140)
    assert memory.intents() == ()
    assert store.story("c", 1)[1].details == {"cycle": 1, "value": 500}


def test_a_requeue_is_seen_when_the_restarts_grew(memory):
    memory.remember(look(None, running()), 210)
    memory.intend(1, [Requeue(1)], 211)
    memory.answered(1, [(Requeue(1), None)], 212)
    assert len(memory.intents()) == 1
    requeued = jobs(1, submitted_s=[212.0], eligible_s=[333.0], restarts=[1])
    remembered = memory.remember(look(requeued), 225)
    assert [intent.seen_s for intent in memory.intents()] == [225]
    assert remembered.state.pending.held_by_us.tolist() == [True], "Slurm's delay after our requeue is ours to lift"
    memory.remember(look(None, running()), 240)
    assert memory.intents() == ()


def test_a_begin_time_that_a_user_sets_after_our_requeue_is_theirs(memory):
    memory.remember(look(None, running()), 210)
    memory.intend(1, [Requeue(1)], 211)
    memory.answered(1, [(Requeue(1), None)], 212)
    theirs = jobs(1, submitted_s=[212.0], eligible_s=[90_000.0], restarts=[1])
    assert not memory.remember(look(theirs), 225).state.pending.held_by_us.any()


def test_a_refused_job_is_left_alone_for_ten_minutes_even_by_a_new_process(store, memory):
    memory.remember(look(jobs(2)), 110)
    memory.intend(1, [Rank(1, 5)], 111)
    memory.answered(1, [(Rank(1, 5), "Access denied")], 112)
    assert memory.recently_refused(113) == {1}
    successor = CheckedMemory(store, cluster="c")
    successor.remember(look(jobs(2)), 125)
    assert successor.recently_refused(600) == {1}
    assert successor.recently_refused(712) == set()
    assert store.story("c", 1)[-1].details["answer"] == "Access denied"


def test_a_change_of_standing_is_told_once(store, memory):
    for number, standing in ((1, Standing.RANKED), (2, Standing.HELD_BY_USER), (3, Standing.HELD_BY_USER)):
        memory.save_decision(decision(number, 1000.0 + number, standing=standing))
    successor = CheckedMemory(store, cluster="c")
    successor.remember(look(jobs(1)), 1010)
    successor.save_decision(decision(4, 1010.0, standing=Standing.HELD_BY_USER))
    told = [event.details for event in store.story("c", 1) if event.kind == "standing"]
    assert told == [{"cycle": 2, "standing": "HELD_BY_USER", "before": "RANKED"}]


def changed(store, job_id=1):
    events = [event for event in store.story("c", job_id) if "changed" in event.kind or "by others" in event.kind]
    return [(event.at_s, event.kind, event.details) for event in events]


def test_what_others_change_of_a_job_is_in_its_story_once(store, memory):
    memory.remember(look(jobs(2, time_limit_s=[7200.0, 60.0])), 110)
    for now_s in (125, 140):
        memory.remember(look(jobs(2, time_limit_s=[3600.0, 60.0])), now_s)
    assert changed(store) == [(125.0, "limit changed", {"before": 7200.0, "after": 3600.0})]
    assert changed(store, 2) == []


def test_what_was_changed_while_nobody_looked_is_noticed_by_the_next_process(store, memory):
    memory.remember(look(decision().view.pending, decision().view.running), 1000)
    memory.save_decision(decision(1, 1000.0))
    modified = jobs(3, time_limit_s=[60.0, np.inf, np.inf])
    CheckedMemory(store, cluster="c").remember(look(modified, jobs(2, 100)), 1100)
    assert changed(store) == [(1100.0, "limit changed", {"before": None, "after": 60.0})]
    assert changed(store, 2) == []


def test_without_an_earlier_look_nothing_counts_as_changed(store, memory):
    memory.remember(look(jobs(1, time_limit_s=[7200.0])), 110)
    CheckedMemory(store, cluster="c").remember(look(jobs(1, time_limit_s=[60.0])), 125)
    assert changed(store) == []


def test_a_suspension_of_ours_is_told_once_and_that_of_an_admin_as_such(store, memory):
    memory.remember(look(None, running()), 210)
    memory.intend(1, [Suspend(1)], 211)
    memory.answered(1, [(Suspend(1), None)], 212)
    for memory_of in (memory, CheckedMemory(store, cluster="c")):
        memory_of.remember(look(None, running(state=JobState.SUSPENDED)), 220)
    memory.remember(look(None, running()), 230)
    memory.intend(2, [Resume(1)], 231)  # after an admin did: it is too late
    memory.answered(2, [(Resume(1), "Job is not suspended")], 232)
    memory.remember(look(None, running(state=JobState.SUSPENDED)), 240)
    assert [kind for kind in kinds(store, 1) if "sus" in kind or "resumed" in kind] == [
        "suspended", "resumed by others", "suspended by others",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "action",
    [
        MovePartition(1, "shared"),
        Share(1, "gpu", "shared", "n1", "0", "", 900.0),
        Unshare(1, "shared", 1, None, 900.0),
    ],
)
def test_a_partition_that_we_changed_is_not_told_as_if_others_had(store, memory, action):
    memory.remember(look(jobs(1, partition=["gpu"])), 110)
    memory.intend(1, [action], 111)
    memory.answered(1, [(action, None)], 112)
    state = jobs(1, partition=["shared"], per_node=["gres:slot:i0:1" if isinstance(action, Share) else ""], gpus=[1])
    memory.remember(look(state), 125)
    assert changed(store) == []
    memory.remember(look(jobs(1, partition=["cpu"])), 140)
    assert [kind for _, kind, _ in changed(store)] == ["partition changed"]


def test_of_two_daemons_the_leader_alone_tells_what_others_changed(store, memory):
    standby = CheckedMemory(store, cluster="c", leads=lambda: False)
    for now_s, limit_s in ((110, 7200.0), (125, 3600.0)):
        for memory_of in (memory, standby):
            memory_of.remember(look(jobs(1, time_limit_s=[limit_s])), now_s + (memory_of is standby))
    assert [at_s for at_s, *_ in changed(store)] == [125.0]


def test_a_comment_that_changes_in_every_cycle_leaves_a_bounded_number_of_rows(store, memory):
    for cycle in range(60):
        memory.remember(look(jobs(1, comment=[f"step {cycle}"])), 110.0 + cycle)
    assert len(changed(store)) == 20
    assert changed(store)[-1][2] == {"before": "", "after": "", "last": True}


def test_a_cycle_killed_before_it_was_saved_keeps_its_number_to_itself(store, memory):
    memory.remember(look(jobs(2)), 110)
    memory.intend(memory.next_number(110), [Hold(1, 500.0)], 110)
    again = CheckedMemory(store, cluster="c")
    number = again.next_number(125)
    assert number == 2
    again.intend(number, [Hold(1, 600.0)], 125)
    assert sorted(intent.value for intent in store.intents("c", 0)) == [500.0, 600.0]


def test_cycle_numbers_go_on_after_a_restart(store, memory):
    assert memory.next_number(1000) == 1
    memory.save_decision(decision(1))
    assert CheckedMemory(store, cluster="c").next_number(1010) == 2


# The database goes away and comes back: a locked file, a moved file, a stopped server (test_outage.py).


@pytest.fixture
def file_store(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/slurmsched.db", timeout_s=0.1)
    store.upgrade()
    yield store
    store.close()


@pytest.fixture
def lock(file_store):
    connection = sqlite3.connect(file_store.path, isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def file_memory(file_store, clock):
    return CheckedMemory(file_store, cluster="c", monotonic=clock.monotonic)


def test_a_locked_database_costs_one_wait_and_loses_nothing(file_store, file_memory, clock, lock):
    memory = file_memory
    memory.remember(look(jobs(2)), 110)
    lock.execute("BEGIN IMMEDIATE")
    begun_s = time.process_time()
    assert not memory.remember(look(jobs(1, 2), running()), 210).available
    memory.intend(1, [Rank(2, 5)], 210)
    memory.answered(1, [(Rank(2, 5), None)], 210)
    memory.save_decision(decision(1, 210.0))
    assert time.process_time() - begun_s < 5 * 0.1
    assert (memory.decisions_dropped, memory.facts_dropped) == (1, 0)
    lock.execute("ROLLBACK")
    clock.now_s += 100
    remembered = memory.remember(look(jobs(1, 2), None, ended()), 310)
    assert remembered.available
    assert memory.backlog == 0
    assert kinds(file_store, 1) == ["submitted", "started", "ended"]
    assert kinds(file_store, 2) == ["submitted", "ranked"]
    assert len(file_store.history("c")) == 1


DAY_S = 86_400.0


@pytest.mark.parametrize("ahead_s", [DAY_S, -DAY_S])
def test_a_clock_that_was_wrong_when_the_database_failed_does_not_keep_it_away(file_memory, clock, lock, ahead_s):
    lock.execute("BEGIN IMMEDIATE")
    assert not file_memory.remember(look(jobs(1)), 10 * DAY_S + ahead_s).available
    lock.execute("ROLLBACK")
    assert not file_memory.remember(look(jobs(1)), 10 * DAY_S + ahead_s + 0.1).available, "it is left alone a while"
    clock.now_s += 1.0
    assert file_memory.remember(look(jobs(1)), 10 * DAY_S + 1.0).available


def test_a_refusal_by_a_clock_a_day_ahead_holds_ten_minutes_after_the_clock_was_set_and_not_a_day(store, memory):
    memory.remember(look(jobs(1)), DAY_S)
    memory.intend(1, [Rank(1, 5)], DAY_S)
    memory.answered(1, [(Rank(1, 5), "Access denied")], DAY_S)
    for later in (memory, CheckedMemory(store, cluster="c")):
        later.remember(look(jobs(1)), 1000.0)
        assert later.recently_refused(1500.0) == {1}
        later.remember(look(jobs(1)), 1700.0)
        assert later.recently_refused(1700.0) == set()


def test_a_job_asked_to_stop_by_a_clock_a_day_ahead_has_its_time_from_when_the_clock_was_set(store, memory):
    memory.remember(look(None, running()), DAY_S)
    memory.intend(1, [AskToStop(1, "URG")], DAY_S)
    memory.answered(1, [(AskToStop(1, "URG"), None)], DAY_S)
    for later in (memory, CheckedMemory(store, cluster="c")):
        assert later.remember(look(None, running()), 1000.0).state.running.stop_requested_s.tolist() == [1000.0]
        assert later.remember(look(None, running()), 1015.0).state.running.stop_requested_s.tolist() == [1000.0]


def test_a_daemon_that_starts_without_the_database_learns_later_what_it_knew(file_store, clock):
    CheckedMemory(file_store, cluster="c").remember(look(None, running()), 210)
    away = file_store.path.rename(file_store.path.with_name("away"))
    memory = CheckedMemory(file_store, cluster="c", monotonic=clock.monotonic)
    again = look(jobs(1, submitted_s=[400.0], restarts=[1]))
    assert memory.remember(again, 410).state.pending.first_submit_s.tolist() == [400]
    assert not memory.available
    away.rename(file_store.path)
    clock.now_s += 15
    assert memory.remember(again, 425).state.pending.first_submit_s.tolist() == [100]
    assert memory.available
    assert memory.next_number(426) == 1


def test_jobs_that_do_not_go_together_are_known_as_soon_as_the_database_is_back(file_store, file_memory, clock):
    word = Instability(8, 1, "n1", 300, 350, (0,), (7,), (0,), "it jumps")
    file_store.add_instabilities("c", [word])
    away = file_store.path.rename(file_store.path.with_name("away"))
    assert file_memory.mismatches(410.0).unstable == ()
    away.rename(file_store.path)
    clock.now_s += 15
    assert file_memory.mismatches(425.0).unstable == (word,)


def test_the_backlog_is_bounded_and_says_what_it_dropped(file_store, clock, lock):
    memory = CheckedMemory(file_store, cluster="c", backlog=50, monotonic=clock.monotonic)
    lock.execute("BEGIN IMMEDIATE")
    for turn in range(10):
        clock.now_s += 15
        memory.remember(look(jobs(20, 1 + 20 * turn)), 110.0 + 15 * turn)
        assert memory.backlog <= 50
    lock.execute("ROLLBACK")
    assert memory.facts_dropped > 0
    clock.now_s += 15
    assert memory.remember(look(jobs(20, 1 + 20 * turn)), 500).available


def test_the_last_known_pause_holds_while_the_database_is_away(file_store, lock):
    memory = CheckedMemory(file_store, cluster="c")
    file_store.pause("c", by="root", now_s=1, until_s=500)
    assert memory.control(100).paused
    file_store.path.rename(file_store.path.with_name("away"))
    assert memory.control(200).paused
    assert not memory.available
    assert not memory.control(500).paused


def test_json_in_the_story_is_plain(file_store, lock):
    CheckedMemory(file_store, cluster="c").remember(look(None, None, ended(started_s=NAN)), 310)
    for (details,) in lock.execute("SELECT details FROM job_events"):
        json.loads(details)
