"""Leadership: at most one leads, and the other takes over when the leader is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest
from new_store import new_store
from postgres_server import new_server

from slurmsched.db.leader import leadership
from slurmsched.db.store import Store
from slurmsched.lab import waiting

LEADER = """
import sys, time
from slurmsched.db.leader import leadership
from slurmsched.db.store import Store
one = leadership(Store(sys.argv[1]), "c")
print(one.acquire(), flush=True)
time.sleep(60)
"""


def wait_until(condition):
    waiting.wait_until(condition, 120.0, "a change of leaders")


@pytest.fixture
def pair(store, url):
    other = Store(url)
    both = leadership(store, "c"), leadership(other, "c")
    yield both
    for one in both:
        one.release()
    other.close()


def test_one_leads_until_it_gives_up(pair):
    first, second = pair
    assert first.acquire()
    assert first.acquire()
    assert first.held()
    assert not second.acquire()
    assert not second.held()
    first.release()
    assert not first.held()
    wait_until(second.acquire)  # a server frees the lock when it has seen the connection end
    assert not first.acquire()


def test_another_cluster_has_another_leader(pair, store):
    assert pair[0].acquire()
    other = leadership(store, "d")
    assert other.acquire()
    other.release()


def test_when_the_leader_is_killed_the_other_takes_over(pair, url):
    leader = subprocess.Popen([sys.executable, "-c", LEADER, url], stdout=subprocess.PIPE, text=True)
    assert leader.stdout.readline() == "True\n"
    assert not pair[0].acquire()
    leader.kill()
    leader.wait()
    leader.stdout.close()
    wait_until(pair[0].acquire)
    assert pair[0].held()


def test_a_lock_file_that_was_replaced_is_no_leadership(tmp_path):
    store = new_store(tmp_path / "a.db")
    first, second = leadership(store, "c"), leadership(store, "c")
    assert first.acquire()
    (tmp_path / "a.db.c.leader").unlink()
    assert not first.held()
    assert second.acquire()
    assert not first.acquire()
    second.release()
    store.close()


def test_who_has_no_file_always_leads():
    one = leadership(Store("sqlite://"), "c")
    assert not one.held()
    assert one.acquire()
    one.release()
    assert not one.held()


def test_a_restarted_server_knows_no_leader():
    server = new_server()
    server.start()
    try:
        store = Store(server.new_database(), timeout_s=2)
        first, second = leadership(store, "c"), leadership(store, "c")
        assert first.acquire()
        server.stop()
        assert not first.held()
        server.start()
        assert not first.held()
        assert second.acquire()
        assert not first.acquire()
        second.release()
        store.close()
    finally:
        server.remove()
