"""Orderings by forecast compare jobs by their ranking runtime, which records of overruns keep from being too short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, forecast, jobs, view

from slurmsched.cluster.forecast import no_forecast
from slurmsched.decide.rules import Rules
from slurmsched.explain.explain import explain
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

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


@pytest.mark.parametrize(
    "name",
    [
        *("tiresias", "tiresias-promoting", "themis", "wfq", "fair", "gandiva", "edf", "genie", "laxity"),
        "edf late=rest",
        *("mlfs-h form=printed", "sjf", "las"),
    ],
)
def test_time_in_which_a_job_neither_waited_nor_ran_counts_for_nothing(name):
    """Submitted long ago and held since, it stands where a job stands that was submitted later."""
    random, count = np.random.default_rng(3), 12
    first_s, away_s = NOW_S - random.uniform(50_000, 90_000, count), random.uniform(0, 40_000, count).round()
    told = random.uniform(60, 9_000, count)
    columns = {"gpus": random.integers(1, 8, count), "ran_s": random.uniform(0, 4_000, count)}
    held = jobs(count, first_submit_s=first_s, away_s=away_s, **columns)
    late = jobs(count, first_submit_s=first_s + away_s, **columns)
    ordering, rules = find_ordering(name), Rules(scope="queue", powers=frozenset({"order"}))
    ranks = [decide(view(pending, told), ordering, rules).jobs.rank.tolist() for pending in (held, late)]
    assert ranks[0] == ranks[1]
