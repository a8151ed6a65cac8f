"""Lending nodes: decided in the cycle, stored before it happens, given back after, and never a node that is lost."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from new_store import new_memory_store

from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import NO_JOB, MoveNodes
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.records.node_loans import LentNodes, members, own_lists
from slurmsched.cycle import CycleContext, run_cycle
from slurmsched.daemon.release import give_nodes_back, lends
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.db.tracking.intents import BACK_OFF_S, Intents
from slurmsched.db.tracking.node_moves import STEP_S
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ProfilingRules, Rules
from slurmsched.errors import MemoryUnavailable
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

RULES = Rules(powers=frozenset({"nodes"}), profiling=ProfilingRules("profile", home="gpu", t_s=200.0))
OWN = {"gpu": ("n2", "n3", "n4"), "profile": ("n1",)}
HALF = {"gpu": ("n3", "n4"), "profile": ("n1", "n2")}
LENT = {"gpu": ("n1", "n3", "n4"), "profile": ("n2",)}


class Operators(FakeSlurm):
    """A Slurm to which we are no more than an operator."""

    def _move_nodes(self, move):
        return "slurm_update error: Invalid user id"


class Killed(BaseException):
    """The end of a process by SIGKILL."""


class Killing(FakeSlurm):
    """A Slurm that takes *steps* changes of partitions before the daemon is killed."""

    steps = 0

    def _move_nodes(self, move):
        for step in move.steps[: self.steps]:
            self.node_lists[step.partition] = step.nodes
        raise Killed


class Away(Store):
    """A database that no longer takes which nodes are lent."""

    def save_loans(self, cluster, loans):
        raise MemoryUnavailable("the disk is full")


@pytest.fixture
def store():
    kept = new_memory_store()
    yield kept
    kept.close()


def cluster(kind=FakeSlurm, **columns):
    """Four nodes, on the first of which, the profiling partition's own, a job runs past its time."""
    there = {"partitions": {"gpu": 1, "profile": 1}, "node_lists": {"gpu": "n[2-4]", "profile": "n1"}} | columns
    made = kind(**there)
    made.submit(5000.0, gpus=4, partition="profile")
    made.advance(900.0)
    return made


def lists(slurm):
    return {name: members(slurm.observe().partitions, name) for name in ("gpu", "profile")}


class Daemon:
    """The cycles of one process; its own clock runs on whatever happens to the wall clock."""

    def __init__(self, slurm, store, rules=RULES, leads=True):
        self.slurm, self.store, self.clock = slurm, store, ManualClock(1.0)
        self.world = CycleContext(
            cluster=slurm,
            memory=Memory(store, cluster="c", monotonic=self.clock.monotonic),
            model=RuntimeModel.fit(outcomes_of(())),
            policy=Policy(find_ordering("sjf"), rules),
            writer=Writer(slurm, Budget(20.0, 100), lambda: leads),
            clock=self.clock,
        )

    def cycle(self, mode="act", set_back_s=0.0):
        now_s = self.slurm.now_s - set_back_s
        return run_cycle(self.world, self.world.memory.next_number(now_s), now_s, mode)

    def later(self, seconds):
        self.clock.now_s += seconds
        self.slurm.advance(seconds)

    def steps(self, count=4, **how):
        """Cycles a step apart, the first of them at once."""
        for _ in range(count):
            self.cycle(**how)
            self.later(STEP_S)


def moves(plan):
    return [action for action in plan.actions if isinstance(action, MoveNodes)]


def test_a_held_node_is_lent_one_step_a_minute_and_all_is_as_before_when_its_job_has_ended(store):
    daemon = Daemon(slurm := cluster(), store)
    daemon.cycle()
    assert lists(slurm) == HALF
    daemon.later(STEP_S - 1)
    assert moves(daemon.cycle().plan) == []
    assert lists(slurm) == HALF
    daemon.later(1)
    daemon.steps()
    assert lists(slurm) == LENT
    assert {one.partition: one.own for one in store.loans("c")} == OWN
    daemon.later(5000.0)
    daemon.steps()
    assert lists(slurm) == OWN
    assert store.loans("c") == ()


def test_a_move_is_counted_by_its_spelling_and_its_intent_is_seen_with_the_next_look(store):
    daemon = Daemon(cluster(), store)
    report = daemon.cycle()
    assert report.actions == {"MoveNodes": 1}
    (intent,) = store.intents("c", 0.0)
    assert (intent.job_id, intent.kind, intent.value) == (NO_JOB, "MoveNodes", "profile=n[1-2] gpu=n[3-4]")
    assert intent.answered_s is not None
    daemon.cycle()
    assert store.intents("c", daemon.slurm.now_s) == []
    assert store.story("c", NO_JOB) == [], "no job's story tells of it"


