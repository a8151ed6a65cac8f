"""Jobs of several sizes get the number of GPUs that serves all jobs best; all others stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import AskToStop, Release, Requeue, Resize
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.text.hostlist import expand, fold
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ResizingRules, Rules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.resizing import SIZE_DIVISIONS
from slurmsched.powers import decide, next_change_s

FIFO = find_ordering("fifo")
RESIZING = ResizingRules(least_s=600.0, restart_s=120.0, stop_s=60.0)
PENDING_ONLY = Rules(powers=frozenset({"resize"}), resizing=RESIZING)
RULES = Rules(powers=frozenset({"resize", "requeue"}), resizing=RESIZING)
TWO_TO_FOUR = "slurmsched:gpus=2-4,ckpt"


def actions(
    pending, runtimes_s=None, *, used=(0, 0), running=None, left_s=None, rules=RULES, promises=None, gpus=(4, 4)
):
    """What is done about the sizes of jobs."""
    seen = view(pending, runtimes_s, running=running, room=nodes(gpus, used))
    if left_s is not None:
        ran_s = NOW_S - seen.running.started_s
        seen = replace(seen, forecast_running=replace(seen.forecast_running, runtime_s=ran_s + np.array(left_s)))
    if promises is not None:
        seen = replace(seen, promises=promises)
    plan = decide(seen, FIFO, rules)
    assert not plan.refusals
    return [action for action in plan.actions if isinstance(action, Resize | AskToStop | Requeue)]


def sized(count=1, gpus=2, comment=TWO_TO_FOUR, **columns):
    return jobs(count, **({"gpus": [gpus] * count, "comment": [comment] * count} | columns))


def runs(count=1, gpus=2, comment=TWO_TO_FOUR, node="n1", **columns):
    ours = {"gpus": [gpus] * count, "comment": [comment] * count, "node_list": [node] * count}
    return running_jobs(count, **(ours | {"started_s": np.full(count, NOW_S - 3600.0)} | columns))


def full(names=("n1", "n2"), left_s=600.0):
    """A rigid job on all four GPUs of each of some nodes."""
    running = running_jobs(len(names), gpus=[4] * len(names), node_list=list(names))
    return {"running": running, "left_s": [left_s] * len(names)}


def test_a_job_alone_gets_all_that_it_can_use():
    assert actions(sized()) == [Resize(1, 4, 2, 2)]
    assert actions(sized(gpus=4)) == []


def test_jobs_divide_what_is_free_and_none_has_less_than_its_owner_said():
    assert actions(sized(4)) == [], "two each on two nodes of four"
    assert actions(sized(4, gpus=4)) == [Resize(job, 2, 4, 4) for job in (1, 2, 3, 4)]
    assert actions(sized(2, comment="slurmsched:gpus=1-8,ckpt")) == [Resize(1, 4, 2, 2), Resize(2, 4, 2, 2)]


def test_the_longer_job_gets_the_further_gpu():
    pending = sized(2, gpus=1, comment="slurmsched:gpus=1-4,ckpt")
    busy = {"used": (1,), "running": running_jobs(1), "left_s": [50_000.0]}
    assert actions(pending, [10_000.0, 600.0], gpus=(4,), **busy) == [Resize(1, 2, 1, 1)]


def test_a_job_is_made_smaller_to_start_now_where_it_ends_sooner_so():
    busy = {"used": (2, 4), "running": running_jobs(2, gpus=[2, 4], node_list=["n1", "n2"])}
    assert actions(sized(gpus=4), [600.0], **busy, left_s=[5000.0, 5000.0]) == [Resize(1, 2, 4, 4)]
    assert actions(sized(gpus=4), [600.0], **busy, left_s=[60.0, 5000.0]) == []


def test_a_waiting_job_asks_for_the_number_with_which_it_ends_soonest():
    busy = {"used": (4, 4), "running": running_jobs(3, gpus=[2, 2, 4], node_list=["n1", "n1", "n2"])}
    assert actions(sized(gpus=4), [600.0], **busy, left_s=[60.0, 50_000.0, 50_000.0]) == [Resize(1, 2, 4, 4)]
    assert actions(sized(gpus=2), [50_000.0], **busy, left_s=[60.0, 100.0, 50_000.0]) == [Resize(1, 4, 2, 2)]


def test_a_job_gets_no_more_than_it_asked_for_while_others_wait_for_its_node():
    two = sized(2, comment="").joined(sized(job_id=[3]))
    assert actions(two) == [Resize(3, 4, 2, 2)], "two fill a node, and the third has the other one"
    assert actions(two.joined(jobs(1, job_id=[4], gpus=[4]))) == [], "the last one waits for either node"


def test_a_job_that_left_nodes_has_the_others():
    left = sized(steered=["*"], excluded_nodes=["n1"])
    assert actions(left, used=(2, 0)) == [Resize(1, 4, 2, 2)]


@pytest.mark.parametrize(
    "columns",
    [
        {"comment": ""},
        {"comment": "slurmsched:gpus=2-4"},
        {"comment": "slurmsched:ckpt"},
        {"comment": "slurmsched:gpus=2,ckpt"},
        {"comment": "slurmsched:gpus=3-4,ckpt"},
        {"comment": TWO_TO_FOUR + ",off"},
        {"requeueable": [False]},
        {"node_range": ["1-2"]},
        {"interactive": [True]},
        {"nodes": [2]},
        {"array_job_id": [1]},
        {"het_job_id": [1]},
        {"exclusive": [True]},
        {"per_task": [True]},
        {"per_gpu": [True]},
        {"shares": [True]},
        {"reservation": ["class"]},
        {"required_nodes": ["n1"]},
    ],
    ids=str,
)
def test_a_job_keeps_its_number_whose_owner_did_not_agree_or_of_which_more_depends_on_it(columns):
    assert actions(sized(**columns)) == []


@pytest.mark.parametrize("comment", ["", "slurmsched:gpus=2-4", "slurmsched:gpus=3-4,ckpt", TWO_TO_FOUR + ",off"])
def test_a_job_has_its_own_number_again_once_its_owner_does_not_agree_any_more(comment):
    assert actions(sized(comment=comment, own_gpus=[3], resized_s=[NOW_S - 60.0])) == [Resize(1, 3, 2, 3)]


def test_a_job_that_waits_for_a_limit_with_more_gpus_has_its_own_number_again():
    limited = {"reason": ["QOSMaxGRESPerUser"], "own_gpus": [2], "resized_s": [NOW_S - 5000.0]}
    assert actions(sized(gpus=4, **limited)) == [Resize(1, 2, 4, 2)]
    assert actions(sized(gpus=2, **(limited | {"own_gpus": [0]}))) == []


def test_a_promised_job_keeps_its_number():
    promises = promise_table(1, job_id=[1], state=[PromiseState.OPEN], promised_s=[NOW_S + 9000.0])
    assert actions(sized(), promises=promises) == []


def test_a_job_gets_more_gpus_once_in_a_while_and_fewer_whenever_it_starts_so():
    assert actions(sized(resized_s=[NOW_S - 599.0])) == []
    assert actions(sized(resized_s=[NOW_S - 601.0])) == [Resize(1, 4, 2, 2)]
    busy = {"used": (2, 4), "running": running_jobs(2, gpus=[2, 4], node_list=["n1", "n2"]), "left_s": [5000.0] * 2}
    assert actions(sized(gpus=4, own_gpus=[2], resized_s=[NOW_S - 1.0]), **busy) == [Resize(1, 2, 4, 2)]


def test_a_job_that_was_never_changed_has_more_gpus_at_once_where_time_begins_at_zero():
    early = replace(view(sized(submitted_s=[0.0], eligible_s=[0.0])), now_s=30.0)
    assert Resize(1, 4, 2, 2) in decide(early, FIFO, RULES).actions


def test_without_the_power_jobs_have_their_own_number_again_and_no_others_are_touched():
    pending = sized(3, gpus=4, own_gpus=[2, 0, 0])
    assert actions(pending, rules=Rules()) == [Resize(1, 2, 4, 2)]
    assert actions(sized(3), rules=Rules(powers=ALL_POWERS)) == []


def test_a_running_job_is_stopped_to_come_back_larger_when_the_queue_is_empty():
    one = runs()
    assert actions(jobs(0), used=(2, 4), running=one, left_s=[5000.0]) == [AskToStop(901, "URG")]
    assert actions(jobs(0), used=(2, 4), running=one, left_s=[5000.0], rules=PENDING_ONLY) == []
    assert actions(jobs(0), used=(4, 4), running=one, left_s=[5000.0]) == [], "nothing is free"


def test_a_running_job_goes_on_where_its_gain_is_below_what_a_restart_costs():
    began = [NOW_S - 1000.0]
    assert actions(jobs(0), used=(2, 4), running=runs(started_s=began), left_s=[260.0]) == []
    assert actions(jobs(0), used=(2, 4), running=runs(started_s=began), left_s=[280.0]) == [AskToStop(901, "URG")], (
        "gain 124 s"
    )
    dear = runs(started_s=began, restart_cost_s=[500.0])
    assert actions(jobs(0), used=(2, 4), running=dear, left_s=[280.0]) == []
    slow = runs(started_s=began, comment=TWO_TO_FOUR + ",coldstart=100")
    assert actions(jobs(0), used=(2, 4), running=slow, left_s=[280.0]) == []


def test_what_is_known_of_its_kind_decides_whether_more_gpus_help():
    flat = runs(size_speeds=["2=1 4=1.01"])
    assert actions(jobs(0), used=(2, 4), running=flat, left_s=[5000.0]) == []
    steep = runs(size_speeds=["2=1 4=2"], started_s=[NOW_S - 1000.0])
    assert actions(jobs(0), used=(2, 4), running=steep, left_s=[250.0]) == [AskToStop(901, "URG")]


GROWS = "slurmsched:gpus=2-8,batch=256-1024,ckpt"


def test_of_two_like_jobs_the_one_with_noisy_gradients_gets_the_further_gpus():
    for noises, grown in (([1e5, 10.0], 1), ([10.0, 1e5], 2)):
        two = sized(2, comment=GROWS, noise=noises)
        assert actions(two, gpus=(8,), used=(0,)) == [Resize(grown, 6, 2, 2)]
    alike = sized(2, comment=GROWS, noise=[1e5, 1e5])
    assert actions(alike, gpus=(8,), used=(0,)) == [Resize(1, 4, 2, 2), Resize(2, 4, 2, 2)]


def test_a_running_job_without_noise_in_its_gradients_keeps_its_gpus():
    for noise, expected in ((10.0, []), (1e5, [AskToStop(901, "URG")]), (np.nan, [AskToStop(901, "URG")])):
        one = runs(comment=GROWS, noise=[noise])
        assert actions(jobs(0), used=(2, 4), running=one, left_s=[5000.0]) == expected


@pytest.mark.parametrize(
    ("samples", "more", "asked"),
    [
        ("2=1 4=1.9", {}, True),
        ("2=1 4=1.01", {}, False),
        ("2=1 4=1.01", {"noise": [np.nan]}, True),
        ("2=1 4=1.01", {"comment": TWO_TO_FOUR}, True),
        ("2=1 4=1.01", {"size_speeds": ["2=1 4=1.9"]}, True),
        ("2=1 4=1.9", {"noise": [10.0]}, False),
    ],
)
def test_the_samples_that_its_kind_goes_through_in_a_second_decide_with_its_noise(samples, more, asked):
    one = runs(**({"comment": GROWS, "noise": [1e5], "sample_speeds": [samples]} | more))
    expected = [AskToStop(901, "URG")] if asked else []
    assert actions(jobs(0), used=(2, 4), running=one, left_s=[5000.0]) == expected


@pytest.mark.parametrize(
    "more", [{"comment": TWO_TO_FOUR}, {"comment": TWO_TO_FOUR + ",batch=256"}, {"size_speeds": ["2=1 4=1.9"]}]
)
def test_noise_counts_only_for_a_batch_that_may_grow_and_where_no_runtimes_say_more(more):
    silent = runs(**({"comment": GROWS, "noise": [10.0]} | more))
    assert actions(jobs(0), used=(2, 4), running=silent, left_s=[5000.0]) == [AskToStop(901, "URG")]


def test_a_running_job_is_not_stopped_soon_after_its_start_or_while_others_wait():
    assert actions(jobs(0), used=(2, 4), running=runs(started_s=[NOW_S - 599.0]), left_s=[5000.0]) == []
    whole = jobs(1, gpus=[4])
    assert actions(whole, used=(2, 4), running=runs(), left_s=[5000.0]) == []


def test_a_running_job_may_come_back_on_another_node():
    seen = runs().joined(running_jobs(1, job_id=[950], gpus=[2], node_list=["n1"]))
    assert actions(jobs(0), used=(4, 0), running=seen, left_s=[5000.0] * 2) == [AskToStop(901, "URG")]
    assert actions(jobs(0), used=(4, 2), running=seen, left_s=[5000.0] * 2) == []


def test_a_job_that_was_asked_is_requeued_once_its_time_to_save_is_over():
    asked = runs(stop_requested_s=[NOW_S - 61.0])
    assert actions(jobs(0), used=(2, 4), running=asked, left_s=[5000.0]) == [Requeue(901)]
    assert actions(jobs(0), used=(2, 4), running=runs(stop_requested_s=[NOW_S - 59.0]), left_s=[5000.0]) == []


def test_a_job_just_queued_again_gets_its_number_before_it_may_start():
    pending = sized(held_by_us=[True], restarts=[1], eligible_s=[NOW_S + 110.0], submitted_s=[NOW_S - 10.0])
    seen = view(pending)
    rules = replace(RULES, powers=frozenset({"resize", "requeue", "hold"}))
    assert decide(seen, FIFO, rules).actions == (Resize(1, 4, 2, 2), Release(1))


def test_a_stored_policy_has_the_rules_of_sizes():
    policy = Policy(FIFO, RULES)
    assert Policy.from_json(policy.to_json()) == policy


def test_a_stored_policy_with_a_division_that_there_is_no_more_is_an_error():
    stored = Policy(FIFO, by_division(RULES, "sia")).to_json()
    assert Policy.from_json(stored).rules.resizing.division == "sia"
    with pytest.raises(ConfigError, match="'drf' is not known"):
        Policy.from_json(stored.replace('"sia"', '"drf"'))
    assert Policy.from_json(stored.replace('"division": "sia", ', "")) == Policy(FIFO, RULES), "as older ones are"


def test_a_simulation_looks_again_when_a_job_may_be_stopped_for_its_size():
    seen = view(jobs(0), running=runs(started_s=[NOW_S - 100.0]), room=nodes((4, 4), (2, 4)))
    plan = decide(seen, FIFO, RULES)
    assert next_change_s(seen, plan, FIFO, RULES) == NOW_S + 500.0
    aged = by_division(RULES, "pollux")
    assert next_change_s(seen, decide(seen, FIFO, aged), FIFO, aged) == NOW_S, "with its age a restart costs it less"
    rests = view(sized(resized_s=[NOW_S - 10.0]), running=full()["running"], room=nodes((4, 4), (4, 4)))
    assert next_change_s(rests, decide(rests, FIFO, RULES), FIFO, RULES) == NOW_S, "while it waits, at any time"


def test_a_running_job_is_made_smaller_for_one_that_waits_longer_than_that_costs():
    two = {"running": runs(gpus=4, started_s=[NOW_S - 1000.0]), "gpus": (4,), "used": (4,)}
    new = jobs(1, gpus=[2])
    assert actions(new, **two, left_s=[1000.0]) == [AskToStop(901, "URG")], (
        "it loses 920 s, and the new one waits 1,000"
    )
    assert actions(new, **two, left_s=[700.0]) == [AskToStop(901, "URG")], "it loses 680 s"
    assert actions(new, **two, left_s=[600.0]) == [], "it loses as much as the new one waits"
    assert actions(new, **two, left_s=[300.0]) == [], "it loses 360 s"
    assert actions(jobs(1, gpus=[4]), **two, left_s=[1000.0]) == [], "two GPUs are too few"
    assert actions(new, **two, left_s=[1000.0], rules=PENDING_ONLY) == []
    assert actions(jobs(0), **two, left_s=[1000.0]) == []


def test_no_job_is_made_smaller_for_one_that_ends_sooner_on_more_gpus_later():
    two = {"running": runs(2, comment="slurmsched:gpus=1-4,ckpt"), "gpus": (4,), "used": (4,), "left_s": [1200.0] * 2}
    new = sized(comment="slurmsched:gpus=1-4,ckpt")
    assert actions(new, [1500.0], **two) == [Resize(1, 4, 2, 2)], "2,700 s on one GPU now, 2,033 s on four after these"
    assert actions(new, [60.0], **two) == [AskToStop(901, "URG")], "108 s, and more than 1,200 s"


def test_of_several_jobs_those_that_lose_least_are_made_smaller_and_no_more_than_it_takes():
    both = runs(2, gpus=4, node="n1").joined(runs(1, gpus=4, node="n2", job_id=[950]))
    both = replace(both, node_list=Labels.of(["n1", "n2", "n3"]))
    seen = {"running": both, "gpus": (4, 4, 4), "used": (4, 4, 4), "left_s": [9000.0, 2000.0, 5000.0]}
    assert actions(jobs(1, gpus=[2]), **seen) == [AskToStop(902, "URG")]
    assert actions(jobs(2, gpus=[2, 2]), **seen) == [AskToStop(902, "URG")]


ONE_TO_FOUR = "slurmsched:gpus=1-4,ckpt"


def test_a_job_that_comes_back_has_done_what_it_did_on_its_earlier_numbers_of_gpus():
    back = {"gpus": 1, "comment": ONE_TO_FOUR, "own_gpus": [2], "restarts": [1], "ran_s": [3600.0]}
    others = {"running": runs(2, gpus=1, comment=ONE_TO_FOUR, own_gpus=[2, 2]), "left_s": [200.0] * 2}
    room = {"gpus": (4,), "used": (2,)}
    assert actions(sized(**back, ran_on=["1=3600"]), [3800.0], **others, **room) == [Resize(1, 2, 1, 2)]
    assert actions(sized(**back, ran_on=["2=3600"]), [3800.0], **others, **room) == [AskToStop(901, "URG")], (
        "it has less left than the others"
    )


def test_no_job_is_made_smaller_for_one_that_ends_sooner_by_waiting_for_more():
    two = {"running": runs(2, comment=ONE_TO_FOUR, restart_cost_s=[5.0] * 2), "left_s": [200.0, 5000.0]}
    for runtime_s, stops in ((10.0, [AskToStop(901, "URG")]), (100.0, [])):
        new = sized(gpus=4, comment=ONE_TO_FOUR)
        assert actions(new, [runtime_s], **two, gpus=(4,), used=(4,)) == [Resize(1, 2, 4, 4), *stops]


def test_jobs_that_start_now_are_spread_over_the_nodes_with_most_for_each():
    guest = {"running": running_jobs(1, node_list=["n2"]), "left_s": [50_000.0], "used": (0, 1)}
    assert actions(sized(2, comment=ONE_TO_FOUR), **guest) == [Resize(1, 4, 2, 2), Resize(2, 3, 2, 2)]


def test_a_job_that_starts_has_what_jobs_on_other_nodes_would_not_come_back_for():
    others = {"running": runs(4, gpus=1, comment=ONE_TO_FOUR), "left_s": [5000.0] * 4, "used": (4, 0)}
    assert actions(sized(gpus=4, comment=ONE_TO_FOUR), [5000.0], **others) == []
    assert actions(sized(gpus=4, comment=ONE_TO_FOUR), [1000.0], **others) == [
        Resize(1, 2, 4, 4),
        AskToStop(901, "URG"),
    ]


LATELY = [(5.0, False), (5000.0, True)]


@pytest.mark.parametrize(("ago_s", "stops"), LATELY)
def test_no_job_is_stopped_for_more_gpus_while_one_that_was_is_not_back_yet(ago_s, stops):
    other = {"running": runs(gpus=1, comment=ONE_TO_FOUR), "left_s": [9000.0], "gpus": (4,), "used": (1,)}
    back = sized(gpus=1, comment=ONE_TO_FOUR, restarts=[1], stop_requested_s=[NOW_S - ago_s], resized_s=[NOW_S])
    assert (AskToStop(901, "URG") in actions(back, [900.0], **other)) == stops


@pytest.mark.parametrize(("ago_s", "stops"), LATELY)
def test_no_job_is_stopped_for_what_another_one_was_asked_to_stop_for(ago_s, stops):
    two = runs(2, gpus=1, comment=ONE_TO_FOUR, stop_requested_s=[np.nan, NOW_S - ago_s])
    asked = actions(jobs(0), running=two, left_s=[9000.0, 3000.0], gpus=(4,), used=(3,))
    assert (AskToStop(901, "URG") in asked) == stops
    two = replace(runs(2, gpus=4, stop_requested_s=[NOW_S - ago_s, np.nan]), node_list=Labels.of(["n1", "n2"]))
    asked = actions(jobs(1, gpus=[2]), running=two, left_s=[4000.0, 3950.0], used=(4, 4))
    assert (AskToStop(902, "URG") in asked) == stops


BY_NODES = replace(RULES, resizing=replace(RESIZING, nodes=True))
ONE_TO_FOUR_NODES = "slurmsched:gpus=4-16,ckpt"


def by_nodes(count=1, nodes=2, **columns):
    """Jobs with four GPUs on each of some nodes."""
    ours = {"nodes": [nodes] * count, "comment": ONE_TO_FOUR_NODES}
    return sized(count, **({"gpus": 4 * nodes} | ours | columns))


def runs_by_nodes(names, **columns):
    count = len(expand(names))
    ours = {"gpus": 4 * count, "nodes": [count], "comment": ONE_TO_FOUR_NODES, "node": names}
    return runs(**(ours | columns))


def test_a_job_by_nodes_gets_whole_nodes_and_only_where_the_admin_allows_it():
    four = {"gpus": (4,) * 4, "rules": BY_NODES}
    assert actions(by_nodes(), **four, used=(0, 0, 0, 0)) == [Resize(1, 16, 8, 8, 4)]
    part = {"running": running_jobs(1, node_list=["n4"]), "left_s": [50_000.0], "used": (0, 0, 0, 1)}
    assert actions(by_nodes(), **four, **part) == [Resize(1, 12, 8, 8, 4)], "one node is not whole"
    assert actions(by_nodes(2), **four, used=(0, 0, 0, 0)) == [], "two each"
    assert actions(by_nodes(), gpus=(4,) * 4, used=(0, 0, 0, 0)) == [], "resize.nodes is off"
    assert actions(by_nodes(gpus=7), **four, used=(0, 0, 0, 0)) == [], "uneven"


def test_a_job_by_nodes_has_its_own_cpus_back_before_its_nodes_change():
    four = {"gpus": (4,) * 4, "rules": BY_NODES, "used": (0, 0, 0, 0)}
    assert actions(by_nodes(own_request=["cpus=8,task=4,node=4,mem=2000Mn"]), **four) == []


def test_a_job_by_nodes_starts_on_fewer_now_and_its_own_number_is_known_on_one_node():
    busy = {"running": full(("n1", "n2", "n3"))["running"], "left_s": [50_000.0] * 3, "gpus": (4,) * 4}
    assert actions(by_nodes(), **busy, used=(4, 4, 4, 0), rules=BY_NODES) == [Resize(1, 4, 8, 8, 4)]
    ours = by_nodes(nodes=1, own_gpus=[8], gpus_each=[4], resized_s=[NOW_S - 5000.0])
    assert actions(ours, gpus=(4,) * 4, used=(0, 0, 0, 0), rules=BY_NODES) == [Resize(1, 16, 4, 8, 4)]
    assert actions(ours, rules=RULES) == [Resize(1, 8, 4, 8, 4)], "it has its own number back"
    assert actions(ours, rules=Rules()) == [Resize(1, 8, 4, 8, 4)]


def test_a_running_job_by_nodes_is_stopped_for_more_and_for_fewer_nodes():
    two = {"running": runs_by_nodes("n[1-2]"), "gpus": (4,) * 3, "rules": BY_NODES}
    assert actions(jobs(0), **two, used=(4, 4, 0), left_s=[5000.0]) == [AskToStop(901, "URG")]
    assert actions(jobs(0), **two, used=(4, 4, 1), left_s=[5000.0]) == []
    assert actions(jobs(0), **(two | {"rules": RULES}), used=(4, 4, 0), left_s=[5000.0]) == []
    full_ = two | {"gpus": (4, 4), "used": (4, 4)}
    assert actions(jobs(1, gpus=[3]), **full_, left_s=[5000.0]) == [AskToStop(901, "URG")], "it gives up a node"
    assert actions(jobs(1, gpus=[3]), **full_, left_s=[300.0]) == []
    assert actions(jobs(1, gpus=[3]), **two, used=(4, 4, 4), left_s=[300.0]) == []


@pytest.mark.parametrize(("division", "expected"), [("optimus", [1, 7]), ("pollux", [4, 4]), ("sia", [4, 4])])
def test_means_of_speedups_share_a_node_evenly_among_like_jobs(division, expected):
    pending = sized(2, comment="slurmsched:gpus=1-8,ckpt")
    done = actions(pending, [3600.0, 360_000.0], gpus=(8,), used=(0,), rules=by_division(RULES, division))
    assert [action.gpus for action in done] == expected


@pytest.mark.parametrize("division", ["pollux", "sia"])
def test_a_running_job_is_stopped_for_means_of_speedups_only_where_that_shortens_its_own_time(division):
    words = {"used": (2, 4), "rules": by_division(RULES, division)}
    old = {"started_s": [NOW_S - 1000.0], "first_submit_s": [NOW_S - 90_000.0]}
    assert actions(jobs(0), **words, running=runs(**old), left_s=[260.0]) == [], "a restart costs more"
    assert actions(jobs(0), **words, running=runs(**old), left_s=[280.0]) == [AskToStop(901, "URG")]
    often = runs(**(old | {"first_submit_s": [NOW_S - 1000.0], "restarts": [4]}))
    assert actions(jobs(0), **words, running=often, left_s=[280.0]) == [], "half of its life went into restarts"


def test_by_means_of_speedups_the_job_that_loses_least_of_its_speed_is_made_smaller():
    both = runs(2, gpus=4, node="n1", size_speeds=["2=1 4=1.9", "2=1 4=1.1"])
    both = replace(both, node_list=Labels.of(["n1", "n2"]))
    seen = {"running": both, "gpus": (4, 4), "used": (4, 4), "left_s": [4000.0, 38_000.0]}
    for division, asked in (("optimus", 901), ("pollux", 902), ("sia", 902)):
        done = actions(jobs(1, gpus=[2]), [9000.0], **seen, rules=by_division(RULES, division))
        assert done == [AskToStop(asked, "URG")], division
    far = seen | {"left_s": [4000.0, 400_000.0]}
    for division in SIZE_DIVISIONS:
        done = actions(jobs(1, gpus=[2]), [9000.0], **far, rules=by_division(RULES, division))
        assert done == [AskToStop(901, "URG")], "the other one would lose more time than the new one waits"


@st.composite
def clusters(draw):
    """Jobs of all sorts on three nodes of two types."""
    comments = (
        *("", "slurmsched:gpus=2-4,ckpt", "slurmsched:gpus=1-8,ckpt", "slurmsched:gpus=1-3,ckpt"),
        *("slurmsched:gpus=2-4", "slurmsched:gpus=4-2,ckpt", "slurmsched:gpus=1-4,ckpt,off"),
        *("slurmsched:gpus=1-4,batch=64-256,ckpt", "slurmsched:gpus=2-4,batch=1-99999,ckpt"),
    )

    def some(count, *values):
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    def columns(count):
        return {
            "gpus": some(count, 1, 2, 3, 4),
            "comment": some(count, *comments),
            "gpu_type": some(count, "", "", "v100"),
            "nodes": some(count, 1, 1, 1, 2),
            "own_gpus": some(count, 0, 0, 2),
            "resized_s": [NOW_S - ago_s for ago_s in some(count, 1.0, 500.0, 5000.0)],
            "noise": some(count, np.nan, 1.0, 1e4, 5e-324, 1.7e308),
            "size_speeds": some(count, "", "2=1 4=1.9", "1=1 2=0.9 4=0.8", "1=1 8=20"),
            "sample_speeds": some(count, "", "2=1 4=1.5"),
        }

    count, going = draw(st.integers(0, 8)), draw(st.integers(0, 4))
    pending = jobs(
        count,
        tasks=some(count, 1, 1, 5),
        held_by_us=some(count, False, True),
        restarts=some(count, 0, 1),
        **columns(count),
    )
    running = running_jobs(
        going,
        node_list=some(going, "n1", "n2", "n3"),
        started_s=[NOW_S - ago_s for ago_s in some(going, 10.0, 700.0, 90_000.0)],
        stop_requested_s=some(going, np.nan, np.nan, NOW_S - 5.0, NOW_S - 100.0),
        stop_requests=some(going, 0, 1, 4),
        restart_cost_s=some(going, 0.0, 1000.0),
        **columns(going),
    )
    used = draw(st.tuples(*[st.integers(0, 4)] * 3))
    room = replace(nodes((4, 4, 2), used), gpu_type=Labels.of(["a100", "v100", "v100"]))
    room = replace(room, usable=np.array(draw(st.tuples(*[st.booleans()] * 3))))
    runtimes_s = some(count, 60.0, 4000.0, np.inf, np.nan)
    return view(pending, runtimes_s, running=running, room=room)


@st.composite
def clusters_by_nodes(draw):
    """Jobs by nodes, and others, on four nodes."""
    count, used = draw(st.integers(1, 6)), draw(st.lists(st.sampled_from([0, 0, 4, 2]), min_size=4, max_size=4))
    many = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    each = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=count, max_size=count))
    comments = ["slurmsched:gpus=1-16,ckpt", "slurmsched:gpus=4-8,ckpt", "slurmsched:gpus=3-9,ckpt", ""]
    pending = jobs(
        count,
        gpus=[nodes_ * gpus for nodes_, gpus in zip(many, each, strict=True)],
        nodes=many,
        comment=draw(st.lists(st.sampled_from(comments), min_size=count, max_size=count)),
        cpus=[nodes_ * 2 for nodes_ in many],
    )
    holders = [f"n{at + 1}" for at, gpus in enumerate(used) if gpus]
    running = runs_by_nodes(fold(holders)) if len(holders) > 1 else running_jobs(0)
    return view(pending, running=running, room=nodes((4,) * 4, used))


def by_division(rules, name):
    return replace(rules, resizing=replace(rules.resizing, division=name))


@pytest.mark.parametrize("division", SIZE_DIVISIONS)
@given(clusters_by_nodes())
@examples(100)
def test_whatever_the_cluster_a_gang_keeps_whole_nodes_and_what_starts_now_has_its_gpus(division, seen):
    plan, pending = decide(seen, FIFO, by_division(BY_NODES, division)), seen.pending
    assert not plan.refusals
    for action in plan.actions:
        if not isinstance(action, Resize):
            continue
        row = int(np.flatnonzero(pending.job_id == action.job_id)[0])
        spread = pending.nodes[row] > 1
        assert (action.each > 0) == spread
        assert pending.least_gpus[row] <= action.gpus <= pending.most_gpus[row]
        on_each = action.gpus // action.nodes[1]
        assert action.gpus == action.nodes[1] * on_each
        assert not spread or on_each * pending.nodes[row] == pending.gpus[row], "as many on each node as before"
        assert (seen.nodes.gpus >= on_each).sum() >= action.nodes[1], "there are such nodes"


@pytest.mark.parametrize("division", SIZE_DIVISIONS)
@given(clusters())
@examples(150, each_change=15)
def test_whatever_the_cluster_a_number_is_one_that_its_owner_and_the_nodes_allow_and_grows_once_in_a_while(
    division, seen
):
    rules = by_division(RULES, division)
    plan = decide(seen, FIFO, rules)
    assert not plan.refusals, "no wish breaks a rule"
    pending, running = seen.pending, seen.running
    after = {name: getattr(pending, name).copy() for name in ("gpus", "own_gpus", "resized_s")}
    for action in plan.actions:
        jobs_ = pending if isinstance(action, Resize) else running
        row = int(np.flatnonzero(jobs_.job_id == action.job_id)[0])
        if not isinstance(action, Resize):
            assert jobs_.ckpt[row], "nobody is stopped without consent"
            last_s = np.fmax(jobs_.started_s[row], jobs_.stop_requested_s[row])
            assert isinstance(action, Requeue) or last_s <= NOW_S - RESIZING.least_s
            continue
        assert action.before == pending.gpus[row]
        after["gpus"][row], after["resized_s"][row] = action.gpus, NOW_S
        after["own_gpus"][row] = 0 if action.gives_back else action.own
        if action.gives_back and action.own == pending.own_gpus[row]:
            continue
        assert pending.least_gpus[row] <= action.gpus <= pending.most_gpus[row]
        allowed = seen.nodes.with_gpus_for("gpu", pending.gpu_type[row])
        assert action.gpus <= seen.nodes.gpus[allowed].max(), "some node of its type has as many"
        grows = action.gpus > action.before
        assert not grows or pending.resized_s[row] <= NOW_S - RESIZING.least_s
    again = decide(replace(seen, pending=replace(pending, **after)), FIFO, rules)
    grown = [one for one in again.actions if isinstance(one, Resize) and one.gpus > one.before and not one.gives_back]
    changed = {action.job_id for action in plan.actions if isinstance(action, Resize)}
    assert not changed & {one.job_id for one in grown}, "a job that was changed does not grow again at once"
