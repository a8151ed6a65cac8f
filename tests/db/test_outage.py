"""A PostgreSQL that stops, restarts and hangs."""

from __future__ import annotations

import time

import pytest
from db_worlds import decision, jobs, look
from postgres_server import new_server
from sqlalchemy import text

from slurmsched.clock import ManualClock
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.errors import MemoryUnavailable


@pytest.fixture
def own_server():
    server = new_server()
    server.start()
    yield server
    server.remove()


def test_a_server_that_stops_and_comes_back_loses_only_decisions(own_server):
    store = Store(own_server.new_database(), timeout_s=1)
    store.upgrade()
    clock = ManualClock()
    memory = Memory(store, cluster="c", monotonic=clock.monotonic)
    memory.remember(look(jobs(2)), 110)
    own_server.stop()
    assert not memory.remember(look(jobs(4)), 125).available
    memory.save_decision(decision(1, 125.0))
    assert memory.decisions_dropped == 1
    own_server.start()
    clock.now_s += 15
    assert memory.remember(look(jobs(4)), 140).available
    memory.save_decision(decision(2, 140.0))
    assert [job.job_id for job in store.jobs("c")] == [1, 2, 3, 4]
    assert store.decision_numbers("c") == [2]
    store.close()


def test_a_restart_between_two_cycles_is_not_even_noticed(own_server):
    store = Store(own_server.new_database(), timeout_s=1)
    store.upgrade()
    own_server.stop()
    own_server.start()
    assert len(store.history("c")) == 0
    store.close()


def test_a_table_that_is_locked_costs_the_time_limit_and_no_more(server):
    store, other = (Store(url, timeout_s=0.3) for url in [server.new_database()] * 2)
    store.upgrade()
    with other.database.transaction("locking", write=True) as connection:
        connection.execute(text("LOCK TABLE jobs"))
        begun_s = time.perf_counter()
        with pytest.raises(MemoryUnavailable, match="timeout"):
            store.jobs("c")
        assert time.perf_counter() - begun_s < 60, "the lock lasts until we let go of it"
    assert store.jobs("c") == []
    for one in (store, other):
        one.close()
