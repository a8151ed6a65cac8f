"""How honest predictions are, told of predictions that are made to be honest, or not."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.records.prediction_records import KeptState, kept_table
from slurmsched.models.completion.reliability import (
    OURS,
    SLURMS,
    Groups,
    by_group,
    points,
    predicted_waits,
)

COUNT = 4000


def told(*, bias=1.0, spread=0.5, seed=3, **columns):
    """Predictions whose moments lie around the median by a log-normal law; *bias* is how much later all come."""
    random = np.random.default_rng(seed)
    ahead = np.exp(random.normal(8.0, 1.0, COUNT)) + 30.0
    made_s = random.uniform(0, 1e6, COUNT)
    came = [made_s + bias * ahead * np.exp(spread * random.standard_normal(COUNT)) - 30.0 for _ in range(2)]
    ends = [made_s + ahead * np.exp(spread * z) - 30.0 for z in (-1.2815515655, 0.0, 1.2815515655)]
    names = ("start_from_s", "start_s", "start_by_s"), ("finish_from_s", "finish_s", "finish_by_s")
    quantiles = {name: end for each in names for name, end in zip(each, ends, strict=True)}
    known = {"job_id": np.arange(COUNT), "made_s": made_s, "gpus": np.ones(COUNT), "started_s": came[0],
             "ended_s": came[1], "partition": ["gpu"] * COUNT,
             "state": np.full(COUNT, int(KeptState.SETTLED))}  # fmt: skip
    return kept_table(COUNT, **known | quantiles | columns)


def test_honest_predictions_lie_on_the_diagonal_at_every_tenth():
    made = points(told())
    assert [point.nominal for point in made] == pytest.approx([n / 10 for n in range(1, 10)])
    for point in made:
        assert point.started == pytest.approx(point.nominal, abs=0.03)
        assert point.finished == pytest.approx(point.nominal, abs=0.03)
        assert (point.starts, point.finishes) == (COUNT, COUNT)


def test_times_that_are_too_early_lie_below_it():
    assert all(point.started < point.nominal - 0.05 for point in points(told(bias=2.0)))


def test_at_the_stored_ends_nothing_is_interpolated():
    records = told(bias=1.3)
    by_nominal = {round(point.nominal, 1): point.started for point in points(records)}
    for nominal, end_s in ((0.1, records.start_from_s), (0.5, records.start_s), (0.9, records.start_by_s)):
        assert by_nominal[nominal] == pytest.approx(float((records.started_s <= end_s).mean()))


def test_deciles_of_predicted_waits_are_told_for_us_and_for_slurm():
    records = told()
    slurm_s = np.where(np.arange(COUNT) % 4 == 0, np.nan, records.made_s + 3 * (records.start_s - records.made_s))
    rows = predicted_waits(told(slurm_start_s=slurm_s))
    ours, theirs = ([row for row in rows if row.source == source] for source in (OURS, SLURMS))
    assert [row.decile for row in ours] == [row.decile for row in theirs] == list(range(1, 11))
    assert (sum(row.jobs for row in ours), sum(row.jobs for row in theirs)) == (COUNT, 3 * COUNT // 4)
    assert all(row.real_p50_s == pytest.approx(row.predicted_s, rel=0.15) for row in ours)
    assert all(row.real_p50_s < 0.6 * row.predicted_s for row in theirs)
    assert predicted_waits(records.take(slice(0, 19))) == ()


def test_groups_are_told_apart_by_partition_size_promise_and_hold():
    promised, held = np.arange(COUNT) < 100, np.arange(COUNT) >= COUNT - 50
    gpus = np.where(np.arange(COUNT) < 10, 16, 1)
    groups = by_group(told(gpus=gpus), Groups(promised, held))
    sizes = {(group.by, group.name): group.starts for group in groups}
    assert sizes == {("all", ""): COUNT, ("partition", "gpu"): COUNT, ("size", "1 GPU"): COUNT - 10,
                     ("size", "over 8 GPUs"): 10, ("promise", "with"): 100, ("promise", "without"): COUNT - 100,
                     ("hold", "with"): 50, ("hold", "without"): COUNT - 50}  # fmt: skip
    whole = groups[0]
    assert (whole.start_median, whole.finish_high) == pytest.approx((0.5, 0.9), abs=0.03)
    assert (whole.slurm_jobs, np.isnan(whole.slurm_by)) == (0, True)


def test_later_predictions_of_a_job_and_those_without_an_outcome_do_not_count():
    number = np.arange(COUNT) % 2
    state = np.where(np.arange(COUNT) < 1000, int(KeptState.VOID), int(KeptState.SETTLED))
    (first, *_) = points(told(number=number, state=state))
    assert first.finishes == COUNT // 2 - 500
