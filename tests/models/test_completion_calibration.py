"""Times that keep their promise, and what becomes of predictions that were kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.prediction_records import NO_RECORDS, KeptState, PredictionRecords
from slurmsched.cluster.records.predictions import PredictionKind, PredictionTable, prediction_table
from slurmsched.models.completion.completion_calibration import LATE_S, Calibration, survived, worths
from slurmsched.models.completion.prediction_accuracy import accuracy
from slurmsched.models.completion.prediction_log import met, with_new, without_lost

NOW_S = 1_000_000.0
TIMES = (*("made_s", "start_s", "start_from_s", "start_by_s", "finish_s", "finish_from_s", "finish_by_s"),)


def raw(job_ids: list[int], wait_s: float = 600.0, runtime_s: float = 1000.0, **columns: object) -> PredictionTable:
    """A play-forward: all wait and run that long, the forecast is unsure by a factor of two."""
    count = len(job_ids)
    start_s = NOW_S + wait_s
    known: dict[str, object] = {
        "job_id": job_ids,
        "first_submit_s": np.full(count, NOW_S),
        "made_s": np.full(count, NOW_S),
        "partition": ["gpu"] * count,
        "gpus": np.ones(count),
        "runtime_s": np.full(count, runtime_s),
        **dict.fromkeys(("start_s", "start_from_s", "start_by_s"), np.full(count, start_s)),
        "finish_s": np.full(count, start_s + runtime_s),
        "finish_from_s": np.full(count, start_s + runtime_s / 2),
        "finish_by_s": np.full(count, start_s + 2 * runtime_s),
    }
    return prediction_table(count, **(known | columns))


def ended(job_id: int, started_s: float, ended_s: float, **columns: object) -> OutcomeTable:
    same = {name: Labels.of(["x"]) for name in ("name", "user", "account", "qos", "partition")}
    numbers = {name: np.ones(1, np.int64) for name in ("gpus", "nodes", "cpus")}
    known: dict[str, object] = {
        "job_id": np.array([job_id]),
        "restart": np.zeros(1, np.int64),
        "first_submit_s": np.array([NOW_S]),
        "eligible_s": np.array([NOW_S]),
        "time_limit_s": np.array([np.inf]),
        "started_s": np.array([started_s]),
        "ended_s": np.array([ended_s]),
        "runtime_s": np.array([ended_s - started_s]),
        "state": np.array([int(JobState.COMPLETED)]),
    }
    return OutcomeTable(**(known | same | numbers | columns))


def nobody() -> JobTable:
    return job_table(0)


def lived(count: int, factor: float, seed: int = 1) -> PredictionRecords:
    """Predictions made one after the other, a day apart, told by what was known; waits are longer by *factor* and a
    spread."""
    random = np.random.default_rng(seed)
    kept = NO_RECORDS
    for start in range(0, count, 50):
        made_s = NOW_S + 1e5 * (start + np.arange(50))
        table = raw([start + number for number in range(1, 51)])
        moved = {name: getattr(table, name) - NOW_S + made_s for name in TIMES}
        table = replace(table, **moved)
        kept, _ = with_new(kept, table, Calibration.of(kept).calibrated(table))
        rows = np.arange(len(kept) - 50, len(kept))
        spread = random.lognormal(np.log(factor), 0.5, 50)
        starts, ends = kept.started_s.copy(), kept.ended_s.copy()
        starts[rows] = made_s + 600.0 * spread
        ends[rows] = starts[rows] + 1000.0 * random.lognormal(0, 0.3, 50)
        state = np.full(len(kept), int(KeptState.SETTLED))
        kept = PredictionRecords(**{**vars(kept), "started_s": starts, "ended_s": ends, "state": state})
    return kept


def test_a_first_prediction_is_a_guess_and_says_so():
    told = Calibration.of(NO_RECORDS).calibrated(raw([1]))
    assert told.start_basis.tolist() == [0]
    assert told.start_from_s[0] < told.start_s[0] == NOW_S + 600.0 < told.start_by_s[0]
    assert 3 * 600.0 < told.start_by_s[0] - NOW_S < 5 * 600.0
    assert told.finish_from_s[0] < told.finish_s[0] == NOW_S + 1600.0 < told.finish_by_s[0]


def test_what_is_certain_of_a_wait_is_not_stretched():
    begins_s = NOW_S + 7200.0
    soon, later = (raw([1], wait_s, begins_s=np.array([at_s])) for wait_s, at_s in ((600.0, 0.0), (7800.0, begins_s)))
    kept = lived(400, 3.0)
    for calibration in (Calibration.of(NO_RECORDS), Calibration.of(kept)):
        one, other = calibration.calibrated(soon), calibration.calibrated(later)
        for name in TIMES[1:]:
            assert getattr(other, name)[0] - getattr(one, name)[0] == pytest.approx(7200.0), name


def test_a_prediction_before_a_begin_time_is_not_recorded_and_one_before_a_window_is():
    early = raw([1, 2, 3], begins_s=np.array([NOW_S + 60.0, NOW_S - 60.0, NOW_S + 60.0]))
    kept, _ = with_new(NO_RECORDS, early, early, window=np.array([False, False, True]))
    assert kept.job_id.tolist() == [2, 3]


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_nine_in_ten_come_by_the_moment_told_also_where_the_play_forward_is_always_early(factor):
    kept = lived(1500, factor)
    row = accuracy(kept, NOW_S, (36500.0,))[0]
    assert 0.87 <= row.starts.by <= 0.93
    assert 0.87 <= row.finishes.by <= 0.93
    told = Calibration.of(kept).calibrated(raw([9999]))
    assert told.start_s[0] - NOW_S == pytest.approx(600.0 * factor, rel=0.15)
    assert told.finish_basis[0] >= 50


def test_a_class_with_enough_of_its_own_is_calibrated_by_itself():
    kept = lived(200, 1.0)
    other = lived(200, 5.0, seed=2)
    other = PredictionRecords(**{**vars(other), "partition": Labels.of(["debug"] * 200)})
    told = Calibration.of(kept.joined(other)).calibrated(raw([1, 2], partition=["gpu", "debug"]))
    assert told.start_s[1] - NOW_S > 3 * (told.start_s[0] - NOW_S)


def test_nobody_is_told_a_start_later_than_the_end():
    kept = lived(200, 1.0)
    far = kept.made_s + 600.0 * np.random.default_rng(3).lognormal(0.0, 2.0, len(kept))
    loose = PredictionRecords(**{**vars(kept), "started_s": far})
    told = Calibration.of(loose).calibrated(raw([1], runtime_s=1.0))
    assert told.start_by_s[0] < told.finish_by_s[0]


def test_nobody_is_told_a_later_end_than_the_time_limit_allows():
    told = Calibration.of(NO_RECORDS).calibrated(raw([1], time_limit_s=[1100.0]))
    assert told.finish_by_s[0] == told.start_by_s[0] + 1100.0 + LATE_S


def test_jobs_that_run_or_cannot_be_told_stay_as_they_are():
    kinds = [int(PredictionKind.RUNNING), int(PredictionKind.HELD)]
    nothing = [NOW_S + 1600.0, np.nan]
    table = raw([1, 2], kind=kinds, finish_s=nothing, finish_from_s=nothing, finish_by_s=nothing)
    assert Calibration.of(lived(100, 2.0)).calibrated(table).equals(table)


def test_the_conformal_quantile_is_one_sided():
    few, many = np.arange(1.0, 10.0), np.arange(1.0, 100.0)
    assert survived(few, np.ones(9, dtype=bool), np.ones(9), (0.1, 0.5, 0.9)).tolist() == [1.0, 5.0, 9.0]
    assert survived(many, np.ones(99, dtype=bool), np.ones(99), (0.1, 0.5, 0.9)).tolist() == [10.0, 50.0, 90.0]


def test_what_is_worth_half_counts_as_one_of_a_pair():
    twice, once = np.repeat(np.arange(1.0, 10.0), 2), np.arange(1.0, 10.0)
    came, shares = np.arange(9) % 3 > 0, (0.1, 0.3, 0.5, 0.7)
    paired = survived(twice, np.repeat(came, 2), np.full(18, 0.5), shares)
    assert np.abs(paired - survived(once, came, np.ones(9), shares)).max() <= 1.0


@pytest.mark.parametrize(("at_once", "worth"), [(1, 1.0), (21, 0.5)])
def test_predictions_are_worth_the_less_the_more_of_them_are_open_at_one_time(at_once, worth):
    made_s = np.repeat(1e4 * np.arange(5), at_once)
    assert worths(made_s, made_s + 600.0) == pytest.approx(np.full(5 * at_once, worth))


def test_a_job_that_starts_at_once_is_worth_a_whole_one_beside_many_that_wait_for_days():
    made_s = np.concatenate([np.zeros(500), 100.0 + 60.0 * np.arange(20)])
    until_s = made_s + np.concatenate([np.full(500, 3e5), np.full(20, 5.0)])
    assert worths(made_s, until_s)[500:] == pytest.approx(np.ones(20))
    assert worths(made_s, until_s)[:500] == pytest.approx(np.full(500, 1 / (1 + 0.05 * 499)))


def test_jobs_that_now_start_at_once_are_told_so_whatever_a_crowd_waited_that_was_told_the_same():
    kept = lived(300, 1.0)
    at_once = dict.fromkeys(("raw_start_s", "start_from_s", "start_s", "start_by_s"), kept.made_s)
    waited_s = np.where(np.arange(300) < 150, 7200.0, 3.0)
    crowd = PredictionRecords(**{**vars(kept), **at_once, "started_s": kept.made_s + waited_s})
    told = Calibration.of(crowd).calibrated(raw([9999], wait_s=0.0))
    assert told.start_s[0] < NOW_S + 60.0


def test_a_burst_that_was_early_as_one_does_not_make_others_be_told_early_ends():
    apart = lived(100, 0.3)
    shift_s = apart.made_s - NOW_S
    others = ("raw_start_s", "raw_finish_s", "started_s", "ended_s")
    burst = PredictionRecords(**{**vars(apart), **{name: getattr(apart, name) - shift_s for name in (*TIMES, *others)}})
    of_burst, of_apart = (Calibration.of(kept).calibrated(raw([9999])) for kept in (burst, apart))
    assert of_apart.start_by_s[0] - NOW_S < 600.0 < of_burst.start_by_s[0] - NOW_S
    assert of_apart.start_s[0] < of_burst.start_s[0] < NOW_S + 600.0


def test_those_yet_to_come_count_as_later_than_now_however_many_came_early():
    random = np.random.default_rng(0)
    misses, seen_until = random.normal(0.0, 1.0, 20_000), random.normal(0.5, 1.0, 20_000)
    came = misses <= seen_until
    known = np.minimum(misses, seen_until)
    assert survived(known, came, np.ones(20_000), (0.1, 0.5, 0.9)) == pytest.approx([-1.28, 0.0, 1.28], abs=0.08)
    assert np.quantile(known[came], 0.9) < 0.9


def test_a_wait_that_is_longer_than_usual_takes_after_long_ones():
    kept, later = lived(200, 1.0), lived(200, 1.0)
    far = {name: getattr(later, name) + 1e6 for name in ("raw_start_s", "started_s", "raw_finish_s", "ended_s")}
    wide = far["raw_start_s"] + 3e5 * np.where(np.arange(200) % 2, 1.0, -1.0)
    both = kept.joined(PredictionRecords(**{**vars(later), **far, "started_s": wide, "ended_s": wide + 1000.0}))
    ends_s = {f"finish{end}_s": [NOW_S + 1600.0, NOW_S + 1e6 + 1000.0] for end in ("_from", "", "_by")}
    told = Calibration.of(both).calibrated(raw([1, 2], start_s=[NOW_S + 600.0, NOW_S + 1e6], **ends_s))
    near, distant = (told.start_by_s - told.start_s).tolist()
    assert distant > 100 * near


def test_as_many_more_are_asked_for_as_were_told_too_soon():
    kept = lived(200, 1.0)
    early = dict.fromkeys(("start_from_s", "start_s", "start_by_s"), kept.made_s + 1.0)
    late = PredictionRecords(**{**vars(kept), **early})
    table = raw([1])
    assert (
        Calibration.of(late).calibrated(table).start_by_s[0]
        > Calibration.of(kept).calibrated(table).start_by_s[0] + 60.0
    )


def test_a_prediction_is_kept_first_and_again_only_when_it_moved_much():
    table = raw([1])
    kept, fresh = with_new(NO_RECORDS, table, table)
    assert fresh.tolist() == [True]
    a_minute_on = raw([1], wait_s=630.0, made_s=[NOW_S + 60.0])
    assert len(with_new(kept, a_minute_on, a_minute_on)[0]) == 1
    much_later = raw([1], wait_s=6000.0, made_s=[NOW_S + 60.0])
    again, _ = with_new(kept, much_later, much_later)
    assert again.number.tolist() == [0, 1]


def test_a_prediction_meets_the_start_and_then_the_end():
    kept, _ = with_new(NO_RECORDS, raw([7]), raw([7]))
    running = job_table(1, job_id=[7], first_submit_s=[NOW_S], started_s=[NOW_S + 5])
    kept, changed = met(kept, running, ended(8, 0.0, 1.0))
    assert (kept.started_s[0], kept.state[0], changed[0]) == (NOW_S + 5, KeptState.OPEN, True)
    kept, _ = met(kept, nobody(), ended(7, NOW_S + 5, NOW_S + 50))
    assert (kept.ended_s[0], kept.state[0]) == (NOW_S + 50, KeptState.SETTLED)


@pytest.mark.parametrize(
    "columns",
    [
        {"state": np.array([int(JobState.REQUEUED)])},
        {"runtime_s": np.zeros(1), "state": np.array([int(JobState.CANCELLED)])},
        {"restart": np.array([1])},
    ],
)
def test_a_run_that_is_not_the_one_foretold_proves_nothing(columns):
    kept, _ = with_new(NO_RECORDS, raw([7]), raw([7]))
    started_s = np.nan if "runtime_s" in columns else NOW_S + 5
    kept, _ = met(kept, nobody(), ended(7, started_s, NOW_S + 50, **columns))
    assert kept.state.tolist() == [KeptState.VOID]


def test_a_job_that_vanished_unseen_proves_nothing():
    kept, _ = with_new(NO_RECORDS, raw([7, 8]), raw([7, 8]))
    kept, lost = without_lost(kept, job_table(1, job_id=[8]), nobody())
    assert kept.state.tolist() == [KeptState.VOID, KeptState.OPEN]
    assert lost.tolist() == [True, False]


def test_what_slurm_says_of_a_start_only_after_its_backfill_has_looked_counts_too():
    kept, _ = with_new(NO_RECORDS, raw([7, 8]), raw([7, 8]))
    said = raw([7, 8], slurm_start_s=[NOW_S + 300.0, np.nan])
    kept, changed = with_new(kept, said, said)
    again = raw([7, 8], slurm_start_s=[NOW_S + 900.0, np.nan])
    assert with_new(kept, again, again)[0].slurm_start_s.tolist() == pytest.approx([NOW_S + 300.0, np.nan], nan_ok=True)
    assert changed.tolist() == [True, False]


def test_accuracy_puts_slurms_own_estimate_beside_ours():
    kept, _ = with_new(NO_RECORDS, raw([7]), raw([7], slurm_start_s=[NOW_S + 5000.0]))
    kept, _ = met(kept, nobody(), ended(7, NOW_S + 700, NOW_S + 900))
    rows = accuracy(kept, NOW_S + 1000.0)
    assert [(row.days, row.partition, row.size) for row in rows[:3]] == [
        (1.0, "", ""),
        (1.0, "gpu", ""),
        (1.0, "", "1 GPU"),
    ]
    assert (rows[0].slurm_error_s, rows[0].ours_there_s, rows[0].finishes.error_s) == (4300.0, 100.0, 700.0)
