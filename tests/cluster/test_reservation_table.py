"""Which windows of reservations keep a job from a node, by the rules of slurmctld."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.reservations import Claimant, ReservationTable, claimant_of, keeping_out, windows_of
from slurmsched.research.conformance.random_views import jobs

ALICE = Claimant("alice", "astro")


def table(**columns: list[Any]) -> ReservationTable:
    """Reservations of n1 from 1000 to 2000."""
    count = max(len(column) for column in columns.values())
    given = {"name": ["r"] * count, "nodes": ["n1"] * count} | columns
    texts = {name: Labels.of(column) for name, column in given.items() if isinstance(column[0], str)}
    numbers = {"start_s": np.full(count, 1000.0), "end_s": np.full(count, 2000.0), "whole": np.full(count, True)}
    numbers |= {name: np.array(column) for name, column in given.items() if not isinstance(column[0], str)}
    return table_of(ReservationTable, count, {}, texts | numbers)


@pytest.mark.parametrize(
    ("from_s", "until_s", "kept"),
    [(0.0, 1000.0, False), (0.0, 1001.0, True), (1500.0, 1600.0, True), (1999.0, 9e9, True), (2000.0, 9e9, False)],
)
def test_a_window_keeps_out_what_runs_in_it(from_s, until_s, kept):
    found = windows_of(table(flags=["MAINT,SPEC_NODES"]), "n1", from_s, until_s, ALICE)
    assert [window.maintenance for window in found] == [True] * kept
    assert windows_of(table(flags=["MAINT"]), "n2", from_s, until_s, ALICE) == ()


@pytest.mark.parametrize(
    ("columns", "job", "from_s", "until_s", "kept"),
    [
        ({"users": ["alice"]}, ALICE, 1100.0, 1200.0, True),
        ({"users": ["alice"]}, Claimant("alice", "astro", ("r",)), 1100.0, 1200.0, False),
        ({"users": ["alice"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 1200.0, False),
        ({"users": ["alice"], "flags": ["MAGNETIC"]}, ALICE, 900.0, 1200.0, True),
        ({"users": ["alice"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 2001.0, True),
        ({"users": ["alice"], "flags": ["FLEX,MAGNETIC"]}, ALICE, 900.0, 2001.0, False),
        ({"users": ["-alice"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 1200.0, True),
        ({"users": ["-bob"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 1200.0, False),
        ({"accounts": ["bio,astro"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 1200.0, False),
        ({"accounts": ["bio"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 1200.0, True),
        ({"groups": ["staff"], "flags": ["MAGNETIC"]}, ALICE, 1100.0, 1200.0, True),
        ({"nodes": [""], "licences": ["matlab:1"]}, ALICE, 1100.0, 1200.0, False),
        ({"users": ["alice"]}, Claimant("alice", "astro", ("unknown",)), 1100.0, 1200.0, True),
    ],
)
def test_a_job_belongs_to_what_it_names_and_to_what_attracts_it(columns, job, from_s, until_s, kept):
    assert keeping_out(table(**columns), from_s, until_s, job).tolist() == [kept]


@pytest.mark.parametrize(
    ("own", "other", "whole", "kept"),
    [
        ("", "MAINT", True, True),
        ("MAINT", "", True, False),
        ("OVERLAP", "", True, False),
        ("OVERLAP", "MAINT", True, True),
        ("", "OVERLAP", True, True),
        ("", "MAINT", False, False),
    ],
)
def test_a_job_inside_a_reservation_is_kept_out_of_another_one_by_the_flags_of_both(own, other, whole, kept):
    two = table(name=["own", "other"], flags=[own, other], whole=[True, whole])
    assert keeping_out(two, 1100.0, 1200.0, Claimant("alice", "astro", ("own",))).tolist() == [False, kept]


def test_windows_come_in_their_order_with_what_they_take():
    both = table(start_s=[1500.0, 1000.0], whole=[False, True], name=["late", "soon"])
    assert [(one.name, one.whole) for one in windows_of(both, "n1", 0.0, 9e9, ALICE)] == [
        ("soon", True),
        ("late", False),
    ]


def test_of_a_job_its_user_account_and_reservations_count():
    named = jobs(1, reservation=["a,b"], user=["carol"], account=["bio"])
    assert claimant_of(named, 0) == Claimant("carol", "bio", ("a", "b"))
