"""The profiling partition: who may start there, in which order, and who moves on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import MovePartition, Rank, Requeue
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState
from slurmsched.decide.policy import Policy
from slurmsched.decide.profiling import Home, both
from slurmsched.decide.rules import ProfilingRules, Rules
from slurmsched.policies.contract import PROFILINGS, Profiling, find_ordering
from slurmsched.policies.registry import summary_of
from slurmsched.powers import decide
from slurmsched.powers.profile.wording import profiling_words

SJF, FIFO = find_ordering("sjf"), find_ordering("fifo")
PROFILING = ProfilingRules("profile", n_max=4, t_s=200.0, wait_s=600.0)
RULES = Rules(powers=ALL_POWERS, scope="queue", profiling=PROFILING)
BOTH = "profile,gpu"


def wanted(seen, rules=RULES, ordering=SJF):
    return decide(seen, ordering, rules)


def moves(seen, rules=RULES):
    return {action.job_id: action.partition for action in wanted(seen, rules).actions if type(action) is MovePartition}


def requeued(seen, rules=RULES):
    return [action.job_id for action in wanted(seen, rules).actions if type(action) is Requeue]


def order_of(seen, ordering=SJF):
    rank = wanted(seen, ordering=ordering).jobs.rank
    return seen.pending.job_id[np.argsort(rank)].tolist()


def profiling_since(*ran_s, **columns):
    """A full profiling partition on n1 and n2, with one job of one GPU for each of *ran_s*."""
    running = running_jobs(
        len(ran_s),
        partition=["profile"] * len(ran_s),
        started_s=NOW_S - np.array(ran_s),
        gpus=[1] * len(ran_s),
        **columns,
    )
    room = replace(nodes(used=(4, 4)), partitions=Labels.of(["profile"] * 2))
    return running, room


def test_a_new_job_keeps_both_partitions_until_there_is_a_reason():
    assert moves(view(jobs(1, partition=[BOTH]))) == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"measured": [True]},
        {"gpus": [5]},
        {"restarts": [1]},
        {"comment": ["slurmsched:noprofile"]},
        {"reason": ["PartitionTimeLimit"]},
        {"eligible_s": [NOW_S - 601]},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_a_job_goes_home_when_it_need_not_be_measured_first(columns):
    assert moves(view(jobs(1, partition=["fast,profile,gpu"], **columns))) == {1: "fast,gpu"}


@pytest.mark.parametrize("name", ["gpu", "profile", "fast,gpu", "profiler,gpu"])
def test_a_job_without_both_partitions_is_left_where_its_owner_put_it(name):
    assert moves(view(jobs(1, partition=[name], measured=[True]))) == {}


@pytest.mark.parametrize("columns", [{"off": [True]}, {"interactive": [True]}, {"het_job_id": [7]}])
def test_nobody_moves_what_we_keep_our_hands_off(columns):
    assert moves(view(jobs(1, partition=[BOTH], measured=[True], **columns))) == {}


def test_new_jobs_trade_places_so_that_the_fewest_gpus_come_first_and_all_others_keep_theirs():
    partition = [BOTH, "gpu", BOTH, BOTH, "gpu"]
    seen = view(jobs(5, partition=partition, gpus=[4, 1, 2, 1, 8]), [10.0, 20.0, 30.0, 40.0, 50.0])
    assert order_of(seen) == [4, 2, 3, 1, 5]


def test_a_job_that_starves_trades_places_with_nobody():
    early = [NOW_S - 60, NOW_S - 700_000]
    seen = view(jobs(2, partition=[BOTH, BOTH], gpus=[1, 4], eligible_s=early))
    unhurried = replace(RULES, profiling=replace(PROFILING, wait_s=1e9))
    assert wanted(seen, unhurried).jobs.rank.tolist() == [1, 0]


def test_a_higher_tier_of_the_profiling_partition_lifts_nobody_over_the_others():
    seen = view(jobs(2, partition=["gpu", BOTH]), [10.0, 20.0])
    tiers = np.where(np.array([name == "profile" for name in seen.partitions.name]), 9, seen.partitions.tier)
    names = Labels.of(["profile", *list(seen.partitions.name)[1:]])
    above = replace(seen, partitions=replace(seen.partitions, name=names, tier=tiers))
    assert order_of(above) == [1, 2]


def test_slurms_own_order_is_left_alone():
    seen = view(jobs(2, partition=[BOTH, BOTH], gpus=[4, 1]))
    assert not [action for action in wanted(seen, ordering=FIFO).actions if isinstance(action, Rank)]


def test_at_the_limit_as_many_jobs_as_others_wait_for_are_requeued_those_that_ran_longest_first():
    running, room = profiling_since(250.0, 400.0, 300.0, ckpt=[True] * 3)
    for waiting, expected in ((0, []), (1, [902]), (2, [902, 903]), (9, [902, 903, 901])):
        seen = view(jobs(waiting, partition=[BOTH] * waiting), running=running, room=room)
        assert requeued(seen) == expected


@pytest.mark.parametrize(
    "columns",
    [
        {"ckpt": [False]},
        {"restarts": [1]},
        {"requeueable": [False]},
        {"off": [True]},
        {"state": [JobState.COMPLETING]},
        {"comment": ["slurmsched:ckpt,coldstart=100"]},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_at_the_limit_a_job_without_consent_or_that_warms_up_goes_on_in_place(columns):
    running, room = profiling_since(250.0, **({"ckpt": [True]} | columns))
    assert requeued(view(jobs(3, partition=[BOTH] * 3), running=running, room=room)) == []


def test_a_job_elsewhere_or_below_the_limit_is_never_requeued():
    running, room = profiling_since(150.0, ckpt=[True])
    elsewhere = replace(running, partition=Labels.of(["gpu"]), started_s=np.array([NOW_S - 9000.0]))
    for them in (running, elsewhere):
        assert requeued(view(jobs(3, partition=[BOTH] * 3), running=them, room=room)) == []


def test_a_job_whose_node_has_left_the_partition_makes_no_room_there_and_goes_on():
    running, room = profiling_since(400.0, 300.0, ckpt=[True] * 2, node_list=["n1", "n2"])
    waiting = jobs(1, partition=[BOTH])
    assert requeued(view(waiting, running=running, room=room)) == [901]
    lent = replace(room, partitions=Labels.of(["gpu", "profile"]))
    assert requeued(view(waiting, running=running, room=lent)) == [902]


def test_nothing_is_requeued_for_jobs_that_wait_for_something_else_or_while_there_is_room():
    running, room = profiling_since(250.0, ckpt=[True])
    held = jobs(1, partition=[BOTH], reason=["JobHeldUser"])
    assert requeued(view(held, running=running, room=room)) == []
    some = replace(room, gpus_used=np.array([3, 4]))
    assert requeued(view(jobs(1, partition=[BOTH]), running=running, room=some)) == []


def test_each_power_has_its_own_switch():
    running, room = profiling_since(250.0, ckpt=[True])
    seen = view(jobs(2, partition=[BOTH] * 2, measured=[True, False]), running=running, room=room)
    timid = replace(RULES, powers=frozenset({"order"}))
    plan = wanted(seen, timid)
    assert {type(action) for action in plan.actions} <= {Rank}
    assert {type(refusal.action) for refusal in plan.refusals} >= {MovePartition, Requeue}


def test_in_a_burst_less_is_measured_and_for_less_time_within_the_bounds():
    rules = ProfilingRules("profile", n_max=8, n_least=2, t_s=200.0, t_least_s=60.0)
    assert (rules.under(0.0).n_max, rules.under(0.0).t_s) == (8, 200.0)
    assert (rules.under(0.5).n_max, rules.under(0.5).t_s) == (5, 130.0)
    assert (rules.under(1.0).n_max, rules.under(1.0).t_s) == (2, 60.0)
    wrong_way = replace(rules, n_least=20, t_least_s=900.0).under(1.0)
    assert (wrong_way.n_max, wrong_way.t_s) == (8, 200.0), "a lower bound above the upper one changes nothing"


def test_a_recorded_policy_keeps_its_profiling_rules():
    policy = Policy(SJF, RULES)
    assert Policy.from_json(policy.to_json()) == policy


def test_why_tells_what_the_profiling_partition_has_to_do_with_a_job():
    running, room = profiling_since(250.0, 300.0, 100.0, ckpt=[True, False, False])
    seen = view(jobs(3, partition=[BOTH, BOTH, "gpu"], measured=[False, True, False]), running=running, room=room)

    def words(job):
        return " ".join(profiling_words(seen, PROFILING, job))

    assert "may also start in profile if it has room there first" in words(1)
    assert "runs of its kind have been measured" in words(2)
    assert words(3) == ""
    assert "it is requeued when others wait for its 1 GPU" in words(901)
    assert "it goes on in place to its end" in words(902)
    assert words(903).endswith("where new jobs are measured for 3 min.")


@pytest.fixture
def nobody() -> Iterator[str]:
    """A profiling of somebody else."""

    def all_too_large(seen, rules):
        """No job is measured first."""
        return np.where(both(seen.pending, rules), Home.LARGE, Home.STAYS)

    PROFILINGS.add(Profiling("nobody", all_too_large, summary_of(all_too_large), lend=PROFILINGS["new-jobs"].lend))
    yield "nobody"
    del PROFILINGS._parts["nobody"]


def test_a_profiling_of_somebody_else_chooses_the_jobs_and_why_says_so(nobody):
    seen, profiling = view(jobs(1, partition=[BOTH])), replace(PROFILING, part=nobody)
    rules = replace(RULES, profiling=profiling)
    assert moves(seen) == {}
    assert moves(seen, rules) == {1: "gpu"}
    assert "more GPUs than are measured first now" in " ".join(profiling_words(seen, profiling, 1))


partitions = st.lists(st.sampled_from(["profile", "gpu", "fast"]), min_size=1, max_size=3, unique=True).map(",".join)


@given(st.lists(st.tuples(partitions, st.integers(0, 9), st.booleans(), st.integers(0, 1)), max_size=12), st.booleans())
@examples(60)
def test_no_job_is_ever_moved_to_a_partition_that_it_did_not_ask_for(rows, orders):
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    names, gpus, measured, restarts = (list(column) for column in columns)
    seen = view(jobs(len(rows), partition=names, gpus=gpus, measured=measured, restarts=restarts))
    rules = RULES if orders else replace(RULES, powers=ALL_POWERS - {"order"})
    plan = wanted(seen, rules)
    for action in plan.actions:
        if isinstance(action, MovePartition):
            asked = set(seen.pending.partition[action.job_id - 1].split(","))
            assert set(action.partition.split(",")) == asked - {"profile"} != set()
    assert sorted(plan.jobs.rank.tolist()) == list(range(len(rows)))
