"""Jobs that did not go together: what nodes told is kept once, and told to decisions while it is news."""

from __future__ import annotations

from dataclasses import replace

from slurmsched.clock import ManualClock
from slurmsched.cluster.job_record import EndedRun, JobRecord, outcomes_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.faults import Fault, Instability, Mismatches
from slurmsched.db.memory import Memory
from slurmsched.db.records.faults import UNSTABLE_S
from slurmsched.db.records.gpu_usage import EVERY_S

NOW_S = 1_700_000_000.0
WORD = Instability(8, 1, "n1", int(NOW_S) - 300, int(NOW_S) - 100, (0, 1), (7,), (0,), "it jumps")


def ran(store, *names):
    """Jobs 7, 8, ... of alice with these names, which ended a minute ago."""
    jobs = [
        JobRecord(
            7 + at, 0, -1, 1, name, "alice", "a", "q", "shared", 1, 1, 1, 3600.0, *[NOW_S - 900.0] * 3, 0, NOW_S - 900
        )
        for at, name in enumerate(names)
    ]
    store.add_outcomes("c", outcomes_of([EndedRun(job, NOW_S - 60.0, JobState.COMPLETED) for job in jobs]))


def test_word_of_an_unstable_pair_is_kept_once_told_newest_first_and_part_of_both_stories(store):
    older = replace(WORD, job_id=9, partners=(7, 6), partner_restarts=(0, 2), end_s=WORD.end_s - 10)
    store.add_instabilities("c", [older, WORD])
    store.add_instabilities("c", [WORD])
    assert store.mismatches("c", NOW_S).unstable == (WORD, older)
    assert store.mismatches("other", NOW_S).unstable == ()
    (event,) = store.story("c", 8)
    assert (event.kind, event.details) == ("unstable together", {"partners": "7", "why": "it jumps"})
    assert [event.details["partners"] for event in store.story("c", 7)] == ["9, 6", "8"]


def test_what_was_unstable_long_ago_still_keeps_the_kinds_apart_as_long_as_it_is_kept(store):
    ran(store, "train_1", "eval_2", "other_3")
    store.add_instabilities("c", [WORD])
    store.add_faults("c", [Fault(9, 0, "n1", int(NOW_S) - 300, int(NOW_S) - 100, (0,), (8,), "exited")])
    later = store.mismatches("c", NOW_S + UNSTABLE_S)
    assert later.unstable == ()
    assert later.failed == (("alice/eval_#", "alice/other_#"), ("alice/eval_#", "alice/train_#"))
    store.prune(NOW_S, 1e9, 50.0)
    assert store.mismatches("c", NOW_S) == Mismatches()


def test_a_fault_that_harmed_no_partner_is_in_the_story_and_keeps_no_kinds_apart(store):
    ran(store, "train_1", "eval_2")
    mine = Fault(7, 0, "n1", int(NOW_S) - 300, int(NOW_S) - 100, (0,), (8,), "in reset", own=True)
    store.add_faults("c", [mine])
    assert store.mismatches("c", NOW_S) == Mismatches()
    (event,) = store.story("c", 7)
    assert (event.kind, event.details) == ("failed beside", {"partners": "8", "fault": "in reset"})
    store.add_faults("c", [replace(mine, own=False)])
    assert store.mismatches("c", NOW_S).failed == (("alice/eval_#", "alice/train_#"),)


def test_memory_reads_what_is_new_once_a_minute_and_at_once_where_it_is_told(store):
    clock = ManualClock(NOW_S)
    memory = Memory(store, cluster="c", monotonic=clock.monotonic)
    assert memory.mismatches(NOW_S).unstable == ()
    store.add_instabilities("c", [WORD])
    assert memory.mismatches(NOW_S + 1.0).unstable == ()
    memory.expect_mismatches()
    assert memory.mismatches(NOW_S + 2.0).unstable == (WORD,)
    store.add_instabilities("c", [replace(WORD, job_id=10)])
    assert len(memory.mismatches(NOW_S + 3.0).unstable) == 1
    clock.now_s += EVERY_S
    assert len(memory.mismatches(NOW_S + 2.0 + EVERY_S).unstable) == 2
