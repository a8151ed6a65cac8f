"""Lending nodes: remembered before it happens, given back after, and never a node that is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, running_jobs, view

from slurmsched.clock import ManualClock, Timer
from slurmsched.cluster.records.node_loans import LentNodes, members
from slurmsched.daemon.profiling.node_mover import BACK_OFF_S, STEP_S, NodeMover, own_lists
from slurmsched.db.store import Store
from slurmsched.decide.rules import ProfilingRules
from slurmsched.errors import MemoryUnavailable
from slurmsched.slurm.adapters.fake import FakeSlurm

RULES = ProfilingRules("profile", home="gpu", t_s=200.0)
OWN = {"gpu": ("n1", "n2", "n3"), "profile": ("n4",)}
CLOCK = ManualClock()  #: moved on by every turn


class Operators(FakeSlurm):
    """A Slurm to which we are no more than an operator."""

    def set_nodes(self, changes):
        return "slurm_update error: Invalid user id"


@pytest.fixture
def store():
    kept = Store("sqlite://")
    kept.upgrade()
    yield kept
    kept.close()


def cluster(kind=FakeSlurm):
    return kind(partitions={"gpu": 1, "profile": 1}, node_lists={"gpu": "n[1-3]", "profile": "n4"})


def lists(slurm):
    return {name: members(slurm.observe().partitions, name) for name in ("gpu", "profile")}


def look(slurm, *, overtime=False, later_s=0.0):
    """What the daemon sees, with or without a job past its time on the profiling partition's own node."""
    seen, state = view(jobs(0)), slurm.observe()
    taken = {"partition": ["profile"], "node_list": ["n4"], "gpus": [4], "started_s": [seen.now_s - 900.0]}
    running = running_jobs(1, **taken) if overtime else running_jobs(0)
    room = replace(state.nodes, gpus_used=np.array([0, 0, 0, 4 * overtime]))
    return replace(seen, now_s=seen.now_s + later_s, running=running, nodes=room, partitions=state.partitions)


def lender_of(slurm, store, leads=True):
    return NodeMover(slurm, "c", store, lambda: leads, Timer(CLOCK.monotonic))


def turns(lender, slurm, count=4, since_s=0.0, **seen):
    """Turns a step apart, the first of them due at once."""
    for number in range(count):
        CLOCK.now_s += STEP_S
        lender.turn(look(slurm, later_s=since_s + STEP_S * number, **seen), RULES, 0)


def test_a_held_node_is_lent_one_step_a_minute_and_all_is_as_before_when_its_job_has_ended(store):
    slurm = cluster()
    lender = lender_of(slurm, store)
    lender.turn(look(slurm, overtime=True), RULES, 0)
    assert lists(slurm) == {"gpu": ("n2", "n3"), "profile": ("n1", "n4")}
    CLOCK.now_s += STEP_S - 1
    lender.turn(look(slurm, overtime=True), RULES, 0)
    assert lists(slurm) == {"gpu": ("n2", "n3"), "profile": ("n1", "n4")}
    turns(lender, slurm, since_s=STEP_S, overtime=True)
    assert lists(slurm) == {"gpu": ("n2", "n3", "n4"), "profile": ("n1",)}
    assert {one.partition: one.own for one in store.loans("c")} == OWN
    turns(lender, slurm, since_s=5 * STEP_S)
    assert lists(slurm) == OWN
    assert store.loans("c") == ()


def test_after_a_kill_another_process_knows_the_admins_own_lists_and_gives_them_back(store):
    slurm = cluster()
    turns(lender_of(slurm, store), slurm, overtime=True)
    assert lists(slurm) != OWN
    successor = lender_of(slurm, store)
    assert successor.lends()
    assert successor.give_back() == ""
    assert lists(slurm) == OWN
    assert not successor.lends()


def test_a_node_that_is_gone_is_not_named_when_nodes_are_given_back(store):
    slurm = cluster()
    turns(lender_of(slurm, store), slurm, overtime=True)
    one, other = store.loans("c")
    store.save_loans("c", [replace(one, own=(*one.own, "n77")), other])
    assert lender_of(slurm, store).give_back() == ""
    assert lists(slurm) == OWN


def test_who_does_not_lead_and_whoever_may_not_move_nothing(store, caplog):
    slurm = cluster()
    turns(lender_of(slurm, store, leads=False), slurm, overtime=True)
    assert lists(slurm) == OWN
    operators = cluster(Operators)
    turns(lender_of(operators, store), operators, overtime=True)
    assert lists(operators) == OWN
    assert [record.getMessage() for record in caplog.records] == [
        "no nodes were lent: slurm_update error: Invalid user id"
    ]
    assert BACK_OFF_S > 4 * STEP_S, "it was tried once"


def test_without_the_database_nothing_is_lent():
    class Away:
        def loans(self, cluster):
            return ()

        def save_loans(self, cluster, lent):
            raise MemoryUnavailable("away")

    slurm = cluster()
    turns(lender_of(slurm, Away()), slurm, overtime=True)
    assert lists(slurm) == OWN


@pytest.mark.parametrize("node_lists", [{"gpu": "n[1-4]", "profile": "n4"}, {"gpu": "n[1-3]"}])
def test_partitions_that_share_nodes_are_left_alone(store, node_lists):
    slurm = replace(cluster(), node_lists=node_lists)
    before = lists(slurm)
    turns(lender_of(slurm, store), slurm, overtime=True)
    assert lists(slurm) == before


def test_nodes_that_an_admin_adds_or_removes_meanwhile_are_the_partitions_own():
    lent = (LentNodes("gpu", ("n1", "n2", "n3"), ("n2", "n3", "n4")), LentNodes("profile", ("n4",), ("n1",)))
    assert own_lists(lent, {"gpu": ("n2", "n3", "n4"), "profile": ("n1",)}) == OWN
    grown = {"gpu": ("n2", "n4", "n9"), "profile": ("n1",)}
    assert own_lists(lent, grown) == {"gpu": ("n1", "n2", "n9"), "profile": ("n4",)}
    assert own_lists((), grown) == grown


def test_a_node_that_an_admin_added_meanwhile_stays_where_it_is_when_nodes_are_given_back(store):
    slurm = cluster()
    turns(lender_of(slurm, store), slurm, overtime=True)
    one, other = store.loans("c")
    store.save_loans("c", [replace(one, own=tuple(name for name in one.own if name != "n3")), other])
    assert lender_of(slurm, store).give_back() == ""
    assert lists(slurm) == OWN


def test_a_partition_that_lost_all_its_nodes_has_its_own_again(store):
    slurm = cluster()
    store.save_loans("c", [LentNodes(name, nodes, nodes) for name, nodes in OWN.items()])
    slurm.node_lists["profile"] = ""
    assert lender_of(slurm, store).give_back() == ""
    assert lists(slurm) == OWN


def test_where_another_partition_is_to_lend_from_now_on_the_first_has_its_nodes_again(store):
    slurm = cluster()
    lender = lender_of(slurm, store)
    turns(lender, slurm, overtime=True)
    slurm.partitions["fast"], slurm.node_lists["fast"] = 1, "n5"
    CLOCK.now_s += STEP_S
    lender.turn(look(slurm, later_s=4 * STEP_S), replace(RULES, home="fast"), 0)
    assert lists(slurm) == OWN
    assert store.loans("c") == ()


def test_a_clock_that_was_set_back_by_a_day_keeps_no_node_lent(store):
    slurm = cluster()
    lender = lender_of(slurm, store)
    turns(lender, slurm, overtime=True)
    turns(lender, slurm, since_s=-86_400.0)
    assert lists(slurm) == OWN
