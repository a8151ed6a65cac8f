"""Closed times of compiled loops: the same answer as the rule that explains and promises, for any reservations."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import BoolArray, table_of
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.reservations import ReservationTable, claimant_of, followed, kept_nodes, own_bounds_s
from slurmsched.policies.selection.closed_times import ClosedTimes, claim_groups, closed_to, shut
from slurmsched.policies.selection.free_resources import FreeResources
from slurmsched.simulator.cluster_spec import nodes_of

NODES = nodes_of(3, 4)
FREE = FreeResources(NODES.gpus, NODES.cpus, NODES.memory_mib)
USERS, ACCOUNTS, NAMES = ("alice", "bob"), ("astro", "bio"), ("r0", "r1", "r2")
FLAGS = ("", "MAINT", "OVERLAP", "FLEX", "MAGNETIC", "MAGNETIC,FLEX", "MAINT,OVERLAP")


@st.composite
def tables(draw: st.DrawFn) -> ReservationTable:
    many = draw(st.integers(1, 3))
    start_s = np.array([draw(st.integers(0, 20)) for _ in range(many)], dtype=np.float64)
    columns = {
        "name": NAMES[:many],
        "start_s": start_s,
        "end_s": start_s + np.array([draw(st.integers(1, 10)) for _ in range(many)]),
        "nodes": [draw(st.sampled_from(["n1", "n2", "n[1-2]", "n[1-3]", ""])) for _ in range(many)],
        "flags": [draw(st.sampled_from(FLAGS)) for _ in range(many)],
        "users": [draw(st.sampled_from(["", "alice", "-alice"])) for _ in range(many)],
        "accounts": [draw(st.sampled_from(["", "astro"])) for _ in range(many)],
    }
    return table_of(ReservationTable, many, {"whole": True}, columns)


def open_nodes(closed: ClosedTimes, kind: int, from_s: float, until_s: float) -> BoolArray:
    """The nodes of which a run of a kind of job may have anything."""
    free = closed.free if shut(closed, kind, FREE, from_s, until_s) else FREE
    return np.asarray(free.cpus > 0)


@examples(200)
@given(table=tables(), from_s=st.integers(0, 40), lasts_s=st.integers(1, 20))
def test_the_nodes_open_to_a_job_are_those_that_no_window_keeps_from_it(table, from_s, lasts_s):
    owners = [(user, account, name) for user in USERS for account in ACCOUNTS for name in ("", *NAMES)]
    user, account, reservation = (list(column) for column in zip(*owners, strict=True))
    jobs = job_table(len(owners), user=user, account=account, reservation=reservation)
    groups = claim_groups(table, jobs, jobs.reservation)
    assert groups is not None
    closed = closed_to(table, NODES, groups, np.arange(len(groups.members)), {})
    for row in range(len(jobs)):
        found = open_nodes(closed, int(groups.of.codes[row]), from_s, from_s + lasts_s)
        kept = kept_nodes(table, NODES, from_s, from_s + lasts_s, claimant_of(jobs, row))
        if not jobs.reservation[row]:
            assert found.tolist() == (~kept).tolist(), owners[row]
        else:
            assert not (found & kept).any(), owners[row]


@examples(100)
@given(table=tables(), from_s=st.integers(0, 40))
def test_a_job_inside_a_reservation_has_its_nodes_alone_while_it_is_open(table, from_s):
    jobs = job_table(1, user=["alice"], account=["astro"], reservation=["r0"])
    groups = claim_groups(table, jobs, jobs.reservation)
    assert groups is not None
    found = open_nodes(closed_to(table, NODES, groups, np.zeros(1, dtype=np.int64), {}), 0, from_s, from_s + 1.0)
    begin_s, end_s = own_bounds_s(table, jobs, 0.0)
    if "FLEX" not in table.flags[0] and np.isfinite(end_s[0]):
        assert not found.any() or begin_s[0] <= from_s < end_s[0]
        assert not found[2] or "3" in table.nodes[0]
    assert followed(table, jobs).all()


def test_without_reservations_nothing_is_grouped():
    jobs = job_table(2, user=["alice", "bob"], account=["astro", "bio"], reservation=["", "r0"])
    none = table_of(ReservationTable, 0, {}, {})
    assert claim_groups(none, jobs, jobs.reservation) is None
    closed = closed_to(none, NODES, None, np.zeros(4, dtype=np.int64), {})
    assert (closed.span == 0).all()
    assert open_nodes(closed, 3, 0.0, 1e9).all()


def test_jobs_that_name_nothing_are_one_group_unless_a_reservation_is_magnetic():
    jobs = job_table(3, user=["alice", "bob", "carol"], account=["astro", "bio", "bio"], reservation=["", "", ""])
    window = {"name": ["r0"], "start_s": [0.0], "end_s": [9.0], "nodes": ["n1"], "users": ["alice"]}
    for flags, many in (("MAINT", 1), ("MAGNETIC", 2)):
        table = table_of(ReservationTable, 1, {"whole": True}, window | {"flags": [flags]})
        groups = claim_groups(table, jobs, jobs.reservation)
        assert groups is not None
        assert len(groups.members) == many
