"""Who is asked to leave an overloaded node, who is not, and the one list of excluded nodes of each job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view, views
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import AskToStop, Release, Steer, Unsteer
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.exclusions import ANY_TYPE, UNREAD
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.progress import NO_PROGRESS, ProgressTable
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.text.hostlist import expand
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import MigrationRules, Rules, SteeringRules
from slurmsched.explain.explain import explain
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s

HOUR_S = 3600.0
SJF = find_ordering("sjf")
TERMS = MigrationRules(stop_s=120.0, restart_s=60.0)
RULES = Rules(powers=frozenset({"migrate", "requeue"}), migration=TERMS)
STEERS = replace(RULES, powers=RULES.powers | {"steer"}, steering=SteeringRules())


def room(load=(12.0, 1.0), free_mib=(15_000.0, 15_000.0), **columns):
    """n1, whose eight CPUs have more to do than they can, and n2, which is calm; each with four GPUs."""
    known = {"cpu_load": np.array(load), "free_memory_mib": np.array(free_mib)} | columns
    return replace(nodes((4,) * len(load)), **known)


def worker(count=1, **columns):
    """Jobs with ckpt that have run on n1 for ten minutes, each on one GPU and two CPUs."""
    each = {"ckpt": [True] * count, "gpus": [1] * count, "cpus": [2] * count, "memory_mib": [1000.0] * count}
    return running_jobs(count, **(each | columns))


def seen(running=None, where=None, pending=None, seconds=20 * HOUR_S, **rest):
    """A view in which each running job is expected to run for so many *seconds* in all."""
    running = worker() if running is None else running
    made = view(jobs(0) if pending is None else pending, running=running, room=where or room(), **rest)
    known = replace(made.forecast_running, runtime_s=np.full(len(running), seconds))
    return replace(made, forecast_running=known, progress=reports(running, 1.5))


def reports(running, slowdown):
    """What running jobs report of themselves: how much longer an iteration takes than at its best."""
    many = len(running)
    flags, unknown = np.zeros((2, many), dtype=bool), np.full(many, np.nan)
    iteration = np.full(many, 5)
    return ProgressTable(
        running.job_id, iteration, unknown, unknown, unknown, *flags, np.full(many, slowdown, dtype=np.float64)
    )


def asked(what, rules=RULES, ordering=SJF):
    plan = decide(what, ordering, rules)
    assert not plan.refusals
    return [action for action in plan.actions if isinstance(action, AskToStop)]


LEAVES = [AskToStop(901, "URG", "n1")]


def test_a_job_of_an_overloaded_node_is_asked_to_leave_it_for_a_calm_one():
    assert asked(seen()) == LEAVES
    assert asked(seen(where=room((6.0, 1.0)))) == [], "six of eight CPUs are not too much"
    assert asked(seen(where=room((np.nan, np.nan), (np.nan, np.nan)))) == [], "where no load is known"


def test_only_where_the_gain_is_more_than_restart_and_lost_work_cost():
    """A third of the rest of its time is gained where iterations take 1.5 times as long; a stop costs three minutes."""
    rest_s = 3 * (TERMS.stop_s + TERMS.restart_s)
    assert asked(seen(seconds=600.0 + rest_s + 1.0)) == LEAVES
    assert asked(seen(seconds=600.0 + rest_s - 1.0)) == []
    assert asked(seen(seconds=500.0)) == LEAVES, "one that outlasted its forecast needs as long again"
    assert asked(seen(seconds=np.nan)) == []
    assert asked(seen(worker(time_limit_s=[600.0 + rest_s - 1.0]))) == [], "it ends by its limit in any case"
    assert asked(seen(worker(coldstart_s=[8 * HOUR_S]))) == [], "its own start takes longer than it gains"


def reporting(slowdown, **rest):
    what = seen(**rest)
    return replace(what, progress=reports(what.running.take(slice(0, 1)), slowdown))


@pytest.mark.parametrize(
    ("running", "where"),
    [
        (worker(), room((1.0, 1.0), (500.0, 15_000.0))),
        (worker(2, gpus=[2, 2], gpu_util=[0.95, 0.95]), room((1.0, 1.0))),
    ],
    ids=["memory", "GPUs"],
)
def test_where_memory_or_gpus_are_overloaded_a_job_leaves_only_if_its_reports_show_that_it_is_slowed_down(
    running, where
):
    for slowdown, expected in ((1.5, LEAVES), (1.2, []), (np.nan, [])):
        assert asked(reporting(slowdown, running=running, where=where)) == expected
    assert asked(reporting(1.5, where=room((1.0, 1.0)))) == [], "a slow job on a calm node stays"
    assert asked(reporting(1.3)) == LEAVES


@pytest.mark.parametrize("slowdown", [1.0, 1.2, np.nan])
def test_a_load_that_slows_nobody_down_drives_no_job_off_its_node(slowdown):
    """Twenty-six processes of another user that only sleep count as a load of 12, and cost the job nothing."""
    assert asked(reporting(slowdown)) == []
    assert asked(replace(seen(), progress=NO_PROGRESS)) == [], "a job that reports nothing"


@pytest.mark.parametrize(
    "columns",
    [
        {"ckpt": [False]},
        {"requeueable": [False]},
        {"interactive": [True]},
        {"off": [True]},
        {"array_job_id": [901]},
        {"het_job_id": [901]},
        {"shares": [True]},
        {"beside": [7]},
        {"guest_gpus": [1]},
        {"gpus": [0]},
        {"state": [JobState.SUSPENDED]},
        {"stop_requests": [4], "stop_requested_s": [NOW_S - 2 * HOUR_S]},
        {"stop_requests": [1], "stop_requested_s": [NOW_S - HOUR_S + 1.0]},
        {"left_s": [NOW_S - HOUR_S + 1.0], "left_nodes": ["n3"]},
        {"required_nodes": ["n1"]},
        {"excluded_nodes": ["n2"]},
        {"excluded_nodes": [UNREAD]},
        {"features": ["ib"]},
        {"reservation": ["class"]},
    ],
    ids=str,
)
def test_a_job_stays_that_may_not_be_stopped_or_was_asked_within_the_hour_or_chose_its_nodes(columns):
    assert asked(seen(worker(**columns))) == []


def test_a_job_that_we_steered_or_that_left_a_node_an_hour_ago_may_leave_once_more():
    ours = {"excluded_nodes": ["n3"], "steered": [ANY_TYPE], "left_nodes": ["n3"], "left_s": [NOW_S - HOUR_S]}
    assert asked(seen(worker(**ours))) == LEAVES


def test_a_promised_job_stays():
    promises = promise_table(1, job_id=[901], state=[PromiseState.OPEN], promised_s=[NOW_S + 9e4])
    assert asked(replace(seen(), promises=promises)) == []


@pytest.mark.parametrize(
    "where",
    [
        room((12.0, 6.0)),
        room((12.0, 1.0), (15_000.0, 2_000.0)),
        room((12.0, np.nan)),
        room(gpus_used=np.array([1, 4])),
        room(cpus_used=np.array([2, 7])),
        room(memory_used_mib=np.array([0.0, 15_500.0])),
        room(usable=np.array([True, False])),
        room(partitions=Labels.of(["gpu", "fast"])),
    ],
    ids=["too busy with it", "too little memory", "not known", "no GPU", "no CPUs", "memory", "down", "partition"],
)
def test_a_job_stays_without_a_calm_node_that_has_room(where):
    assert asked(seen(where=where)) == []


def test_a_job_stays_where_others_wait_for_gpus_in_its_partition():
    assert asked(seen(pending=jobs(1))) == []
    assert asked(seen(pending=jobs(1, gpus=[0]))) == LEAVES
    assert asked(seen(pending=jobs(1, reason=["Dependency"]))) == LEAVES


def test_one_job_leaves_a_node_and_the_next_only_after_the_load_is_known_again():
    two = worker(2)
    assert len(asked(seen(two))) == 1
    left = {"left_s": [NOW_S - 300.0, 0.0], "left_nodes": ["n1", ""], "stop_requested_s": [NOW_S - 300.0, np.nan]}
    assert asked(seen(worker(2, **left))) == []
    later = {"left_s": [NOW_S - 700.0, 0.0], "left_nodes": ["n1", ""], "stop_requested_s": [NOW_S - 700.0, np.nan]}
    assert asked(seen(worker(2, **later))) == [AskToStop(902, "URG", "n1")]


def test_the_job_leaves_that_uses_most_of_what_is_overloaded_and_least_of_the_rest():
    cpus = worker(3, cpus=[1, 4, 4], memory_mib=[1000.0, 4000.0, 500.0])
    assert [wish.job_id for wish in asked(seen(cpus))] == [903]


def test_of_jobs_that_use_as_much_the_one_leaves_that_gains_most_whatever_their_order():
    since_s = {901: NOW_S - 600.0, 902: NOW_S - 60.0, 903: NOW_S - 900.0}
    for ids in ([901, 902, 903], [903, 902, 901]):
        equal = worker(3, job_id=ids, started_s=[since_s[job] for job in ids])
        assert [wish.job_id for wish in asked(seen(equal))] == [902]


def test_where_gpus_are_overloaded_too_the_last_in_the_order_leaves():
    """By the shortest forecast first, which is the second one's."""
    busy = worker(4, gpu_util=[0.95] * 4, cpus=[4, 1, 1, 1])
    what = seen(busy)
    known = np.array([20.0, 10.0, 40.0, 30.0]) * HOUR_S
    what = replace(what, forecast_running=replace(what.forecast_running, runtime_s=known))
    assert [wish.job_id for wish in asked(what)] == [903]
    assert [wish.job_id for wish in asked(what, ordering=find_ordering("fifo"))] == [901], "Slurm's order has none"


