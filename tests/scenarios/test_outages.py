"""Slurm or the database away, slow or locked: the daemon says so, goes on as far as it can and recovers alone."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from lab_site import Site

from slurmsched.cluster.jobs import JobState
from slurmsched.lab.waiting import wait_until


def gone_by(seconds: float) -> Callable[[], bool]:
    """A condition that holds when an outage has lasted long enough: how long it lasts is the test."""
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() > end_s


def ended_meanwhile(site: Site) -> int:
    """A job that is submitted and over before anybody could write it down."""
    job = site.lab.submit("--gres=gpu:1", "--wrap=true", "-t1", "-o/dev/null", user="dave")
    site.until(lambda: site.states()[job] == "COMPLETED", "the end of a job")
    return job


def outcome_of(site: Site, job: int) -> list[int]:
    return [state for (state,) in site.sql("SELECT state FROM outcomes WHERE job_id = ?", job)]


def well(status: dict[str, Any]) -> bool:
    """Whether the daemon acts and has nothing to complain of."""
    return (status.get("problem"), status.get("last_error"), status.get("mode")) == ("", "", "act")


def live_through(site: Site, begin: Callable[[], None], end: Callable[[], None], outage_s: float) -> None:
    """Slurm is away for a while: the cycles are lost, health says why, and the next order comes by itself."""
    site.fill()
    first = site.queue(2)
    with site.daemon() as process:
        site.until(lambda: site.ordered(first), "an order")
        begin()
        try:
            over = gone_by(outage_s)
            site.until(lambda: "a cycle was lost" in site.log, "a lost cycle")
            site.until(lambda: site.said("status")["last_error"], "a status that tells")
            site.until(lambda: "503" in site.http("/healthz"), "bad health")
            wait_until(over, outage_s + 5, "the end of the outage")
            assert process.poll() is None
        finally:
            end()
        cycles = site.cycles()
        site.until(lambda: site.cycles() > cycles, "a cycle after the outage", 120.0)
        site.until(lambda: site.ordered(first), "the order of before")
        second = site.queue(2)
        site.until(lambda: site.ordered(second), "an order after the outage")
        site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
        site.until(lambda: well(site.said("status")), "a status without a trouble")
    assert "BUG" not in site.log
    assert "Traceback" not in site.log


def test_slurmctld_is_restarted(site):
    site.fill()
    jobs = site.queue(3)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        site.lab.restart_controller()
        site.more_cycles()
        assert process.poll() is None
        site.until(lambda: site.ordered(jobs), "the points of before the restart, which slurmctld keeps")
    assert "Traceback" not in site.log


def test_slurmctld_is_stopped_for_a_while(site):
    site.write(slurm="timeout_s = 2")
    live_through(site, site.lab.stop_controller, site.lab.start_controller, 4.0)


def test_slurmctld_accepts_and_does_not_answer(site):
    site.write(slurm="timeout_s = 1")
    live_through(site, site.lab.pause_controller, site.lab.resume_controller, 4.0)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["stopped", "silent"])
def test_slurmctld_is_away_for_half_a_minute(site, kind):
    lab = site.lab
    site.write(slurm="timeout_s = 2")
    ways = {
        "stopped": (lab.stop_controller, lab.start_controller),
        "silent": (lab.pause_controller, lab.resume_controller),
    }
    live_through(site, *ways[kind], 30.0)


@pytest.mark.soak
def test_a_daemon_started_before_slurmctld_waits_for_it(site):
    site.lab.stop_controller()
    try:
        process = site.start()
        site.until(lambda: "waiting for slurmctld" in site.log, "a patient daemon")
    finally:
        site.lab.start_controller()
    try:
        site.until(site.cycles, "a first cycle")
    finally:
        process.kill()
        process.wait(90.0)


def test_without_slurmdbd_the_order_goes_on(site):
    site.fill()
    with site.daemon():
        site.lab.stop_slurmdbd()
        try:
            jobs = site.queue(3)
            site.until(lambda: site.ordered(jobs), "an order without slurmdbd")
            checked = {found["name"]: found for found in site.said("check")["findings"]}
            assert checked["rights"]["ok"] is None
            assert "slurmdbd did not say" in checked["rights"]["text"]
        finally:
            site.lab.start_slurmdbd()
        site.more_cycles()
        site.until(lambda: well(site.said("status")), "a status without a trouble")
    assert "Traceback" not in site.log


@contextmanager
def locked(site: Site) -> Iterator[None]:
    """Another process writes to the database and does not end."""
    with closing(sqlite3.connect(site.directory / "slurmsched.db", timeout=10.0, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def moved_away(site: Site) -> Iterator[None]:
    """Its file is not there any more."""
    aside = site.directory / "aside"
    (site.directory / "slurmsched.db").rename(aside)
    yield
    aside.rename(site.directory / "slurmsched.db")


@pytest.mark.parametrize("trouble", [locked, moved_away])
def test_the_database_is_away_and_comes_back(site, trouble):
    with site.daemon():
        with trouble(site):
            job = ended_meanwhile(site)
            site.until(lambda: "the database is away" in site.log, "the news of it")
            site.until(lambda: site.said("status")["database_available"] is False, "a status that tells")
            site.until(lambda: 'active{part="database"} 1.0' in site.http("/metrics"), "a metric that tells")
            site.fill()
            jobs = site.queue(3)
            site.until(lambda: site.ordered(jobs), "an order without the database")
            site.until(lambda: "503" in site.http("/healthz"), "bad health: nothing is written down")
            assert "nothing has been stored" in site.said("status")["problem"]
        site.until(lambda: "the database is back" in site.log, "the database again")
        site.until(lambda: outcome_of(site, job) == [JobState.COMPLETED], "what happened meanwhile")
        site.until(lambda: site.said("status")["database_available"], "a status that tells")
        site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
        site.until(lambda: 'active{part="database"} 0.0' in site.http("/metrics"), "a metric that tells")
        assert [event["kind"] for event in site.said("story", str(job))["story"]][-1] == "ended"
    assert "Traceback" not in site.log


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 24 MB that the operator may write to."""
    disk = Path(mkdtemp(prefix="slurmsched-disk-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=1777", "tmpfs", disk], check=True, timeout=300)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True, timeout=300)
    disk.rmdir()


