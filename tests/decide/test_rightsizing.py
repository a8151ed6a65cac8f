"""Which waiting jobs ask for other CPUs and memory, and for how much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import NOW_S, jobs, nodes, view

from slurmsched.cluster.actions import RestoreSize, Rightsize
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.node_request import NodeRequest, read_request
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import RightsizingRules, Rules
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s

FIFO = find_ordering("fifo")
SIZING = RightsizingRules(accounts=("astro",), margin=0.25, again_s=600.0)
RULES = Rules(powers=frozenset({"rightsize"}), rightsizing=SIZING)
BY_TOKEN = replace(RULES, rightsizing=replace(SIZING, accounts=()))
FULL = (4, 4)


def request(cpus, memory_mib, on=1, per_cpu=False):
    return str(NodeRequest(cpus * on, cpus, cpus, memory_mib, per_cpu))


def waiting(cpus=6, memory_mib=12_000, count=1, on=1, used=(0.5, 900.0), **columns):
    """Jobs for one GPU on each node, of a kind that used so much."""
    ordinary = {
        "cpus": [cpus * on] * count,
        "memory_mib": [memory_mib * on] * count,
        "gpus": [on] * count,
        "nodes": [on] * count,
        "node_request": [request(cpus, memory_mib, on)] * count,
        "used_cpus": [used[0]] * count,
        "used_memory_mib": [used[1]] * count,
    }
    return jobs(count, **(ordinary | columns))


def sized(to=(2, 4000), own=(6, 12_000), ago_s=3600.0, **columns):
    """A job that we sized."""
    return waiting(*to, own_request=[request(*own)], sized_s=[NOW_S - ago_s], **columns)


def plan_of(pending, rules=RULES, taken=FULL, room=None, each=2, **more):
    """Plan for two nodes with so many GPUs *taken*, and *each* with so many CPUs and their memory."""
    room = nodes((4, 4), taken) if room is None else room
    busy = np.minimum(8, each * room.gpus_used)
    room = replace(room, cpus_used=busy, memory_used_mib=busy * 2000.0)
    seen = view(pending, room=room)
    seen = replace(seen, **more)
    plan = decide(seen, FIFO, rules)
    assert not plan.refusals
    return seen, plan


def wishes(pending, rules=RULES, taken=FULL, **more):
    return [a for a in plan_of(pending, rules, taken, **more)[1].actions if isinstance(a, Rightsize | RestoreSize)]


def given_to(pending, rules=RULES, taken=FULL, **more):
    """CPUs and memory per node that each job gets by the plan, by id."""
    found = {}
    for wish in wishes(pending, rules, taken, **more):
        after = read_request(wish.after if isinstance(wish, Rightsize) else wish.own)
        nodes_of = int(pending.nodes[pending.row_of(wish.job_id)])
        found[wish.job_id] = (after.node_cpus(nodes_of), after.node_memory_mib(nodes_of))
    return found


def test_a_job_that_asks_for_too_much_gets_the_part_of_its_gpu():
    assert wishes(waiting()) == [Rightsize(1, request(6, 12_000), request(6, 12_000), request(2, 4000))]


def test_it_keeps_what_its_kind_used_with_a_margin():
    assert given_to(waiting(used=(3.0, 7000.0))) == {1: (4, 8750)}


def test_a_job_that_can_start_now_keeps_what_nobody_else_needs():
    assert given_to(waiting(), taken=(3, 4), each=0) == {}, "nobody else can have a GPU of that node"
    assert given_to(waiting(), taken=(1, 4), each=0) == {1: (4, 8000)}, "two GPUs keep their parts of eight CPUs"
    assert given_to(waiting(), taken=(2, 4)) == {1: (2, 4000)}


def test_memory_per_cpu_becomes_memory_per_node():
    own = request(6, 2000, per_cpu=True)
    assert wishes(waiting(node_request=[own])) == [Rightsize(1, own, own, request(2, 4000))]


def test_all_tasks_have_as_many_cpus():
    four = str(NodeRequest(8, 2, 8, 16_000, False))
    pending = waiting(8, 16_000, used=(5.0, 9000.0), gpus=[2], node_request=[four])
    assert wishes(pending) == [Rightsize(1, four, four, str(NodeRequest(8, 2, 8, 11_250, False)))]
    pending = waiting(8, 16_000, used=(1.0, 900.0), gpus=[2], node_request=[four])
    assert wishes(pending) == [Rightsize(1, four, four, str(NodeRequest(4, 1, 4, 8_000, False)))]


@pytest.mark.parametrize(
    "columns",
    [
        {"account": ["bio"]},
        {"used_cpus": [np.nan], "used_memory_mib": [np.nan]},
        {"used_cpus": [np.inf], "used_memory_mib": [np.inf]},
        {"comment": ["slurmsched:off"]},
        {"exclusive": [True]},
        {"per_gpu": [True]},
        {"interactive": [True]},
        {"request_changed": [True]},
        {"shares": [True]},
        {"restarts": [1]},
        {"het_job_id": [1]},
        {"reservation": ["course"]},
        {"gpus": [0]},
        {"node_request": [""]},
        {"node_request": [str(NodeRequest(1, 1, 6, 12_000, False))]},
        {"node_request": [str(NodeRequest(6, 6, 6, 0, False))]},
        {"features": ["bigmem"]},
        {"gpu_type": ["a100"]},
        {"promised": True},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_jobs_that_are_left_alone(columns):
    columns = dict(columns)
    open_ = promise_table(1, job_id=[1], state=[PromiseState.OPEN]) if columns.pop("promised", False) else None
    assert wishes(waiting(**columns), **({"promises": open_} if open_ is not None else {})) == []


def test_without_the_power_nothing_is_changed_and_the_plan_is_the_same_bit_for_bit():
    pending, off = waiting(count=3), Rules(powers=frozenset({"order"}))
    bare = pending.changed(node_request=Labels.of([""] * 3), used_cpus=np.full(3, np.nan))
    assert plan_of(pending, off)[1].actions == plan_of(bare, off)[1].actions


def test_an_owner_says_what_his_job_can_run_with_and_use():
    said = {"comment": ["slurmsched:cpus=3-8,mem=2000-16000"], "account": ["bio"]}
    unknown = {"used_cpus": [np.nan], "used_memory_mib": [np.nan]}
    assert given_to(waiting(**said, **unknown), BY_TOKEN) == {1: (3, 4000)}
    assert given_to(waiting(**said), BY_TOKEN) == {1: (3, 4000)}
    assert given_to(waiting(**said, used_cpus=[4.0]), BY_TOKEN) == {1: (5, 4000)}
    half = {"comment": ["slurmsched:cpus=1-8"], "account": ["bio"]}
    assert given_to(waiting(**half, **unknown), BY_TOKEN) == {1: (2, 12_000)}, "nothing is said of the memory"


def test_what_an_owner_can_use_is_given_where_it_is_free_and_to_one_job_only():
    said = {"comment": ["slurmsched:cpus=1-8,mem=4000"] * 2, "account": ["bio"] * 2}
    pending = waiting(1, 4000, count=2, **said)
    assert given_to(pending, BY_TOKEN, taken=(3, 4)) == {1: (2, 4000)}
    assert given_to(pending, BY_TOKEN, taken=(0, 4)) == {1: (2, 4000), 2: (2, 4000)}, "other GPUs keep their part"
    wide = waiting(1, 4000, count=2, gpus=[4, 4], comment=["slurmsched:cpus=1-20,mem=4000"] * 2)
    assert given_to(wide, BY_TOKEN, taken=(0, 4)) == {1: (8, 4000)}, "no node has twenty"


def test_a_job_on_two_nodes_is_sized_on_each():
    assert given_to(waiting(on=2)) == {1: (2, 4000)}
    assert given_to(waiting(on=3)) == {}, "it can start on no three nodes"


def test_a_job_that_we_sized_is_as_it_should_be():
    assert wishes(sized()) == []


@pytest.mark.parametrize(
    ("columns", "rules"),
    [
        ({}, Rules()),
        ({"account": ["bio"]}, RULES),
        ({"comment": ["slurmsched:off"]}, RULES),
        ({"restarts": [1]}, RULES),
        ({}, replace(RULES, powers=frozenset(), rightsizing=None)),
    ],
)
def test_a_job_that_is_no_longer_ours_to_size_gets_its_own_back(columns, rules):
    assert wishes(sized(**columns), rules) == [RestoreSize(1, request(2, 4000), request(6, 12_000))]


def test_a_job_is_not_changed_twice_in_a_short_time_except_where_it_waits_for_what_we_added():
    more = {"used": (3.0, 7000.0)}
    assert wishes(sized(ago_s=300, **more)) == []
    assert given_to(sized(ago_s=700, **more)) == {1: (4, 8750)}
    token = {"comment": ["slurmsched:cpus=1-8,mem=1000-4000"]}
    raised = sized(to=(8, 4000), own=(2, 4000), ago_s=1, **token)
    assert wishes(raised) == [RestoreSize(1, request(8, 4000), request(2, 4000))]
    seen, plan = plan_of(sized(ago_s=300))
    assert next_change_s(seen, plan, FIFO, RULES) == NOW_S + 300


def test_a_small_change_is_not_worth_a_write():
    pending = waiting(2, 4200, used=(1.0, 900.0))
    assert wishes(pending) == []
    assert given_to(pending, replace(RULES, rightsizing=replace(SIZING, least_change=0.01))) == {1: (2, 4000)}


def test_before_the_history_is_read_owners_words_alone_count_and_known_sizes_stay():
    early = replace(RULES, rightsizing=replace(SIZING, history=False))
    unknown = {"used": (np.nan, np.nan)}
    assert wishes(waiting(**unknown), early) == []
    assert wishes(sized(**unknown), early) == []
    said = {"comment": ["slurmsched:cpus=1-6,mem=1G-12G"], "account": ["bio"]}
    assert given_to(waiting(**said, **unknown), early) == {1: (2, 4000)}
    assert wishes(sized(to=(4, 8000), **said, **unknown), early) == []
    assert wishes(sized(account=["bio"], **unknown), early) == [RestoreSize(1, request(2, 4000), request(6, 12_000))]


def test_a_policy_with_right_sizing_is_stored_and_read():
    policy = Policy(FIFO, RULES)
    assert Policy.from_json(policy.to_json()) == policy


def test_why_says_what_is_done():
    seen, plan = plan_of(waiting())
    text = " ".join(why(seen, plan, RULES, 1).sentences)
    assert "We let it ask for 2 CPUs and 4000 MiB in place of 6 CPUs and 12000 MiB." in text
    assert "Runs of its kind used 0.5 CPUs and 900 MiB of a node at most." in text
    seen, plan = plan_of(sized())
    assert "We let it ask for 2 CPUs and 4000 MiB; its owner asked for 6 CPUs" in " ".join(
        why(seen, plan, RULES, 1).sentences
    )
    seen, plan = plan_of(sized(), Rules())
    assert "We let it ask for 6 CPUs and 12000 MiB again" in " ".join(why(seen, plan, Rules(), 1).sentences)
    seen, plan = plan_of(waiting(request_changed=[True]))
    assert "Somebody has changed its CPUs or memory after us" in " ".join(why(seen, plan, RULES, 1).sentences)


@st.composite
def queues(draw):
    count = draw(st.integers(1, 12))

    def each(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    on, cpus, memory = each(st.integers(1, 3)), each(st.integers(1, 10)), each(st.integers(1, 20_000))
    tokens = st.sampled_from(["", "cpus=1-8", "cpus=2-64", "mem=1-90000", "cpus=1,mem=1", "cpus=3-8,mem=4000-16000"])
    gpus = each(st.integers(1, 4))
    uses = st.sampled_from([np.nan, np.inf, 0.5, 3.0, 5000.0])
    return jobs(
        count,
        nodes=on,
        gpus=[a * b for a, b in zip(on, gpus, strict=True)],
        cpus=[a * b for a, b in zip(on, cpus, strict=True)],
        memory_mib=[float(a * b) for a, b in zip(on, memory, strict=True)],
        node_request=[request(c, m, n) for c, m, n in zip(cpus, memory, on, strict=True)],
        comment=[f"slurmsched:{text}" if text else "" for text in each(tokens)],
        account=each(st.sampled_from(["astro", "bio"])),
        used_cpus=each(uses),
        used_memory_mib=each(uses),
    )


@given(queues(), st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)))
def test_whatever_the_queue_no_job_falls_below_its_part_or_exceeds_every_node_and_no_wish_is_refused(pending, taken):
    room = nodes((4, 4, 2), taken)
    for wish in wishes(pending, room=room):
        row = pending.row_of(wish.job_id)
        count = int(pending.nodes[row])
        own, after = read_request(wish.own), read_request(wish.after)
        each = -(-int(pending.gpus[row]) // count)
        able = room.gpus >= each
        share = max(each * room.cpus[able] / room.gpus[able])
        share_mib = max(each * room.memory_mib[able] / room.gpus[able])
        assert after.node_cpus(count) >= min(own.node_cpus(count), share)
        assert after.node_memory_mib(count) >= min(own.node_memory_mib(count), share_mib)
        fits = able & (room.cpus >= after.node_cpus(count)) & (room.memory_mib >= after.node_memory_mib(count))
        was = able & (room.cpus >= own.node_cpus(count)) & (room.memory_mib >= own.node_memory_mib(count))
        assert fits.sum() >= min(count, was.sum())
        assert (wish.own, wish.before) == (pending.node_request[row],) * 2
