"""Which policy admins chose, in the database and in the memory of a daemon."""

from __future__ import annotations

from new_store import new_store

from slurmsched.db.memory import Memory
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.db.records.policy_choices import PolicyChoice
from slurmsched.db.tracking.story import StoryEvent

FIRST, SECOND = PolicyChoice("qssf", "ann", 100.0, "a try"), PolicyChoice("", "bob", 200.0)


def test_the_latest_choice_holds_and_the_others_are_kept(store):
    assert store.choices("c") == []
    for choice in (FIRST, SECOND):
        store.choose("c", choice)
    assert store.choices("c") == [SECOND, FIRST]
    assert store.choices("c", 1) == [SECOND]
    assert store.choices("another") == []


def test_the_choice_made_last_holds_also_where_the_clock_of_the_one_before_was_ahead(store):
    store.choose("c", PolicyChoice("qssf", "ann", 500.0))
    store.choose("c", PolicyChoice("", "bob", 200.0))
    assert [choice.by for choice in store.choices("c")] == ["bob", "ann"]


def test_only_choices_of_its_own_time_are_in_the_story_of_a_job(store):
    told = [StoryEvent(at_s, kind, {}, job) for job, at_s, kind in (
        (1, 50.0, "submitted"), (1, 150.0, "ended"), (2, 150.0, "submitted"), (3, 250.0, "submitted"),
    )]  # fmt: skip
    store.save("c", PendingWrites(story=told))
    for choice in (FIRST, SECOND):
        store.choose("c", choice)
    kinds = {job: [event.kind for event in store.story("c", job)] for job in (1, 2, 3, 4)}
    assert kinds == {1: ["submitted", "policy", "ended"], 2: ["submitted", "policy"], 3: ["submitted"], 4: []}
    assert store.story("c", 1)[1].details == {"line": "qssf", "by": "ann", "reason": "a try"}


def test_the_last_known_choice_holds_while_the_database_is_away(tmp_path):
    own = new_store(tmp_path / "a.db")
    memory = Memory(own, cluster="c")
    assert memory.choice() is None
    own.choose("c", FIRST)
    assert memory.choice() == FIRST
    (tmp_path / "a.db").rename(tmp_path / "away")
    assert memory.choice() == FIRST
    assert not memory.available
    own.close()
