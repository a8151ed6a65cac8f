"""Which jobs share GPUs: decisions with sharing on, over views of sites with a sharing node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import NOW_S, forecast, jobs, nodes, partitions, running_jobs, view

from examples import examples
from slurmsched.cluster.actions import Rank, Share, StartShared, Unshare
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.job_kind import kind_of
from slurmsched.cluster.limits import limit_table
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.faults import Instability
from slurmsched.cluster.text.comment import read
from slurmsched.cluster.text.tres import slots_in
from slurmsched.decide.policy import Policy
from slurmsched.decide.referee import judge
from slurmsched.decide.rules import Rules, SharingRules
from slurmsched.decide.sharing.pairing import Hosts
from slurmsched.decide.sharing.queue_wait import own_waits_s
from slurmsched.decide.sharing.shared_nodes import shared_nodes
from slurmsched.policies.contract import SHARINGS, find_ordering
from slurmsched.policies.contract import sharing as sharing_rule
from slurmsched.policies.sharing_candidates import Pair
from slurmsched.policies.sharing_slots import Token
from slurmsched.powers import decide
from slurmsched.powers.share.packing import settle_shared
from slurmsched.powers.share.wording import sharing_words

RULES = SharingRules(memory_mib=16_000.0, wait_s=30.0)
HOUR_S = 3600.0


def site(gpus: int = 4, usable: bool = True) -> Any:
    """n1 and n2 are full of whole-GPU jobs; n3 has as many *gpus*, which jobs share."""
    table = nodes((4, 4, gpus), (4, 4, gpus))
    usable_now = np.array([True, True, usable])
    return replace(table, partitions=Labels.of(["gpu", "gpu", "shared"]), usable=usable_now)


def doors() -> Any:
    table = partitions()
    return table.joined(table.take(slice(0, 1)).changed(name=Labels.of(["shared"]), nodes=Labels.of(["n3"])))


LIGHT = {"measured": [True], "gpu_util": [0.2], "gpu_memory_mib": [4000.0], "share_score": [0]}


def light(count: int = 1, **columns: Any) -> dict[str, Any]:
    """Columns of measured jobs that may share."""
    return {name: values * count for name, values in LIGHT.items()} | columns


def waiting(count: int = 1, **columns: Any) -> Any:
    return jobs(count, **light(count, **{"per_node": ["gres:gpu:1"] * count, **columns}))


def blockers() -> Any:
    """Two jobs that hold all whole GPUs."""
    return running_jobs(2, gpus=[4, 4], per_node=["gres:gpu:4"] * 2, node_list=["n1", "n2"])


def sharing(token: str, **columns: Any) -> Any:
    """Job 911, which runs on slots of n3 by a token of ours."""
    gpus = Token.of(token).gpus
    slots = ",".join(f"gres:slot:i{gpu}:1" for gpu in gpus)
    known = {
        "job_id": [911],
        "gpus": [len(gpus)],
        "partition": ["shared"],
        "node_list": ["n3"],
        "required_nodes": ["n3"],
        "per_node": [slots],
        "comment": [f"slurmsched:share={token}"],
        "shares": [True],
    }
    return running_jobs(1, **light(**(known | columns)))


def seen(pending: Any, *running: Any, left_s: float = HOUR_S, runtime_s: float = 600.0, **more: Any) -> Any:
    table = blockers()
    for each in running:
        table = table.joined(each)
    made = view(pending, [runtime_s] * len(pending), running=table, room=more.pop("room", site()))
    ends = forecast([left_s + 600.0] * len(table))
    return replace(made, partitions=doors(), forecast_running=ends, **more)


def decided(looked: Any, rules: SharingRules = RULES, powers: Any = ("order", "share")) -> Any:
    return decide(looked, find_ordering("fifo"), Rules(powers=frozenset(powers), sharing=rules))


def shares(looked: Any, rules: SharingRules = RULES) -> list[Share]:
    return [action for action in decided(looked, rules).actions if isinstance(action, Share)]


def test_a_light_job_joins_a_light_job_that_runs_on_slots():
    (share,) = shares(seen(waiting(comment=["note"]), sharing("2")))
    assert share == Share(1, "gpu", "shared", "n3", "2", "note", NOW_S + 30.0)


def test_the_first_of_a_pair_goes_to_a_free_gpu_of_the_sharing_node():
    first, second = shares(seen(waiting(2, gpus=[1, 2])))
    assert (first.token, second.token) == ("0", "1+2")


def test_jobs_join_a_wider_one_on_gpus_that_it_has_alone_until_each_has_two_jobs():
    wide = sharing("0+1+2+3")
    looked = seen(waiting(3, gpus=[1, 2, 1]), wide)
    assert [share.token for share in shares(looked)] == ["0", "1+2", "3"]
    assert [share.token for share in shares(seen(waiting(2, gpus=[2, 2]), wide, sharing("1", job_id=[912])))] == ["0+2"]
    coming = on_the_way(job_id=[3], comment=["slurmsched:share=0"], per_node=["gres:slot:i0:1"], partition=["shared"])
    assert [share.token for share in shares(seen(waiting().joined(coming), wide))] == ["1"]


LINKED = replace(RULES, links=((12, 25, 25, 50), (25, 12, 50, 25), (25, 50, 12, 50), (50, 25, 50, 12)))


def test_a_job_of_several_gpus_gets_the_free_ones_with_most_bandwidth_between_them():
    two = waiting(gpus=[2])
    assert [share.token for share in shares(seen(two), LINKED)] == ["0+3"]
    alone = sharing("3", interactive=[True])
    assert [share.token for share in shares(seen(two, alone), LINKED)] == ["1+2"]
    assert [share.token for share in shares(seen(two, alone))] == ["0+1"]
    assert [share.token for share in shares(seen(two, room=site(8)), LINKED)] == ["0+1"], "nodes of another kind"


def test_a_job_joins_a_wider_one_on_the_gpus_with_most_bandwidth_between_them():
    looked = seen(waiting(gpus=[2]), sharing("0+1+2+3"), room=site(4))
    assert [share.token for share in shares(looked, LINKED)] == ["0+3"]


def test_without_wide_hosts_only_jobs_with_the_same_number_of_gpus_share():
    equal = replace(RULES, wide=False)
    looked = seen(waiting(3, gpus=[1, 2, 4]), sharing("0+1+2+3"))
    assert [(share.job_id, share.token) for share in shares(looked, equal)] == [(3, "0+1+2+3")]
    assert shares(seen(waiting(gpus=[4]), sharing("0+1+2+3"), sharing("1", job_id=[912])), equal) == []


def test_no_job_joins_narrower_ones_nor_two_of_them():
    looked = seen(waiting(gpus=[2]), sharing("0"), sharing("1", job_id=[912]), room=site(2))
    assert shares(looked) == []


def test_jobs_of_another_user_on_a_wide_host_take_turns():
    looked = seen(waiting(2, user=["bob", "alice"]), sharing("0+1+2+3"))
    assert [share.token for share in shares(looked, replace(RULES, other_users=True))] == ["0:time", "1"]
    assert [(share.job_id, share.token) for share in shares(looked)] == [(2, "0")]


def test_a_second_guest_is_not_charged_for_the_speed_that_a_wide_host_has_lost_already():
    rules = replace(RULES, curve=((0.0, 1.0), (1.0, 0.5)))
    wide, guest = sharing("0+1+2+3"), sharing("3", job_id=[912])
    for there, speed, open_gpus in (((wide,), 1.0, 4), ((wide, guest), 0.8, 3)):
        looked = seen(waiting(), *there)
        hosts = Hosts.on_slots(looked, shared_nodes(looked, rules), rules).jobs
        assert (hosts.job_id.tolist(), hosts.speed.tolist(), hosts.open_gpus.tolist()) == ([911], [speed], [open_gpus])


def test_where_a_gpu_of_its_own_is_free_a_job_does_not_share():
    free = replace(site(), gpus_used=np.array([4, 3, 4]))
    assert shares(seen(waiting(), sharing("2"), room=free)) == []


def test_a_short_wait_is_not_worth_a_long_time_beside_another():
    looked = seen(waiting(), sharing("2"), left_s=40.0)
    assert shares(looked) == [] or all(share.token != "2" for share in shares(looked))


def test_a_third_job_is_never_put_on_a_gpu():
    other = sharing("2", job_id=[912])
    assert {share.token for share in shares(seen(waiting(), sharing("2"), other))} == {"0"}


@pytest.mark.parametrize(
    "special",
    [
        {"comment": ["slurmsched:nopack"]},
        {"comment": ["slurmsched:share=0"]},
        {"comment": ["two words"]},
        {"interactive": [True]},
        {"exclusive": [True]},
        {"tasks": [3], "array_job_id": [1]},
        {"per_task": [True]},
        {"per_gpu": [True]},
        {"per_node": ["gres:gpu:1,gres:nvme:1"]},
        {"given_back": [True]},
        {"deadline_s": [NOW_S + HOUR_S]},
        {"required_nodes": ["n1"]},
        {"features": ["fast"]},
        {"gpu_type": ["h100"]},
        {"measured": [False]},
        {"unstable": [True]},
        {"gpu_memory_mib": [13_000.0]},
        {"share_score": [2]},
        {"nodes": [2]},
        {"user": ["bob"]},
    ],
    ids=lambda special: "-".join(special),
)
def test_jobs_that_may_not_share_with_it_do_not_join(special):
    host = sharing("0+1+2+3", gpus=[1], per_node=["gres:slot:i0:1"], share_score=[1])
    full = seen(waiting(**special), host, room=site(1))
    assert shares(full) == []
    (words,) = sharing_words(full, decided(full), RULES, 1)
    assert words.startswith(("It shares no GPUs: ", "It may share, but not with any running job: "))


@pytest.mark.parametrize(
    ("settings", "guest", "host", "reason"),
    [
        ({"accounts": ("ml",)}, {"account": ["ml"]}, {"account": ["ml"]}, ""),
        ({"accounts": ("ml",)}, {"account": ["bio"]}, {"account": ["ml"]}, "its account is not one of share.accounts"),
        ({"accounts": ("ml",)}, {"account": ["ml"]}, {"account": ["bio"]}, "host"),
        ({"optin": True}, {"comment": ["slurmsched:pack"]}, {"pack": [True]}, ""),
        ({"optin": True}, {}, {"pack": [True]}, "its owner did not ask for it with slurmsched:pack"),
        ({"optin": True}, {"comment": ["slurmsched:pack"]}, {}, "host"),
        ({"optin": True}, {"comment": ["slurmsched:pack,nopack"]}, {"pack": [True]}, "does not want to share"),
        ({}, {"comment": ["slurmsched:pack,nopack"]}, {}, "does not want to share"),
        ({"optin": True, "accounts": ("ml",)}, {"account": ["ml"]}, {"pack": [True], "account": ["ml"]}, "pack"),
    ],
    ids=str,
)  # fmt: skip
def test_only_those_share_whom_the_settings_name_or_who_ask_for_it_and_nopack_wins(settings, guest, host, reason):
    rules = replace(RULES, **settings)
    looked = seen(waiting(**guest), sharing("0", **host), room=site(1))
    assert (shares(looked, rules) != []) is (reason == "")
    (words,) = sharing_words(looked, decided(looked, rules), rules, 1)
    assert reason in words or reason == "host"
    if reason == "host":
        assert words == "It may share, but not with any running job: job 911: one of the two does not share."


CURVED = replace(RULES, curve=((0.0, 1.0), (2.0, 0.5)), least_speed=0.8, least_speed_each=0.65)


def test_the_expected_speed_of_a_pair_is_said_with_its_source():
    looked = seen(waiting(), sharing("2"), sharing("2", job_id=[912], gpu_util=[0.6]), left_s=10.0)
    beside = "Beside job 912 each is expected to keep 0.80 of its speed (speed curve, 80% of a GPU in use by both)."
    assert sharing_words(looked, decided(looked, CURVED), CURVED, 911)[1:] == (beside,)
    one = seen(waiting(), sharing("2"))
    (words,) = sharing_words(one, decided(one, CURVED, powers=("order",)), CURVED, 1)
    assert words == (
        "It may share with job 911. Beside job 911 each is expected to keep 0.90 of its speed"
        " (speed curve, 40% of a GPU in use by both)."
    )


def test_what_its_kind_was_measured_to_keep_is_said_beside_the_curve_and_counts():
    looked = seen(waiting(), sharing("2"), sharing("2", job_id=[912], gpu_util=[0.6], name=["slow_3"]))
    rules = replace(CURVED, kept=((kind_of(looked.running.user[3], "slow_3"), 0.75),))
    words = sharing_words(looked, decided(looked, rules), rules, 911)[1]
    assert words == (
        "Beside job 912 it is expected to keep 0.80 of its speed, and that job 0.60"
        " (speed curve: 0.80, 80% of a GPU in use by both; measured of their kinds: 1 and 0.75 of that)."
    )
    heavy = seen(waiting(gpu_util=[0.3]), sharing("0", gpu_util=[0.3], name=["slow_3"]), room=site(1))
    assert shares(heavy, CURVED) != []
    assert shares(heavy, rules) == []


def test_two_jobs_whose_expected_speed_is_too_low_do_not_share_and_why_gives_both_figures():
    heavy = seen(waiting(gpu_util=[0.5]), sharing("0", gpu_util=[0.5]), room=site(1))
    assert shares(heavy, replace(CURVED, least_speed=0.7)) != []
    assert shares(heavy, CURVED) == []
    (words,) = sharing_words(heavy, decided(heavy, CURVED), CURVED, 1)
    assert "job 911: they would keep 0.75 of their speed, less than 0.8" in words


def test_jobs_of_other_users_take_turns_where_the_admin_lets_them():
    looked = seen(waiting(user=["bob"]), sharing("0"), room=site(1))
    assert [share.token for share in shares(looked, replace(RULES, other_users=True))] == ["0:time"]


def test_kinds_that_failed_together_never_share_again():
    kind = kind_of("alice", "train")
    assert shares(seen(waiting(), sharing("0"), room=site(1)), replace(RULES, failed=((kind,),))) == []


def test_nobody_is_moved_where_nobody_shares_or_no_node_is_up():
    assert shares(seen(waiting(), sharing("0")), replace(RULES, capacity=0)) == []
    assert shares(seen(waiting(), room=site(usable=False))) == []


def test_when_the_power_is_off_nobody_sets_out_and_who_is_half_way_arrives_or_goes_back():
    half, whole = on_the_way(per_node=[""]), there(job_id=[2])
    plan = decided(seen(half.joined(whole).joined(waiting(job_id=[3]))), powers=("order",))
    assert plan.actions[:2] == (Unshare(1, "gpu", 1, "", NOW_S + 30.0), StartShared(2, "2"))
    assert not any(isinstance(action, Share) for action in plan.actions)
    assert plan.refusals == ()


def on_the_way(**columns: Any) -> Any:
    known = {
        "shares": [True],
        "own_whole_gpus": ["gpu gpu:1"],
        "comment": ["slurmsched:share=2"],
        "required_nodes": ["n3"],
        "reason": ["BadConstraints"],
    }
    return waiting(**(known | columns))


def there(**columns: Any) -> Any:
    """A job that has its slots and waits for the begin time that it was given with them."""
    known = {"per_node": ["gres:slot:i2:1"], "partition": ["shared"], "eligible_s": [NOW_S + 20.0]}
    return on_the_way(**(known | columns))


def test_a_change_that_broke_off_is_made_again_and_one_that_is_whole_may_start():
    half = decided(seen(on_the_way(per_node=[""])))
    assert half.jobs.standing.tolist() == [Standing.SHARES]
    assert half.actions == (Share(1, "gpu", "shared", "n3", "2", "", NOW_S + 30.0),)
    assert decided(seen(there())).actions == (StartShared(1, "2"),)
    assert decided(seen(there(eligible_s=[NOW_S - 1.0], reason=["Resources"]))).actions == ()


def test_a_begin_time_that_is_not_ours_is_left_to_its_owner_and_a_requeue_to_slurm():
    assert decided(seen(there(eligible_s=[NOW_S + HOUR_S]))).actions == ()
    assert decided(seen(there(restarts=[1], submitted_s=[NOW_S - 1.0]))).actions == ()


@pytest.mark.parametrize(
    "more",
    [
        {"per_node": ["gres:gpu:4,gres:slot:i2:1"]},
        {"per_node": ["gres:slot:i2:1,gres:slot:i3:1,gres:gpu:1"]},
        {"per_task": [True]},
    ],
    ids=str,
)
def test_a_job_whose_owner_asks_for_more_beside_its_slots_is_not_let_start_and_why_says_so(more):
    looked = seen(there(**more))
    plan = decided(looked)
    assert plan.actions == (Unshare(1, "gpu", 1, "", NOW_S + 30.0),)
    (words,) = sharing_words(looked, plan, RULES, 1)
    assert words.startswith("It has GPUs of its own back: what it asks for is not what it was to share, ")


@pytest.mark.parametrize("reason", ["BadConstraints", "QOSMinGRES", "PartitionConfig", "MaxMemPerLimit", "QOSGrpGRES"])
def test_a_job_that_slurm_does_not_start_with_its_slots_has_its_own_gpus_back_in_the_next_cycle(reason):
    blocked = there(eligible_s=[NOW_S - 1.0], reason=[reason], priority=[0 if reason == "BadConstraints" else 5])
    assert decided(seen(blocked)).actions == (Unshare(1, "gpu", 1, "", NOW_S + 30.0),)
    read = blocked.changed(shares=np.zeros(1, dtype=np.bool_))  # as release-all reads it, without our intents
    given = settle_shared(read, {1: "gpu gpu:1"}, RULES, NOW_S)
    assert given == [Unshare(1, "gpu", 1, "", NOW_S)], "release-all gives them back too"


def test_a_job_of_which_a_limit_requires_gpus_is_not_sent_to_slots():
    least = limit_table([{"whose": "qos", "name": "normal", "counts": "least", "resource": "gpu", "most": 1.0}])
    free = seen(waiting(qos=["normal"]), sharing("2"))
    wishes, looked = shares(free), replace(free, limits=least)
    assert wishes
    assert shares(looked) == []
    assert "a limit requires GPUs of it" in sharing_words(looked, decided(looked), RULES, 1)[0]
    refusals = judge(wishes, looked, Rules(powers=frozenset({"share"}), sharing=RULES))[1]
    assert [refusal.rule for refusal in refusals] == ["limits_are_kept"]


def test_a_job_whose_node_takes_no_jobs_any_more_has_its_own_gpus_back():
    there = on_the_way(per_node=["gres:slot:i2:1"], partition=["shared"])
    assert decided(seen(there, room=site(usable=False))).actions == (Unshare(1, "gpu", 1, "", NOW_S + 30.0),)


SLOT = {"per_node": ["gres:slot:i2:1"], "own_whole_gpus": ["fast,gpu gpu:a100:1"]}


@pytest.mark.parametrize(
    ("found", "home", "comment"),
    [
        ({"comment": ["mine"]}, "gpu", None),
        ({"comment": ["mine"], "per_node": [""], "gpus": [0]}, "gpu", None),
        ({"comment": ['a "b";slurmsched:share=2'], "per_node": [""]}, "gpu", None),
        ({"comment": ["slurmsched:share=2,share=2"], "per_node": [""]}, "gpu", None),
        ({"comment": ["mine"], "partition": ["shared"]}, "fast,gpu", None),
        ({"eligible_s": [NOW_S - 301.0], "partition": ["shared"]}, "fast,gpu", ""),
        ({"eligible_s": [NOW_S - 301.0], "per_node": [""]}, "gpu", ""),
    ],
    ids=["token-gone", "half-way", "quoted", "twice", "arrived", "in-vain", "refused-for-long"],
)
def test_a_job_that_cannot_arrive_has_back_what_it_asked_for(found, home, comment):
    back = Unshare(1, home, 1, comment, NOW_S + 30.0, "a100")
    assert decided(seen(on_the_way(**(SLOT | found)))).actions == (back,)
    assert decided(seen(on_the_way(**(SLOT | found))), powers=()).actions == (back,)


def test_a_job_that_had_its_own_gpus_back_does_not_set_out_again():
    assert shares(seen(waiting(given_back=[True]), sharing("2"))) == []


def test_nobody_is_sent_into_a_partition_that_is_down():
    looked = seen(waiting().joined(on_the_way(job_id=[2], per_node=["gres:slot:i2:1"])))
    down = replace(looked.partitions, up=np.array([name != "shared" for name in looked.partitions.name]))
    wishes = decided(replace(looked, partitions=down)).actions
    assert wishes == (Unshare(2, "gpu", 1, "", NOW_S + 30.0),)


def test_where_somebody_has_a_whole_gpu_of_a_sharing_node_nobody_comes():
    stranger = running_jobs(1, job_id=[912], partition=["shared"], per_node=["gres:gpu:1"], node_list=["n[2-3]"])
    assert shares(seen(waiting(), sharing("2"), stranger)) == []


def test_a_typed_request_is_remembered():
    typed = replace(site(), gpu_type=Labels.of(["a100"] * 3))
    (share,) = shares(seen(waiting(gpu_type=["a100"]), sharing("2"), room=typed))
    assert share.asked_for == "gpu gpu:a100:1"


def test_a_token_that_is_not_ours_moves_nothing_and_is_no_partner():
    typed = on_the_way(shares=[False], reason=["Priority"], per_node=["gres:gpu:1"], required_nodes=[""])
    assert shares(seen(typed, sharing("0"))) == []
    stranger = sharing("2", shares=[False])
    assert [share.token for share in shares(seen(waiting(), stranger))] == ["0"]


def test_jobs_on_their_way_keep_their_slots_and_no_points():
    coming = on_the_way(per_node=["gres:slot:i0:1"], partition=["shared"], comment=["slurmsched:share=0"])
    looked = seen(replace(coming, site_points=np.array([7])).joined(waiting(job_id=[2])))
    plan = decided(looked)
    assert Rank(1, 0) in plan.actions
    assert [share.token for share in plan.actions if isinstance(share, Share)] == ["1"]


def test_no_points_are_written_to_a_job_in_the_cycle_in_which_it_sets_out():
    looked = seen(waiting(3, measured=[True, False, False], priority=[1000, 1000, 2000]), sharing("2"))
    looked = replace(looked, forecast=forecast([300.0, 400.0, 600.0]))
    plan = decide(looked, find_ordering("sjf"), Rules(powers=frozenset({"order", "share"}), sharing=RULES))
    alone = decide(looked, find_ordering("sjf"), Rules(powers=frozenset({"order"}), sharing=RULES))
    assert {action.job_id for action in alone.actions if isinstance(action, Rank)} == {1, 2}
    assert [(type(action), action.job_id) for action in plan.actions] == [(Share, 1), (Rank, 2)]


def test_on_an_ordered_stop_nobody_is_left_half_way():
    whole = there()
    half = on_the_way(job_id=[2], per_node=[""])
    typed = on_the_way(job_id=[3], per_node=[""])
    looked = seen(whole.joined(half).joined(typed))
    asked_for = {1: "gpu gpu:1", 2: "gpu gpu:a100:1"}
    back = Unshare(2, "gpu", 1, "", NOW_S, "a100")
    assert settle_shared(looked.pending, asked_for, RULES, NOW_S) == [StartShared(1, "2"), back]


def test_waits_follow_the_order_and_the_ends_of_what_runs():
    looked = seen(waiting(4, gpus=[4, 2, 2, 8]), left_s=100.0, runtime_s=50.0)
    assert own_waits_s(looked, np.arange(4), "shared").tolist() == [100.0, 100.0, 100.0, 150.0]
    assert own_waits_s(seen(waiting(gpus=[64])), np.arange(1), "shared").tolist() == [np.inf]


def test_the_gpus_of_two_jobs_that_share_come_free_with_the_later_end():
    looked = seen(waiting(2, gpus=[4, 4]), runtime_s=50.0)
    ends_s = forecast([700.0, 900.0])
    first, where = int(looked.running.job_id[0]), Labels.of([looked.running.node_list[0]] * 2)
    both = replace(looked.running, beside=np.array([0, first]), guest_gpus=np.array([4, 0]), node_list=where)
    assert own_waits_s(replace(looked, forecast_running=ends_s), np.arange(2), "shared").tolist() == [100.0, 150.0]
    room = replace(
        looked.nodes, usable=looked.nodes.name.map([name == where[0] for name in looked.nodes.name.names], bool)
    )
    paired = replace(looked, running=both, forecast_running=ends_s, nodes=room)
    assert own_waits_s(paired, np.arange(2), "shared").tolist() == [300.0, 350.0]


def test_without_partitions_a_job_waits_for_any_gpus():
    room = replace(site(), gpus_used=np.array([4, 4, 0]))
    looked = seen(waiting(2, gpus=[4, 2]), left_s=100.0, room=room)
    assert own_waits_s(looked, np.arange(2), "shared").tolist() == [100.0, 100.0]
    anywhere = replace(looked, partitions=looked.partitions.take(np.zeros(0, dtype=np.int64)))
    assert own_waits_s(anywhere, np.arange(2), "").tolist() == [0.0, 100.0]


def test_why_tells_with_whom_and_why_not():
    looked = seen(waiting(), sharing("2"))
    assert "It goes to 1 GPU (2) of n3, to share them with job 911." in sharing_words(looked, decided(looked), RULES, 1)
    looked = seen(waiting(), sharing("2"), left_s=20.0)
    assert "gains no time" in sharing_words(looked, decided(looked), RULES, 1)[0]
    looked = seen(waiting(user=["bob"]), sharing("0"), room=site(1))
    assert "job 911: they belong to different users" in sharing_words(looked, decided(looked), RULES, 1)[0]
    running = seen(waiting(), sharing("2"), sharing("2", job_id=[912]))
    assert sharing_words(running, decided(running), RULES, 912) == (
        "It has 1 GPU (2) of n3 as a job that shares, with job 911.",
        "Beside job 911 each is expected to keep 0.85 of its speed (speed curve, 40% of a GPU in use by both).",
    )


def test_of_a_job_that_runs_with_more_than_its_slots_why_says_so_and_nobody_joins_it():
    more = sharing("2", per_node=["gres:gpu:4,gres:slot:i2:1"])
    looked = seen(waiting(), more)
    assert shares(looked) == []
    (words,) = sharing_words(looked, decided(looked), RULES, 911)
    assert words.startswith("It requests gres:gpu:4,gres:slot:i2:1, more than its slots: ")


def test_after_a_refusal_why_tells_it_and_the_gpus_are_for_others():
    looked = seen(waiting(2, share_refusal=["Access denied", ""]), sharing("2"))
    plan = decided(looked)
    assert [(action.job_id, action.token) for action in plan.actions if isinstance(action, Share)] == [(2, "2")]
    assert sharing_words(looked, plan, RULES, 1) == (
        "It shares no GPUs for now. Slurm refused a change of its GPUs: Access denied.",
    )


def test_rules_of_sharing_come_back_from_the_record():
    unstable = Instability(7, 0, "n1", 10, 20, (0, 1), (8,), (2,), "it jumps")
    rules = Rules(
        sharing=replace(
            RULES,
            failed=(("a/x", "b/y"), ("c/z",)),
            unstable=(unstable,),
            capacity=1,
            links=((12, 50), (50, 12)),
            kept=(("a/x", 0.75),),
        )
    )
    policy = Policy(find_ordering("fifo"), rules)
    assert Policy.from_json(policy.to_json()).rules == rules


TOKENS = ("0", "1", "2", "3", "0", "3", "0+1", "2+3", "0+1+2+3")


def asked(draw: st.DrawFn) -> dict[str, Any]:
    """Whether a running job shares, and whether its owner asked for it."""
    return {"shares": [draw(st.sampled_from([True, True, False]))], "pack": [draw(st.booleans())]}


@st.composite
def looks(draw: st.DrawFn) -> tuple[Any, SharingRules]:
    """Any queue before any sharing node: heavy, light, unknown and declining jobs of two users."""

    def columns(count: int) -> dict[str, Any]:
        def each(values: st.SearchStrategy[Any]) -> list[Any]:
            return draw(st.lists(values, min_size=count, max_size=count))

        rarely = st.integers(0, 9).map(lambda number: number == 9)
        return {
            "user": each(st.sampled_from(["alice", "alice", "bob"])),
            "name": each(st.sampled_from(["train_1", "train_2", "eval"])),
            "measured": each(rarely.map(lambda no: not no)),
            "unstable": each(rarely),
            "gpu_memory_mib": each(st.sampled_from([1000.0, 1000.0, 8000.0, 8001.0, 15_000.0, float("nan")])),
            "share_score": each(st.sampled_from([0, 0, 1, 2])),
            "interactive": each(rarely),
            "exclusive": each(rarely),
            "account": each(st.sampled_from(["ml", "ml", "ml", "bio"])),
        }

    count, runners = draw(st.integers(3, 8)), draw(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=6))
    comments = st.sampled_from([*[""] * 8, "slurmsched:nopack", "slurmsched:off", "slurmsched:share=1", "a b"])
    comments |= st.sampled_from(["slurmsched:pack", "slurmsched:pack", "slurmsched:pack,nopack"])
    pending = jobs(
        count,
        **columns(count),
        gpus=draw(st.lists(st.sampled_from([1, 1, 1, 2, 4]), min_size=count, max_size=count)),
        comment=(said := draw(st.lists(comments, min_size=count, max_size=count))),
        off=[read(text)[0].off for text in said],
    )
    taken: Counter[int] = Counter()
    table = None
    for number, token in enumerate(runners):
        gpus = Token.of(token).gpus
        if any(taken[gpu] == 2 for gpu in gpus):
            continue
        taken.update(gpus)
        host = sharing(token, job_id=[911 + number], **columns(1), **asked(draw))
        table = host if table is None else table.joined(host)
    rules = replace(
        RULES,
        capacity=draw(st.sampled_from([2, 2, 2, 1, 0])),
        other_users=draw(st.booleans()),
        wide=draw(st.booleans()),
        accounts=draw(st.sampled_from([(), (), ("ml",)])),
        optin=draw(st.sampled_from([False, False, True])),
        failed=draw(st.sampled_from([(), (("alice/train_#",),), (("alice/eval", "alice/train_#"),)])),
    )
    return seen(pending, *([] if table is None else [table])), rules


def packable(table: Any, row: int, rules: SharingRules) -> bool:
    said = read(table.comment[row])[0]
    if (rules.optin and not table.pack[row]) or (rules.accounts and table.account[row] not in rules.accounts):
        return False
    known = table.measured[row] and not table.unstable[row] and not np.isnan(table.gpu_memory_mib[row])
    return bool(known and not said.nopack and not said.off and not table.interactive[row] and table.nodes[row] == 1)


@given(looks())
@examples(100)
def test_a_pair_that_may_not_share_is_never_made_whatever_the_view(case):
    looked, rules = case
    pending, running = looked.pending, looked.running
    taken = Counter(gpu for row in range(len(running)) for gpu in slots_in(running.per_node[row]))
    for share in shares(looked, rules):
        row, gpus = pending.row_of(share.job_id), Token.of(share.token).gpus
        taken.update(gpus)
        assert share.node == "n3"
        assert len(gpus) == pending.gpus[row]
        assert packable(pending, row, rules)
        assert not pending.exclusive[row]
        assert pending.comment[row] == share.comment
        assert rules.capacity > 0
        for host in range(len(running)):
            theirs = slots_in(running.per_node[host])
            if not set(theirs) & set(gpus):
                continue
            assert set(gpus) <= set(theirs)
            assert rules.wide or len(gpus) == len(theirs)
            assert packable(running, host, rules)
            assert running.shares[host]
            assert pending.share_score[row] + running.share_score[host] <= rules.capacity
            assert pending.gpu_memory_mib[row] + running.gpu_memory_mib[host] <= rules.memory_mib
            assert rules.other_users or pending.user[row] == running.user[host]
            kinds = {kind_of(table.user[at], table.name[at]) for table, at in ((pending, row), (running, host))}
            assert not any(set(failed) <= kinds for failed in rules.failed)
    assert all(times <= 2 for times in taken.values())
    assert max(taken, default=0) < 4


@pytest.fixture
def the_last_joins_the_first() -> Iterator[str]:
    """A rule of pairs of somebody else."""

    @sharing_rule("last-joins-first")
    def last_joins_first(waiting, wait_s, running, free, packing):
        """The last waiting job joins the first host."""
        return (Pair(int(waiting.job_id[-1]), int(running.job_id[free][0]), 1.0),)

    yield "last-joins-first"
    del SHARINGS._parts["last-joins-first"]


def test_without_a_rule_of_pairs_no_job_goes_to_shared_gpus():
    busy = seen(waiting(2), sharing("2"))
    assert len(shares(busy)) == 2
    rules = replace(RULES, rule="none")
    assert shares(busy, rules) == []
    (sentence,) = sharing_words(busy, decided(busy, rules), rules, 1)
    assert sentence == "No jobs share GPUs: policy.sharing is none."


def test_the_pairs_of_a_plug_in_are_made(the_last_joins_the_first):
    busy = seen(waiting(2), sharing("2"))
    assert (1, "2") in {(share.job_id, share.token) for share in shares(busy)}
    assert (2, "2") in {(share.job_id, share.token) for share in shares(busy, replace(RULES, rule="last-joins-first"))}


def test_the_pairs_of_a_plug_in_keep_the_limits(the_last_joins_the_first):
    rules = replace(RULES, rule="last-joins-first")
    for limit in ({"share_score": [2, 2]}, {"gpu_memory_mib": [15_999.0] * 2}, {"user": ["else"] * 2}):
        busy = seen(waiting(2, **limit), sharing("2", share_score=[2]))
        assert all(share.token != "2" for share in shares(busy, rules)), limit
