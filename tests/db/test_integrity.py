"""A database that is full, cut off, overwritten or changed while it is used: noticed, and not called back too early."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing

import pytest
from db_worlds import CheckedMemory, decision, jobs, look, outcomes
from sqlalchemy import text

from slurmsched.clock import ManualClock
from slurmsched.db.integrity import find_damage
from slurmsched.db.store import Store
from slurmsched.errors import MemoryUnavailable

CYCLES = 60


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=True, timeout=300)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True, timeout=300)


def fill(path):
    """Take all the room there is."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass


class Cycles:
    """The cycles of a daemon, 15 seconds apart, and what was said of the database after each step of them."""

    def __init__(self, store):
        self.clock = ManualClock(100.0)
        self.store, self.samples, self.number = store, [], 0
        self.memory = CheckedMemory(store, cluster="c", monotonic=self.clock.monotonic)

    def run(self, count):
        for _ in range(count):
            self.number += 1
            self.clock.now_s += 15.0
            now_s = self.clock.now_s
            self.sample(lambda now_s=now_s: self.memory.control(now_s))
            self.sample(lambda now_s=now_s: self.memory.remember(look(jobs(3 + self.number)), now_s))
            self.sample(lambda now_s=now_s: self.memory.promises(now_s, acting=False))
            self.sample(lambda now_s=now_s: self.memory.save_decision(decision(self.number, now_s, 200)))

    def sample(self, step):
        step()
        self.samples.append(self.memory.available)


def backs(caplog):
    return sum("the database is back" in record.getMessage() for record in caplog.records)


def test_on_a_full_disk_the_database_is_away_until_a_record_would_fit_again(small_disk, caplog):
    store = Store(f"sqlite:///{small_disk}/slurmsched.db", timeout_s=1.0)
    store.upgrade()
    cycles = Cycles(store)
    cycles.run(3)
    fill(small_disk / "other")
    cycles.run(CYCLES)
    first = cycles.samples.index(False)
    assert first < 4 * 30, "the room that was left is used up"
    assert not any(cycles.samples[first:]), "a read that works is no proof"
    assert "disk is full" in cycles.memory.trouble
    (small_disk / "other").unlink()
    cycles.run(2)
    assert cycles.samples[-1]
    assert backs(caplog) == 1
    assert [job.job_id for job in store.jobs("c")] == list(range(1, 3 + cycles.number + 1)), "nothing was lost"
    store.close()


@pytest.fixture
def file_store(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/slurmsched.db", timeout_s=1.0)
    store.upgrade()
    store.add_outcomes("c", outcomes(3000))
    yield store
    store.close()


@pytest.mark.parametrize("part", [0.0, 0.5, *(pytest.param(part, marks=pytest.mark.soak) for part in (0.1, 0.9))])
def test_a_file_that_was_cut_off_is_away_until_it_is_whole_again(file_store, caplog, part):
    cycles = Cycles(file_store)
    cycles.run(3)
    whole = file_store.path.with_name("whole")
    with closing(sqlite3.connect(file_store.path)) as source, closing(sqlite3.connect(whole)) as copy:
        source.backup(copy)
    os.truncate(file_store.path, int(part * file_store.path.stat().st_size))
    cycles.samples.clear()
    cycles.run(CYCLES)
    assert file_store.inspect(thorough=False)
    cycles.run(CYCLES)
    assert not any(cycles.samples)
    assert backs(caplog) == 0
    assert file_store.database.damage in cycles.memory.trouble
    for leftover in ("-wal", "-shm"):
        file_store.path.with_name(file_store.path.name + leftover).unlink(missing_ok=True)
    whole.rename(file_store.path)
    assert file_store.inspect(thorough=False) == ""
    cycles.run(2)
    assert cycles.memory.available
    assert backs(caplog) == 1


def test_a_file_that_an_admin_made_smaller_is_used_again_once_it_was_inspected(file_store):
    cycles = Cycles(file_store)
    cycles.run(3)
    with closing(sqlite3.connect(file_store.path, isolation_level=None)) as other:
        other.execute("DELETE FROM outcomes")
        other.execute("VACUUM")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    cycles.run(2)
    assert "shrunk" in cycles.memory.trouble
    assert file_store.inspect(thorough=False) == ""
    cycles.run(2)
    assert cycles.memory.available


def test_a_whole_database_has_no_damage(file_store):
    assert file_store.inspect(thorough=True) == ""


def test_bytes_that_were_overwritten_are_found_and_nothing_is_written_to_the_file_any_more(file_store):
    file_store.database.close()
    size = file_store.path.stat().st_size
    with file_store.path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 16_384)
    assert file_store.inspect(thorough=True).startswith("the file is damaged: ")
    before = file_store.path.read_bytes()
    with pytest.raises(MemoryUnavailable, match="the file is damaged"):
        file_store.pause("c", by="root", now_s=1.0)
    assert file_store.path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE cycles DROP COLUMN mode", "cycles lacks the column mode"),
        ("ALTER TABLE intents ADD COLUMN other TEXT", "intents has a strange column other"),
        ("DROP TABLE job_events", "job_events is missing"),
        ("DROP INDEX promises_by_state", "index promises_by_state is missing"),
        ("UPDATE slurmsched_version SET version_num = '0042'", "version 0042"),
    ],
)
def test_tables_that_were_changed_are_found_and_the_database_is_left_alone_until_they_are_as_before(
    store, url, change, words
):
    cycles = Cycles(store)
    cycles.run(2)
    other = Store(url, timeout_s=5.0)
    with other.database.transaction("changing", write=True) as connection:
        connection.execute(text(change))
    other.close()
    assert words in store.inspect(thorough=False)
    cycles.run(3)
    assert words in cycles.memory.trouble
    assert not any(cycles.samples[8:])


def test_tables_of_others_in_the_same_database_harm_nobody(store):
    with store.database.transaction("adding", write=True) as connection:
        connection.execute(text("CREATE TABLE theirs (a INTEGER PRIMARY KEY, b TEXT)"))
        connection.execute(text("CREATE INDEX faster ON job_events (kind)"))
    assert store.inspect(thorough=True) == ""


def test_an_inspection_that_takes_too_long_is_no_verdict(file_store, caplog):
    assert find_damage(file_store.database, thorough=True, limit_s=0.0) == ""
    assert "part of it was not checked" in caplog.text