@pytest.mark.parametrize("reached", [True, False])
def test_an_intent_to_move_nodes_counts_as_seen_only_if_slurm_shows_the_nodes(store, reached):
    intents, slurm = Intents(), cluster()
    move = MoveNodes.between(OWN, OWN, HALF)
    intents.intend(1, [move], slurm.now_s)
    if reached:
        slurm.act([move])
    (closed,) = intents.observe(slurm.observe(), (), slurm.now_s + 30.0)
    assert closed.closed_s == slurm.now_s + 30.0
    assert closed.seen_s == (closed.closed_s if reached else None)


def test_the_record_of_a_cycle_has_its_move_and_replays_bit_for_bit(store):
    daemon = Daemon(cluster(), store)
    for expected in (HALF, LENT):
        report = daemon.cycle()
        record = store.decision(report.number)
        assert moves(record.plan) == moves(report.plan)
        assert {one.partition: one.own for one in moves(record.plan)[0].partitions} == {
            "gpu": "n[2-4]",
            "profile": "n1",
        }
        policy = Policy.from_json(record.settings_json)
        again = decide(record.view, policy.ordering, policy.rules)
        assert list(differences(record.plan, again, record.view.pending)) == []
        assert lists(daemon.slurm) == expected
        daemon.later(STEP_S)


def test_who_only_looks_shows_the_move_and_makes_none(store):
    daemon = Daemon(slurm := cluster(), store)
    for mode in ("observe", "advise"):
        assert len(moves(daemon.cycle(mode).plan)) == 1
    assert lists(slurm) == OWN
    assert store.loans("c") == ()


def test_who_only_looks_leaves_the_loans_that_another_daemon_stored(store):
    slurm = cluster()
    store.save_loans("c", [LentNodes(name, nodes, nodes) for name, nodes in OWN.items()])
    Daemon(slurm, store).steps(mode="observe")
    assert len(store.loans("c")) == 2
    Daemon(slurm, store, replace(RULES, powers=frozenset())).cycle()
    assert store.loans("c") == (), "who acts forgets them, since all nodes are back"


def test_after_a_kill_another_process_knows_the_admins_own_lists_and_gives_them_back(store):
    slurm = cluster()
    Daemon(slurm, store).steps()
    assert lists(slurm) != OWN
    assert lends("c", store)
    assert give_nodes_back(slurm, "c", store) == ""
    assert lists(slurm) == OWN
    assert not lends("c", store)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("heal", ["the next daemon", "release-all"])
def test_a_kill_between_the_intent_and_the_last_write_is_healed(store, steps, heal):
    slurm = cluster(Killing)
    slurm.steps = steps
    with pytest.raises(Killed):
        Daemon(slurm, store).cycle()
    assert [intent.kind for intent in store.intents("c", 0.0)] == ["MoveNodes"]
    assert {one.partition: one.own for one in store.loans("c")} == OWN
    there = set().union(*lists(slurm).values())
    assert there == {"n1", "n2", "n3", "n4"}, "no node is in none of the partitions"
    sound = FakeSlurm(**{one.name: getattr(slurm, one.name) for one in fields(slurm)})
    if heal == "release-all":
        assert give_nodes_back(sound, "c", store) == ""
    else:
        successor = Daemon(sound, store)
        successor.steps()
        assert lists(sound) == LENT
        successor.later(5000.0)
        successor.steps()
        assert store.intents("c", sound.now_s) == []
    assert lists(sound) == OWN
    assert store.loans("c") == ()


def test_a_node_that_is_gone_is_not_named_when_nodes_are_given_back(store):
    Daemon(slurm := cluster(), store).steps()
    one, other = store.loans("c")
    store.save_loans("c", [replace(one, own=(*one.own, "n77")), other])
    assert give_nodes_back(slurm, "c", store) == ""
    assert lists(slurm) == OWN


def test_who_does_not_lead_moves_nothing(store):
    Daemon(slurm := cluster(), store, leads=False).steps()
    assert lists(slurm) == OWN


def test_whoever_may_not_move_nodes_tries_it_once_in_ten_minutes_also_in_a_new_process(store, caplog):
    daemon = Daemon(slurm := cluster(Operators), store)
    assert daemon.cycle().refused == 1
    daemon.later(STEP_S)
    assert moves(daemon.cycle().plan) == []
    successor = Daemon(slurm, store)
    assert successor.cycle().refused == 0
    assert lists(slurm) == OWN
    assert [record.getMessage() for record in caplog.records] == [
        "no nodes were lent: slurm_update error: Invalid user id"
    ]
    daemon.later(BACK_OFF_S)
    assert daemon.cycle().refused == 1


