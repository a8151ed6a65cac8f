"""Orderings by forecast compare jobs by their ranking runtime, which records of overruns keep from being too short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import forecast, jobs, view

from slurmsched.cluster.forecast import no_forecast
from slurmsched.decide.engine import decide
from slurmsched.decide.explain.explain import explain
from slurmsched.decide.explain.why import why
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import find_ordering

FLOORED = replace(forecast([12.0, 3600.0, 60.0]), floor_s=np.array([10_800.0, 0.0, 0.0]))
SEEN = replace(view(jobs(3, gpus=[1, 1, 1]), [12.0, 3600.0, 60.0]), forecast=FLOORED)


@pytest.mark.parametrize("name", ["sjf", "qssf", "lucid", "srtf", "srsf"])
def test_orderings_rank_by_the_floor_where_it_is_above_the_forecast(name):
    assert np.argsort(find_ordering(name)(SEEN)).tolist() == [2, 1, 0]


def test_without_floors_jobs_are_ranked_by_their_forecasts():
    told = forecast([12.0, 3600.0])
    assert told.rank_s.tolist() == told.runtime_s.tolist()
    assert np.isnan(no_forecast(2).rank_s).all()


def test_a_job_that_is_ranked_as_longer_is_told_so():
    plan = decide(SEEN, find_ordering("sjf"), Rules(scope="queue"))
    sentences = explain(SEEN, plan, Rules(), int(SEEN.pending.job_id[0])).sentences
    assert "It is ranked as if it took 3 h." in sentences
    assert sum("ranked as if" in s for s in explain(SEEN, plan, Rules(), int(SEEN.pending.job_id[1])).sentences) == 0
    assert why(SEEN, plan, Rules(), int(SEEN.pending.job_id[0])).rank == 3