def test_two_jobs_do_not_count_on_the_same_room():
    four = worker(2, node_list=["n1", "n2"], gpus=[4, 4], cpus=[2, 2])
    where = room((12.0, 12.0, 1.0), (15_000.0,) * 3, gpus_used=np.array([4, 4, 0]))
    assert asked(seen(four, where)) == LEAVES


def test_a_job_on_several_nodes_leaves_those_that_are_overloaded():
    wide = worker(gpus=[4], cpus=[4], node_list=["n[1-2]"])
    where = room((12.0, 1.0, 1.0), (15_000.0,) * 3, gpus_used=np.array([2, 2, 0]))
    assert asked(seen(wide, where)) == LEAVES


@pytest.mark.parametrize("powers", [{"migrate"}, {"requeue"}, set()], ids=str)
def test_without_both_powers_nobody_is_asked(powers):
    assert asked(seen(), replace(RULES, powers=frozenset(powers))) == []


# The list of excluded nodes.


def back(left="n1", ago_s=60.0, **columns):
    """A job that left a node and was queued again, with Slurm's delay after a requeue."""
    known = {
        "left_nodes": [left],
        "left_s": [NOW_S - ago_s],
        "submitted_s": [NOW_S - 30.0],
        "eligible_s": [NOW_S + 90.0],
        "held_by_us": [True],
        "ckpt": [True],
        "reason": ["BeginTime"],
    }
    return jobs(1, **(known | columns))


