"""Promises and leases of Chronus, decided by the daemon's own cycle on a cluster that carries plans out as they are."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import decided, misjudged

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.db.store import Store
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SELECTIONS, find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import IdealDriver, composed
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.ideal_cluster import IdealCluster
from slurmsched.simulator.machine.direct import rules_of
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.deadlines import Deadlines
from slurmsched.simulator.report.metrics import violations
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.workload import Workload, workload

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/data/chronus_philly_mix2.csv"
DATA = Path(os.environ.get("SLURMSCHED_TRACES", ROOT.parent / "shared/data"))
MINUTE_S = 60.0


def jobs(*rows, ckpt=True) -> Workload:
    """Each is (submit, runtime, GPUs, "share@minutes,..." or "" for best effort), in minutes; all save their work."""
    submit, runtime, gpus, steps = zip(*rows, strict=True)
    first = [float(one.split(",")[0].split("@")[1]) if one else np.inf for one in steps]

    def seconds(one):
        pairs = [pair.split("@") for pair in one.split(",") if pair]
        return ",".join(f"{share}@{float(within) * MINUTE_S:g}" for share, within in pairs)

    return workload(
        len(rows),
        job_id=np.arange(1, len(rows) + 1),
        submit_s=np.array(submit) * MINUTE_S,
        runtime_s=np.array(runtime) * MINUTE_S,
        gpus=gpus,
        deadline_s=(np.array(submit) + np.array(first)) * MINUTE_S,
        best_effort=[not one for one in steps],
        rewards=[seconds(one) for one in steps],
        ckpt=np.full(len(rows), ckpt) if isinstance(ckpt, bool) else ckpt,
    )


def chronus(
    asked: Workload,
    gpus: int,
    *,
    learnt: Forecast | None = None,
    ordering: str = "chronus",
    selection: str = "leases",
    placement: str = "pool",
    beat_s: float = 300.0,
    cost_s: float = 30.0,
) -> Replay:
    """A replay on one pool of *gpus*, where resuming costs *cost_s* on one GPU and for each doubling."""
    forecast = "exact" if learnt is None else "history"
    costs = {"restart_s": cost_s, "restart_doubling_s": cost_s, "beat_s": beat_s}
    setup = Setup.of(ordering, selection, placement=placement, forecast=forecast, **costs)
    fleet = ClusterSpec.of(1, gpus) if gpus <= 64 else ClusterSpec.of(gpus // 8, 8)
    return decided(asked, fleet, setup, learnt)


def guess(median_min, high_min) -> Forecast:
    median_s, high_s = np.array(median_min) * MINUTE_S, np.array(high_min) * MINUTE_S
    return Forecast(median_s, median_s, high_s, Labels.of(["a guess"] * len(median_s)))


def ends_min(replay: Replay) -> list[float]:
    return (replay.end_s / MINUTE_S).tolist()


def promises(replay: Replay) -> tuple[int, int, int]:
    made = replay.decisions
    return made.promised, made.refused, made.broken


def test_a_job_with_time_to_spare_lets_a_shorter_one_pass():
    assert ends_min(chronus(jobs((0, 60, 4, "1@300"), (0, 30, 4, "")), 4)) == [90, 30]


def test_a_job_without_time_to_spare_goes_first():
    assert ends_min(chronus(jobs((0, 60, 4, "1@70"), (0, 30, 4, "")), 4)) == [60, 90]


def test_a_job_that_would_break_a_promise_is_promised_its_next_step_or_nothing():
    asked = jobs((0, 60, 4, "1@65"), (0, 60, 4, "1@70,0.5@130"), (0, 60, 4, "1@75"))
    replay = chronus(asked, 4)
    assert promises(replay) == (2, 1, 0)
    assert ends_min(replay)[:2] == [60, 120]
    assert Deadlines.of(replay).unearned == pytest.approx(0.5)


def test_promises_leave_room_for_as_many_smaller_jobs_as_asked_lately():
    crowd, long, short = [(0, 60, 1, "1@62")] * 9, [(100, 200, 4, "1@208")] * 2, [(100, 50, 1, "1@58")] * 8
    assert promises(chronus(jobs(*crowd, *long), 10))[:2] == (10, 1)
    assert promises(chronus(jobs(*crowd, *long), 10, selection="leases foreseen=0"))[:2] == (11, 0)
    assert promises(chronus(jobs(*crowd, *short), 10))[:2] == (17, 0)


def test_a_step_that_is_worth_less_counts_as_that_of_a_larger_job():
    crowd = [(0, 60, 1, "1@62")] * 9
    for worth, promised in (("0.9", 17), ("0.5", 13)):
        late = [(100, 50, 1, f"1@10,{worth}@58")] * 8
        assert promises(chronus(jobs(*crowd, *late), 10))[0] == promised


def test_a_refused_job_is_asked_again_at_its_last_moment_when_less_is_kept_from_it():
    crowd, long, others = [(0, 60, 1, "1@62")] * 10, [(1, 500, 3, "1@600")] * 2, [(2, 100, 1, "")] * 10
    asked = jobs(*crowd, *long, *others)
    again = chronus(asked, 10)
    assert promises(again) == (11, 3, 0)  # both long ones were refused first
    assert Deadlines.of(again).missed == 0
    once = chronus(asked, 10, selection="leases last_s=0")
    assert promises(once) == (9, 3, 0)
    assert Deadlines.of(once).missed == pytest.approx(2 / 12)


def test_at_its_last_moment_a_job_is_promised_what_nearly_all_such_jobs_keep():
    crowd, long, others = [(0, 60, 1, "1@62")] * 10, [(1, 500, 2, "1@640")] * 2, [(2, 100, 1, "")] * 10
    asked, known = jobs(*crowd, *long, *others), [60] * 10 + [500] * 2 + [100] * 10
    for high, promised in ((510, 11), (550, 9)):  # nine in ten would keep both
        again = chronus(asked, 10, learnt=guess(known, [60] * 10 + [high] * 2 + [100] * 10))
        assert promises(again) == (promised, 3, 0)


def test_a_job_whose_runtime_exceeds_its_deadline_is_no_reason_to_keep_gpus_back():
    long = [(100, 90, 4, "1@95")] * 2
    assert promises(chronus(jobs(*[(0, 60, 1, "1@30")] * 10, *long), 10))[:2] == (2, 10)
    assert promises(chronus(jobs(*[(0, 60, 1, "1@61")] * 10, *long), 10))[0] == 10


def test_a_narrow_job_without_a_promise_goes_before_a_shorter_one_that_a_wide_job_lets_pass():
    for gpus, end in ((1, 60), (4, 75)):
        asked = jobs((0, 60, gpus, "1@70"), (0, 15, 4, ""))
        assert ends_min(chronus(asked, 4, learnt=guess([60, 15], [90, 15])))[0] == end


def test_a_job_without_a_promise_that_may_make_its_deadline_goes_before_a_somewhat_shorter_one():
    asked, unsure = jobs((0, 60, 4, "1@70"), (0, 30, 4, "")), guess([60, 30], [90, 40])
    hoped = chronus(asked, 4, learnt=unsure)
    assert promises(hoped)[:2] == (0, 1)
    assert ends_min(hoped)[0] == 60
    assert ends_min(chronus(asked, 4, learnt=unsure, ordering="chronus hope=1"))[0] > 70


def test_a_job_that_cannot_make_its_deadline_any_more_waits_like_best_effort():
    assert ends_min(chronus(jobs((0, 60, 4, "1@50"), (0, 30, 4, "")), 4)) == [90, 30]


def test_an_owner_is_warned_in_time_that_a_job_outlasts_its_forecast():
    known = guess([60, 60], [80, 80])
    for runtime, broken, warned in ((60, 0, 0), (150, 1, 1), (100, 0, 0)):
        made = chronus(jobs((0, runtime, 1, "1@120"), (0, 60, 1, "")), 2, learnt=known).decisions
        assert (made.broken, made.warned) == (broken, warned)
    assert made.alarms == 0


def test_a_job_whose_promise_is_lost_runs_for_its_next_step():
    asked = jobs((0, 150, 2, "1@100,0.5@180"), (0, 100, 2, ""))
    replay = chronus(asked, 2, learnt=guess([60, 100], [80, 100]))
    assert promises(replay)[2] == 1
    assert ends_min(replay)[0] <= 180


def test_a_lease_of_a_promised_job_goes_on_for_20_minutes_and_any_other_for_5():
    promised = jobs((0, 60, 1, "1@61"), (7, 10, 1, "1@11"))
    assert promises(chronus(promised, 1))[:2] == (1, 1)
    replay = chronus(jobs((0, 60, 1, ""), (6, 10, 1, "")), 1, beat_s=0.0)
    assert replay.start_s[1] == 10 * MINUTE_S  # on the beat, and not at once
    assert replay.stops.tolist() == [1, 0]


def test_between_two_beats_free_gpus_are_used_and_a_promise_without_time_to_spare_breaks_a_lease():
    replay = chronus(jobs((0, 60, 1, ""), (6, 10, 1, ""), (7, 10, 1, "1@11")), 2, beat_s=0.0)
    assert replay.start_s.tolist() == [0, 6 * MINUTE_S, 7 * MINUTE_S]
    assert promises(replay) == (1, 0, 0)


def test_leases_end_on_the_beat_though_nothing_happens_then():
    replay = chronus(jobs((0, 600, 1, ""), (2, 30, 1, "1@200")), 1, beat_s=0.0)
    assert replay.start_s[1] % (5 * MINUTE_S) == 0
    assert promises(replay) == (1, 0, 0)


def test_plans_include_what_a_stop_costs_a_job_that_waits_after_it():
    asked = jobs((0, 60, 1, "1@105"), (5, 20, 1, "1@25"), (15, 20, 1, "1@80"))
    assert promises(chronus(asked, 1))[:2] == (3, 0)
    assert promises(chronus(asked, 1, cost_s=600.0)) == (2, 1, 0)


@pytest.mark.parametrize("beat_s", [0.0, 300.0])
def test_a_job_that_does_not_save_its_work_is_never_stopped(beat_s):
    asked = jobs((0, 60, 1, ""), (6, 10, 1, ""), (6, 20, 1, "1@300"), ckpt=False)
    replay = chronus(asked, 1, beat_s=beat_s)
    assert not replay.stops.any()
    assert promises(replay) == (1, 0, 0)


def test_a_job_that_cannot_be_stopped_does_not_start_where_a_promise_would_be_broken():
    asked = jobs((0, 60, 1, "1@200"), (0, 10, 1, ""), (0, 90, 1, ""), ckpt=False)
    replay = chronus(asked, 1)
    assert promises(replay) == (1, 0, 0)
    assert ends_min(replay) == [70, 10, 160]


def test_a_promise_counts_with_a_job_that_cannot_be_stopped_and_holds_the_gpus():
    asked = jobs((0, 60, 1, ""), (5, 30, 1, "1@50"), (5, 30, 1, "1@100"), ckpt=np.array([False, True, True]))
    assert promises(chronus(asked, 1)) == (1, 1, 0)


def test_parameters_of_the_leases_are_checked():
    found = SELECTIONS.find("leases slack_s=0 lease_s=600").function
    assert (found.terms.slack_s, found.terms.lease_s, found.terms.beat_s) == (0.0, 600.0, 300.0)
    for wrong, why in (
        ("leases lease_s=700", "no multiple of beat_s = 300"),
        ("leases beat_s=0", "beat_s = 0"),
        ("leases reserve=2", "0 to 1"),
        ("leases width=3", "lease_s, beat_s"),
        ("leases slack_s=much", "accepted are numbers"),
    ):
        with pytest.raises(ConfigError, match=why):
            SELECTIONS.find(wrong)
    for wrong in ("chronus hope=2", "chronus hope=some", "chronus width=1"):
        with pytest.raises(ConfigError, match="chronus: accepted are"):
            find_ordering(wrong)
    with pytest.raises(ConfigError, match="0 to 1"):
        Setup.of("chronus", "leases lost=7")


def test_less_slack_lets_other_jobs_go_first():
    asked = jobs((0, 60, 4, "1@100"), (0, 30, 4, ""))
    assert ends_min(chronus(asked, 4)) == [60, 90]
    assert ends_min(chronus(asked, 4, selection="leases slack_s=0")) == [90, 30]


def test_a_decision_with_leases_is_the_same_from_its_record(tmp_path):
    asked = jobs((0, 60, 4, "1@70"), (0, 30, 4, ""), (4, 20, 2, "1@150"), (5, 20, 2, ""))
    setup = Setup.of("chronus", restart_s=30.0)
    model = FixedForecast(asked.job_id, forecast_of(asked, setup, None))
    cluster = IdealCluster(asked, ClusterSpec.of(1, 4), SlurmConf(rules_of("preemptive", 0.0, setup.depth)))
    store = Store(f"sqlite:///{tmp_path}/records.db")
    store.upgrade()
    IdealDriver(cluster, composed(setup.ordering, setup.composition, admission=setup.admits), model, store=store).run()
    records = [store.decision(number) for number in store.decision_numbers()]
    assert any(record.plan.promises.open.any() for record in records)
    for record in records:
        policy = Policy.from_json(record.settings_json)
        assert policy.rules.deadlines.leases.restart_s == 30.0
        again = decide(record.view, policy.ordering, policy.rules)
        assert list(differences(record.plan, again, record.view.pending)) == []
    store.close()


ROWS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 90),
        st.sampled_from([1, 2, 4]),
        st.sampled_from(["", "1@60", "1@120,0.5@200"]),
    ),
    min_size=1,
    max_size=10,
)


@examples(20)
@given(ROWS, st.data(), st.sampled_from([0.0, 300.0]), st.sampled_from(["pool", "consolidate"]))
def test_every_job_ends_and_none_that_cannot_be_stopped_is(rows, data, beat_s, placement):
    ckpt = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    asked = jobs(*sorted(rows), ckpt=ckpt)
    replay = chronus(asked, 4, beat_s=beat_s, placement=placement)
    assert violations(replay) == []
    assert not replay.stops[~ckpt].any()


@examples(20)
@given(ROWS, st.sampled_from([0.0, 300.0]))
def test_promises_of_a_free_stop_and_exact_runtimes_on_single_gpus_are_kept(rows, beat_s):
    asked = jobs(*sorted((submit, runtime, 1, steps) for submit, runtime, _, steps in rows))
    assert chronus(asked, 2, cost_s=0.0, beat_s=beat_s).decisions.broken == 0


def saving(trace: Workload) -> Workload:
    return replace(trace, ckpt=np.ones(len(trace), dtype=np.bool_))


@pytest.mark.soak
def test_on_the_first_rows_of_chronus_own_trace_every_promise_is_kept():
    trace = Source.of(str(SAMPLE), 32).load().workload
    fitting = np.flatnonzero((trace.gpus > 0) & (trace.gpus <= 32))
    replay = chronus(saving(trace.take(fitting[: len(fitting) // 3])), 32)
    promised, _, broken = promises(replay)
    assert promised > 0
    assert broken == 0


@pytest.mark.skipif(
    not (DATA / "chronus_philly_mix1.csv").exists(),
    reason="needs Chronus' whole traces in $SLURMSCHED_TRACES: tests/data/README.md says where they are from",
)
@pytest.mark.soak
@pytest.mark.parametrize(("mix", "best_effort_min"), [("mix1", 300), ("mix2", 450)])
def test_on_a_contended_day_of_chronus_own_trace_every_promise_is_kept(mix, best_effort_min):
    trace = Source.of(str(DATA / f"chronus_philly_{mix}.csv"), 480).load().workload
    day = saving(trace.take((trace.gpus > 0) & (trace.submit_s <= 1440 * MINUTE_S)))
    first = chronus(day, 480, selection="leases foreseen=0")
    assert Deadlines.of(first).unearned == 0
    assert promises(first)[1:] == (0, 0)
    replay = chronus(day, 480)
    assert Deadlines.of(replay).unearned <= 0.01
    assert promises(replay)[2] == 0
    jct_min = (replay.end_s - day.submit_s) / MINUTE_S
    assert jct_min[day.best_effort].mean() <= best_effort_min
    made = chronus(day, 480, learnt=misjudged(day.runtime_s, 0.2, seed=5)).decisions
    assert 0 < made.broken <= 0.05 * made.promised
    assert made.warned >= 0.9 * made.broken
    assert made.alarms <= 0.1 * (made.promised - made.broken)
    first_min = (first.end_s - day.submit_s) / MINUTE_S
    assert first_min[day.best_effort].mean() <= best_effort_min
