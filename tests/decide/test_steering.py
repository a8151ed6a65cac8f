"""Untyped jobs go where they end soonest; all others, and all that people said of nodes, stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import Steer, Unsteer
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.exclusions import UNREAD
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.text.hostlist import expand
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules, SteeringRules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s

FIFO = find_ordering("fifo")
STEERING = SteeringRules(patience_s=900.0, again_s=7200.0, least_gain=1.1)
RULES = Rules(powers=frozenset({"steer"}), steering=STEERING)
FAST_ON_A100 = "a100=1 v100=0.25"
FAST_ON_V100 = "a100=0.25 v100=1"


def two_types(used=(0, 0)):
    """n1 with four A100, n2 with four V100."""
    return replace(nodes((4, 4), used), gpu_type=Labels.of(["a100", "v100"]))


def full(names="n[1-2]", left_s=600.0, gpus=4):
    """A job on all GPUs of each of some nodes."""
    hosts = expand(names)
    many = len(hosts)
    return running_jobs(many, gpus=[gpus] * many, node_list=list(hosts)), [600.0 + left_s] * many


def wishes(pending, runtimes_s=None, *, used=(0, 0), running=None, rules=RULES, seconds=None, promises=None):
    """What is changed about the excluded nodes of jobs."""
    seen = view(pending, runtimes_s, running=running, room=two_types(used))
    if seconds is not None:
        seen = replace(seen, forecast_running=replace(seen.forecast_running, runtime_s=np.array(seconds)))
    if promises is not None:
        seen = replace(seen, promises=promises)
    plan = decide(seen, FIFO, rules)
    assert not plan.refusals
    return [action for action in plan.actions if isinstance(action, Steer | Unsteer)]


def waiting(count=1, speeds=FAST_ON_A100, **columns):
    return jobs(count, type_speeds=[speeds] * count, **columns)


OURS = "n2"


def steered(types="a100", excluded=OURS, ago_s=60.0, **columns):
    ours = {"steered": [types], "excluded_nodes": [excluded], "steered_s": [NOW_S - ago_s]}
    return waiting(**(ours | columns))


def test_a_job_goes_to_the_type_on_which_it_is_faster():
    assert wishes(waiting()) == [Steer(1, "a100", "n2")]
    assert wishes(waiting(speeds=FAST_ON_V100)) == [Steer(1, "v100", "n1")]


def test_a_job_takes_the_slower_type_where_the_faster_one_is_full_for_longer_than_the_gain():
    running, seconds = full("n1", left_s=10_000.0)
    assert wishes(waiting(), used=(4, 0), running=running, seconds=seconds) == [Steer(1, "v100", "n1")]
    running, seconds = full("n1", left_s=100.0)
    assert wishes(waiting(), used=(4, 0), running=running, seconds=seconds) == [Steer(1, "a100", "n2")]


def test_jobs_are_divided_by_what_they_gain_once_the_best_type_has_a_queue():
    pending = jobs(12, type_speeds=[FAST_ON_A100, "a100=1 v100=0.8"] * 6)
    sent = [wish.types for wish in wishes(pending)]
    assert sent[0::2] == ["a100"] * 6
    assert "v100" in sent[1::2]


@pytest.mark.parametrize(
    "columns",
    [
        {"speeds": ""},
        {"speeds": "a100=1"},
        {"speeds": "a100=1 v100=0.95"},
        {"gpu_type": ["v100"]},
        {"features": ["ib"]},
        {"required_nodes": ["n1"]},
        {"excluded_nodes": ["n1"]},
        {"excluded_nodes": [UNREAD]},
        {"comment": ["slurmsched:off"]},
        {"interactive": [True]},
        {"reservation": ["class"]},
        {"het_job_id": [1]},
        {"shares": [True]},
        {"gpus": [0]},
        {"gpus": [5]},
        {"cpus": [9]},
        {"memory_mib": [17_000.0]},
        {"first_submit_s": [NOW_S - 1e6], "eligible_s": [NOW_S - 1e6]},
    ],
    ids=str,
)
def test_a_job_is_left_alone_that_nobody_knows_or_that_says_where_it_runs_or_that_one_type_cannot_hold(columns):
    assert wishes(waiting(**columns)) == []


def test_a_job_is_sent_to_no_type_whose_nodes_cannot_hold_it():
    room = replace(two_types(), gpus=np.array([2, 4]))
    seen = view(waiting(gpus=[4]), room=room)
    assert decide(seen, FIFO, RULES).actions == ()


def test_a_promised_job_is_left_alone():
    promises = promise_table(1, job_id=[1], state=[PromiseState.OPEN], promised_s=[NOW_S + 9000.0])
    assert wishes(waiting(), promises=promises) == []
    assert wishes(steered(), promises=promises) == [Unsteer(1, OURS)]


def test_a_job_that_is_where_it_should_be_costs_no_write():
    assert wishes(steered()) == []
    running, seconds = full()
    assert wishes(steered(), used=(4, 4), running=running, seconds=seconds) == []


def test_a_job_changes_to_a_type_that_is_free_now_if_it_ends_sooner_there():
    running, seconds = full("n1", left_s=10_000.0)
    assert wishes(steered(), used=(4, 0), running=running, seconds=seconds) == [Steer(1, "v100", "n1", OURS)]


def test_new_nodes_of_another_type_are_excluded_too():
    room = replace(nodes((4, 4, 4)), gpu_type=Labels.of(["a100", "v100", "v100"]))
    assert decide(view(steered(), room=room), FIFO, RULES).actions == (Steer(1, "a100", "n[2-3]", OURS),)


def test_a_job_whose_type_stays_full_is_let_go_and_not_sent_again_soon():
    running, seconds = full()
    busy = {"used": (4, 4), "running": running, "seconds": seconds}
    assert wishes(steered(ago_s=899.0), **busy) == []
    assert wishes(steered(ago_s=901.0, submitted_s=[NOW_S - 5000.0]), **busy) == [Unsteer(1, OURS)]
    assert wishes(waiting(steered_s=[NOW_S - 7199.0]), **busy) == []
    assert wishes(waiting(steered_s=[NOW_S - 7201.0]), **busy) == [Steer(1, "a100", "n2")]


def test_patience_with_a_requeued_job_begins_anew():
    running, seconds = full()
    pending = steered(ago_s=5000.0, submitted_s=[NOW_S - 60.0])
    assert wishes(pending, used=(4, 4), running=running, seconds=seconds) == []


def test_a_job_is_let_go_when_the_nodes_of_its_type_are_down():
    room = replace(two_types(), usable=np.array([False, True]))
    assert decide(view(steered(), room=room), FIFO, RULES).actions == (Unsteer(1, OURS),)


@pytest.mark.parametrize(
    "columns",
    [{"comment": ["slurmsched:off"]}, {"features": ["ib"]}, {"gpu_type": ["a100"]}, {"type_speeds": [""]}],
    ids=str,
)
def test_a_job_is_let_go_once_it_is_not_ours_to_steer(columns):
    ours = {"steered": ["a100"], "excluded_nodes": ["n2"], "steered_s": [NOW_S - 60.0], "type_speeds": [FAST_ON_A100]}
    assert wishes(jobs(1, **(ours | columns))) == [Unsteer(1, OURS)]


def test_without_the_power_jobs_are_let_go_and_no_others_touched():
    pending = jobs(2, type_speeds=[FAST_ON_A100] * 2, steered=["a100", ""], excluded_nodes=["n2", "n1"])
    assert wishes(pending, rules=Rules()) == [Unsteer(1, OURS)]


def test_a_job_keeps_to_the_types_that_its_owner_accepts():
    assert wishes(waiting(comment=["slurmsched:types=v100"])) == [Steer(1, "v100", "n1")]
    assert wishes(waiting(speeds="", comment=["slurmsched:types=v100+h100"])) == [Steer(1, "v100", "n1")]
    assert wishes(waiting(speeds="", comment=["slurmsched:types=a100+v100"])) == []
    assert wishes(waiting(speeds="", comment=["slurmsched:types=h100"])) == [], "else it could never start"


def test_a_job_that_is_let_go_still_keeps_to_the_types_that_its_owner_accepts():
    room = replace(nodes((4, 4, 4), (4, 4, 4)), gpu_type=Labels.of(["a100", "v100", "k80"]))
    running, _ = full("n[1-3]")
    pending = steered(
        excluded="n[2-3]", ago_s=901.0, comment=["slurmsched:types=a100+v100"], submitted_s=[NOW_S - 5000.0]
    )
    seen = view(pending, running=running, room=room)
    assert decide(seen, FIFO, RULES).actions == (Steer(1, "a100+v100", "n3", "n[2-3]"),)
    wide = steered("a100+v100", "n3", comment=["slurmsched:types=a100+v100"])
    assert decide(view(wide, running=running, room=room), FIFO, RULES).actions == ()


def test_on_a_cluster_of_one_type_nothing_is_done():
    assert decide(view(waiting()), FIFO, RULES).actions == ()


def test_only_the_next_jobs_are_sent_and_those_that_were_are_looked_after():
    pending = jobs(
        4,
        type_speeds=[FAST_ON_A100] * 4,
        steered=["", "", "", "a100"],
        excluded_nodes=["", "", "", "n2"],
        steered_s=[0, 0, 0, NOW_S - 1000.0],
        submitted_s=[NOW_S - 5000.0] * 4,
    )
    running, seconds = full()
    sent = wishes(pending, used=(4, 4), running=running, seconds=seconds, rules=replace(RULES, window=2))
    assert sent == [Steer(1, "a100", "n2"), Steer(2, "a100", "n2"), Unsteer(4, OURS)]


def test_a_plan_without_steering_is_the_same_whatever_is_known_of_types():
    plain = view(jobs(3), room=two_types())
    known = view(waiting(3), room=two_types())
    without = Rules(powers=ALL_POWERS)
    assert decide(plain, FIFO, without).actions == decide(known, FIFO, without).actions


def test_a_stored_policy_has_the_rules_of_steering():
    policy = Policy(FIFO, RULES)
    assert Policy.from_json(policy.to_json()) == policy


def test_a_simulation_looks_again_when_patience_is_over():
    running, _ = full()
    seen = view(steered(submitted_s=[NOW_S - 5000.0]), running=running, room=two_types((4, 4)))
    plan = decide(seen, FIFO, RULES)
    assert next_change_s(seen, plan, FIFO, RULES) == NOW_S - 60.0 + 900.0
    rests = view(waiting(steered_s=[NOW_S - 10.0]), running=running, room=two_types((4, 4)))
    assert next_change_s(rests, decide(rests, FIFO, RULES), FIFO, RULES) == NOW_S - 10.0 + 7200.0


@st.composite
def queues(draw):
    """Jobs of all sorts on a cluster of three types."""
    count = draw(st.integers(0, 12))

    def each(*values):
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    types = each("", "", "a100", "a100+v100", "v100")
    pending = jobs(
        count,
        gpus=each(0, 1, 2, 4, 8),
        tasks=each(1, 1, 7),
        gpu_type=each("", "", "v100"),
        features=each("", "", "ib"),
        type_speeds=each("", FAST_ON_A100, FAST_ON_V100, "a100=0.5 v100=1 k80=0.1", "h100=1 k80=0.5"),
        comment=each(
            "", "slurmsched:types=a100", "slurmsched:types=k80+v100", "slurmsched:types=h100", "slurmsched:off"
        ),
        steered=types,
        excluded_nodes=["n3" if name else other for name, other in zip(types, each("", "", "n1"), strict=True)],
        steered_s=[
            NOW_S - ago_s if name else 0.0 for name, ago_s in zip(types, each(1.0, 5000.0, 9000.0), strict=True)
        ],
        submitted_s=[NOW_S - 10_000.0] * count,
    )
    used = draw(st.tuples(*[st.integers(0, 4)] * 3))
    room = replace(nodes((4, 4, 2), used), gpu_type=Labels.of(["a100", "v100", "k80"]))
    room = replace(room, usable=np.array(draw(st.tuples(*[st.booleans()] * 3))))
    running = running_jobs(3, gpus=[4, 2, 1], node_list=["n1", "n2", "n3"])
    return view(pending, [draw(st.sampled_from([60.0, 4000.0, np.inf, np.nan])) for _ in range(count)],
                running=running, room=room)  # fmt: skip


@given(queues())
@examples(300, each_change=30)
def test_whatever_the_queue_a_job_that_is_sent_somewhere_can_start_there_and_a_second_look_changes_nothing(seen):
    plan = decide(seen, FIFO, RULES)
    assert not plan.refusals, "no wish breaks a rule"
    jobs_, type_of = seen.pending, dict(zip(seen.nodes.name, seen.nodes.gpu_type, strict=True))
    gpus_of = dict(zip(seen.nodes.name, seen.nodes.gpus.tolist(), strict=True))
    after = {name: list(getattr(jobs_, name)) for name in ("steered", "excluded_nodes")}
    times = jobs_.steered_s.copy()
    for action in plan.actions:
        row = int(np.flatnonzero(jobs_.job_id == action.job_id)[0])
        assert isinstance(action, Unsteer) or not jobs_.gpu_type[row]
        excluded = set(expand(action.excluded)) if isinstance(action, Steer) else set()
        left = [name for name in type_of if name not in excluded and gpus_of[name] >= jobs_.gpus[row]]
        assert left or isinstance(action, Unsteer), "some node can hold it"
        if isinstance(action, Steer):
            assert {type_of[name] for name in type_of if name not in excluded} <= set(action.types.split("+"))
        after["steered"][row] = action.types if isinstance(action, Steer) else ""
        after["excluded_nodes"][row] = action.excluded if isinstance(action, Steer) else ""
        times[row] = NOW_S
    again = replace(jobs_, **{name: Labels.of(texts) for name, texts in after.items()}, steered_s=times)
    assert decide(replace(seen, pending=again), FIFO, RULES).actions == ()