def lists(pending, rules=RULES, where=None):
    """The changes of excluded nodes, and the ends of begin times."""
    plan = decide(seen(worker(0), where, pending), SJF, rules)
    assert not plan.refusals
    return [action for action in plan.actions if isinstance(action, Steer | Unsteer | Release)]


OFF_N1 = Steer(1, ANY_TYPE, "n1")
KEPT = {"excluded_nodes": ["n1"], "steered": [ANY_TYPE], "steered_s": [NOW_S - 20.0]}


def test_a_job_that_left_a_node_is_kept_off_it_before_it_may_start():
    assert lists(back()) == [OFF_N1]
    assert lists(back(**KEPT)) == [Release(1)]


def test_a_job_that_left_a_node_is_kept_off_other_overloaded_ones_too():
    where = room((12.0, 12.0, 1.0), (15_000.0,) * 3)
    assert lists(back(), where=where) == [Steer(1, ANY_TYPE, "n[1-2]")]
    assert lists(back(**KEPT), where=where) == [Steer(1, ANY_TYPE, "n[1-2]", "n1")]
    assert lists(back(), where=room((12.0, 12.0), (15_000.0,) * 2)) == [OFF_N1], "where no calm one is left"


def test_a_steered_job_may_go_to_all_nodes_of_its_type_again_after_a_while():
    where = room((12.0, 12.0, 1.0, 1.0), (15_000.0,) * 4, gpu_type=Labels.of(("a100", "a100", "a100", "v100")))
    ready = {"eligible_s": [NOW_S - 1.0], "held_by_us": [False], "reason": ["Resources"]}
    whole = {"steered": ["a100"], "excluded_nodes": ["n[1-2,4]"], "steered_s": [NOW_S - 900.0]}
    assert lists(back(**SPEEDS, **ready, **whole), STEERS, where) == []
    assert lists(back(**SPEEDS, **ready, **whole, ago_s=HOUR_S + 1.0), STEERS, where) == [
        Steer(1, "a100", "n4", "n[1-2,4]")
    ]


