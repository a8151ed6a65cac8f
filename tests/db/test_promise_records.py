"""Promises in both databases: none is lost, and a repeat does no harm."""

from __future__ import annotations

import numpy as np
import pytest
from db_worlds import HOSTILE, NAN

from slurmsched.clock import ManualClock
from slurmsched.cluster.records.promises import NO_PROMISES, PromiseState, promise_table
from slurmsched.db.memory import PROMISES_S, Memory
from slurmsched.db.records.promises import changed_rows
from slurmsched.errors import MemoryUnavailable


def asked(count=2, **columns):
    known = {
        "job_id": np.arange(1, count + 1),
        "asked_s": np.full(count, 1000.0),
        "first_submit_s": np.full(count, 990.0),
        "user": [HOSTILE[row % len(HOSTILE)] for row in range(count)],
        "deadline_s": np.full(count, 5000.0),
        "state": np.full(count, PromiseState.OPEN),
        "promised_s": np.full(count, 5000.0),
    }
    return promise_table(count, **(known | columns))


def test_promises_come_back_as_they_were_saved(store):
    memory = Memory(store, cluster="c")
    table = asked(len(HOSTILE), needs_s=np.full(len(HOSTILE), NAN), reason=list(HOSTILE))
    memory.keep_promises(table, 1000.0)
    assert store.promises("c", 0.0).equals(table)
    assert Memory(store, cluster="c").promises(1001.0, acting=True).equals(table)
    assert len(store.promises("other", 0.0)) == 0


def test_a_change_is_saved_once_and_told_in_the_story(store):
    memory = Memory(store, cluster="c")
    memory.keep_promises(asked(), 1000.0)
    met = asked(state=[PromiseState.MET, PromiseState.OPEN], settled_s=[1100.0, NAN])
    memory.keep_promises(met, 1100.0)
    memory.keep_promises(met, 1200.0)
    assert store.promises("c", 0.0).equals(met)
    told = [(event.at_s, event.details["what"]) for event in store.story("c", 1)]
    assert told == [(1000.0, "open"), (1100.0, "met")]


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", PromiseState.MET), ("reason", "the job ended later"), ("announced_s", 1200.0), ("promised_s", NAN)],
)
def test_only_rows_that_changed_are_saved(column, value):
    table = asked(4, needs_s=np.full(4, NAN), reason=["", "a", "b", ""])
    values = list(getattr(table, column))
    values[2] = value
    changed = asked(4, **({"needs_s": np.full(4, NAN), "reason": ["", "a", "b", ""]} | {column: values}))
    assert changed_rows(table, table).tolist() == []
    assert changed_rows(table, changed).tolist() == [2]
    assert changed_rows(table.take([3, 1, 0]), changed).tolist() == [2], "in whatever order"
    assert changed_rows(table.take([0, 1]), changed).tolist() == [2, 3], "with new ones behind"
    assert changed_rows(NO_PROMISES, table).tolist() == [0, 1, 2, 3]


def test_a_promise_to_be_kept_is_never_forgotten_and_others_go_with_the_outcomes(store):
    table = asked(3, state=[PromiseState.OPEN, PromiseState.MET, PromiseState.REFUSED])
    memory = Memory(store, cluster="c")
    memory.keep_promises(table, 1000.0)
    assert memory.promises(1000.0 + PROMISES_S + 1, acting=True).job_id.tolist() == [1]
    assert store.prune(10_000.0, 1.0, 1.0).promises == 2
    assert store.promises("c", 0.0).job_id.tolist() == [1]


def test_promises_outlive_a_backlog_that_overflows(store):
    clock = ManualClock()
    memory = Memory(store, cluster="c", backlog=1, monotonic=clock.monotonic)

    class Away:
        database = store.database

        def __getattr__(self, name):
            raise MemoryUnavailable("gone")

    memory._store = Away()
    memory.keep_promises(asked(5), 1000.0)
    memory._store = store
    clock.now_s = 1000.0
    memory.keep_promises(asked(6), 2000.0)
    assert len(store.promises("c", 0.0)) == 6
