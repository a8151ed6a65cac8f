"""Two daemons, one cluster: one acts, the other looks on and takes over when the first is gone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any

from lab_site import Site, updates
from postgres_server import Server
from sqlalchemy import create_engine, text

from slurmsched.db.store import Store


def mode(site: Site) -> str:
    return site.said("status").get("mode", "")


def test_a_second_daemon_on_the_same_state_is_refused(site):
    with site.daemon() as first:
        second = site.run("run")
        assert second.returncode == 1
        assert f"another slurmsched daemon (pid {first.pid})" in second.stderr
        assert first.poll() is None


def test_a_second_daemon_on_the_same_file_looks_on_and_takes_over(new_site):
    first: Site = new_site()
    second: Site = new_site(database=f"url = 'sqlite:///{first.directory}/slurmsched.db'")
    with first.daemon() as process, second.daemon():
        assert second.said("status")["why_mode"] == "another daemon leads this cluster"
        take_over(first, second, process)


def test_a_second_daemon_on_postgresql_takes_over_within_two_cycles(new_site, server):
    url = server.new_database()
    first, second = (new_site(database=f"url = '{url}'\ntimeout_s = 5") for _ in range(2))
    with first.daemon() as process, second.daemon():
        first.until(lambda: (mode(first), mode(second)) == ("act", "observe"), "one that acts and one that looks on")
        take_over(first, second, process, lambda: holders(server))
    with closing(Store(url, timeout_s=5.0)) as store:
        numbers = store.decision_numbers()
        assert len(numbers) == len(set(numbers))


def take_over(first: Site, second: Site, process, holders: Callable[[], set[int]] = set) -> None:
    """The first is killed while both order the same queue; *holders* are the sessions on a server that lead."""
    first.fill()
    jobs = first.queue(2)
    first.until(lambda: first.ordered(jobs), "an order")
    led = holders()
    process.kill()
    process.wait(90.0)
    first.until(lambda: not led & holders(), "the server to see that the leader is gone")
    before = len(second.log)
    more = first.queue(3)
    second.until(lambda: " act: " in second.log, "a new leader")
    looked_on = second.log[before:].partition(" act: ")[0].count(" observe: ")
    assert looked_on <= 2, "the one under way and one more"
    second.until(lambda: second.ordered(more), "an order by the new leader")


def test_a_leader_that_was_away_writes_nothing_more(new_site, server):
    """It stops with its writes in hand and the server forgets it: what it wanted is old when it goes on."""
    url = server.new_database()
    first, second = (new_site(database=f"url = '{url}'\ntimeout_s = 5") for _ in range(2))
    first.fill()
    jobs = first.queue(3)
    process = first.start(*first.driver(1, "send", "SIGSTOP"))
    try:
        first.until(lambda: "SIGSTOP as send begins" in first.log, "a leader that stands still")
        assert set(first.points().values()) == {0}
        with second.daemon():
            assert mode(second) == "observe"
            forget_the_leader(server)
            second.until(lambda: second.ordered(jobs), "an order by the new leader")
            second.more_cycles()
            before, points = updates(second.lab), second.points()
            process.send_signal(signal.SIGCONT)
            first.until(lambda: first.cycles() >= 2, "cycles of the old leader")
            assert "wrote 0" in first.log
            assert "observe: " in first.log
            assert updates(second.lab) == before
            assert second.points() == points
    finally:
        process.kill()
        process.wait(90.0)


def forget_the_leader(server: Server) -> None:
    """End the one session that holds the leadership, as a server does with a client that is gone."""
    assert leading(server, "pg_terminate_backend(pid)") == [True]


def holders(server: Server) -> set[int]:
    return set(leading(server, "pid"))


def leading(server: Server, shown: str) -> list[Any]:
    """The column *shown* of each session that holds the leadership."""
    engine = create_engine(server.url("postgres").replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        held = f"SELECT {shown} FROM pg_locks WHERE locktype = 'advisory' AND granted"
        found = connection.execute(text(held)).scalars().all()
    engine.dispose()
    return list(found)
