"""Progress on a terminal: what is shown comes before what takes long, by the order of events."""

from __future__ import annotations

import os
import pty
import sqlite3
import subprocess
import sys

from cli.fake_site import FakeSite
from cli.test_gain_in_force import history

LIMIT_S = 120
SILENT_S = 60  #: the most that a database may be silent


def read_until(terminal: int, text: bytes) -> bytes:
    """Read from a terminal until *text* was printed, or nothing more comes."""
    seen = b""
    while text not in seen:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    return seen


def test_simulate_says_that_it_reads_the_history_before_the_database_answers(tmp_path):
    (tmp_path / "no-slurm").mkdir()
    slurm = f"[slurm]\nbin_dir = '{tmp_path}/no-slurm'\n"
    settings = f"{slurm}[database]\ntimeout_s = {SILENT_S}\n[policy]\nordering = 'sjf'\n"
    site = FakeSite(tmp_path, settings)
    site.make_tables()
    store = site.open_store()
    store.add_outcomes("fake", history(40, mixed=True))
    store.close()
    locked = sqlite3.connect(tmp_path / "slurmsched.db", isolation_level=None)
    locked.execute("PRAGMA journal_mode = DELETE")
    locked.execute("BEGIN EXCLUSIVE")
    argv = ("-m", "slurmsched", "--config", str(site.file), "simulate", "--from-db", "5000w", "--nodes", "4")
    ours, theirs = pty.openpty()
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, stderr=theirs, env=variables)
    os.close(theirs)
    try:
        shown = read_until(ours, b"reading the history")
        assert b"reading the history" in shown, shown
        assert child.poll() is None
        locked.execute("ROLLBACK")
        locked.close()
        shown += read_until(ours, b"no such text")
        printed, _ = child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    assert child.returncode == 0, shown
    assert shown.index(b"reading the history") < shown.index(b"3 runs")
    assert b"sjf, ideal" in printed
