"""make test-releases takes root trees by name, and keeps the rows of releases that it did not run."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts/test-releases"))
PAGE = ROOT / "docs/releases.md"


def row(slurm: str, system: str, lab: str, adapter: str = "command") -> dict[str, str]:
    return {"Slurm": slurm, "system": system, "adapter": adapter, "lab": lab}


OLD = [row("22.05.8", "debian bookworm, Python 3.11", "1"), row("26.05.5", "debian forky, Python 3.14", "2")]


def test_a_tree_that_is_not_there_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURMSCHED_TREES", str(tmp_path))
    (found,), failed = SCRIPT["tested"]("slurm-25.05", ["lab", "port"])
    assert (found["Slurm"], found["lab"], found["port"]) == ("25.05", "skipped (no root tree slurm-25.05)", "-")
    assert failed == []


def test_no_suite_of_debian_is_looked_for_under_the_name_of_an_own_build(tmp_path):
    environment = {"SLURMSCHED_TREES": str(tmp_path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = [ROOT / "scripts/release-tree", "slurm-99.05"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "root" in done.stderr or "docs/releases.md says how to make one" in done.stderr


def test_rows_of_a_run_stand_among_those_of_releases_that_were_not_run():
    run = [row("26.05.6", "debian forky, Python 3.15", "3"), row("25.05.8", "debian trixie, Python 3.13", "4")]
    found = SCRIPT["merged"](OLD, run)
    assert [(one["Slurm"], one["lab"]) for one in found] == [("22.05.8", "1"), ("25.05.8", "4"), ("26.05.6", "3")]


def test_a_missing_tree_replaces_no_row_and_is_replaced_by_one():
    missing = row("25.05", "-", "skipped (no root tree slurm-25.05)")
    there = row("25.05.8", "debian trixie, Python 3.13", "4")
    assert SCRIPT["merged"]([there], [missing]) == [there]
    assert SCRIPT["merged"]([missing], [there]) == [there]
    assert SCRIPT["merged"](OLD, [missing])[1] == missing


def test_cells_of_columns_that_were_not_run_stay_with_the_day_on_which_they_were():
    rest = {"port": "5", "seen on": "2026-11-01; lab 2026-11-02"}
    old, today = OLD[1] | rest, {"port": SCRIPT["NOT_RUN"], "seen on": "2026-11-03"}
    (found,) = SCRIPT["merged"]([old], [row("26.05.5", "debian forky, Python 3.15", "3") | today])
    assert (found["lab"], found["port"], found["seen on"]) == ("3", "5", "2026-11-01; lab 2026-11-03")
    (newer,) = SCRIPT["merged"]([old], [row("26.05.6", "debian forky, Python 3.15", "3") | today])
    assert (newer["lab"], newer["port"], newer["seen on"]) == ("3", "-", "2026-11-03"), (
        "of another release none is kept"
    )


@pytest.mark.parametrize("name", ["Slurm", "system", "adapter", "seen on", *SCRIPT["GROUPS"]])
def test_the_table_of_the_page_is_read_as_it_was_written(name):
    table = PAGE.read_text().partition(SCRIPT["MARKS"][0])[2].partition(SCRIPT["MARKS"][1])[0].strip()
    rows = SCRIPT["rows_of"](table)
    assert all(row[name] for row in rows)
    assert SCRIPT["table"](rows) == table
