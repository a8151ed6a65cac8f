"""Nodes that the profiling partition lends and borrows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, nodes, partitions, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import MoveNodes, Rank
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.records.node_loans import LentNodes, changes, members
from slurmsched.cluster.text.hostlist import expand
from slurmsched.decide.profiling_nodes import lend, pressure
from slurmsched.decide.rules import ProfilingRules, Rules
from slurmsched.models.throughput import LoadOutlook
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

RULES = ProfilingRules("profile", home="gpu", t_s=200.0, nodes_most=2)
OWN = {"profile": ("n4",), "gpu": ("n1", "n2", "n3")}
TAKEN = {"partition": ["profile"], "node_list": ["n4"], "gpus": [4], "started_s": [NOW_S - 300.0]}


def cluster(used=(0, 0, 0, 0), **running):
    """Four nodes of four GPUs, with or without a job past its time in the profiling partition."""
    return view(jobs(0), running=running_jobs(len(running.get("gpus", ())), **running), room=nodes((4,) * 4, used))


def lists(*here):
    return {"profile": here, "gpu": tuple(name for name in ("n1", "n2", "n3", "n4") if name not in here)}


def settled(seen, now, wanted_gpus=0, rules=RULES):
    """Where step after step leads."""
    for _ in range(12):
        before, now = now, lend(seen, rules, now, OWN, wanted_gpus)
        if now == before:
            return now
    raise AssertionError("it never comes to rest")


def test_in_quiet_times_both_keep_their_own():
    assert settled(cluster(), OWN) == OWN


def test_a_node_that_is_held_past_the_limit_is_lent_and_the_freest_other_one_comes_for_it():
    seen = cluster((4, 2, 0, 4), **TAKEN)
    assert lend(seen, RULES, OWN, OWN, 0) == lists("n3", "n4")
    assert settled(seen, OWN) == lists("n3")


def test_when_the_own_node_is_free_again_it_comes_back():
    assert settled(cluster((4, 2, 0, 0)), lists("n3")) == OWN


def test_a_job_below_the_limit_or_elsewhere_holds_nothing():
    for change in ({"started_s": [NOW_S - 100.0]}, {"partition": ["gpu"]}):
        assert settled(cluster((0, 0, 0, 4), **(TAKEN | change)), OWN) == OWN


def test_in_a_burst_it_grows_to_what_is_waited_for_by_so_many_nodes_at_most_and_falls_back_after():
    assert settled(cluster(), OWN, 7) == lists("n1", "n4")
    assert settled(cluster(), OWN, 1000) == lists("n1", "n2", "n4")
    assert settled(cluster(), lists("n1", "n2", "n4")) == OWN


def test_no_node_without_a_free_gpu_is_borrowed():
    assert settled(cluster((4, 4, 4, 4)), OWN, 1000) == OWN


def test_a_node_that_is_away_is_neither_lent_nor_counted_on():
    seen = cluster((0, 0, 0, 4), **TAKEN)
    down = replace(seen, nodes=replace(seen.nodes, usable=np.array([True, True, True, False])))
    assert settled(down, OWN) == OWN


def test_a_node_in_both_partitions_or_in_none_finds_its_place_again():
    both = {"profile": ("n3", "n4"), "gpu": ("n1", "n2", "n3")}
    assert settled(cluster(), both) == OWN
    none = {"profile": ("n4",), "gpu": ("n1", "n2")}
    assert settled(cluster(), none) == OWN


@pytest.mark.parametrize(
    ("now", "ahead", "rank", "expected"),
    [(5.0, 5.0, 0.5, 0.0), (5.0, 6.0, 0.5, 0.5), (5.0, 5.0, 0.9, 0.5), (5.0, 9.0, 0.9, 1.0), (0.1, 0.2, 0.1, 0.0)],
)
def test_a_burst_is_more_than_usual_or_more_to_come(now, ahead, rank, expected):
    quiet = LoadOutlook(1.0, 1.0, 0.5)
    assert pressure({"jobs": LoadOutlook(now, ahead, rank), "gpus": quiet}) == expected
    assert pressure({}) == 0.0


names = st.sets(st.sampled_from([f"n{number}" for number in range(1, 7)]), min_size=1)


@given(st.data())
@examples(150)
def test_each_node_is_always_in_one_of_the_two_and_none_is_ever_lost(data):
    size = 6
    here = data.draw(names.filter(lambda chosen: len(chosen) < size))
    everyone = {f"n{number}" for number in range(1, size + 1)}
    own = {"profile": tuple(sorted(here)), "gpu": tuple(sorted(everyone - here))}
    count = data.draw(st.integers(0, 5))
    used = data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    running = running_jobs(
        count,
        partition=["profile"] * count,
        node_list=data.draw(st.lists(st.sampled_from(sorted(everyone)), min_size=count, max_size=count)),
        gpus=data.draw(st.lists(st.integers(0, 8), min_size=count, max_size=count)),
        started_s=NOW_S - 300.0 * np.arange(count),
    )
    room = nodes((4,) * size, used)
    usable = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    seen = view(jobs(0), running=running, room=replace(room, usable=np.array(usable)))
    now = own
    for _ in range(6):
        wanted = lend(seen, RULES, now, own, data.draw(st.integers(0, 40)))
        assert wanted["profile"]
        assert wanted["gpu"]
        assert sorted((*wanted["profile"], *wanted["gpu"])) == sorted(everyone)
        assert len(wanted["profile"]) <= len(own["profile"]) + RULES.nodes_most + 1
        lists = {name: set(now[name]) for name in now}
        for change in changes(now, wanted):
            lists[change.partition] = set(expand(change.nodes))
            assert set().union(*lists.values()) == everyone, "killed here, no node is lost"
        assert lists == {name: set(wanted[name]) for name in wanted}
        now = wanted


def test_partitions_are_looked_up_by_name():
    parts = view(jobs(0)).partitions
    assert members(parts, "gpu") == ("n1", "n2")
    assert members(parts, "elsewhere") == ()


LENDING = Rules(powers=frozenset({"nodes"}), profiling=RULES, loans=())


def site(used=(0, 0, 0, 4), gpu="n[1-3]", profile="n4", pending=None, **running):
    """What a cycle sees of the four nodes in their two partitions."""
    seen = view(jobs(0) if pending is None else pending, running=running_jobs(len(running.get("gpus", ())), **running))
    parts = replace(
        partitions(), name=Labels.of(["gpu", "profile", "closed"]), nodes=Labels.of([gpu, profile, "n[1-4]"])
    )
    return replace(seen, nodes=nodes((4,) * 4, used), partitions=parts)


def moves(seen, rules=LENDING):
    return [one.text for one in decide(seen, find_ordering("sjf"), rules).actions if isinstance(one, MoveNodes)]


def test_decide_returns_the_next_move():
    assert moves(site(**TAKEN)) == ["profile=n[1,4] gpu=n[2-3]"]
    assert moves(site((4, 0, 0, 4), **TAKEN)) == ["profile=n[2,4] gpu=n[1,3]"], "of the freest node"
    assert moves(site(used=(0, 0, 0, 0))) == []


def test_decide_moves_nothing_while_it_may_not_or_has_no_power():
    assert moves(site(**TAKEN), replace(LENDING, loans=None)) == []
    assert moves(site(**TAKEN), replace(LENDING, powers=frozenset())) == []
    assert moves(site(**TAKEN), replace(LENDING, profiling=replace(RULES, home=""))) == []


def test_decide_knows_the_own_nodes_of_the_partitions_from_the_loans():
    lent = replace(LENDING, loans=tuple(LentNodes(name, OWN[name], ()) for name in OWN))
    assert moves(site((0, 0, 0, 0), "n[2-4]", "n1"), lent) == ["profile=n[1,4] gpu=n[2-3]"]
    assert moves(site((0, 0, 0, 0), "n[2-4]", "n1")) == [], "without loans they are where they belong"


def test_decide_lets_the_partition_grow_for_waiting_jobs_only_under_pressure():
    waiting = jobs(3, partition=["profile,gpu"] * 3, gpus=[4, 4, 4])
    seen = site((0, 0, 0, 0), pending=waiting)
    assert moves(seen) == []
    assert moves(seen, replace(LENDING, profiling=replace(RULES, pressure=0.5))) == ["profile=n[1,4] gpu=n[2-3]"]


def test_decide_gives_back_what_was_lent_before_the_power_was_switched_off():
    lent = replace(LENDING, powers=frozenset(), loans=tuple(LentNodes(name, OWN[name], ()) for name in OWN))
    assert moves(site((4, 4, 4, 4), "n[2-4]", "n1", **TAKEN), lent) == ["profile=n4 gpu=n[1-3]"]
    assert moves(site((4, 4, 4, 4), **TAKEN), lent) == []


def test_a_move_is_sent_before_points_are():
    seen = site((4, 4, 4, 4), pending=jobs(4), **TAKEN)
    room = replace(seen, nodes=replace(seen.nodes, gpus_used=np.array([0, 4, 4, 4])))
    plan = decide(room, find_ordering("sjf"), replace(LENDING, powers=frozenset({"nodes", "order"})))
    kinds = [type(action) for action in plan.actions]
    assert kinds[0] is MoveNodes
    assert Rank in kinds