def take_all(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


@pytest.mark.parametrize("looks", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_a_full_disk_is_told_as_long_as_it_is_full_and_its_end_once(new_site, small_disk, looks):
    site = new_site(database=f"url = 'sqlite:///{small_disk}/slurmsched.db'\ntimeout_s = 0.5")
    shutil.chown(small_disk / "slurmsched.db", site.lab.user("operator"))
    with site.daemon():
        take_all(small_disk / "other")
        site.fill()
        site.until(lambda: site.said("status")["database_available"] is False, "a status that tells")
        site.until(lambda: "503" in site.http("/healthz"), "bad health")
        for _ in range(looks):
            site.more_cycles()
            assert site.said("status")["database_available"] is False
            assert "disk is full" in site.http("/healthz")
        assert "the database is back" not in site.log
        jobs = site.queue(3)
        site.until(lambda: site.ordered(jobs), "an order without the database")
        (small_disk / "other").unlink()
        site.until(lambda: site.said("status")["database_available"], "a status that tells")
        site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
        site.more_cycles(3)
        assert site.log.count("the database is back") == 1
    assert "Traceback" not in site.log


@pytest.mark.attack
def test_postgresql_is_stopped_and_started_again(new_site, server):
    url = server.new_database()
    site = new_site(database=f"url = '{url}'\ntimeout_s = 5")
    site.fill()
    jobs = site.queue(3)
    with site.daemon():
        site.until(lambda: site.ordered(jobs), "an order")
        server.stop()
        site.until(lambda: site.said("status").get("database_available") is False, "a status that tells")
        # Whether another daemon leads cannot be known now, so that nothing is written.
        site.until(lambda: "cannot be determined" in site.said("status")["why_mode"], "an observer")
        assert site.ordered(jobs)
        site.lab.run(["scancel", str(jobs[0])])
        site.until(lambda: site.states()[jobs[0]] == "CANCELLED", "an end that the database does not see")
        server.start()
        site.until(lambda: site.said("status")["mode"] == "act", "the lead again", 120.0)
        more = site.queue(2)
        site.until(lambda: site.ordered(more), "an order after the outage")
        site.until(lambda: site.said("status")["database_available"], "a database that is written again")
        site.more_cycles()
    assert "Traceback" not in site.log
    with site.store() as store:
        history = store.history(site.lab.cluster)
    assert history.state[history.job_id == jobs[0]].tolist() == [JobState.CANCELLED]
