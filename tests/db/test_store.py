"""What every store promises, SQLite and PostgreSQL alike."""

from __future__ import annotations

import numpy as np
import pytest
from db_worlds import HOSTILE, NAN, decision, outcomes, same_decision
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import func, select

from examples import examples
from slurmsched.cluster.actions import Hold, Rank
from slurmsched.cluster.actions.intent import Intent
from slurmsched.cluster.job_record import JobRecord, Phase
from slurmsched.cluster.jobs import JobState
from slurmsched.db import retention
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.db.records.pause import Control
from slurmsched.db.tables import blobs
from slurmsched.db.tracking.story import StoryEvent

TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)


def known(job_id=7, **columns):
    plain = {"array_job_id": 0, "task_id": -1, "tasks": 1, "gpus": 1, "nodes": 1, "cpus": 1, "restarts": 0}
    words = dict.fromkeys(("name", "user", "account", "qos", "partition"), "x")
    times = {"time_limit_s": float("inf"), "submitted_s": 100.0, "eligible_s": NAN, "started_s": NAN}
    return JobRecord(job_id, **{**plain, **words, **times, "first_submit_s": 100.0, **columns})


def test_history_comes_back_as_it_was_given(store):
    table = outcomes(40)
    assert store.add_outcomes("c", table) == 40
    assert store.history("c").equals(table)


def test_history_is_empty_where_there_is_none(store):
    assert len(store.history("c")) == 0
    assert store.add_outcomes("c", outcomes(0)) == 0


def test_adding_the_same_runs_again_adds_nothing(store):
    store.add_outcomes("c", outcomes(10))
    assert store.add_outcomes("c", outcomes(12)) == 2
    assert len(store.history("c")) == 12


def test_a_first_submit_is_the_same_within_its_second(store):
    store.add_outcomes("c", outcomes(3))
    assert store.add_outcomes("c", outcomes(3, first_submit_s=np.full(3, 500.9))) == 0


def test_a_run_that_vanished_is_mended_by_one_who_knows(store):
    store.add_outcomes("c", outcomes(2, state=np.full(2, JobState.OTHER), ended_s=np.array([1900.0, 1901.0])))
    assert store.add_outcomes("c", outcomes(2)) == 2
    assert store.history("c").equals(outcomes(2))
    assert store.add_outcomes("c", outcomes(2, state=np.full(2, JobState.OTHER))) == 0


def test_each_start_of_a_requeued_job_is_a_row(store):
    store.add_outcomes("c", outcomes(3, job_id=np.full(3, 7), restart=np.arange(3)))
    assert store.history("c").restart.tolist() == [0, 1, 2]


def test_history_is_cut_by_the_end(store):
    store.add_outcomes("c", outcomes(10))
    assert store.history("c", since_s=1003, until_s=1005).ended_s.tolist() == [1003, 1004]


def test_clusters_do_not_see_each_other(store):
    store.add_outcomes("a", outcomes(2))
    store.save("a", PendingWrites(jobs={7: known()}, story=[StoryEvent(1.0, "submitted", {}, 7)]))
    store.pause("a", by="x", now_s=1)
    assert len(store.history("b")) == 0
    assert store.jobs("b") == []
    assert store.story("b", 7) == []
    assert not store.control("b", 2).paused


@given(name=TEXT, user=TEXT)
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back(store, name, user):
    job = known(name=name, user=user)
    store.save("c", PendingWrites(jobs={7: job}))
    assert [(j.name, j.user) for j in store.jobs("c")] == [(name, user)]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_comes_back_everywhere(store, text):
    intent = Intent(7, "Steer", text, 5.0, 1, answered_s=6.0, refused=text, closed_s=6.0)
    event = StoryEvent(9.0, "refused", {"answer": text}, 7)
    store.save("c", PendingWrites({7: known(name=text)}, {intent.key: intent}, [], [event]))
    assert store.jobs("c")[0].name == text
    assert store.intents("c", 0) == [intent]
    assert store.story("c", 7) == [event]
    store.pause("c", by=text, now_s=1)
    assert store.control("c", 2).by == text


def test_jobs_come_back_and_go(store):
    running = known(8)._replace(phase=Phase.RUNNING, started_s=150.5, time_limit_s=60.0)
    array = known(8)._replace(array_job_id=8, tasks=5)
    store.save("c", PendingWrites(jobs={job.unit: job for job in (known(), running, array)}))
    assert sorted(job.unit for job in store.jobs("c")) == [-8, 7, 8]
    assert repr(running) in map(repr, store.jobs("c"))
    store.save("c", PendingWrites(jobs={8: running._replace(restarts=1), 7: None}))
    assert [(job.unit, job.restarts) for job in store.jobs("c")] == [(-8, 0), (8, 1)]


