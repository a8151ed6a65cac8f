"""Admission on Slurm: who waits outside under our holds, for how long, and who never does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view

from slurmsched.cluster.actions import Hold, Release
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.plan import Plan, Standing
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.state import View
from slurmsched.decide.admission import HEAD, HOLD_MOST_S, STEP
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import AdmissionRules, DeadlineRules, Rules
from slurmsched.explain.eta import admitted_last, delayed_jobs
from slurmsched.explain.explain import queue
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s

SJF = find_ordering("sjf")


def rules(load: float = 1.0, **more: Any) -> Rules:
    return Rules(powers=ALL_POWERS, scope="queue", admission=AdmissionRules(f"load:{load}"), **more)


def outside(seen: View, by: Rules | None = None) -> list[int]:
    placing = decide(seen, SJF, by or rules()).jobs
    return seen.pending.job_id[placing.standing == Standing.OUTSIDE].tolist()


def holds(plan: Plan) -> dict[int, float]:
    return {wish.job_id: wish.until_s - NOW_S for wish in plan.actions if isinstance(wish, Hold)}


def crowd(count: int, **columns: Any) -> View:
    """Jobs of two GPUs, each submitted a second after the one before, on eight GPUs of which six are taken."""
    submitted_s = NOW_S - 600.0 + np.arange(count)
    known = {"gpus": np.full(count, 2), "first_submit_s": submitted_s, "submitted_s": submitted_s}
    running = running_jobs(1, gpus=np.array([6]))
    return view(jobs(count, **(known | {"eligible_s": submitted_s} | columns)), running=running)


def test_jobs_beyond_the_bound_wait_outside_and_are_held_first_come_first_served():
    seen = crowd(5, job_id=np.array([5, 4, 3, 2, 1]))
    plan = decide(seen, SJF, rules(1.5))
    assert outside(seen, rules(1.5)) == [2, 1], "12 GPUs may be asked for: the first three came first"
    assert set(holds(plan)) == {1, 2}
    assert [row.standing for row in queue(seen, plan)] == ["ranked"] * 3 + ["outside"] * 2
    assert sorted(plan.jobs.rank.tolist()) == [-1, -1, 0, 1, 2]
    assert not outside(seen, Rules(powers=ALL_POWERS, scope="queue"))


def test_a_job_comes_in_as_soon_as_the_bound_has_room():
    seen = crowd(3, held_by_us=np.array([False, True, True]), eligible_s=np.array([-600.0, 600.0, 600.0]) + NOW_S)
    ended = replace(seen, running=seen.running.take([]), forecast_running=seen.forecast_running.take([]))
    assert outside(seen) == [2, 3]
    assert [wish for wish in decide(seen, SJF, rules()).actions if isinstance(wish, Release)] == []
    plan = decide(ended, SJF, rules(0.5))
    assert outside(ended, rules(0.5)) == [3]
    assert [wish for wish in plan.actions if isinstance(wish, Release)] == [Release(2)]


def test_holds_are_renewed_when_they_are_about_to_end_and_last_longer_farther_back():
    seen = crowd(HEAD * 100)
    plan = decide(seen, SJF, rules())
    step_s, first_s = STEP * 30.0, holds(plan)[2]
    assert 30.0 <= first_s < 30.0 + step_s
    assert (NOW_S + first_s) % step_s == 0
    more_s = [holds(plan)[job] - first_s for job in (HEAD + 1, HEAD + 2, 2 * HEAD + 2)]
    assert more_s == [0.0, step_s, 2 * step_s]
    assert max(holds(plan).values()) == HOLD_MOST_S
    count = len(seen.pending)
    left_s = np.where(np.arange(count) < 500, 29.0, 31.0)
    held = replace(seen.pending, held_by_us=np.ones(count, dtype=bool), eligible_s=NOW_S + left_s)
    again = decide(replace(seen, pending=held), SJF, rules())
    assert sorted(holds(again)) == list(range(2, 501)), "a hold that lasts costs no write"
    assert next_change_s(replace(seen, pending=held), again, SJF, rules()) == NOW_S


def test_holds_end_within_half_an_hour_also_where_cycles_are_long():
    plan = decide(crowd(HEAD * 3), SJF, replace(rules(), admission=AdmissionRules("load:1.0", hold_s=600.0)))
    assert max(holds(plan).values()) == HOLD_MOST_S


def test_most_cycles_renew_no_hold_of_the_first_jobs_in_line():
    seen, eligible_s, writing = crowd(HEAD), np.zeros(HEAD), []
    came_s = seen.pending.first_submit_s
    for now_s in NOW_S + 15.0 * np.arange(100):
        held = replace(
            seen.pending, held_by_us=eligible_s > now_s, eligible_s=np.where(eligible_s > 0, eligible_s, came_s)
        )
        plan = decide(replace(seen, pending=held, now_s=now_s), SJF, rules())
        for job, left_s in holds(plan).items():
            eligible_s[job - 1] = NOW_S + left_s
        writing.append(bool(holds(plan)))
        assert (eligible_s[1:] >= now_s + 30.0).all(), "the next cycle may be late"
    assert sum(writing) <= 11


@pytest.mark.parametrize(
    "columns",
    [
        {"qos": ["normal"] * 3 + ["high"]},
        {"interactive": np.array([False] * 3 + [True]), "time_limit_s": np.full(4, 3600.0)},
        {"gpus": np.array([2, 2, 2, 0])},
        {"partition": ["gpu"] * 3 + ["elsewhere"]},
        {"eligible_s": NOW_S - np.array([600.0, 600.0, 600.0, 700_000.0])},
    ],
    ids=["higher QOS", "interactive", "without GPUs", "in a partition without nodes", "starving"],
)
def test_a_job_that_stands_above_the_bound_is_never_outside(columns):
    by = replace(rules(), scope="points")
    assert outside(crowd(4), by) == [2, 3, 4]
    assert outside(crowd(4, **columns), by) in ([2, 3], [1, 2, 3]), "it may take the room of one that came before it"


HOUR = {"time_limit_s": np.full(4, 3600.0)}


def salloc(**columns: Any) -> View:
    """Three jobs that fill the cluster, and an interactive one of two GPUs for an hour that came after them."""
    only = np.array([False] * 3 + [True])
    return crowd(4, **(HOUR | {"interactive": only, "user": ["alice"] * 3 + ["bob"]} | columns))


def allowance(hours: float) -> Rules:
    return replace(rules(), admission=AdmissionRules("load:1", interactive_gpu_hours=hours))


def test_an_interactive_job_passes_the_line_within_the_allowance_of_its_user_and_stands_in_it_beyond():
    assert 4 not in outside(salloc(), allowance(2.0))
    assert outside(salloc(), allowance(1.9)) == [2, 3, 4]
    assert outside(salloc(), allowance(0.0)) == [2, 3, 4]
    assert set(holds(decide(salloc(), SJF, allowance(0.0)))) == {2, 3, 4}, "it waits under a hold, like any other job"
    assert not decide(salloc(), SJF, allowance(0.0)).refusals
    endless = salloc(time_limit_s=np.array([3600.0] * 3 + [np.inf]))
    assert outside(endless, allowance(1e6)) == [2, 3, 4]
    assert 4 not in outside(endless, allowance(np.inf))


@pytest.mark.parametrize(
    "more", [{"exclusive": np.array([False] * 3 + [True])}, {"most_nodes": np.array([0] * 3 + [8])}]
)
def test_an_interactive_job_that_may_get_more_gpus_than_it_asks_for_stands_in_line(more):
    assert outside(salloc(**more), allowance(100.0)) == [2, 3, 4]


def test_what_interactive_jobs_of_a_user_had_and_have_counts_and_that_of_others_does_not():
    used_s = np.array([0.0] * 3 + [1800.0])
    assert 4 not in outside(salloc(interactive_used_s=used_s), allowance(2.5))
    assert outside(salloc(interactive_used_s=used_s), allowance(2.4)) == [2, 3, 4]
    for user, interactive, least in (("bob", True, 6.0), ("bob", False, 2.0), ("carol", True, 2.0)):
        run = {"gpus": np.array([4]), "user": [user], "interactive": np.array([interactive])}
        running = running_jobs(1, time_limit_s=np.array([3600.0]), **run)
        seen = salloc()
        seen = replace(view(seen.pending, running=running), now_s=seen.now_s)
        assert outside(seen, allowance(least))[-1:] != [4]
        assert outside(seen, allowance(least - 0.1))[-1:] == [4]


def test_of_several_interactive_jobs_of_a_user_those_pass_that_came_first_and_fit():
    seen = salloc(
        interactive=np.ones(4, dtype=bool),
        user=["bob", "bob", "carol", "bob"],
        time_limit_s=np.array([3600.0, 5400.0, 3600.0, 1800.0]),
    )
    full = replace(seen, running=running_jobs(1, gpus=np.array([8])))
    assert outside(full, allowance(3.0)) == [2], "an hour and half an hour on two GPUs"
    assert outside(full, allowance(2.9)) == [2, 4]
    later = replace(full, pending=full.pending.take([3, 2, 1, 0]), forecast=full.forecast.take([3, 2, 1, 0]))
    assert outside(later, allowance(2.9)) == [4, 2], "whatever the order in which Slurm shows them"


def test_an_interactive_job_in_line_hears_why_it_does_not_pass():
    by = allowance(2.5)
    seen = salloc(interactive_used_s=np.array([0.0] * 3 + [3600.0]))
    assert why(seen, decide(seen, SJF, by), by, 4).reason.endswith(
        "Interactive jobs of a user pass this line for 2.5 GPU-hours a day (policy.interactive_gpu_hours): "
        "bob has 1, and this job asks for 2 by its time limit."
    )
    assert "GPU-hours" not in why(seen, decide(seen, SJF, by), by, 3).reason


def test_a_higher_qos_is_bounded_by_its_own_jobs_and_counts_for_the_lower_ones():
    seen = crowd(6, qos=["normal", "high"] * 3)
    assert outside(seen, rules()) == [2, 3, 4, 5, 6], "one line, where our order goes across QOS"
    by = replace(rules(), scope="qos")
    assert outside(seen, by) == [1, 3, 5]
    assert outside(crowd(12, qos=["normal", "high"] * 6), by) == [1, 3, 5, 7, 9, 10, 11, 12], "eight GPUs are the bound"


def test_a_promised_job_is_never_outside():
    seen = crowd(4)
    promised = promise_table(
        1,
        job_id=[4],
        first_submit_s=seen.pending.first_submit_s[3:],
        state=[PromiseState.OPEN],
        deadline_s=[NOW_S + 7200.0],
        promised_s=[NOW_S + 7200.0],
        needs_s=[600.0],
        gpus=[2],
        asked_s=[NOW_S - 60.0],
        start_by_s=[NOW_S + 3600.0],
    )
    waiting = replace(seen.pending, deadline_s=np.array([np.nan] * 3 + [NOW_S + 7200.0]))
    seen = replace(seen, pending=waiting, promises=promised)
    assert 4 not in outside(seen, rules(deadlines=DeadlineRules(hold_most_s=0.0)))
    assert outside(seen, rules(deadlines=DeadlineRules(hold_most_s=0.0))) == [1, 2, 3]


@pytest.mark.parametrize(
    ("columns", "left"),
    [
        ({"reason": ["JobHeldUser", "Dependency", "JobHeldAdmin", "Priority"]}, []),
        ({"reservation": ["maint", "", "", ""]}, [3, 4]),
    ],
)
def test_jobs_that_slurm_does_not_start_or_that_we_leave_alone_neither_count_nor_wait_outside(columns, left):
    assert outside(crowd(4, **columns)) == left


@pytest.mark.parametrize("hold", ["JobHeldUser", "job requeued in held state", "job requeued in special exit state"])
def test_a_job_that_its_user_holds_is_delayed_too_so_that_it_comes_into_the_line_when_it_is_let_go(hold):
    by_user = ["Priority"] * 3 + [hold]
    columns = {"reason": by_user, "priority": np.array([9, 9, 9, 0])}
    never_s = NOW_S - np.array([600.0, 599.0, 598.0, np.nan])
    seen = crowd(4, eligible_s=never_s, **columns)
    plan = decide(seen, SJF, rules())
    assert outside(seen, rules()) == [2, 3]
    assert set(holds(plan)) == {2, 3, 4}
    kept = crowd(4, eligible_s=never_s + np.array([0, 0, 0, np.nan]), **columns).pending.changed(
        eligible_s=np.array([NOW_S - 600.0] * 3 + [NOW_S + 300.0]), held_by_us=np.array([False] * 3 + [True])
    )
    kept_on = decide(replace(seen, pending=kept), SJF, rules())
    assert 4 not in holds(kept_on)
    assert not [wish for wish in kept_on.actions if isinstance(wish, Release)]
    let_go = kept.changed(priority=np.array([9] * 4), reason=Labels.of(["Priority"] * 3 + ["BeginTime"]))
    assert outside(replace(seen, pending=let_go), rules()) == [2, 3, 4]
    room = decide(replace(seen, pending=let_go), SJF, rules(9.0))
    assert [wish for wish in room.actions if isinstance(wish, Release)] == [Release(4)]
    own = crowd(4, eligible_s=NOW_S + np.array([-600.0, -600.0, -600.0, 86_400.0]), **columns)
    assert 4 not in holds(decide(own, SJF, rules())), "its owner's begin time stays"
    assert set(holds(decide(crowd(4, eligible_s=never_s, gpus=np.array([2, 2, 2, 0]), **columns), SJF, rules()))) == {
        2,
        3,
    }
    depends = {"reason": ["Priority"] * 3 + ["Dependency"]}
    assert set(holds(decide(crowd(4, eligible_s=never_s, **depends), SJF, rules()))) == {2, 3, 4}
    also_off = depends | {"off": [False] * 3 + [True], "nice": np.array([0, 0, 0, 5])}
    assert set(holds(decide(crowd(4, eligible_s=never_s, **also_off), SJF, rules()))) == {2, 3, 4}
    admin = columns | {"reason": ["Priority"] * 3 + ["JobHeldAdmin"]}
    assert 4 not in holds(decide(crowd(4, eligible_s=never_s, **admin), SJF, rules())), "an admin lets it go as it is"


def test_a_nice_value_is_no_way_in():
    assert outside(crowd(4, nice=np.array([0, 0, 0, 5]))) == [2, 3, 4]


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_job_that_was_held_stands_behind_those_that_waited_meanwhile(restarts):
    early_s = NOW_S - 100_000.0
    columns = {name: NOW_S - 600.0 + np.arange(4.0) for name in ("first_submit_s", "waiting_since_s", "eligible_s")}
    for column in columns.values():
        column[3] = early_s
    ticket = columns | {"restarts": np.array([0, 0, 0, restarts])}
    assert outside(crowd(4, **ticket)) == [1, 2, 3], "it has waited all the time"
    assert outside(crowd(4, **ticket, away_s=np.array([0.0, 0.0, 0.0, 99_990.0]))) == [2, 3, 4]


def test_a_nice_value_ends_no_begin_time_of_an_owner_and_no_dependency():
    waits = {"nice": np.array([0, 0, 5, 5]), "reason": ["Priority"] * 2 + ["BeginTime", "Dependency"]}
    eligible_s = np.array([NOW_S - 600.0, NOW_S - 599.0, NOW_S + 86_400.0, np.nan])
    seen = crowd(4, eligible_s=eligible_s, **waits)
    assert outside(seen) == [2]
    assert set(holds(decide(seen, SJF, rules()))) == {2, 4}, "a hold would let the third one start before its time"


def test_an_array_comes_in_with_its_first_task_and_all_of_its_tasks_count():
    seen = crowd(3, tasks=np.array([40, 1, 1]), array_job_id=np.array([1, 0, 0]))
    assert outside(seen) == [2, 3]


def test_a_line_for_one_set_of_nodes_leaves_no_other_idle():
    room = replace(nodes((4, 4)), partitions=Labels.of(["gpu", "fast"]))
    partition = ["gpu"] * 4 + ["fast"] * 3
    seen = view(crowd(7, partition=partition).pending, room=room)
    assert outside(seen) == [3, 4, 7]
    shared = replace(room, partitions=Labels.of(["gpu", "fast,gpu"]))
    assert outside(replace(seen, nodes=shared), replace(rules(), scope="points")) == [2, 3, 4], (
        "with nodes in common there is one bound, and the partition of the higher tier stands above"
    )


def test_a_cluster_without_partitions_has_one_bound():
    room = replace(nodes((4, 4)), partitions=Labels.of(["", ""]))
    assert outside(view(crowd(6, partition=["one", "two"] * 3).pending, room=room)) == [5, 6]


def test_why_has_the_figures_of_the_bound():
    seen, by = crowd(5), rules(1.2)
    plan = decide(seen, SJF, by)
    assert why(seen, plan, by, 4).reason == (
        "It waits outside, under a hold that ends by itself, until policy.admission lets it in. "
        "Outside: 8 of 8 x 1.2 GPUs are asked for; 2 jobs came before it."
    )
    assert why(seen, plan, by, 2).reason.endswith("it is the first in line.")
    assert "Outside" not in " ".join(why(seen, plan, by, 1).sentences)


def test_a_prediction_takes_jobs_outside_for_the_last_in_their_order_and_not_for_delayed_ones():
    seen = crowd(
        4, eligible_s=NOW_S + np.array([-600.0, 900.0, 900.0, 900.0]), held_by_us=np.array([False] + [True] * 3)
    )
    plan = decide(seen, SJF, rules())
    told, rank = admitted_last(seen, plan)
    assert rank.tolist() == [0, 1, 2, 3]
    assert (told.pending.eligible_s <= NOW_S).all()
    assert not delayed_jobs(seen, plan).any()


def test_a_record_has_the_bound_or_none():
    policy = Policy(SJF, rules(1.2))
    assert Policy.from_json(policy.to_json()) == policy
    assert Policy.from_json(Policy(SJF, Rules()).to_json()).rules.admission is None


def test_a_job_whose_owner_said_off_waits_in_line_like_any_other_and_keeps_its_own_place_inside():
    off = [False, True, False, True]
    seen = crowd(4, off=off, comment=["slurmsched:off" if one else "" for one in off])
    plan = decide(seen, SJF, rules())
    assert outside(seen) == [2, 3, 4]
    assert set(holds(plan)) == {2, 3, 4}
    assert not plan.refusals
    inside = decide(seen, SJF, rules(2.0))
    assert inside.jobs.standing.tolist() == [Standing.RANKED, Standing.OWNER_SAID_OFF] * 2
    assert inside.jobs.points[1] == 0
    held = crowd(4, off=off, held_by_us=off, eligible_s=NOW_S + 600.0 * np.array(off), reason=["BeginTime"] * 4)
    assert {wish.job_id for wish in decide(held, SJF, rules(2.0)).actions if isinstance(wish, Release)} == {2, 4}
    by_user = crowd(4, off=off, reason=["Priority", "JobHeldUser", "Priority", "Priority"], priority=[9, 0, 9, 9])
    assert outside(by_user, rules(1.25)) == [4], "a job under its user's own hold takes no room"


def test_a_job_with_a_begin_time_stands_in_line_from_then_on_and_does_not_start_at_that_moment():
    begins_s = NOW_S + np.array([-600.0, -10.0, -600.0, 10.0, 20.0])
    columns = {"eligible_s": begins_s, "reason": ["Priority"] * 3 + ["BeginTime"] * 2}
    seen = crowd(5, **columns)
    assert outside(seen, rules(1.25)) == [2, 4], "the third one waits for longer, and the last begin is not near"
    held_s = holds(decide(seen, SJF, rules(1.25)))
    assert set(held_s) == {2, 4}
    assert held_s[4] > 10.0
    calm = crowd(5, **columns)
    calm = replace(calm, running=calm.running.take([]), forecast_running=calm.forecast_running.take([]))
    assert outside(calm, rules(9.0)) == [4], "before its time it is let in by nobody"
    own_s = np.array([np.nan] * 3 + [NOW_S + 10.0, np.nan])
    ours = {"held_by_us": [False] * 3 + [True, False], "waiting_since_s": own_s}
    again = replace(calm, pending=calm.pending.changed(**{name: np.array(value) for name, value in ours.items()}))
    assert [wish for wish in decide(again, SJF, rules(9.0)).actions if isinstance(wish, Release)] == []
    assert outside(replace(again, now_s=NOW_S + 11.0), rules(9.0)) == [5], "the one whose turn is next"


def test_a_heterogeneous_job_waits_in_line_as_its_leader_with_the_gpus_of_all_components():
    columns = {"job_id": np.array([1, 2, 3, 4]), "het_job_id": np.array([0, 2, 2, 0])}
    seen = crowd(4, **columns)
    assert outside(seen, rules(1.25)) == [2, 4], "eight of ten GPUs are asked for before it, and it wants four"
    plan = decide(seen, SJF, rules(1.25))
    assert set(holds(plan)) == {2, 4}
    assert not plan.refusals
    assert outside(seen, rules(1.5)) == [4]
    assert "2 jobs came" not in why(seen, decide(seen, SJF, rules(1.5)), rules(1.5), 4).reason
    held = replace(
        seen.pending, held_by_us=np.array([0, 1, 0, 0], dtype=bool), eligible_s=NOW_S + np.array([0, 60, 60, 0])
    )
    room = decide(replace(seen, pending=held), SJF, rules(9.0))
    assert [wish for wish in room.actions if isinstance(wish, Release)] == [Release(2)]
