"""Running jobs that said ckpt make room for promises: who is asked, when, and what becomes of their work."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from decide.full_cluster import HOUR_S, UNWILLING, asked, beside, full, requeued
from decide.views import ALL_POWERS, NOW_S, jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.clock import ManualClock
from slurmsched.cluster.actions import AskToStop, Hold, Requeue, Resume, SetAdminComment, Suspend
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cycle import CycleContext, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.errors import SlurmUnavailable
from slurmsched.explain.why import why
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import PREEMPTIONS, find_ordering, preemption
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

FIFO = find_ordering("fifo")
ASKED = DeadlineRules(lead_s=30.0, hold_s=30.0, reserve=0.0, yields=True, lease_s=300.0, stop_s=60.0, asks_a_day=2)


def seen(running, gpus=4, ahead_s=2 * HOUR_S + 100.0, count=1, **columns):
    """*running* jobs forecast to take days, and jobs of two hours that want to end *ahead_s* from now."""
    known = {"deadline_s": np.full(count, NOW_S + ahead_s), "time_limit_s": np.full(count, 2 * HOUR_S)}
    pending = jobs(count, gpus=[gpus] * count, nodes=[max(1, gpus // 4)] * count, **(known | columns))
    return beside(running, pending, [3 * HOUR_S] * count)


def planned(what, powers=ALL_POWERS - {"comment"}, **rules):
    return decide(what, FIFO, Rules(powers=powers, deadlines=replace(ASKED, **rules)))


def states(plan):
    return [PromiseState(state).name for state in plan.promises.state.tolist()]


def test_a_promise_can_lean_on_a_running_job_that_agreed_and_the_one_that_loses_least_is_asked():
    what = seen(full(4, 4))
    plan = planned(what)
    assert states(plan) == ["OPEN"]
    assert [action for action in plan.actions if isinstance(action, AskToStop)] == [AskToStop(902, "URG")]
    assert states(planned(what, yields=False)) == ["REFUSED"]


def test_nobody_is_asked_before_it_is_needed():
    assert asked(planned(seen(full(4, 4), ahead_s=5 * HOUR_S))) == []


def test_nobody_is_asked_while_another_job_ends_in_time():
    running = full(4, 4, ckpt=[True, False])
    what = seen(running, ahead_s=2 * HOUR_S + 115.0)
    soon_s = np.array([1e6, HOUR_S])  # the second one has run for 59 minutes
    forecast = replace(what.forecast_running, runtime_s=soon_s, low_s=soon_s, high_s=soon_s)
    plan = planned(replace(what, forecast_running=forecast))
    assert states(plan) == ["OPEN"]
    assert asked(plan) == []


@pytest.mark.parametrize("lease_s", [300.0, 10.0])
def test_leases_shorter_than_a_start_takes_are_no_reason_to_ask_nobody(lease_s):
    """The job with the promise runs in leases too, and its start takes a minute."""
    what = seen(full(4, 4), ahead_s=2 * HOUR_S + 160.0, ckpt=np.ones(1, dtype=bool))
    assert asked(planned(what, lease_s=lease_s)) == [902]


def test_as_few_as_are_needed_are_asked():
    running = full(1, 3, 4, node_list=["n1", "n1", "n2"], started_s=NOW_S - np.array([600.0, 1e5, HOUR_S]))
    assert asked(planned(seen(running))) == [903], "the small one alone would not do, and is left alone"
    assert sorted(asked(planned(seen(running, gpus=8)))) == [901, 902, 903]


@pytest.mark.parametrize(
    "special",
    [
        *UNWILLING,
        {"started_s": [NOW_S - 60.0] * 2},
        {"stop_requested_s": [NOW_S - 400.0] * 2, "stop_requests": [2, 2]},
    ],
    ids=str,
)
def test_who_did_not_agree_or_had_no_lease_or_was_asked_too_often_is_never_asked(special):
    what = seen(full(4, 4, **special))
    plan = planned(what)
    assert asked(plan) == requeued(plan) == []
    assert states(plan) == ["REFUSED"]


def test_a_promise_may_lean_on_a_job_whose_lease_ends_in_time_and_it_is_asked_only_then():
    what = seen(full(4, 4, started_s=[NOW_S - 290.0] * 2), ahead_s=2 * HOUR_S + 105.0)
    plan = planned(what)
    assert (states(plan), asked(plan)) == (["OPEN"], [])
    later = replace(what, now_s=NOW_S + 11.0, promises=plan.promises)
    assert asked(planned(later)) == [901]


def test_a_running_job_whose_own_promise_would_break_is_not_asked():
    what = seen(full(4, 4))
    plan = planned(what)
    theirs = replace(plan.promises, job_id=np.array([902]))
    assert asked(planned(replace(what, promises=theirs))) == [901]


def also_promised(what, plan, hours):
    """*what* once the promise of *plan* is made, where job 902 has one for so many *hours* from now too."""
    another = replace(plan.promises, job_id=np.array([902]), promised_s=np.array([NOW_S + hours * HOUR_S]))
    forecast = replace(what.forecast_running, **dict.fromkeys(("runtime_s", "low_s", "high_s"), np.full(2, 3 * HOUR_S)))
    return replace(what, promises=plan.promises.joined(another), forecast_running=forecast)


def test_a_running_job_with_a_promise_and_time_to_spare_makes_room_for_another_promise():
    what = seen(full(4, 4, ckpt=[False, True]))
    plan = planned(what)
    assert (states(plan), asked(plan)) == (["OPEN"], [902])
    assert asked(planned(also_promised(what, plan, 12))) == [902], "it still needs two hours"
    assert asked(planned(also_promised(what, plan, 4))) == [], "it would be late itself"


@pytest.mark.parametrize(("doubling_s", "asks"), [(0.0, [902]), (HOUR_S, [902]), (5 * HOUR_S, [])])
def test_what_a_stop_costs_a_promised_job_grows_with_its_gpus(doubling_s, asks):
    """Job 902 has 4 GPUs, so it costs two doublings; it needs two hours more and has twelve."""
    what = also_promised(seen(full(4, 4, ckpt=[False, True])), planned(seen(full(4, 4, ckpt=[False, True]))), 12)
    assert asked(planned(what, restart_doubling_s=doubling_s)) == asks


@pytest.mark.parametrize(("coldstart_s", "asks"), [(0.0, [902]), (2 * HOUR_S, [902]), (10 * HOUR_S, [])])
def test_an_owner_may_say_what_a_stop_costs_a_promised_job(coldstart_s, asks):
    running = full(4, 4, ckpt=[False, True], coldstart_s=[0.0, coldstart_s])
    assert asked(planned(also_promised(seen(running), planned(seen(running)), 12))) == asks


def with_promises(what, hours):
    """*what* with promises to jobs of 4 GPUs for so many *hours* from now, by job; running ones need two more."""
    count, columns = (
        len(hours),
        {"job_id": list(hours), "promised_s": [NOW_S + ahead * HOUR_S for ahead in hours.values()]},
    )
    same = {"first_submit_s": NOW_S - HOUR_S, "state": PromiseState.OPEN, "gpus": 4, "needs_s": 3 * HOUR_S}
    known = promise_table(count, **columns, **{name: [value] * count for name, value in same.items()})
    forecast = replace(what.forecast_running, **dict.fromkeys(("runtime_s", "low_s", "high_s"), np.full(2, 3 * HOUR_S)))
    return replace(what, promises=known, forecast_running=forecast)


def test_a_promise_that_cannot_be_kept_does_not_keep_others_from_stops_for_the_more_urgent_one():
    """Job 901 stays, and only one of two that must start now can have the GPUs of job 902."""
    ahead_h = {1: 2 + 100 / HOUR_S, 2: 1 + 130 / HOUR_S}
    limits = {
        "time_limit_s": [2 * HOUR_S, HOUR_S],
        "deadline_s": [NOW_S + ahead * HOUR_S for ahead in ahead_h.values()],
    }
    what = seen(full(4, 4, ckpt=[False, True]), count=2, **limits)
    assert asked(planned(with_promises(what, ahead_h | {902: 24}))) == [902]


def test_a_job_that_will_be_late_anyway_does_not_keep_running_jobs_with_a_promise_from_stops_for_others():
    """Job 2 needs an hour and has half of one; job 901 stays, and job 902 has a promise with time to spare."""
    ahead_h = {1: 2 + 100 / HOUR_S, 2: 0.5}
    limits = {
        "time_limit_s": [2 * HOUR_S, HOUR_S],
        "deadline_s": [NOW_S + ahead * HOUR_S for ahead in ahead_h.values()],
    }
    what = seen(full(4, 4, ckpt=[False, True]), count=2, ckpt=np.ones(2, dtype=bool), **limits)
    assert asked(planned(with_promises(what, ahead_h | {902: 24}))) == [902]


@pytest.mark.parametrize(("spare_s", "answer"), [(30.0, "REFUSED"), (-30.0, "OPEN")])
def test_nobody_is_promised_the_gpus_of_a_job_that_is_in_time_only_by_what_is_counted_for_its_start(spare_s, answer):
    """A minute is counted; job 1 needs two hours of all eight GPUs, and job 2 asks for one hour of four of them."""
    ahead_h = {1: 2 + spare_s / HOUR_S, 2: 2.5}
    columns = {
        "gpus": [8, 4],
        "nodes": [2, 1],
        "time_limit_s": [2 * HOUR_S, HOUR_S],
        "deadline_s": [NOW_S + ahead * HOUR_S for ahead in ahead_h.values()],
        "ckpt": np.ones(2, dtype=bool),
    }
    what = with_promises(beside(full(4, 4), jobs(2, **columns), [3 * HOUR_S] * 2), {1: ahead_h[1]})
    what = replace(what, promises=replace(what.promises, gpus=np.array([8])))
    assert states(planned(what))[-1] == answer


@pytest.mark.parametrize("slack_s", [0.0, 10 * HOUR_S])
def test_a_promised_job_that_only_slack_wants_to_run_now_makes_room_for_one_that_must_start(slack_s):
    what = seen(full(4, 4, ckpt=[False, True]))
    plan = planned(what)
    assert asked(planned(also_promised(what, plan, 12), slack_s=slack_s)) == [902]


@pytest.mark.parametrize(("spare_s", "asks"), [(500.0, []), (700.0, [902])])
def test_a_promised_job_goes_on_that_could_not_have_room_made_for_it_again_in_time(spare_s, asks):
    what = seen(full(4, 4, ckpt=[False, True]), ahead_s=220.0, time_limit_s=[120.0])
    assert asked(planned(also_promised(what, planned(what), 2 + spare_s / HOUR_S))) == asks


@pytest.mark.parametrize(("ahead_s", "answer"), [(1200.0, "REFUSED"), (1500.0, "OPEN")])
def test_a_new_promise_waits_for_the_leases_of_promised_jobs_that_may_just_have_begun(ahead_s, answer):
    what = with_promises(seen(full(4, 4), ahead_s=2 * HOUR_S + ahead_s), {901: 24, 902: 24})
    assert states(planned(what, promised_lease_s=1200.0))[-1] == answer


@pytest.mark.parametrize(("yields", "wide", "held"), [(True, 8, [2]), (True, 1, []), (False, 8, [])])
def test_nobody_takes_the_gpus_that_come_free_for_a_wide_job_behind_which_it_waits(yields, wide, held):
    """It would end in time: nothing else holds it."""
    deadlines = {"deadline_s": [NOW_S + 2 * HOUR_S + 100.0, np.nan], "time_limit_s": [2 * HOUR_S, 20.0]}
    pending = jobs(2, gpus=[wide, 1], nodes=[max(1, wide // 4), 1], **deadlines)
    plan = planned(beside(full(4, 4), pending, [3 * HOUR_S, 5.0]), yields=yields)
    assert [action.job_id for action in plan.actions if isinstance(action, Hold)] == held


def test_a_promised_job_has_a_longer_lease():
    what = seen(full(4, 4, ckpt=[False, True], started_s=NOW_S - np.array([HOUR_S, 600.0])))
    plan = planned(what)
    assert asked(plan) == [902]
    assert asked(planned(also_promised(what, plan, 12), promised_lease_s=1200.0)) == []
    assert asked(planned(also_promised(what, plan, 12), promised_lease_s=300.0)) == [902]


@pytest.mark.parametrize(("coldstart_s", "cost_s"), [(0.0, 60.0), (30.0, 60.0), (300.0, 300.0)])
def test_a_job_that_goes_on_from_its_saved_work_needs_only_what_is_left_and_the_cost_of_resuming(coldstart_s, cost_s):
    known = {"time_limit_s": [2 * HOUR_S] * 2, "coldstart_s": [coldstart_s] * 2}
    pending = jobs(2, ran_s=[HOUR_S, 0.0], restarts=[1, 0], ckpt=[True] * 2, **known)
    what = view(replace(pending, deadline_s=np.full(2, NOW_S + 1.2 * HOUR_S)), np.full(2, HOUR_S))
    plan = planned(what, restart_s=60.0, margin=0.9)
    assert states(plan) == ["OPEN", "REFUSED"]
    assert plan.promises.needs_s.tolist() == [HOUR_S + cost_s, 2 * HOUR_S]


def test_without_the_power_to_requeue_nobody_is_asked():
    plan = planned(seen(full(4, 4)), powers=frozenset({"order", "hold"}))
    assert states(plan) == ["REFUSED"]
    assert asked(plan) == []


def test_a_job_of_a_partition_that_we_keep_off_is_not_asked():
    what = seen(full(4, 4, partition=["other", "gpu"]))
    rules = Rules(powers=ALL_POWERS - {"comment"}, only_partitions=frozenset({"gpu"}), deadlines=ASKED)
    assert asked(decide(what, FIFO, rules)) == [902]
    assert asked(decide(seen(full(4, 4, partition=["other", "other"])), FIFO, rules)) == []


def test_a_job_that_slurm_would_start_again_first_is_not_asked():
    what = seen(full(4, 4, qos=["normal", "high"]))
    rules = Rules(powers=ALL_POWERS - {"comment"}, scope="qos", deadlines=ASKED)
    assert asked(decide(what, FIFO, rules)) == [901]
    assert asked(decide(what, FIFO, replace(rules, scope="queue"))) == [902], "it loses less"
    assert asked(decide(seen(full(4, 4, qos=["high", "high"])), FIFO, rules)) == []


def test_who_was_asked_gets_time_and_is_requeued_then_and_no_other_is_asked_meanwhile():
    first = planned(seen(full(4, 4)))
    for ago_s, expected in ((15.0, []), (61.0, [901])):
        running = full(4, 4, stop_requested_s=[NOW_S - ago_s, np.nan], stop_requests=[1, 0])
        plan = planned(replace(seen(running), promises=first.promises))
        assert (asked(plan), requeued(plan)) == ([], expected)
    told = " ".join(why(seen(running), plan, Rules(), 901).sentences)
    assert "It was asked 61 s ago to save its work and make room; it goes on later." in told


@pytest.fixture
def most_work_first():
    """A preemption of somebody else."""

    @preemption("most-work-first")
    def most_work_first(yielders, late):
        """The job that loses most yields alone."""
        return np.argsort(-yielders.lost_gpu_s)[:1]

    yield "most-work-first"
    del PREEMPTIONS._parts["most-work-first"]


def test_a_preemption_of_somebody_else_chooses_who_is_asked(most_work_first):
    what = seen(full(4, 4))
    assert asked(planned(what)) == [902], "it has run for less time"
    assert asked(planned(what, preemption=most_work_first)) == [901]


def test_who_ends_already_spares_the_others():
    first = planned(seen(full(4, 4)))
    running = full(4, 4, state=[JobState.COMPLETING, JobState.RUNNING])
    plan = planned(replace(seen(running), promises=first.promises))
    assert asked(plan) == []


def test_once_the_promise_is_gone_nobody_is_requeued():
    running = full(4, 4, stop_requested_s=[np.nan, NOW_S - 90.0], stop_requests=[0, 1])
    assert requeued(planned(seen(running, deadline_s=[np.inf]))) == []


@examples(20)
@given(
    gpus=st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=2),
    agreed=st.lists(st.booleans(), min_size=2, max_size=2),
    ran_s=st.lists(st.sampled_from([10.0, 299.0, 301.0, 9000.0]), min_size=2, max_size=2),
    ago_s=st.lists(st.sampled_from([np.nan, 10.0, 70.0, 299.0, 400.0]), min_size=2, max_size=2),
    asks=st.lists(st.integers(0, 3), min_size=2, max_size=2),
    ahead_s=st.floats(0.0, 300.0),
)
def test_only_who_agreed_and_had_a_lease_is_stopped_and_only_with_a_promise_to_keep(
    gpus, agreed, ran_s, ago_s, asks, ahead_s
):
    started_s = NOW_S - np.array(ran_s)
    running = full(
        *gpus, ckpt=agreed, started_s=started_s, stop_requested_s=NOW_S - np.array(ago_s), stop_requests=asks
    )
    plan = planned(seen(running, ahead_s=2 * HOUR_S + ahead_s))
    for job in asked(plan):
        row = job - 901
        assert agreed[row]
        assert ran_s[row] >= 300
        assert not ago_s[row] < 300
        assert asks[row] < 2
    for job in requeued(plan):
        row = job - 901
        assert agreed[row]
        assert 60 <= ago_s[row] <= ran_s[row]
    assert not (asked(plan) or requeued(plan)) or states(plan) == ["OPEN"]


class Site:
    """Cycles every 30 seconds over a Slurm in memory with one node of four GPUs; a new one is a daemon started anew."""

    def __init__(self, store, cluster):
        self.cluster, self.cycles = cluster, store.last_number("fake")
        asked = replace(ASKED, asks_a_day=4)
        rules = Rules(frozenset({"order", "hold", "requeue", "comment"}), scope="queue", deadlines=asked)
        self.world = CycleContext(
            cluster=cluster,
            memory=Memory(store, cluster="fake", monotonic=lambda: self.cluster.now_s),
            model=RuntimeModel.fit(cluster.outcomes(0.0, 0.0)),
            policy=Policy(FIFO, rules),
            writer=Writer(cluster, Budget(20.0, 100)),
            clock=ManualClock(),
            learns=False,
        )

    def run(self, seconds):
        for _ in range(int(seconds // 30)):
            self.cycles += 1
            self.world.clock.now_s = self.cluster.now_s
            run_cycle(self.world, self.cycles, self.cluster.now_s, "act")
            self.cluster.advance(30.0)


@pytest.fixture
def cluster():
    """A job that said ckpt has run for six minutes of eleven when one with a deadline comes."""
    made = FakeSlurm(nodes=1)
    made.submit(660.0, gpus=4, time_limit_s=1e6, comment="slurmsched:ckpt")
    made.advance(360.0)
    made.submit(90.0, gpus=4, time_limit_s=90.0, comment="slurmsched:deadline=+330s", name="urgent")
    return made


def play_out(store, cluster):
    """A new daemon each cycle until all jobs have ended."""
    for _ in range(40):
        if all(job.state is JobState.COMPLETED for job in cluster.jobs.values()):
            return
        with contextlib.suppress(SlurmUnavailable):
            Site(store, cluster).run(30.0)
    raise AssertionError("some jobs never ended")


def test_a_job_that_saves_its_work_makes_room_and_loses_nothing_with_a_new_daemon_each_cycle(store, cluster):
    cluster.jobs[1] = replace(cluster.jobs[1], saves_s=20.0)
    play_out(store, cluster)
    saver, urgent = cluster.jobs[1], cluster.jobs[2]
    assert urgent.ended_s <= urgent.submitted_s + 330
    assert saver.restarts == 1
    ran_s = (saver.submitted_s - 1_000_000.0) + (saver.ended_s - saver.started_s)
    assert ran_s == pytest.approx(660.0), "no second of its work was done twice"
    assert [action for action in cluster.written if isinstance(action, AskToStop | Requeue)] == [AskToStop(1, "URG")]


def test_a_job_that_does_not_listen_is_requeued_after_its_time_and_finishes_too(store, cluster):
    Site(store, cluster).run(1050)
    stopped = [action for action in cluster.written if isinstance(action, AskToStop | Requeue)]
    assert stopped == [AskToStop(1, "URG"), Requeue(1)]
    assert cluster.jobs[2].ended_s <= cluster.jobs[2].submitted_s + 330
    assert cluster.jobs[1].state is JobState.COMPLETED


def test_a_job_that_was_suspended_when_it_was_asked_is_asked_again_and_gets_all_its_time(store, cluster):
    site = Site(store, cluster)

    def run_until(kind, count):
        for _ in range(30):
            told = [action for action in cluster.written if isinstance(action, AskToStop | Requeue)]
            if sum(isinstance(action, kind) for action in told) == count:
                return told
            site.run(30)
        raise AssertionError(told)

    run_until(AskToStop, 1)
    cluster.act([Suspend(1)])
    site.run(30)
    cluster.act([Resume(1)])
    run_until(AskToStop, 2)
    asked_s = cluster.now_s
    assert run_until(Requeue, 1) == [AskToStop(1, "URG"), AskToStop(1, "URG"), Requeue(1)]
    assert cluster.now_s - asked_s >= ASKED.stop_s


class Forgetful(FakeSlurm):
    """Does what it is told, and its first answers to a question to stop or a requeue are lost with the daemon."""

    lost = 3

    def act(self, actions):
        answers = super().act(actions)
        if self.lost and any(isinstance(action, AskToStop | Requeue) for action in actions):
            self.lost -= 1
            raise SlurmUnavailable("killed before the answer came")
        return answers


@pytest.mark.parametrize("saves_s", [20.0, float("inf")], ids=["saves its work", "does not listen"])
def test_a_daemon_that_dies_before_it_hears_the_answer_loses_no_job_and_no_promise(store, cluster, saves_s):
    forgetful = Forgetful(nodes=1, now_s=cluster.now_s, jobs=dict(cluster.jobs))
    forgetful.jobs[1] = replace(forgetful.jobs[1], saves_s=saves_s)
    play_out(store, forgetful)
    assert forgetful.jobs[2].ended_s <= forgetful.jobs[2].submitted_s + 330
    assert forgetful.jobs[1].restarts == 1


def test_a_daemon_that_never_hears_an_answer_asks_no_more_often_than_it_may(store, cluster):
    deaf = Forgetful(nodes=1, now_s=cluster.now_s, jobs=dict(cluster.jobs))
    deaf.lost = 99
    for _ in range(10):
        with contextlib.suppress(SlurmUnavailable):
            Site(store, deaf).run(30.0)
    assert [action for action in deaf.written if isinstance(action, AskToStop | Requeue)] == [AskToStop(1, "URG")] * 4


def test_the_answer_stands_in_the_admin_comment_and_is_written_when_it_changes(store, cluster):
    cluster.submit(300.0, gpus=4, time_limit_s=300.0, comment="slurmsched:deadline=+7m")
    cluster.submit(300.0, gpus=4, time_limit_s=300.0, comment="slurmsched:deadline=+9h", admin_comment="ticket 12")
    Site(store, cluster).run(60)
    Site(store, cluster).run(60)
    told = [action for action in cluster.written if isinstance(action, SetAdminComment)]
    assert [action.job_id for action in told] == [2, 3, 4], "each once, by whatever daemon"
    assert cluster.jobs[2].admin_comment == "slurmsched:guaranteed,finish-by=1970-01-12T13:58:10Z"
    assert cluster.jobs[3].admin_comment.startswith("slurmsched:not-guaranteed,earliest=")
    assert cluster.jobs[4].admin_comment == "ticket 12"
    assert 4 not in {intent.job_id for intent in store.intents("fake", 0.0) if intent.kind == "Rank" and intent.refused}
