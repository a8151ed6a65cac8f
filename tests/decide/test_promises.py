"""Who is promised a deadline, who is refused, and what is done to keep promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view, views
from hypothesis import Phase, example, given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import Hold, Rank
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.records.promises import NO_PROMISES, PromiseState, promise_table
from slurmsched.decide.deadlines.promises import EFFORT
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules, read_steps
from slurmsched.errors import ConfigError
from slurmsched.explain.deadlines import check, deadline, deadlines
from slurmsched.explain.explain import explain
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.deadlines.lease_terms import LeaseTerms
from slurmsched.policies.deadlines.value_steps import SOFT_STEPS, steps_of
from slurmsched.powers import decide

SJF, FIFO = find_ordering("sjf"), find_ordering("fifo")
HOUR_S = 3600.0
ASKED = DeadlineRules(lead_s=60.0, reserve=0.0)


def wanted(count, **columns):
    """Jobs with a limit of two hours that want to be done in ten, a forecast of one hour and an upper decile of two."""
    known = {"deadline_s": np.full(count, NOW_S + 10 * HOUR_S), "time_limit_s": np.full(count, 2 * HOUR_S)}
    return jobs(count, **(known | columns))


def seen(pending, **known):
    return view(pending, np.full(len(pending), HOUR_S), **known)


def planned(what, ordering=SJF, powers=ALL_POWERS, **rules):
    return decide(what, ordering, Rules(powers=powers, scope="queue", deadlines=replace(ASKED, **rules)))


def later(what, plan, **changes):
    """The view of a next cycle: with the promises made, and *changes*."""
    return replace(what, promises=plan.promises, **changes)


def states(plan):
    return [PromiseState(state).name for state in plan.promises.state.tolist()]


def test_nothing_is_promised_where_deadlines_are_not_switched_on():
    plan = decide(seen(wanted(2)), SJF, Rules(powers=ALL_POWERS))
    assert plan.promises is NO_PROMISES


def test_a_job_that_can_end_in_time_is_promised_its_deadline_and_told_by_when_it_must_start():
    what = seen(wanted(1))
    plan = planned(what)
    told = deadline(what, plan, 1)
    assert (told.answer, told.promised_s) == ("promised", NOW_S + 10 * HOUR_S)
    assert told.needs_s == 2 * HOUR_S, "the upper decile, which is the limit too"
    assert told.start_by_s == NOW_S + 8 * HOUR_S
    assert told.slack_s == 8 * HOUR_S


def test_why_a_job_waits_says_what_to_expect_of_its_deadline_and_what_to_ask_for_instead():
    what = seen(wanted(2, deadline_s=[NOW_S + 10 * HOUR_S, NOW_S + HOUR_S]))
    plan = planned(what)
    kept, refused = (why(what, plan, Rules(powers=ALL_POWERS), job) for job in (1, 2))
    assert kept.time.endswith("Its end is promised in 10 h.")
    assert "promised" not in kept.advice
    assert refused.time.endswith("No end by its deadline in 60 min is promised.")
    assert "deadline=+" in refused.advice


def test_the_runtime_planned_with_is_a_quantile_of_the_forecast_and_never_more_than_the_limit():
    what = seen(wanted(1, time_limit_s=[1.5 * HOUR_S]))
    assert planned(what).promises.needs_s.tolist() == [1.5 * HOUR_S]
    assert planned(what, margin=0.5).promises.needs_s.tolist() == [HOUR_S]
    between_s = planned(what, margin=0.6).promises.needs_s[0]
    assert HOUR_S < between_s < 1.5 * HOUR_S


def test_what_cannot_be_kept_is_refused_at_once_with_the_earliest_end_that_could_be_promised():
    what = seen(wanted(1, deadline_s=[NOW_S + HOUR_S]))
    told = deadline(what, planned(what), 1)
    assert told.answer == "refused"
    assert told.earliest_s == NOW_S + 60.0 + 2 * HOUR_S
    assert "deadline=+" in " ".join(told.sentences)


def test_no_refusal_is_told_without_the_nodes_that_slurm_does_not_show_and_no_promise_counts_on_them():
    asks = {"deadline_s": [NOW_S + HOUR_S, NOW_S + 10 * HOUR_S, NOW_S + 10 * HOUR_S], "gpus": [1, 9, 1]}
    shown = seen(wanted(3, **asks))
    names = Labels.of("c[1-9]" if name == "gpu" else "" for name in shown.partitions.name)
    what = replace(shown, partitions=shown.partitions.changed(unshown=names))
    plan, before = planned(what), planned(shown)
    assert states(plan) == states(before)
    told, plain = (
        [deadline(one, of, job).sentences for job in (1, 2, 3)] for one, of in ((what, plan), (shown, before))
    )
    for row in (0, 1):
        assert told[row][0].startswith("Slurm does not show c[1-9] of its partition"), told
        assert told[row][0].endswith("No promise counts on them.")
    assert "than the nodes that are up and that Slurm shows have for it" in " ".join(told[1])
    assert "than the nodes that are up have for it" in " ".join(plain[1])
    assert told[2] == plain[2], "what is promised is kept on the nodes that are shown"
    brief = why(what, plan, Rules(powers=ALL_POWERS), 1).time
    assert brief.endswith("is promised: nodes that are not shown are not counted.")
    probe = what.pending.take(slice(1, 2)).changed(job_id=np.array([99]))
    asked = check(what, plan, probe, what.forecast.take(slice(0, 1)), Rules(powers=ALL_POWERS, deadlines=ASKED))
    assert (asked.answer, asked.sentences[0]) == ("refused", told[1][0])


@pytest.mark.parametrize(("memory_mib", "state"), [(12_000.0, "OPEN"), (12_001.0, "REFUSED")])
def test_no_promise_counts_on_nodes_that_may_not_give_a_job_what_it_asks_for(memory_mib, state):
    busy = running_jobs(1, gpus=[4], node_list=["n2"], started_s=[NOW_S])
    little = replace(nodes((4, 4), (0, 4)), memory_mib=np.array([12_000.0, 16_000.0]))
    what = seen(wanted(1, deadline_s=[NOW_S + 2.5 * HOUR_S], memory_mib=[memory_mib]), running=busy, room=little)
    days = dict.fromkeys(("runtime_s", "low_s", "high_s"), np.full(1, 48 * HOUR_S))
    what = replace(what, forecast_running=replace(what.forecast_running, **days))
    assert states(planned(what)) == [state]


def test_a_refused_job_is_asked_again_by_itself_and_told_only_if_it_is_promised():
    busy = running_jobs(2, gpus=[4, 4], node_list=["n1", "n2"], started_s=[NOW_S] * 2)
    asking = wanted(1, deadline_s=[NOW_S + 2.5 * HOUR_S])
    what = seen(asking, running=busy, room=nodes((4, 4), (4, 4)))
    days = dict.fromkeys(("runtime_s", "low_s", "high_s"), np.full(2, 48 * HOUR_S))
    what = replace(what, forecast_running=replace(what.forecast_running, **days))
    refused = planned(what, again_s=600.0)
    assert states(refused) == ["REFUSED"]
    free = later(seen(asking), refused)
    assert states(planned(replace(free, now_s=NOW_S + 300.0), again_s=600.0)) == ["REFUSED"], "not so soon"
    assert states(planned(replace(free, now_s=NOW_S + 610.0), again_s=0.0)) == ["REFUSED"], "switched off"
    again = planned(replace(later(what, refused), now_s=NOW_S + 610.0), again_s=600.0)
    assert again.promises.equals(refused.promises), "the same refusal is no news"
    assert states(planned(replace(free, now_s=NOW_S + 610.0), again_s=600.0)) == ["REFUSED", "OPEN"]
    assert states(planned(replace(free, now_s=NOW_S + 710.0), again_s=600.0)) == ["REFUSED"], "once in each such time"


@example(gpus=[8, 1, 1], hours=[5.0, 6.0, 1.0] + 5 * [1.0], used=[0, 0])
@examples(25)
@given(
    gpus=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=8),
    hours=st.lists(st.floats(0.1, 12.0), min_size=8, max_size=8),
    used=st.lists(st.integers(0, 4), min_size=2, max_size=2),
)
def test_the_earliest_end_told_is_promised_to_who_asks_for_it(gpus, hours, used):
    count = len(gpus)
    due_s = NOW_S + np.array(hours[:count]) * HOUR_S
    asked = wanted(count, gpus=gpus, nodes=[max(1, g // 4) for g in gpus], deadline_s=due_s)
    running = running_jobs(2, gpus=used, node_list=["n1", "n2"], time_limit_s=[HOUR_S, 2 * HOUR_S])
    what = seen(asked, running=running, room=nodes((4, 4), used))
    promises = planned(what).promises
    for place in np.flatnonzero(promises.state == PromiseState.REFUSED)[:2].tolist():
        before = promises.take(np.arange(len(promises)) < place)
        moved_s = due_s.copy()
        moved_s[place] = promises.earliest_s[place] + 1.0
        moved = replace(what, pending=replace(asked, deadline_s=moved_s), promises=before)
        assert planned(moved.take(np.arange(place + 1))).promises.open[-1]


@examples(25)
@given(
    gpus=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=14),
    hours=st.lists(st.floats(2.1, 14.0), min_size=14, max_size=14),
)
def test_all_that_is_promised_can_be_kept_at_the_same_time(gpus, hours):
    count = len(gpus)
    what = seen(wanted(count, gpus=gpus, deadline_s=NOW_S + np.array(hours[:count]) * HOUR_S))
    promises = planned(what).promises
    kept = promises.take(promises.open)
    for moment_s in kept.start_by_s:
        during = (kept.start_by_s <= moment_s) & (moment_s < kept.start_by_s + kept.needs_s - 1)
        assert kept.gpus[during].sum() <= 8
    assert (kept.start_by_s + kept.needs_s <= kept.promised_s + 1).all()
    assert (kept.start_by_s >= NOW_S).all()


def test_who_came_first_keeps_the_promise_and_the_next_one_is_refused():
    both = wanted(2, gpus=[8, 8], nodes=[2, 2], deadline_s=np.full(2, NOW_S + 3 * HOUR_S))
    first = planned(seen(both.take([0])))
    plan = planned(later(seen(both), first))
    assert states(plan) == ["OPEN", "REFUSED"]
    assert plan.promises.earliest_s[1] > NOW_S + 4 * HOUR_S


def test_an_answer_stands_until_the_job_asks_for_something_else():
    what = seen(wanted(1, deadline_s=[NOW_S + HOUR_S]))
    plan = planned(what)
    again = planned(replace(later(what, plan), now_s=NOW_S + 60))
    assert again.promises.equals(plan.promises)
    changed = replace(what.pending, deadline_s=np.array([NOW_S + 9 * HOUR_S]))
    assert states(planned(later(what, plan, pending=changed))) == ["REFUSED", "OPEN"]


@pytest.mark.parametrize(
    ("special", "reason"),
    [
        ({"deadline_s": [NOW_S - 1]}, "the deadline has passed"),
        ({"tasks": [5], "array_job_id": [1]}, "it is an array"),
        ({"gpus": [0]}, "no GPU"),
        ({"gpus": [64]}, "more GPUs than the nodes"),
    ],
)
def test_what_no_promise_can_be_about_is_refused_in_words(special, reason):
    what = seen(wanted(1, **special))
    told = deadline(what, planned(what), 1)
    assert told.answer == "refused"
    assert reason in " ".join(told.sentences)


def test_without_history_a_job_is_planned_by_its_limit_and_refused_without_one():
    unknown = Labels.of(["no history: the time limit"] * 2)
    what = seen(wanted(2, time_limit_s=[HOUR_S, np.inf]))
    what = replace(what, forecast=replace(what.forecast, source=unknown))
    plan = planned(what)
    assert states(plan) == ["OPEN", "REFUSED"]
    assert plan.promises.needs_s[0] == HOUR_S
    assert "no history" in plan.promises.reason[1]


def test_nothing_is_promised_without_the_power_to_order():
    plan = planned(seen(wanted(1)), powers=frozenset())
    assert states(plan) == ["REFUSED"]
    assert "power.order is off" in plan.promises.reason[0]


def test_a_job_that_we_leave_alone_gets_no_answer_until_it_is_ours():
    what = seen(wanted(1, reason=["Dependency"]))
    plan = planned(what)
    assert len(plan.promises) == 0
    assert "while we leave it alone" in deadline(what, plan, 1).sentences[0]


def test_a_promise_is_withdrawn_when_its_owner_takes_the_job_out_of_our_hands():
    what = seen(wanted(1))
    held = replace(what.pending, reason=Labels.of(["JobHeldUser"]), priority=np.array([0]))
    plan = planned(later(what, planned(what), pending=held))
    assert states(plan) == ["WITHDRAWN"]
    assert plan.promises.reason[0] == "its owner holds it"


def test_a_soft_deadline_is_promised_a_later_step_where_the_first_cannot_be_kept():
    soft = wanted(1, comment=["slurmsched:deadline=+2h,soft"], deadline_s=[NOW_S - 60 + 2 * HOUR_S])
    promises = planned(seen(soft)).promises
    assert promises.worth.tolist() == [0.8]
    assert promises.promised_s.tolist() == [NOW_S - 60 + 2.2 * HOUR_S]


def asking(options, deadline_s, first_submit_s=0.0):
    """A job with a deadline of its own."""
    columns = {"deadline_s": [deadline_s], "first_submit_s": [first_submit_s]}
    return job_table(1, comment=[f"slurmsched:{options}"], **columns)


def test_steps_of_a_soft_deadline_are_its_own_or_the_usual_ones():
    assert steps_of(asking("deadline=+10h", 36e3), 0) == [(36e3, 1.0)]
    usual = steps_of(asking("deadline=+10h,soft", 36e3), 0)
    assert [(round(at_s), worth) for at_s, worth in usual] == [(36000, 1.0), (39600, 0.8), (43200, 0.5), (54000, 0.2)]
    own = asking("deadline=2026-12-01T18:00,80@2026-12-01T20:00,50@+10h,20@2026-12-09T00:00Z", 100.0, 5.0)
    assert steps_of(own, 0)[1:] == [(7300.0, 0.8), (36005.0, 0.5), (1796774400.0, 0.2)]


def test_an_admin_can_say_other_steps_and_bad_ones_are_refused_in_words():
    assert read_steps(["80@1.1", "50@1.2", "20@1.5"]) == SOFT_STEPS
    own = steps_of(asking("deadline=+10h,soft", 36e3), 0, read_steps(["50@2"]))
    assert own == [(36e3, 1.0), (72e3, 0.5)]
    for texts in (["80"], ["50@1.1", "80@1.2"], ["80@1.2", "50@1.1"], ["80@0.9"], ["0@1.1"], ["100@1.1"]):
        with pytest.raises(ConfigError, match=r"accepted are PERCENT@TIMES"):
            read_steps(texts)


def test_quotas_count_what_was_promised_before_and_spare_the_exempt():
    what = seen(wanted(3, user=["alice", "alice", "bob"], account=["a", "a", "b"]))
    assert states(planned(what, user_gpu_hours=3.0)) == ["OPEN", "REFUSED", "OPEN"]
    assert states(planned(what, account_gpu_hours=3.0)) == ["OPEN", "REFUSED", "OPEN"]
    assert states(planned(what, user_gpus=1)) == ["OPEN", "REFUSED", "OPEN"]
    assert states(planned(what, user_gpu_hours=3.0, exempt=("alice",))) == ["OPEN"] * 3
    assert "deadline.user_gpu_hours" in planned(what, user_gpu_hours=3.0).promises.reason[1]


def test_part_of_the_gpus_is_kept_from_new_promises():
    what = seen(wanted(2, gpus=[4, 4], deadline_s=np.full(2, NOW_S + 3 * HOUR_S)))
    assert states(planned(what)) == ["OPEN", "OPEN"]
    assert states(planned(what, reserve=0.4)) == ["OPEN", "REFUSED"]


def test_large_jobs_leave_as_many_gpus_to_smaller_ones_as_these_asked_for_in_the_last_day():
    hours = np.array([30.0, 30.0, 2.0])
    limits = {"time_limit_s": hours * HOUR_S, "deadline_s": np.full(3, NOW_S + 40 * HOUR_S)}
    what = seen(wanted(3, gpus=[4, 2, 1], user=["a", "b", "c"], **limits))
    what = replace(what, forecast=replace(what.forecast, high_s=hours * HOUR_S, runtime_s=hours * HOUR_S))
    assert states(planned(what)) == ["OPEN"] * 3, "nobody has asked"
    ago_s = NOW_S - 22 * HOUR_S
    columns = {"gpus": [1] * 26, "needs_s": [2 * HOUR_S] * 26, "asked_s": [ago_s] * 26, "first_submit_s": [ago_s] * 26}
    users = {"user": [f"user{row}" for row in range(26)]}
    asked = promise_table(26, job_id=range(100, 126), state=[PromiseState.MET] * 26, **columns, **users)
    busy = replace(what, promises=asked)  # 52 GPU-hours in 22 hours: three of the 8 GPUs
    assert states(planned(busy, foreseen=0.0))[-3:] == ["OPEN"] * 3
    plan = planned(busy)
    assert states(plan)[-3:] == ["OPEN", "REFUSED", "OPEN"]
    told = deadline(busy, plan, 2)
    assert "smaller jobs" in " ".join(told.sentences)
    assert told.earliest_s == NOW_S + 70 * HOUR_S, "after the latest end of the other large one"
    one_user = replace(busy, promises=replace(asked, user=Labels.of(["mallory"] * 26)))
    assert states(planned(one_user, user_share=0.1))[-3:] == ["OPEN"] * 3, "who counts for a tenth alone"
    more = nodes((4, 4, 4))
    elsewhere = replace(busy, nodes=replace(more, partitions=Labels.of(["gpu", "gpu", "other"])))
    assert states(planned(elsewhere))[-3:] == ["OPEN"] * 3, "nobody knows which nodes the others asked for"
    a_day_later = replace(busy, now_s=NOW_S + 3 * HOUR_S)
    assert states(planned(a_day_later))[-3:] == ["OPEN"] * 3


def test_a_promised_job_comes_first_only_when_it_must_start():
    asked = wanted(3, deadline_s=[np.inf, NOW_S + 10 * HOUR_S, np.inf], gpus=[1, 1, 1])
    what = seen(asked)
    what = replace(what, forecast=replace(what.forecast, runtime_s=np.array([60.0, HOUR_S, 90.0])))
    plan = planned(what)
    assert plan.jobs.rank.tolist() == [0, 2, 1]
    tomorrow = replace(later(what, plan), now_s=NOW_S + 8 * HOUR_S - 60)
    assert planned(tomorrow).jobs.rank.tolist() == [1, 0, 2]


def test_under_slurms_own_order_only_the_job_that_must_start_gets_points():
    what = seen(wanted(3, deadline_s=[np.inf, np.inf, NOW_S + 2 * HOUR_S + 90], priority=[3000, 2000, 1000]))
    plan = planned(what, FIFO)
    assert plan.jobs.rank.tolist() == [1, 2, 0]
    assert [action.job_id for action in plan.actions if isinstance(action, Rank)] == [3]


def test_where_many_ask_in_vain_each_is_answered_at_once():
    plan = planned(seen(wanted(60, gpus=[8] * 60, nodes=[2] * 60)))
    assert (len(plan.promises), states(plan).count("OPEN")) == (60, 5)


def flood(asking, waiting):
    """*waiting* jobs of 40 users on 100 nodes of 8 GPUs that are all in use; the first *asking* of them ask."""
    random = np.random.default_rng(1)
    due_s = np.where(np.arange(waiting) < asking, NOW_S + random.uniform(2, 72, waiting) * HOUR_S, np.inf)
    pending = wanted(
        waiting,
        gpus=random.choice([1, 1, 1, 2, 4, 8], waiting),
        user=[f"user{number}" for number in random.integers(0, 40, waiting)],
        deadline_s=due_s,
        time_limit_s=random.choice([1, 2, 4, 12, 24], waiting) * HOUR_S,
    )
    busy = running_jobs(
        400,
        job_id=np.arange(900_001, 900_401),
        gpus=np.full(400, 2),
        node_list=[f"n{1 + number // 4}" for number in range(400)],
        time_limit_s=random.uniform(1, 24, 400) * HOUR_S,
    )
    return seen(pending, running=busy, room=nodes((8,) * 100, (8,) * 100))


def test_two_thousand_jobs_that_ask_at_once_among_ten_thousand_are_all_answered_at_once():
    plan = planned(flood(2_000, 10_000))
    assert len(plan.promises) == 2_000
    assert states(plan).count("OPEN") > 1_000
    assert np.isnan(plan.promises.announced_s).all(), "a plan keeps all of them"


def test_what_is_promised_in_a_flood_can_be_kept_at_the_same_time():
    promises = planned(seen(flood(600, 600).pending, room=nodes((8,) * 4))).promises
    kept = promises.take(promises.open)
    assert 200 < len(kept) < 600
    for moment_s in kept.start_by_s:
        during = (kept.start_by_s <= moment_s) & (moment_s < kept.start_by_s + kept.needs_s - 1)
        assert kept.gpus[during].sum() <= 32
    assert (kept.start_by_s >= NOW_S).all()
    assert (kept.start_by_s + kept.needs_s <= kept.promised_s + 1).all()


def test_users_take_turns_when_many_jobs_ask_at_once():
    users = ["flooder"] * 58 + ["alice", "bob"]
    plan = planned(seen(wanted(60, gpus=[8] * 60, nodes=[2] * 60, user=users)))
    promised = {plan.promises.user[place] for place in np.flatnonzero(plan.promises.open)}
    assert {"alice", "bob"} < promised
    assert states(plan).count("OPEN") == 5


def test_one_users_flood_leaves_others_their_share_of_the_gpus_time():
    rush = seen(wanted(60, gpus=[4] * 60, user=["flooder"] * 60))
    first = planned(rush, user_share=0.5)
    assert states(first).count("OPEN") == 5, "half of ten hours of eight GPUs, each job takes four for two"
    assert "deadline.user_share" in first.promises.reason[59]
    both = rush.pending.joined(wanted(1, job_id=[61], gpus=[4], user=["alice"]))
    later_plan = planned(replace(seen(both), promises=first.promises), user_share=0.5)
    assert later_plan.promises.open[-1]


def test_a_single_promise_may_be_larger_than_a_users_share_and_who_is_exempt_has_no_share():
    wide = seen(wanted(2, gpus=[8, 8], nodes=[2, 2], deadline_s=np.full(2, NOW_S + 5 * HOUR_S)))
    assert states(planned(wide)) == ["OPEN", "OPEN"]
    assert states(planned(wide, user_share=0.3)) == ["OPEN", "REFUSED"]
    assert states(planned(wide, user_share=0.3, exempt=("alice",))) == ["OPEN", "OPEN"]


def test_promises_made_at_once_can_all_be_kept():
    random = np.random.default_rng(3)
    ahead_s = random.uniform(3 * HOUR_S, 60 * HOUR_S, 80)
    what = seen(wanted(80, gpus=random.choice([1, 2, 4], 80), deadline_s=NOW_S + ahead_s))
    plan = planned(what)
    assert states(plan).count("OPEN") > 40
    assert np.isnan(plan.promises.announced_s).all()
    assert (plan.promises.start_by_s[plan.promises.open] >= NOW_S).all()


def test_a_higher_qos_and_a_starving_job_stay_ahead_of_a_promise():
    asked = wanted(
        3, deadline_s=[np.inf, np.inf, NOW_S + 2 * HOUR_S + 90], qos=["high", "normal", "normal"],
        eligible_s=NOW_S - np.array([60.0, 700_000.0, 60.0]),
    )  # fmt: skip
    plan = decide(seen(asked), SJF, Rules(powers=ALL_POWERS, scope="qos", deadlines=ASKED))
    assert plan.jobs.rank.tolist() == [0, 1, 2]


def test_a_long_job_that_would_take_the_gpus_of_a_promise_is_delayed_and_the_promised_one_goes_first():
    asked = wanted(
        2, gpus=[8, 8], nodes=[2, 2], deadline_s=[np.inf, NOW_S + 6 * HOUR_S], time_limit_s=[9 * HOUR_S, 2 * HOUR_S]
    )
    what = seen(asked)
    high_s = np.array([9 * HOUR_S, 2 * HOUR_S])
    what = replace(what, forecast=replace(what.forecast, runtime_s=np.array([60.0, HOUR_S]), high_s=high_s))
    plan = planned(what)
    assert plan.jobs.rank.tolist() == [1, 0]
    assert [action for action in plan.actions if isinstance(action, Hold)] == [Hold(1, NOW_S + 30.0)]
    without = planned(what, powers=ALL_POWERS - {"hold"})
    assert without.jobs.rank.tolist() == [1, 0]
    assert not [action for action in without.actions if isinstance(action, Hold)]


def test_a_job_is_delayed_for_promises_no_longer_than_hold_most_s_in_all():
    asked = wanted(
        2, gpus=[8, 8], nodes=[2, 2], deadline_s=[np.inf, NOW_S + 6 * HOUR_S], time_limit_s=[9 * HOUR_S, 2 * HOUR_S]
    )
    high_s = np.array([9 * HOUR_S, 2 * HOUR_S])
    what = seen(replace(asked, delayed_s=np.array([570.0, 0.0])))
    what = replace(what, forecast=replace(what.forecast, runtime_s=np.array([60.0, HOUR_S]), high_s=high_s))
    for most_s, holds in ((600.0, [Hold(1, NOW_S + 30.0)]), (599.0, [])):
        plan = planned(what, hold_most_s=most_s)
        assert [action for action in plan.actions if isinstance(action, Hold)] == holds
        words = "We delay its start for promised jobs, by deadline.hold_most_s at most, 10 min so far."
        assert (words in why(what, plan, Rules(), 1).sentences) == bool(holds)


def test_a_promise_that_no_plan_keeps_breaks_none_that_can_be_kept():
    """Both jobs want all GPUs for two hours, and the first can no longer end in time."""
    what = seen(wanted(2, gpus=[8, 8], nodes=[2, 2], deadline_s=NOW_S + np.array([4.0, 10.0]) * HOUR_S))
    promised = planned(what)
    assert states(promised) == ["OPEN", "OPEN"]
    much_later = later(replace(what, now_s=NOW_S + 3.5 * HOUR_S), promised)
    plan = planned(much_later)
    assert np.isfinite(plan.promises.announced_s).tolist() == [True, False]
    assert plan.jobs.rank.tolist() == [0, 1], "there is time for both"
    assert not [action for action in plan.actions if isinstance(action, Hold)]
    tight = replace(much_later.promises, promised_s=NOW_S + np.array([4.0, 6.0]) * HOUR_S)
    plan = planned(replace(much_later, promises=tight))
    assert plan.jobs.rank.tolist() == [1, 0]
    assert [action.job_id for action in plan.actions if isinstance(action, Hold)] == [1]
    sentences = why(much_later, plan, Rules(), 1).sentences
    assert any("We delay its start for promised jobs" in sentence for sentence in sentences)


def test_long_jobs_without_a_promise_hold_a_share_of_the_gpus_while_a_promised_one_waits():
    hours = np.array([9.0, 9.0, 2.0, 9.0, 2.0])
    due_s = NOW_S + np.array([np.inf, np.inf, np.inf, np.inf, 30 * HOUR_S])
    ckpt = np.array([False, False, False, True, False])
    what = seen(wanted(5, gpus=[2, 2, 1, 1, 1], deadline_s=due_s, time_limit_s=hours * HOUR_S, ckpt=ckpt))
    what = replace(what, forecast=replace(what.forecast, runtime_s=hours * HOUR_S, high_s=hours * HOUR_S))

    def held(what, **rules):
        return [action.job_id for action in planned(what, FIFO, **rules).actions if isinstance(action, Hold)]

    assert held(what) == []
    assert held(what, long_share=0.3, yields=True) == [2], "2 of 8 GPUs are the first one's, and more would be too many"
    assert held(what, long_share=0.1, yields=True) == [1, 2]
    assert held(what, long_share=0.3, long_s=10 * HOUR_S) == []
    assert held(what.take(np.arange(4)), long_share=0.1) == [], "nobody waits with a promise"
    busy = running_jobs(1, gpus=[2], node_list=["n1"], time_limit_s=[9 * HOUR_S])
    before = replace(what, running=busy, nodes=nodes((4, 4), (2, 0)))
    before = replace(before, forecast_running=what.forecast.take(np.arange(1)))
    assert held(before, long_share=0.3, yields=True) == [1, 2]


def test_where_many_jobs_are_delayed_the_order_is_written_first_and_answers_and_holds_take_turns():
    many = 60
    asked = wanted(
        2 * many, gpus=[8] * 2 * many, nodes=[2] * 2 * many, time_limit_s=[9 * HOUR_S] * many + [2 * HOUR_S] * many,
        deadline_s=[np.inf] * many + [NOW_S + 6 * HOUR_S] * many,
    )  # fmt: skip
    what = seen(asked)
    high_s = np.array([9 * HOUR_S] * many + [2 * HOUR_S] * many)
    runtime_s = np.array([60.0] * many + [HOUR_S] * many)
    plan = planned(replace(what, forecast=replace(what.forecast, runtime_s=runtime_s, high_s=high_s)))
    kinds = [action.stored for action in plan.actions]
    assert kinds.count("Hold") > 10
    assert kinds.count("Tell") == many
    first = kinds.index("Hold")
    assert set(kinds[:first]) == {"Rank"}
    assert kinds[first : first + 20] == ["Hold", "Tell"] * 10


def test_a_short_job_runs_before_a_promised_one_that_has_time():
    asked = wanted(2, gpus=[8, 8], nodes=[2, 2], deadline_s=[np.inf, NOW_S + 6 * HOUR_S])
    plan = planned(seen(asked))
    assert plan.jobs.rank.tolist() == [0, 1]
    assert not [action for action in plan.actions if isinstance(action, Hold)]


def test_a_starving_job_is_never_delayed_for_a_promise():
    asked = wanted(
        2, gpus=[8, 8], nodes=[2, 2], deadline_s=[np.inf, NOW_S + 3 * HOUR_S], eligible_s=NOW_S - np.array([7e5, 60.0])
    )
    plan = planned(seen(asked))
    assert plan.jobs.rank.tolist() == [0, 1]
    assert not [action for action in plan.actions if isinstance(action, Hold)]


def test_an_owner_is_told_as_soon_as_the_promise_will_probably_be_broken():
    what = seen(wanted(1, gpus=[8], nodes=[2]))
    plan = planned(what)
    gone = replace(later(what, plan), nodes=nodes((4, 4), usable=False), now_s=NOW_S + 60)
    doubt = planned(gone)
    assert deadline(gone, doubt, 1).answer == "in doubt"
    assert doubt.promises.announced_s.tolist() == [NOW_S + 60]
    assert "may be broken" in " ".join(why(gone, doubt, Rules(), 1).sentences)


@pytest.mark.parametrize(
    ("left_h", "rest_min", "limit_h", "in_doubt"),
    [
        (5.0, (100, 400), 12.0, False),  # late with 0.15, and half the window is left
        (1.1, (100, 400), 12.0, True),  # it will probably be late
        (0.9, (10, 40), 12.0, True),  # late with 0.06, and no more than the notice is left
        (0.9, (10, 12), 12.0, False),
        (0.9, (10, 40), 1.0, False),  # its time limit ends it in time
    ],
)
def test_an_owner_is_told_of_a_running_job_that_may_be_late_while_notice_is_left(left_h, rest_min, limit_h, in_doubt):
    what = seen(wanted(1))
    now_s = NOW_S + (10.0 - left_h) * HOUR_S
    running = running_jobs(1, job_id=[1], started_s=[now_s - 1800.0], time_limit_s=[limit_h * HOUR_S])
    median_s, high_s = (np.array([1800.0 + minutes * 60.0]) for minutes in rest_min)
    then = replace(
        seen(wanted(0), running=running),
        promises=planned(what).promises,
        now_s=now_s,
        forecast_running=Forecast(median_s, median_s, high_s, Labels.of(["of now"])),
    )
    assert bool(np.isfinite(planned(then).promises.announced_s[0])) == in_doubt


@pytest.mark.parametrize(
    ("ran_h", "left_h", "in_doubt"), [(2.5, 0.9, True), (2.5, 9.0, False), (1.9, 2.0, False), (1.9, 0.9, True)]
)
def test_an_owner_is_told_of_a_job_that_outlasted_its_forecast_while_notice_is_left(ran_h, left_h, in_doubt):
    """A forecast of 1 h with an upper decile of 2 h that does not know how long the job has run."""
    what = seen(wanted(1))
    now_s = NOW_S + (10.0 - left_h) * HOUR_S
    running = running_jobs(1, job_id=[1], started_s=[now_s - ran_h * HOUR_S], time_limit_s=[40 * HOUR_S])
    hours = np.array([HOUR_S])
    then = replace(
        seen(wanted(0), running=running),
        promises=planned(what).promises,
        now_s=now_s,
        forecast_running=Forecast(hours, hours, 2 * hours, Labels.of(["fixed"])),
    )
    assert bool(np.isfinite(planned(then).promises.announced_s[0])) == in_doubt


@pytest.mark.parametrize(
    ("ran_h", "rest_h", "in_doubt"),
    [
        (1.9, (1.0, 2.0), True),  # it has run nearly as long as nine in ten of such jobs
        (0.0, (0.3, 0.5), False),  # it has time, and never ran
        (0.0, (0.5, 0.9), True),  # late with 0.1 even if it starts now
    ],
)
def test_a_pending_job_with_a_place_in_the_plan_is_judged_by_what_it_still_needs(ran_h, rest_h, in_doubt):
    """Nobody who was warned is calmed because the job was stopped."""
    promises = planned(seen(wanted(1, ckpt=[True], requeueable=[True]))).promises
    stopped = wanted(
        1,
        ckpt=[True],
        requeueable=[True],
        restarts=[int(ran_h > 0)],
        ran_s=[ran_h * HOUR_S],
        time_limit_s=[40 * HOUR_S],
    )
    median_s, high_s = (np.array([hours * HOUR_S]) for hours in rest_h)
    then = replace(
        seen(stopped),
        promises=promises,
        now_s=NOW_S + 9.1 * HOUR_S,
        forecast=Forecast(median_s, median_s, high_s, Labels.of(["fixed"])),
    )
    plan = planned(then, yields=True)
    assert bool(np.isfinite(plan.promises.announced_s[0])) == in_doubt


def test_why_explain_and_the_list_tell_of_the_promise():
    what = seen(wanted(1))
    plan = planned(what)
    for told in (why(what, plan, Rules(), 1), explain(what, plan, Rules(), 1)):
        assert any("It is promised to end in 10 h" in sentence for sentence in told.sentences)
    assert [one.job_id for one in deadlines(what, plan)] == [1]


def test_a_deadline_that_daylight_saving_makes_ambiguous_is_explained():
    what = seen(wanted(1, deadline_s=[np.inf], comment=["slurmsched:deadline=2026-10-25T02:30"]))
    assert "Add the offset" in deadline(what, planned(what), 1).sentences[0]


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("slurmsched:deadline=tomorrow", "tomorrow"),
        ("slurmsched:deadline=+6h,deadline=+7h", "said twice"),
        ("slurmsched:dead1ine=+6h", "dead1ine"),
        ("", "asks for no deadline in its comment"),
    ],
)
def test_a_deadline_that_cannot_be_read_is_none_and_its_owner_is_told_why(comment, words):
    what = seen(wanted(1, deadline_s=[np.inf], comment=[comment]))
    plan = planned(what)
    assert len(plan.promises) == 0
    assert words in deadline(what, plan, 1).sentences[0]


def test_the_rules_of_promises_survive_the_record():
    policy = Policy(SJF, Rules(deadlines=DeadlineRules(exempt=("alice",))))
    assert Policy.from_json(policy.to_json()) == policy


@examples(25, phases=[Phase.generate])
@given(what=views(), hours=st.lists(st.floats(-1.0, 50.0), min_size=25, max_size=25))
def test_any_queue_gets_one_answer_for_each_job_with_a_deadline(what, hours):
    due_s = NOW_S + np.array(hours[: len(what.pending)]) * HOUR_S
    what = replace(what, pending=replace(what.pending, deadline_s=due_s))
    plan = planned(what)
    ours = what.pending.job_id[plan.jobs.standing == 0]
    assert sorted(plan.promises.job_id.tolist()) == sorted(ours.tolist())
    assert planned(later(what, plan)).promises.equals(plan.promises)
    assert sorted(plan.jobs.rank[plan.jobs.rank >= 0].tolist()) == list(range(len(ours)))


@pytest.mark.parametrize("leases", [None, LeaseTerms()])
@pytest.mark.parametrize("ckpt", [False, True])
def test_a_job_of_which_no_end_is_known_is_refused_and_leaves_the_promises_of_others_alone(ckpt, leases):
    both = {"ckpt": [ckpt, ckpt], "requeueable": [True, True]}
    unknown = view(wanted(2, time_limit_s=[np.inf, 2 * HOUR_S], **both), np.array([np.nan, HOUR_S]))
    assert states(planned(unknown, leases=leases)) == ["REFUSED", "OPEN"]
    before = planned(seen(wanted(2, **both)), leases=leases)
    after = planned(replace(unknown, promises=before.promises), leases=leases)
    assert states(after) == states(before) == ["OPEN", "OPEN"]


def test_of_many_requests_of_jobs_in_leases_a_cycle_answers_some_users_in_turn_and_later_ones_the_rest():
    many = 300
    users, since_s = ["eager"] * (many - 2) + ["alice", "bob"], [NOW_S - many + n for n in range(many)]
    what = seen(wanted(many, user=users, first_submit_s=since_s, ckpt=[True] * many, requeueable=[True] * many))
    plan = planned(what, yields=True)
    answered = set(plan.promises.job_id.tolist())
    assert len(answered) * (len(answered) + 1) // 2 <= EFFORT < (len(answered) + 1) * (len(answered) + 2) // 2
    assert {1, many - 1, many} <= answered, "the first job of each user"
    assert "waits for its turn" in deadline(what, plan, many - 2).sentences[0]
    asks = {"partition": [what.pending.partition[0]], "time_limit_s": [HOUR_S], "deadline_s": [NOW_S + 9 * HOUR_S]}
    probe = job_table(1, job_id=[1000], gpus=[1], user=["zoe"], **asks)
    rules = Rules(powers=ALL_POWERS, deadlines=replace(ASKED, yields=True))
    told = check(what, plan, probe, what.forecast.take(slice(0, 1)), rules)
    assert (told.job_id, told.sentences[-1]) == (
        1000,
        f"{many - len(answered)} requests that came before wait for an answer.",
    )
    for _ in range(12):
        what = later(what, plan)
        plan = planned(what, yields=True)
    assert set(plan.promises.job_id.tolist()) == set(range(1, many + 1))
