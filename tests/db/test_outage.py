"""A PostgreSQL that stops, restarts and hangs."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager

import pytest
from db_worlds import CheckedMemory, decision, jobs, look
from postgres_server import new_server
from sqlalchemy import text

from slurmsched.clock import ManualClock
from slurmsched.db.leader import ServerLeadership
from slurmsched.db.records import pause
from slurmsched.db.records.pause import Control
from slurmsched.db.store import Store
from slurmsched.errors import MemoryUnavailable
from slurmsched.lab.waiting import wait_until


@pytest.fixture(scope="module")
def server_of_these():
    server = new_server()
    yield server
    server.remove()


@pytest.fixture
def own_server(server_of_these):
    """A server that runs, and may be stopped: none but these tests use it."""
    if not server_of_these.runs:
        server_of_these.start()
    return server_of_these


def test_a_server_that_stops_and_comes_back_loses_only_decisions(own_server):
    store = Store(own_server.new_database(), timeout_s=1)
    store.upgrade()
    clock = ManualClock()
    memory = CheckedMemory(store, cluster="c", monotonic=clock.monotonic)
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


@contextmanager
def stopped(*processes):
    """These processes neither run nor end."""
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


LIMIT_S = 1.0
HANGS_S = 60.0
"""What has not ended by then does not end by itself; a machine may be busy."""
TRIES = 5
"""Of so many one is quick even where the machine stands still meanwhile."""


@pytest.fixture
def hanging(own_server):
    """A store with connections that are in use, on a server of its own."""
    store = Store(own_server.new_database(), timeout_s=LIMIT_S)
    store.upgrade()
    yield store
    store.close()


def seconds_of(step):
    begun_s = time.monotonic()
    with pytest.raises(MemoryUnavailable):
        step()
    return time.monotonic() - begun_s


def test_a_server_process_that_hangs_costs_the_time_limit_once_and_not_each_time(own_server, hanging):
    memory = CheckedMemory(hanging, cluster="c")
    lead = ServerLeadership(hanging.database, "c")
    assert lead.acquire()
    memory.remember(look(jobs(2)), 110)

    def cycle_s() -> float:
        begun_s = time.monotonic()
        assert not lead.held()
        with pytest.raises(MemoryUnavailable):
            lead.acquire()
        memory.control(125)
        assert not memory.remember(look(jobs(4)), 125).available
        memory.save_decision(decision(1, 125.0))
        return time.monotonic() - begun_s

    with stopped(*own_server.backends()):
        assert cycle_s() < HANGS_S
        assert min(cycle_s() for _ in range(TRIES)) < LIMIT_S, "it is left alone for a while"
    wait_until(lambda: hanging_over(hanging), 120.0, "a server that is asked again")
    assert lead.acquire()
    hanging.pause("c", by="root", now_s=1.0)
    lead.release()


def hanging_over(store):
    try:
        store.check()
    except MemoryUnavailable:
        return False
    return True


def test_a_server_that_takes_no_connections_costs_the_time_limit_too(own_server, hanging):
    hanging.close()
    with stopped(own_server.postmaster()):
        assert seconds_of(hanging.check) < HANGS_S
        assert min(seconds_of(hanging.check) for _ in range(TRIES)) < LIMIT_S, "it is left alone for a while"


def test_a_server_process_that_hangs_before_the_commit_costs_the_time_limit_and_writes_nothing(own_server, hanging):
    def write():
        with hanging.database.transaction("writing", write=True) as connection:
            pause.save_control(connection, "c", Control(True, None, "root", 1.0))
            with stopped(*own_server.backends()):
                connection.commit()

    assert seconds_of(write) < HANGS_S
    wait_until(lambda: hanging_over(hanging), 120.0, "a server that is asked again")


def test_a_statement_that_the_server_itself_gives_up_closes_no_connection(own_server, hanging):
    def sleep():
        with hanging.database.transaction("sleeping") as connection:
            connection.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(MemoryUnavailable, match="statement timeout"):
        sleep()
    hanging.check()


def test_a_locked_file_costs_the_time_limit(tmp_path):
    store, other = (Store(f"sqlite:///{tmp_path}/a.db", timeout_s=LIMIT_S) for _ in range(2))
    store.upgrade()
    with other.database.transaction("locking", write=True):
        assert seconds_of(lambda: store.pause("c", by="root", now_s=1.0)) < HANGS_S
    for one in (store, other):
        one.close()


def test_an_upgrade_takes_as_long_as_it_needs(own_server, hanging):
    with hanging.database.transaction("sleeping") as connection, hanging.database.unhurried(connection):
        connection.execute(text(f"SELECT pg_sleep({3 * LIMIT_S})"))
    with hanging.database.transaction("sleeping") as connection:
        assert connection.connection.driver_connection.limit_s < 2 * LIMIT_S
