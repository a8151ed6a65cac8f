"""Whatever was predicted, the moments that people are told agree with each other and with the present."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from models.test_completion_calibration import NOW_S, lived, raw

from examples import examples
from slurmsched.cluster.records.prediction_records import NO_RECORDS
from slurmsched.cluster.records.predictions import PredictionKind, PredictionTable
from slurmsched.explain.eta import etas
from slurmsched.models.completion.completion_calibration import Calibration
from slurmsched.models.completion.moments import as_of

CALIBRATIONS = [Calibration.of(NO_RECORDS), Calibration.of(lived(200, 0.3)), Calibration.of(lived(200, 4.0))]
spans = st.one_of(st.just(0.0), st.floats(0.0, 1e6))


@st.composite
def predicted(draw: st.DrawFn) -> PredictionTable:
    """A play-forward of one job, whose quantiles may be in any order and in the past."""
    wait_s, runtime_s = draw(spans), draw(spans)
    kind = draw(st.sampled_from([PredictionKind.PREDICTED, PredictionKind.NO_HISTORY, PredictionKind.RUNNING]))
    ends = {name: [NOW_S + draw(spans) - draw(spans)] for name in ("finish_from_s", "finish_by_s")}
    return raw(
        [1], wait_s, runtime_s, kind=[int(kind)], time_limit_s=[draw(st.sampled_from([60.0, 1e5, np.inf]))], **ends
    )


@given(predicted(), st.sampled_from(CALIBRATIONS), st.floats(0.0, 1e5))
@examples(200)
def test_no_waiting_job_is_told_a_start_in_the_past_or_an_end_before_it_has_started(table, calibration, later_s):
    now_s = NOW_S + later_s
    one = etas(calibration.calibrated(table), now_s, [0])[0]
    assert one.finish_s is not None
    assert one.finish_s >= now_s
    assert one.finish_by_s is None or one.finish_by_s >= one.finish_s
    assert one.finish_from_s is None or one.start_s <= one.finish_from_s <= one.finish_s
    if one.kind == "running":
        return
    assert now_s <= one.start_s <= one.finish_s
    assert one.start_from_s <= one.start_s
    assert one.start_by_s is None or one.start_s < one.start_by_s
    least_s = min(float(table.runtime_s[0]), float(table.time_limit_s[0])) / 3
    assert one.finish_s - one.start_s >= least_s - 1e-3
    if one.start_by_s is not None and one.finish_by_s is not None and least_s > 1e-3:
        assert one.start_by_s < one.finish_by_s


@given(predicted(), st.floats(0.0, 1e5))
@examples(100)
def test_what_is_read_once_is_read_the_same_again(table, later_s):
    once = as_of(table, NOW_S + later_s)
    assert once.equals(as_of(once, NOW_S + later_s))


@given(predicted(), st.floats(0.0, 1e5), st.floats(0.0, 1e5))
@examples(100)
def test_an_end_that_has_passed_is_not_told(table, later_s, more_s):
    one = etas(table, NOW_S + later_s + more_s, [0])[0]
    for name in ("start_by_s", "finish_by_s"):
        if float(getattr(table, name)[0]) < NOW_S + later_s and not (one.kind == "running" and name == "start_by_s"):
            assert getattr(one, name) is None
            assert any("already later than nine in ten" in note for note in one.notes)
