"""Killed at any moment, the file opens and holds nothing half."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from slurmsched.db.memory import Memory
from slurmsched.db.store import Store

WRITER = """
import sys
import numpy as np
from db_worlds import decision, jobs, look
from slurmsched.cluster.actions import Rank
from slurmsched.cluster.jobs import JobState
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store

store = Store(sys.argv[1])
memory = Memory(store, cluster="c")
number = start = memory.next_number(0.0)
while True:
    first, now_s = 1 + 5 * number, 1000.0 + 15 * number
    submitted = {"submitted_s": np.full(20, now_s - 60), "first_submit_s": np.full(20, now_s - 60)}
    over = jobs(5, first, state=np.full(5, JobState.COMPLETED), started_s=np.full(5, now_s - 9),
                ended_s=np.full(5, now_s), submitted_s=np.full(5, 500.0))
    memory.remember(look(jobs(20, first + 5, submitted_s=np.full(20, 500.0)), None, over), now_s)
    memory.intend(number, [Rank(first + 5, number)], now_s)
    memory.answered(number, [(Rank(first + 5, number), None)], now_s)
    memory.save_decision(decision(number, now_s, count=number % 50))
    if number == start:
        print("writing", flush=True)  # however slow the machine, each life leaves a cycle
    number = memory.next_number(now_s)
"""


def kill_while_writing(url: str, seed: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent
    )
    assert writer.stdout.readline() == "writing\n"
    time.sleep(random.Random(seed).uniform(0.0, 0.3))  # the moment is the test
    writer.kill()
    writer.wait()
    writer.stdout.close()


def demand_whole(path: Path, store: Store) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        halves = (
            "SELECT count(*) FROM cycle_blobs LEFT JOIN blobs USING (digest) WHERE body IS NULL",
            "SELECT count(*) FROM cycles WHERE number NOT IN (SELECT number FROM cycle_blobs WHERE part = 'key')",
            # an outcome, the end of its story and the end of its job are one transaction
            "SELECT count(*) FROM outcomes o WHERE NOT EXISTS"
            " (SELECT 1 FROM job_events e WHERE e.job_id = o.job_id AND e.kind = 'ended')",
            "SELECT count(*) FROM outcomes o JOIN jobs j USING (job_id) WHERE j.phase != 2",
        )
        for half in halves:
            assert connection.execute(half).fetchone() == (0,), half
    for number in store.decision_numbers("c")[-3:]:
        assert store.decision(number, "c").number == number
    assert store.story("c", 30) == sorted(store.story("c", 30), key=lambda event: event.at_s)


def run(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "slurmsched.db"
    store = Store(f"sqlite:///{path}")
    store.upgrade()
    for seed in range(kills):
        kill_while_writing(f"sqlite:///{path}", seed)
        demand_whole(path, store)
    assert Memory(store, cluster="c").next_number(0.0) > kills
    store.close()


def test_a_file_survives_a_kill_at_any_moment(tmp_path):
    run(tmp_path, 3)


@pytest.mark.soak
def test_a_file_survives_a_hundred_kills(tmp_path):
    run(tmp_path, 100)
