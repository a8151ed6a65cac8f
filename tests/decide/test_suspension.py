"""Jobs that take turns on GPUs: who pauses for whom, for how long, and what of that is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_pair_eviction import seen
from views import NOW_S, forecast, running_jobs

from examples import examples
from slurmsched.cluster.actions import Action, Requeue, Resume, Suspend
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.intent import Intent
from slurmsched.cluster.actions.observation import Observation
from slurmsched.cluster.actions.own_columns import undone_of_running
from slurmsched.cluster.actions.suspend import LATE_S, own_suspensions
from slurmsched.cluster.job_kind import kind_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.faults import Instability
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.cluster.state import ClusterState, View
from slurmsched.decide.deadlines.gpu_availability import GpuAvailability
from slurmsched.decide.rules import Rules, SharingRules, SuspensionRules
from slurmsched.explain.eta import Eta, with_halts_told
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide, next_change_s, with_halts
from slurmsched.powers.suspend.pauses import company, ends_s
from slurmsched.powers.suspend.wording import suspension_words

HOST, GUEST, OTHER = 911, 912, 913
POWERS = frozenset({"order", "share", "requeue", "suspend"})
WORD = Instability(GUEST, 0, "n3", int(NOW_S) - 200, int(NOW_S) - 5, (0,), (HOST,), (1,), "it jumps")
SHARES = SharingRules(memory_mib=16_000.0, unstable=(WORD,), least_speed_each=0.65)
RULES = Rules(powers=POWERS, sharing=SHARES, suspension=SuspensionRules(300.0))
SUSPENDED, RUNNING = JobState.SUSPENDED, JobState.RUNNING


def pair(**columns: Any) -> Any:
    """The host and the guest on GPU 0 of n3, of two users, who take turns; neither said ckpt."""
    known = {
        "job_id": [HOST, GUEST],
        "node_list": ["n3", "n3"],
        "partition": ["shared"] * 2,
        "per_node": ["gres:slot:i0:1"] * 2,
        "shares": [True, True],
        "share_token": ["0", "0:time"],
        "user": ["alice", "bob"],
        "restarts": [1, 0],
        "started_s": [NOW_S - 600.0, NOW_S - 300.0],
    }
    return running_jobs(2, **(known | columns))


def paused(for_s: float, **columns: Any) -> Any:
    """The guest was suspended by us so long ago."""
    since = {"suspended_s": [0.0, NOW_S - for_s], "paused_s": [0.0, for_s]}
    return pair(**({"state": [RUNNING, SUSPENDED]} | since | columns))


def wishes(what: View, rules: Rules = RULES) -> list[Action]:
    plan = decide(what, find_ordering("fifo"), rules)
    return [action for action in plan.actions if isinstance(action, Suspend | Resume | Requeue)]


def told(what: View, job: int, rules: Rules = RULES) -> str:
    return " ".join(suspension_words(what, decide(what, find_ordering("fifo"), rules), rules, job))


def slow(job: int, slowdown: float) -> ProgressTable:
    one, ids = np.array([0.0]), np.array([job])
    return ProgressTable(ids, np.array([100]), one, one, one, one > 1, one > 1, np.array([slowdown]))


def test_the_later_of_two_that_are_unstable_in_turns_is_suspended():
    assert wishes(seen(pair())) == [Suspend(GUEST)]
    assert wishes(seen(pair(started_s=[NOW_S - 200.0, NOW_S - 600.0]))) == [Suspend(HOST)]


@pytest.mark.parametrize(
    "columns",
    [
        {"share_token": ["0", "0"]},
        {"ckpt": [False, True], "requeueable": [False, False]},
        {"ckpt": [True, False], "requeueable": [False, False]},
        {"off": [False, True]},
        {"interactive": [False, True]},
        {"array_job_id": [0, 77]},
        {"het_job_id": [0, 77]},
        {"rested_s": [0.0, NOW_S + 10.0]},
        {"state": [SUSPENDED, RUNNING]},
        {"state": [RUNNING, JobState.COMPLETING]},
        {"per_node": ["gres:slot:i0:1", "gres:slot:i1:1"]},
        {"node_list": ["n2", "n3"]},
    ],
    ids=repr,
)
def test_nobody_is_suspended_under_mps_or_against_a_rule(columns):
    assert wishes(seen(pair(**columns))) == []


def test_who_may_be_requeued_is_not_suspended():
    assert wishes(seen(pair(ckpt=[True, True]))) == [Requeue(GUEST)]


def test_no_job_is_suspended_without_the_power_or_with_a_promise():
    assert wishes(seen(pair()), replace(RULES, powers=POWERS - {"suspend"})) == []
    assert wishes(seen(pair()), replace(RULES, suspension=None)) == []
    promised = promise_table(1, job_id=[GUEST], state=[PromiseState.OPEN], promised_s=[NOW_S + 9000.0])
    assert wishes(replace(seen(pair()), promises=promised)) == []


def test_a_measured_pace_below_the_least_suspends_the_guest_whichever_of_both_it_is():
    calm = replace(RULES, sharing=replace(SHARES, unstable=()))
    assert wishes(seen(pair()), calm) == []
    for job in (HOST, GUEST):
        assert wishes(replace(seen(pair()), progress=slow(job, 2.0)), calm) == [Suspend(GUEST)]
        assert wishes(replace(seen(pair()), progress=slow(job, 1.5)), calm) == []
    assert "keeps 0.50 of its speed" in told(replace(seen(pair()), progress=slow(HOST, 2.0)), HOST, calm)


def test_what_kinds_were_measured_to_keep_counts_and_the_curve_alone_does_not():
    jobs = pair(name=["a_1", "b_1"], measured=[True, True], gpu_util=[0.9, 0.9])
    curve = ((0.0, 1.0), (2.0, 0.5))
    calm = replace(SHARES, unstable=(), curve=curve)
    assert wishes(seen(jobs), replace(RULES, sharing=calm)) == []
    kept = replace(calm, kept=((kind_of("alice", "a_1"), 0.9),))
    assert wishes(seen(jobs), replace(RULES, sharing=kept)) == [Suspend(GUEST)]
    assert wishes(seen(jobs), replace(RULES, sharing=replace(kept, least_speed_each=0.3))) == []


def test_a_suspended_guest_goes_on_in_time_or_when_its_host_does_not_run_any_more():
    assert wishes(seen(paused(299.0))) == []
    assert wishes(seen(paused(300.0))) == [Resume(GUEST)]
    alone = paused(10.0).take(np.array([1]))
    assert wishes(seen(alone)) == [Resume(GUEST)]
    for state in (JobState.COMPLETING, SUSPENDED):
        assert wishes(seen(paused(10.0, state=[state, SUSPENDED]))) == [Resume(GUEST)]
    assert wishes(seen(paused(10.0, off=[False, True]))) == [Resume(GUEST)]


def test_no_suspension_lasts_longer_than_the_job_itself_still_needs():
    ran_s, left_s = 300.0 - 60.0, 50.0
    short = replace(seen(paused(60.0)), forecast_running=forecast([5000.0, ran_s + left_s]))
    assert wishes(short) == [Resume(GUEST)]
    assert wishes(replace(short, forecast_running=forecast([5000.0, ran_s + 70.0]))) == []
    assert wishes(replace(seen(pair()), forecast_running=forecast([5000.0, 305.0]))) == []


def test_what_others_suspended_stays_suspended():
    theirs = seen(paused(900.0, suspended_s=[0.0, 0.0]))
    for rules in (RULES, replace(RULES, suspension=None), replace(RULES, powers=frozenset({"order"}))):
        assert wishes(theirs, rules) == []
    assert "others" in told(theirs, GUEST)


@pytest.mark.parametrize(
    "rules", [replace(RULES, suspension=None), replace(RULES, powers=frozenset({"order"}), suspension=None)]
)
def test_a_power_that_is_switched_off_resumes_all_of_ours(rules):
    assert wishes(seen(paused(10.0)), rules) == [Resume(GUEST)]


def test_time_suspended_is_no_time_run_and_what_remains_stands_still():
    before = seen(pair())
    later = replace(seen(paused(200.0, started_s=[NOW_S - 800.0, NOW_S - 500.0])), now_s=NOW_S)
    assert later.this_s[1] == before.this_s[1] == 300.0
    assert later.remaining.median_s[1] == before.remaining.median_s[1]
    assert later.remaining.median_s[0] == before.remaining.median_s[0] - 200.0


def test_the_time_until_its_end_has_the_suspensions_to_come_and_that_of_its_run_has_not():
    short = replace(seen(paused(60.0)), forecast_running=forecast([5000.0, 240.0 + 350.0]))
    foreseen = with_halts(short, RULES)
    assert foreseen.run_left.median_s.tolist() == short.remaining.median_s.tolist() == [4400.0, 350.0]
    # Of 300 s at a time 240 are left; then it runs for as long, and what is still missing is 50 s, one after the other.
    assert foreseen.remaining.median_s.tolist() == [4400.0, 350.0 + 240.0 + 50.0]
    alone = replace(short, forecast_running=forecast([700.0, 590.0]))
    assert with_halts(alone, RULES).remaining.median_s.tolist() == [100.0, 350.0 + 100.0], "its host has ended by then"


def test_promises_count_the_suspensions_to_come_before_the_gpus_of_a_guest_are_free():
    jobs = seen(paused(60.0))
    foreseen = with_halts(jobs, RULES)
    without_s, with_s = (GpuAvailability(view, 0.9, 1.0).ends_s for view in (jobs, foreseen))
    assert with_s.tolist() == (without_s + foreseen.running.halts_high_s).tolist()
    assert with_s[1] > without_s[1]


def test_no_time_is_added_where_nobody_takes_turns_or_the_suspension_is_not_ours():
    theirs = seen(paused(900.0, suspended_s=[0.0, 0.0]))
    for view, rules in (
        (theirs, RULES),
        (seen(paused(60.0)), replace(RULES, suspension=None)),
        (seen(pair(ckpt=[True, True])), RULES),
        (seen(paused(60.0, off=[False, True])), RULES),
    ):
        assert with_halts(view, rules) is view
    assert with_halts(seen(pair()), RULES).running.halts_s[1] > 0
    assert with_halts(seen(pair()), RULES).running.halts_s[0] == 0


def test_both_jobs_are_told_and_when_the_suspended_one_goes_on():
    assert "it is suspended now, for 5 min at most" in told(seen(pair()), GUEST)
    assert f"job {GUEST} is suspended now" in told(seen(pair()), HOST)
    assert "It goes on in 200 s at the latest" not in told(seen(pair()), GUEST)
    mine, hosts = told(seen(paused(200.0)), GUEST), told(seen(paused(200.0)), HOST)
    assert mine.startswith(f"We suspended it 3 min ago for job {HOST}")
    assert "It goes on in 100 s at the latest, or when that job ends." in mine
    assert f"Job {GUEST} on its GPUs was suspended 3 min ago" in hosts
    assert "That job goes on in 100 s at the latest." in hosts
    assert told(seen(paused(300.0)), GUEST) == "We suspended it, and it goes on now."
    assert "may be suspended again in 90 s" in told(seen(pair(rested_s=[0.0, NOW_S + 90.0])), GUEST)


def test_eta_of_both_tells_when_the_suspended_one_goes_on():
    def notes(view: View, job: int, kind: str) -> tuple[str, ...]:
        return with_halts_told(
            Eta(job, "bob", "shared", 1, 1, kind, NOW_S, notes=("It is not known.",)), view, RULES
        ).notes

    assert notes(seen(pair()), GUEST, "running") == ("It is not known.",)
    _, mine = notes(seen(paused(200.0)), GUEST, "running")
    assert "It goes on in 100 s at the latest" in mine
    *_, ahead = notes(with_halts(seen(paused(200.0)), RULES), GUEST, "running")
    assert ahead.startswith("Until its end it runs for about ")
    kept, hosts = notes(seen(paused(200.0)), HOST, "running")
    assert kept == "It is not known."
    assert "That job goes on in 100 s at the latest." in hosts
    theirs = notes(seen(paused(200.0, suspended_s=[0.0, 0.0])), GUEST, "suspended")
    assert theirs[0] == "It is not known."
    assert "others" in theirs[1]


def test_the_next_change_is_the_end_of_a_suspension_or_of_the_rest_after_it():
    def at_s(view: View) -> float:
        fifo = find_ordering("fifo")
        return next_change_s(view, decide(view, fifo, RULES), fifo, RULES)

    assert at_s(seen(paused(200.0))) == NOW_S + 100.0
    assert at_s(seen(pair(rested_s=[0.0, NOW_S + 90.0]))) == NOW_S + 90.0


@st.composite
def sites(draw: st.DrawFn) -> View:
    """Any running jobs on the slots of a node of four GPUs, at most two on a GPU, some of them suspended."""
    many = draw(st.integers(0, 6))
    left = [2, 2, 2, 2]
    slots, tokens = [], []
    for _ in range(many):
        room = [gpu for gpu in range(4) if left[gpu]]
        gpus = sorted(draw(st.sets(st.sampled_from(room), min_size=1, max_size=3))) if room else []
        for gpu in gpus:
            left[gpu] -= 1
        slots.append(",".join(f"gres:slot:i{gpu}:1" for gpu in gpus))
        tokens.append("+".join(map(str, gpus)) + draw(st.sampled_from(["", ":time"])) if gpus else "")
    flags = {
        name: [draw(st.sampled_from([False, False, False, True])) for _ in range(many)]
        for name in ("off", "interactive", "ckpt")
    }
    started_s = [NOW_S - draw(st.integers(1, 900)) for _ in range(many)]
    state = [draw(st.sampled_from([RUNNING, RUNNING, SUSPENDED])) for _ in range(many)]
    since_s = [
        max(NOW_S - draw(st.integers(1, 900)), begun_s) if one == SUSPENDED and draw(st.booleans()) else 0.0
        for one, begun_s in zip(state, started_s, strict=True)
    ]
    jobs = running_jobs(
        many,
        job_id=[911 + at for at in range(many)],
        node_list=["n3"] * many,
        partition=["shared"] * many,
        per_node=slots,
        shares=[bool(slot) for slot in slots],
        share_token=tokens,
        state=state,
        started_s=started_s,
        suspended_s=since_s,
        paused_s=[NOW_S - each if each else 0.0 for each in since_s],
        rested_s=[NOW_S + draw(st.integers(-100, 100)) for _ in range(many)],
        restarts=[0] * many,
        **flags,
    )
    site = seen(jobs)
    site = replace(site, forecast_running=forecast([float(draw(st.integers(1, 2000))) for _ in range(many)]))
    slowdown = np.array([draw(st.sampled_from([1.0, 3.0, np.nan])) for _ in range(many)])
    none = np.zeros(many)
    return replace(
        site, progress=ProgressTable(jobs.job_id, none.astype(int), none, none, none, none > 1, none > 1, slowdown)
    )


@given(sites(), st.sampled_from([10.0, 300.0, 3600.0]))
@examples(200)
def test_never_both_of_two_never_a_host_and_never_beyond_the_bounds(site, most_s):
    rules = replace(RULES, suspension=SuspensionRules(most_s))
    jobs, row_of = site.running, {job: row for row, job in enumerate(site.running.job_id.tolist())}
    actions = wishes(site, rules)
    stopped = {row_of[action.job_id] for action in actions if isinstance(action, Suspend)}
    resumed = {row_of[action.job_id] for action in actions if isinstance(action, Resume)}
    pairs = company(jobs)
    for row in stopped:
        hosts = [host for guest, host in pairs if guest == row]
        assert hosts
        assert any(jobs.state[host] == RUNNING for host in hosts)
        assert not stopped & set(hosts)
        assert all(host != row for _, host in pairs), "a host"
        assert not (jobs.off[row])
        assert not (jobs.interactive[row])
        assert not (jobs.ckpt[row])
        assert jobs.rested_s[row] <= NOW_S
    for row in range(len(jobs)):
        is_ours = jobs.state[row] == SUSPENDED and jobs.suspended_s[row] > 0
        late = is_ours and ends_s(site, SuspensionRules(most_s))[row] <= NOW_S
        runs_beside = any(
            jobs.state[other] == RUNNING
            for one, two in pairs
            for this, other in ((one, two), (two, one))
            if this == row
        )
        assert (row in resumed) == bool(is_ours and (late or jobs.off[row] or not runs_beside))


# What of a suspension is ours, by its intents.


def intents(*some: Intent) -> OwnIntents:
    return OwnIntents.among([one for one in some if one.closed_s is None], [one for one in some if one.answered_s])


def suspension(from_s: float, until_s: float | None = None, **more: Any) -> Intent:
    known = {"answered_s": from_s, "seen_s": from_s, "closed_s": until_s}
    return Intent(GUEST, "Suspend", None, from_s, int(from_s), **(known | more))


def test_a_suspension_counts_from_our_request_until_the_job_runs_again():
    jobs = pair(started_s=[NOW_S - 900.0] * 2)
    own = intents(suspension(NOW_S - 700.0, NOW_S - 600.0), suspension(NOW_S - 400.0, NOW_S - 350.0))
    found = own_suspensions(own, jobs, NOW_S)
    assert found["suspended_s"].tolist() == [0.0, 0.0]
    assert found["rested_s"].tolist() == [0.0, NOW_S - 300.0]
    assert found["paused_s"].tolist() == [0.0, 150.0]
    open_one = intents(suspension(NOW_S - 700.0, NOW_S - 600.0), suspension(NOW_S - 50.0))
    found = own_suspensions(open_one, jobs.changed(state=np.array([RUNNING, SUSPENDED])), NOW_S)
    assert found["suspended_s"].tolist() == [0.0, NOW_S - 50.0]
    assert found["paused_s"].tolist() == [0.0, 150.0]
    earlier = own_suspensions(own, pair(started_s=[NOW_S - 900.0, NOW_S - 300.0]), NOW_S)
    assert earlier["paused_s"].tolist() == [0.0, 0.0], "of the run before"


def test_only_suspensions_of_ours_that_are_in_force_are_resumed():
    own = intents(suspension(NOW_S - 50.0))
    assert undone_of_running(own, pair(state=[SUSPENDED, SUSPENDED])) == [Resume(GUEST)]
    assert undone_of_running(own, pair()) == []


def test_a_suspension_is_over_once_the_job_runs_again_and_an_unanswered_one_waits_for_its_effect():
    def look(jobs: Any, after_s: float) -> Observation:
        site = seen(jobs)
        state = ClusterState(site.pending, jobs, jobs.take(slice(0, 0)), site.nodes, site.partitions, site.qos)
        return Observation(state, (), NOW_S + after_s)

    shown = pair(state=[RUNNING, SUSPENDED])
    sent = suspension(NOW_S, answered_s=None, seen_s=None)
    assert not Suspend.over(sent, look(shown, 900.0), True)
    assert Suspend.over(sent, look(pair(), 10.0), True)
    assert not Suspend.over(sent, look(pair(), 10.0), False)
    assert Suspend.over(sent, look(pair(), LATE_S + 1.0), False)
    assert Suspend.over(sent, look(pair().take(slice(0, 1)), 1.0), True)