def test_after_an_hour_or_a_wait_that_is_too_long_it_may_go_back():
    for late in ({"ago_s": HOUR_S + 1.0}, {"submitted_s": [NOW_S - 601.0]}):
        assert lists(back(**KEPT, **late)) == [Release(1), Unsteer(1, "n1")]
        assert lists(back(**late)) == [Release(1)]


@pytest.mark.parametrize(
    "columns",
    [
        {"excluded_nodes": ["n2"]},
        {"required_nodes": ["n1"]},
        {"features": ["ib"]},
        {"off": [True]},
        {"left": "n[1-2]"},
        {"gpus": [8], "nodes": [2]},
        {"left": ""},
    ],
    ids=str,
)
def test_a_job_is_not_kept_off_where_its_owner_chose_nodes_or_no_other_could_hold_it(columns):
    assert not [wish for wish in lists(back(**columns)) if isinstance(wish, Steer)]


def typed(*kinds):
    return room((12.0,) + (1.0,) * (len(kinds) - 1), (15_000.0,) * len(kinds), gpu_type=Labels.of(kinds))


SPEEDS = {"type_speeds": ["a100=1 v100=0.25"]}


def test_a_job_that_is_steered_and_left_a_node_has_one_list_of_both():
    where = typed("a100", "a100", "v100")
    both = Steer(1, "a100", "n[1,3]")
    ready = {"eligible_s": [NOW_S - 1.0], "held_by_us": [False], "reason": ["Resources"]}
    assert lists(back(**SPEEDS, **ready), STEERS, where) == [both]
    steered = {"steered": ["a100"], "excluded_nodes": ["n3"], "steered_s": [NOW_S - 900.0]}
    assert lists(back(**SPEEDS, **ready, **steered), STEERS, where) == [replace(both, before="n3")]
    whole = steered | {"excluded_nodes": ["n[1,3]"]}
    assert lists(back(**SPEEDS, **ready, **whole), STEERS, where) == []
    assert lists(back(**SPEEDS, **ready, **whole, ago_s=HOUR_S + 1.0), STEERS, where) == [
        Steer(1, "a100", "n3", "n[1,3]")
    ]


def test_where_both_together_leave_no_node_the_node_that_it_left_stays_excluded_alone():
    where = typed("a100", "v100", "v100")
    ready = {"eligible_s": [NOW_S - 1.0], "held_by_us": [False], "reason": ["Resources"]}
    assert lists(back(**SPEEDS, **ready), STEERS, where) == [OFF_N1]
    assert lists(back(**SPEEDS, **ready, **KEPT), STEERS, where) == []


def test_a_typed_job_is_kept_off_a_node_only_where_another_of_its_type_can_hold_it():
    assert lists(back(gpu_type=["a100"]), where=typed("a100", "a100")) == [OFF_N1]
    assert lists(back(gpu_type=["a100"]), where=typed("a100", "v100")) == [Release(1)]


def test_without_the_power_what_was_excluded_is_lifted():
    ready = {"eligible_s": [NOW_S - 1.0], "held_by_us": [False], "reason": ["Resources"]}
    assert lists(back(**KEPT, **ready), Rules()) == [Unsteer(1, "n1")]
    assert lists(back(**KEPT, **ready), replace(STEERS, powers=frozenset({"steer"}), migration=None)) == [
        Unsteer(1, "n1")
    ]


# Words, records, properties.


def words(what, job, rules=RULES, ask=why):
    return " ".join(ask(what, decide(what, SJF, rules), rules, job).sentences)


@pytest.mark.parametrize("ask", [why, explain])
def test_a_job_is_told_that_its_node_is_overloaded_and_why_it_leaves_or_stays(ask):
    leaves = "Its node n1 is overloaded: 150% of its CPUs are in use. We ask it to save its work and go on elsewhere: "
    assert leaves + "it would gain 6 h 37 min, and to stop costs 3 min." in words(seen(), 901, ask=ask)
    reasons = {
        "its owner did not say slurmsched:ckpt": seen(worker(ckpt=[False])),
        "no calm nodes have room for it": seen(where=room((12.0, 6.0))),
        "jobs wait for the GPUs that are free": seen(pending=jobs(1)),
        "its owner chose its nodes": seen(worker(excluded_nodes=["n2"])),
        "it would gain 67 s, and to stop costs 3 min": seen(seconds=800.0),
        "it was asked lately to leave n3, and is not asked again for 59 min": seen(
            worker(left_nodes=["n3"], left_s=[NOW_S - 60.0])
        ),
    }
    for reason, what in reasons.items():
        assert f"It stays there: {reason}" in words(what, 901, ask=ask)
    assert "overloaded" not in words(seen(), 901, Rules(), ask)
    assert "overloaded" not in words(seen(where=room((1.0, 1.0))), 901, ask=ask)