def test_without_the_database_nothing_is_lent():
    store = Away("sqlite://")
    store.upgrade()
    daemon = Daemon(slurm := cluster(), store)
    report = daemon.cycle()
    assert (report.actions, report.deferred) == ({}, 1)
    daemon.steps()
    assert lists(slurm) == OWN
    store.close()


@pytest.mark.parametrize("node_lists", [{"gpu": "n[1-4]", "profile": "n1"}, {"gpu": "n[2-4]"}])
def test_partitions_that_share_nodes_are_left_alone_by_a_rule_with_a_name(store, node_lists):
    daemon = Daemon(slurm := cluster(node_lists=node_lists), store)
    before = lists(slurm)
    plan = daemon.cycle().plan
    daemon.steps()
    assert lists(slurm) == before
    assert [(one.rule, one.detail) for one in plan.refusals] == [
        ("partitions_are_apart", "profile and gpu have nodes in common")
    ]


def test_nodes_that_an_admin_adds_or_removes_meanwhile_are_the_partitions_own():
    own = {"gpu": ("n1", "n2", "n3"), "profile": ("n4",)}
    lent = (LentNodes("gpu", own["gpu"], ("n2", "n3", "n4")), LentNodes("profile", own["profile"], ("n1",)))
    assert own_lists(lent, {"gpu": ("n2", "n3", "n4"), "profile": ("n1",)}) == own
    grown = {"gpu": ("n2", "n4", "n9"), "profile": ("n1",)}
    assert own_lists(lent, grown) == {"gpu": ("n1", "n2", "n9"), "profile": ("n4",)}
    assert own_lists((), grown) == grown


def test_a_node_that_an_admin_added_meanwhile_stays_where_it_is_when_nodes_are_given_back(store):
    Daemon(slurm := cluster(), store).steps()
    one, other = store.loans("c")
    store.save_loans("c", [replace(one, own=tuple(name for name in one.own if name != "n3")), other])
    assert give_nodes_back(slurm, "c", store) == ""
    assert lists(slurm) == OWN


def test_a_partition_that_lost_all_its_nodes_has_its_own_again(store):
    slurm = cluster()
    store.save_loans("c", [LentNodes(name, nodes, nodes) for name, nodes in OWN.items()])
    slurm.node_lists["profile"] = ""
    assert give_nodes_back(slurm, "c", store) == ""
    assert lists(slurm) == OWN


def test_the_loan_of_a_partition_that_an_admin_deleted_is_over(store):
    slurm = cluster()
    Daemon(slurm, store).steps()
    del slurm.partitions["gpu"], slurm.node_lists["gpu"]
    slurm.node_lists["profile"] = "n[1-4]"
    Daemon(slurm, store, replace(RULES, powers=frozenset())).steps()
    assert members(slurm.observe().partitions, "profile") == ("n1", "n2", "n3", "n4"), "no node is in no partition"
    assert store.loans("c") == ()


@pytest.mark.parametrize(
    "rules",
    [
        replace(RULES, powers=frozenset()),
        replace(RULES, profiling=None),
        replace(RULES, profiling=replace(RULES.profiling, home="")),
        replace(RULES, profiling=replace(RULES.profiling, home="fast")),
    ],
    ids=["no power", "no profiling", "no home", "another home"],
)
def test_after_lending_is_switched_off_or_over_to_another_partition_the_nodes_go_back_by_a_decision(store, rules):
    slurm = cluster(partitions={"gpu": 1, "profile": 1, "fast": 1})
    slurm.node_lists["fast"] = "n5"
    Daemon(slurm, store).steps()
    assert lists(slurm) == LENT
    daemon = Daemon(slurm, store, rules)
    (move,) = moves(daemon.cycle().plan)
    assert all(one.after == one.own for one in move.partitions)
    assert lists(slurm) == OWN
    daemon.later(5000.0)
    daemon.cycle()
    assert store.loans("c") == ()


def test_a_clock_that_was_set_back_by_a_day_keeps_no_node_lent(store):
    daemon = Daemon(slurm := cluster(), store)
    daemon.steps()
    assert lists(slurm) == LENT
    daemon.later(5000.0)
    daemon.steps(set_back_s=86_400.0)
    assert lists(slurm) == OWN
