"""What is read of reservations, of every release that is there."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decide.views import nodes

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import NodeTable
from slurmsched.cluster.reservations import UNREAD, Claimant, ReservationTable, followed, windows_of
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.read.reservations import AHEAD, read_reservations

GOLDEN = Path(__file__).parent.parent / "golden"
RELEASES = sorted(path.parent.name for path in GOLDEN.glob("*/reservations.txt"))
LINE = "ReservationName={name} StartTime={start} EndTime={end} Duration=x Nodes={nodes} CoreCnt=8 Flags={flags} {rest}"


def cluster(count: int = 4) -> NodeTable:
    fleet = nodes((4,) * count)
    return replace(fleet, cpus=np.full(count, 8), name=Labels.of(f"n{place}" for place in range(1, count + 1)))


def rows_of(table: ReservationTable, name: str) -> list[int]:
    return [row for row, one in enumerate(table.name) if one == name]


@pytest.mark.parametrize("release", RELEASES)
def test_reservations_of_each_release_are_read(release):
    text = (GOLDEN / release / "reservations.txt").read_text()
    table = read_reservations(text, cluster())
    recorded = {line.split()[0].partition("=")[2] for line in text.splitlines()}
    assert set(table.name) == recorded >= {"maintenance", "class", "cores", "others", "hours", "groups", "floating"}
    (row,) = rows_of(table, "maintenance")
    assert (table.nodes[row], bool(table.whole[row]), table.users[row]) == ("n[1-4]", True, "root")
    assert table.has("MAINT")[row] & table.has("IGNORE_JOBS")[row]
    assert table.end_s[row] - table.start_s[row] == 3600.0
    first = rows_of(table, "class")[0]
    assert (table.accounts[first], table.partition[first], bool(table.whole[first])) == ("astro", "gpu", True)
    assert table.has("FLEX")[first] & table.has("PURGE_COMP")[first]
    cores = rows_of(table, "cores")
    assert {int(table.cores[one]) for one in cores} == {2}
    assert not table.whole[cores].any(), "two of eight cores"
    assert table.users[rows_of(table, "others")[0]] == "-lab-alice"
    assert table.groups[rows_of(table, "groups")[0]] == "nogroup"
    for name, flag in (("class", "DAILY"), ("cores", "WEEKLY"), ("hours", "HOURLY")):
        assert len(rows_of(table, name)) == AHEAD[flag], name
    if "gpus" in recorded:
        row = rows_of(table, "gpus")[0]
        assert (int(table.gpus[row]), int(table.cores[row]), bool(table.whole[row])) == (2, 8, True), "with all cores"


def test_without_reservations_there_is_no_window():
    assert len(read_reservations("No reservations in the system\n", cluster())) == 0


def test_another_answer_is_none():
    with pytest.raises(SlurmUnavailable):
        read_reservations("slurm_load_reservations error: Unable to contact slurm controller", cluster())


@pytest.mark.parametrize(("start", "flags", "windows"), [("now", "", 0), ("1000", "SPEC_NODES,TIME_FLOAT", 1)])
def test_a_reservation_that_is_not_understood_is_marked(start, flags, windows):
    line = LINE.format(name="x", start=start, end="2000", nodes="n1", flags=flags, rest="")
    table = read_reservations(line, cluster())
    assert table.has(UNREAD).sum() == 1
    assert len(windows_of(table, "n1", 1500.0, 1600.0, Claimant("alice", "astro"))) == windows
    assert not followed(table, job_table(1, reservation=["x"])).any()


def test_the_comment_of_a_reservation_is_not_read():
    line = LINE.format(name="real", start=1000, end=2000, nodes="n1", flags="SPEC_NODES", rest="TRES=cpu=8 Users=bob")
    table = read_reservations(f"{line} Comment=x Users=eve Nodes=n2\nUsers=eve and more\n", cluster())
    assert (list(table.name), list(table.users), list(table.nodes)) == (["real"], ["bob"], ["n1"])


def test_windows_repeat_at_the_same_time_of_the_clock_also_when_that_is_changed():
    saved = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    try:
        friday_s = time.mktime((2026, 10, 23, 8, 0, 0, 0, 0, -1))  # the clock goes back on Sunday the 25th

        def days(flag: str) -> list[str]:
            line = LINE.format(name="x", start=int(friday_s), end=int(friday_s) + 60, nodes="n1", flags=flag, rest="")
            table = read_reservations(line, cluster())
            return [time.strftime("%a %H:%M", time.localtime(one)) for one in table.start_s[:5]]

        assert days("DAILY") == ["Fri 08:00", "Sat 08:00", "Sun 08:00", "Mon 08:00", "Tue 08:00"]
        assert days("WEEKDAY")[:3] == ["Fri 08:00", "Mon 08:00", "Tue 08:00"]
        assert days("WEEKEND,SPEC_NODES")[1:3] == ["Sat 08:00", "Sun 08:00"]
        assert days("WEEKLY")[:2] == ["Fri 08:00", "Fri 08:00"]
        assert days("SPEC_NODES") == ["Fri 08:00"]
    finally:
        if saved is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = saved
        time.tzset()


def test_a_daily_window_keeps_a_long_job_out_on_a_later_day():
    line = LINE.format(name="x", start=10_000, end=12_000, nodes="n[1-2]", flags="DAILY", rest="TRES=cpu=16")
    table = read_reservations(line, cluster())
    found = windows_of(table, "n1", 20_000.0, 20_000.0 + 2 * 86_400.0, Claimant("alice", "astro"))
    assert [window.start_s for window in found] == [96_400.0, 182_800.0]
    assert all(window.whole and not window.maintenance for window in found)
    assert windows_of(table, "n3", 0.0, 1e9, Claimant("alice", "astro")) == ()