def test_a_job_that_was_asked_to_leave_and_one_that_is_kept_off_are_told_so():
    leaving = worker(stop_requested_s=[NOW_S - 30.0], left_s=[NOW_S - 30.0], left_nodes=["n1"])
    assert "It was asked 30 s ago to save its work and leave n1, overloaded then" in words(
        seen(leaving), 901, ask=explain
    )
    assert "It left n1, overloaded then. We exclude n1 for another 10 min." in words(seen(worker(0), pending=back()), 1)
    kept = words(seen(worker(0), pending=back(**KEPT)), 1)
    assert "It left n1, overloaded then. We keep it off n1 for another 10 min." in kept
    assert "types" not in kept
    over = words(seen(worker(0), pending=back(**KEPT, ago_s=HOUR_S + 1.0)), 1)
    assert "We kept it off n1, and let it go there again." in over


def test_the_rules_are_read_back_from_a_record():
    policy = Policy(SJF, RULES)
    assert Policy.from_json(policy.to_json()) == policy


def test_simulations_come_back_when_a_job_may_go_to_its_node_again():
    def next_s(**columns):
        what = seen(worker(0), room((np.nan, np.nan)), back(**columns))
        return next_change_s(what, decide(what, SJF, RULES), SJF, RULES)

    assert next_s() == NOW_S - 30.0 + TERMS.patience_s
    assert next_s(submitted_s=[NOW_S - 3e5], ago_s=HOUR_S - 9.0) == NOW_S + 9.0


@examples(200)
@given(views(), st.integers(0, 2**32 - 1))
def test_whatever_the_queue_one_list_never_leaves_a_job_without_nodes_and_nobody_is_asked_without_consent(what, seed):
    random = np.random.default_rng(seed)
    count = len(what.pending)
    choice = [str(one) for one in random.choice(["", "n1", "n2", "n[1-2]"], count)]
    pending = what.pending.changed(
        left_nodes=Labels.of([str(one) for one in random.choice(["", "n1", "n2"], count)]),
        left_s=NOW_S - random.integers(0, 5000, count).astype(np.float64),
        excluded_nodes=Labels.of(choice),
        steered=Labels.of([str(random.choice(["", ANY_TYPE, "a100"])) if one else "" for one in choice]),
    )
    loads = {"cpu_load": random.integers(0, 20, len(what.nodes)).astype(np.float64)}
    what = replace(what, pending=pending, nodes=what.nodes.changed(**loads))
    rules = Rules(powers=ALL_POWERS, migration=TERMS, steering=SteeringRules())
    plan = decide(what, SJF, rules)
    names = set(what.nodes.name)
    changes = [action for action in plan.actions if isinstance(action, Steer | Unsteer)]
    assert len({action.job_id for action in changes}) == len(changes), "one list for each job"
    for action in changes:
        row = int(np.flatnonzero(pending.job_id == action.job_id)[0])
        assert pending.steered[row] or not pending.excluded_nodes[row], "the list is somebody else's"
        if isinstance(action, Steer):
            assert names - set(expand(action.excluded)), "no node is left"
    for action in plan.actions:
        if isinstance(action, AskToStop) and action.leaves:
            row = int(np.flatnonzero(what.running.job_id == action.job_id)[0])
            assert what.running.ckpt[row]
    off = decide(what, SJF, Rules(powers=ALL_POWERS))
    assert not [action for action in off.actions if isinstance(action, AskToStop) and action.leaves]


@examples(100)
@given(views())
def test_without_loads_of_nodes_the_power_changes_no_plan(what):
    rules = Rules(powers=ALL_POWERS, steering=SteeringRules())
    plans = [decide(what, SJF, one).actions for one in (rules, replace(rules, migration=TERMS))]
    assert plans[0] == plans[1]