def test_a_story_is_told_in_order_and_a_repeat_changes_nothing(store):
    events = [StoryEvent(1.5, "submitted", {}, 7), StoryEvent(2.0, "requeued", {"restart": 1}, 7)]
    events.append(StoryEvent(2.0, "started", {"restart": 1}, 7))
    for _ in range(2):
        store.save("c", PendingWrites(story=[*reversed(events), StoryEvent(1.0, "submitted", {}, 8)]))
    assert store.story("c", 7) == events


def test_only_open_and_lately_refused_intents_are_read(store):
    intents = [
        Intent(1, "Rank", 5, 10.0, 1),
        Intent(2, "Hold", 99.5, 10.0, 1, answered_s=11.0, closed_s=12.0),
        Intent(3, "Rank", 5, 10.0, 1, answered_s=11.0, refused="no", closed_s=11.0),
        Intent(4, "Rank", 5, 10.0, 1, answered_s=1.0, refused="no", closed_s=1.0),
    ]
    store.save("c", PendingWrites(intents={intent.key: intent for intent in intents}))
    assert [intent.job_id for intent in store.intents("c", 5.0)] == [1, 3]
    seen = intents[0]._replace(answered_s=11.0, seen_s=20.0, closed_s=21.0)
    store.save("c", PendingWrites(intents={seen.key: seen}))
    assert [intent.job_id for intent in store.intents("c", 5.0)] == [3]


def test_a_decision_comes_back_bit_for_bit(store):
    record = decision()
    store.save_decision("c", record)
    back = store.decision(1)
    assert same_decision(record, back)
    assert back.plan.actions == (Rank(1, 5), Hold(2, record.now_s + 0.1 + 0.2))
    assert type(back.plan.actions[0].points) is int


def test_decisions_are_numbered_and_the_newest_is_found(store):
    for number in (3, 4, 10):
        store.save_decision("c", decision(number, now_s=1000.0 + number))
    store.save_decision("other", decision(1, now_s=1.0))
    assert store.decision_numbers("c") == [3, 4, 10]
    assert store.latest_decision().number == 10
    assert store.last_number("c") == 10
    assert store.last_number("nobody") == 0
    assert store.decision(5) is None
    assert store.decision(1, "c") is None
    assert store.latest_decision("nobody") is None


def test_what_did_not_change_is_stored_once(store):
    def sizes():
        with store.database.transaction("measuring") as connection:
            return list(connection.scalars(select(func.length(blobs.c.body))))

    for number in range(1, 20):
        store.save_decision("c", decision(number, count=200))
    whole, *rest = sorted(sizes(), reverse=True)
    assert max(rest) < whole / 5
    assert len(rest) == 1, "that nothing changed is stored once, too"


def test_a_pause_holds_until_its_time_or_a_resume(store):
    assert store.control("c", 5) == Control()
    store.pause("c", by="root", now_s=10)
    assert store.control("c", 1e9) == Control(True, None, "root", 10)
    store.pause("c", by="root", now_s=10, until_s=20)
    assert store.control("c", 19.9).paused
    assert store.control("c", 20) == Control(False, None, "root", 20)
    store.resume("c", by="bob", now_s=15)
    assert store.control("c", 16) == Control(False, None, "bob", 15)


def test_what_is_too_old_goes_and_the_rest_stays_whole(store):
    for number, now_s in ((1, 1000.0), (2, 5000.0)):
        store.save_decision("c", decision(number, now_s, count=number))
    store.add_outcomes("c", outcomes(10))
    old, new = Intent(1, "Rank", 5, 10.0, 1, closed_s=11.0), Intent(1, "Rank", 5, 10.0, 2)
    events = [StoryEvent(1.0, "submitted", {}, 7), StoryEvent(6000.0, "ended", {}, 7)]
    store.save("c", PendingWrites(intents={old.key: old, new.key: new}, story=events))
    pruned = store.prune(6000, keep_decisions_s=2000, keep_outcomes_s=4995)
    assert (pruned.cycles, pruned.outcomes, pruned.story, pruned.intents, pruned.more) == (1, 5, 1, 1, False)
    assert same_decision(store.decision(2), decision(2, 5000.0, count=2))
    assert store.decision_numbers() == [2]
    assert len(store.history("c")) == 5
    assert store.intents("c", 0) == [new]
    assert store.prune(6000, 2000, 4995).cycles == 0


def test_much_is_pruned_a_bounded_amount_at_a_time(store, monkeypatch):
    assert retention._ROWS == 20_000
    monkeypatch.setattr(retention, "_ROWS", 200)
    store.add_outcomes("c", outcomes(300))
    first = store.prune(1e9, 1, 1)
    assert (first.outcomes, first.more) == (200, True)
    second = store.prune(1e9, 1, 1)
    assert (second.outcomes, second.more) == (100, False)
