"""The figures of a burst."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.demo import BurstSummary


def outcomes(submitted_s: list[float], ended_s: list[float]) -> OutcomeTable:
    kinds = get_type_hints(OutcomeTable)
    neutral = {
        f.name: Labels.of([""] * len(ended_s)) if kinds[f.name] is Labels else np.zeros(len(ended_s))
        for f in fields(OutcomeTable)
    }
    return OutcomeTable(**neutral | {"first_submit_s": np.array(submitted_s), "ended_s": np.array(ended_s)})


def test_job_completion_time_is_from_first_submit_to_end():
    figures = BurstSummary.of(outcomes([100.0, 101.0, 102.0], [110.0, 103.0, 132.0]))
    assert figures.avg_jct_s == 14.0
    assert figures.median_jct_s == 10.0
    assert figures.p90_jct_s == pytest.approx(26.0)
    assert figures.makespan_s == 32.0


def test_a_ratio_says_how_many_times_longer_stock_took():
    stock, ours = BurstSummary(30.0, 20.0, 50.0, 80.0), BurstSummary(20.0, 10.0, 50.0, 100.0)
    assert stock.over(ours) == {"avg_jct_s": 1.5, "median_jct_s": 2.0, "p90_jct_s": 1.0, "makespan_s": 0.8}
