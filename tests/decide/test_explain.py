"""Sentences about a job's place."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from decide.views import forecast, jobs, view, views
from hypothesis import given

from examples import examples
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.state import View
from slurmsched.decide.phrasing import spell
from slurmsched.decide.rules import Rules
from slurmsched.explain.explain import explain, queue, why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

SJF = find_ordering("sjf")


def decided(seen: View, **rules: object) -> Plan:
    return decide(seen, SJF, Rules(**({"scope": "queue"} | rules)))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (45 * 60, "45 min"),
        (119.6 * 60, "2 h"),
        (3 * 3600 + 1200, "3 h 20 min"),
        (48 * 3600, "2 d"),
        (52 * 3600, "2 d 4 h"),
        (math.nan, "an unknown time"),
        (math.inf, "an unknown time"),
    ],
)
def test_a_span_of_time_has_two_units_at_most(seconds, text):
    assert spell(seconds) == text


def test_the_queue_shows_points_that_exist_and_those_wanted():
    seen = view(jobs(2, site_points=[5, 0]), [900.0, 60.0])
    plan = decided(seen)
    rows = {row.job_id: row for row in queue(seen, plan)}
    assert (rows[1].points, rows[2].points) == (5, 0)
    assert rows[2].wanted_points == plan.jobs.points[1] > 0


def test_a_job_that_sprio_does_not_list_is_not_taken_apart():
    seen = view(jobs(1, priority=[950], nice=[50]))
    terms = {term.text: term.value for term in explain(seen, decided(seen), Rules(), 1).terms if term.value}
    assert terms == {"nice": -50.0, "factors that sprio does not list for it": 1000.0}


def test_the_terms_add_up_to_the_priority():
    columns = {"age_points": [30], "qos_points": [500], "site_points": [70], "priority": [1600]}
    seen = view(jobs(1, **columns))
    terms = explain(seen, decided(seen), Rules(), 1).terms
    assert sum(term.value for term in terms) == 1600
    assert {term.name: term.value for term in terms if term.value} == {
        "age": 30.0,
        "qos": 500.0,
        "slurmsched": 70.0,
        "other": 1000.0,
    }


def test_a_difference_that_rounding_makes_is_called_so():
    seen = view(jobs(1, age_points=[30], qos_points=[500], priority=[529]))
    terms = {term.text: term.value for term in explain(seen, decided(seen), Rules(), 1).terms if term.value}
    assert terms == {"age": 30.0, "QOS": 500.0, "rounding": -1.0}


def test_a_forecast_that_knows_nothing_is_an_unknown_time():
    known = view(jobs(2))
    seen = View(
        known.now_s,
        known.pending,
        known.running,
        known.nodes,
        known.partitions,
        known.qos,
        no_forecast(2),
        forecast([]),
    )
    assert "forecast an unknown time" in " ".join(explain(seen, decided(seen), Rules(), 1).sentences)
    assert why(seen, decided(seen), Rules(), 2).rank == 2


def test_the_queue_lists_ranked_jobs_first_in_their_order():
    seen = view(jobs(3, reason=["JobHeldUser", "Priority", "Priority"]), [1.0, 900.0, 60.0])
    rows = queue(seen, decided(seen))
    assert [(row.job_id, row.rank, row.standing) for row in rows] == [
        (3, 1, "ranked"),
        (2, 2, "ranked"),
        (1, None, "held_by_user"),
    ]


@given(views())
@examples(60)
def test_any_view_can_be_explained_and_written_as_json(seen):
    plan = decided(seen)
    for job_id in [*seen.pending.job_id.tolist(), *seen.running.job_id.tolist(), 12345]:
        for answer in (why(seen, plan, Rules(), job_id), explain(seen, plan, Rules(), job_id)):
            assert answer.reason
            assert answer.advice
            assert all(answer.sentences)
            json.dumps(asdict(answer))
    for row in queue(seen, plan):
        json.dumps(asdict(row))


def test_the_gpus_ahead_count_every_task():
    seen = view(jobs(2, tasks=[1, 3], gpus=[1, 2]), [900.0, 60.0])
    assert why(seen, decided(seen), Rules(), 1).ahead_gpus == 6
    assert np.isfinite(queue(seen, decided(seen))[0].forecast_s)
