"""Sentences about a job's place."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from decide.views import NOW_S, forecast, jobs, nodes, running_jobs, view, views
from hypothesis import given

from examples import examples
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.plan import Plan, Standing
from slurmsched.cluster.state import View
from slurmsched.daemon.api.privacy import HIDDEN, veil
from slurmsched.decide.engine import decide
from slurmsched.decide.explain import explain as explain_module
from slurmsched.decide.explain.explain import LEFT_ALONE, explain, queue, why
from slurmsched.decide.explain.slurm_place import order_is_off, slurm_place, with_slurm_place
from slurmsched.decide.phrasing import spell
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import find_ordering

SJF = find_ordering("sjf")


def decided(seen: View, **rules: object) -> Plan:
    return decide(seen, SJF, Rules(**({"scope": "queue"} | rules)))


def said(seen: View, job_id: int, **rules: object) -> str:
    return " ".join(why(seen, decided(seen, **rules), job_id).sentences)


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


def test_who_is_ahead_is_told_with_what_they_ask_for():
    seen = view(jobs(3, user=["alice", "bob", "bob"], gpus=[1, 2, 4]), [900.0, 60.0, 120.0], room=nodes((4,), (4,)))
    told = why(seen, decided(seen), 1)
    assert (told.rank, told.ahead, told.ahead_gpus, told.free_gpus) == (3, 2, 6, 0)
    text = " ".join(told.sentences)
    assert "2 jobs asking for 6 GPUs stand ahead of it, 2 of them bob's; it is number 3 of 3." in text
    assert "shorter forecast than its 15 min" in text
    assert "--time" not in text, "its forecast does not come from its limit"
    limited = view(jobs(2, time_limit_s=[900.0, 900.0]), [900.0, 60.0], room=nodes((4,), (4,)))
    assert "a shorter --time, where it is true, would lower that" in said(limited, 1)


def test_an_order_that_is_not_in_force_is_told_after_slurms_own_place():
    seen = view(jobs(3, priority=[3000, 2000, 1000], site_points=[0, 0, 7]), [900.0, 60.0, 120.0])
    explained = with_slurm_place(why(seen, decided(seen), 3), seen, "daemon.mode is advise")
    assert explained.sentences[1] == (
        "Our order is not in force (daemon.mode is advise): by Slurm's own priority it is number 3 of 3 pending jobs, "
        "with 7 points of ours that are left. What follows is what our order would make of it."
    )
    assert "it is number 2 of 3" in explained.sentences[2]
    assert with_slurm_place(explained, seen, "") is explained
    assert order_is_off("act", "", {"order"}) == ""
    assert order_is_off("act", "", {"hold"}) == "power.order is off"
    assert order_is_off("observe", "paused by root", {"order"}) == "paused by root"


def test_slurm_serves_partition_tiers_one_after_the_other_and_holds_jobs_of_priority_0():
    seen = view(jobs(3, partition=["gpu", "fast", "gpu"], priority=[3000, 1000, 0]))
    assert [slurm_place(seen, row) for row in range(3)] == [(2, 2), (1, 2), (0, 2)]


def test_the_queue_shows_points_that_exist_and_those_wanted():
    seen = view(jobs(2, site_points=[5, 0]), [900.0, 60.0])
    plan = decided(seen)
    rows = {row.job_id: row for row in queue(seen, plan)}
    assert (rows[1].points, rows[2].points) == (5, 0)
    assert rows[2].wanted_points == plan.jobs.points[1] > 0


def test_a_job_that_sprio_does_not_list_is_not_taken_apart():
    seen = view(jobs(1, priority=[950], nice=[50]))
    terms = {term.text: term.value for term in explain(seen, decided(seen), 1).terms if term.value}
    assert terms == {"nice": -50.0, "factors that sprio does not list for it": 1000.0}


def test_the_next_job_that_fits_is_about_to_start():
    seen = view(jobs(1))
    assert "It is next of 1 job in the order." in said(seen, 1)
    assert "Slurm should start it at its next pass" in said(seen, 1)


def test_room_by_the_forecasts_of_what_runs():
    running = running_jobs(2, gpus=[4, 4], started_s=[NOW_S - 500, NOW_S - 100])
    seen = view(jobs(1, gpus=[4]), running=running, room=nodes((4, 4), (4, 4)))
    assert "GPUs for it alone become free in about 100 s" in said(seen, 1)


def test_a_job_larger_than_the_cluster_is_told_so():
    assert "It cannot run as it is: it asks for 64 GPUs, more than the 2 nodes" in said(view(jobs(1, gpus=[64])), 1)


def test_a_starving_and_a_capped_job_are_told_so():
    seen = view(jobs(2, eligible_s=[NOW_S - 700_000, NOW_S]))
    assert "only jobs that waited longer stand ahead" in said(seen, 1)
    capped = view(jobs(2, priority=[1000, 9000]), [60.0, 600.0])
    assert "order.max_points allows" in said(capped, 1, scope="points", max_points=10)


def test_a_task_of_an_array_finds_the_row_of_its_array():
    seen = view(jobs(1, job_id=[40], array_job_id=[40], tasks=[5]))
    assert "5 tasks of an array" in said(seen, 40)


def test_a_running_job_tells_where_and_how_long():
    seen = view(jobs(0), running=running_jobs(1))
    told = why(seen, decided(seen), 901)
    assert (told.known, told.state, told.rank) == (True, "running", None)
    assert told.sentences == ("Job 901 is running on n1 and has run for 10 min of about 10 min (median of 7 runs).",)
    explained = explain(seen, decided(seen), 901)
    assert (explained.forecast_s, explained.rank, explained.terms) == (600.0, None, ())


def test_an_unknown_job_is_not_invented():
    seen = view(jobs(0), running=jobs(0), room=nodes(()))
    told = why(seen, decided(seen), 7)
    assert not told.known
    assert "story 7" in told.sentences[0]
    assert explain(seen, decided(seen), 7).forecast_s is None
    assert queue(seen, decided(seen)) == ()


def test_without_nodes_a_job_cannot_start():
    seen = view(jobs(1), room=nodes(()))
    assert "It cannot run as it is: partition gpu has no nodes." in said(seen, 1)


def test_the_terms_add_up_to_the_priority():
    columns = {"age_points": [30], "qos_points": [500], "site_points": [70], "priority": [1600]}
    seen = view(jobs(1, **columns))
    terms = explain(seen, decided(seen), 1).terms
    assert sum(term.value for term in terms) == 1600
    assert {term.name: term.value for term in terms if term.value} == {
        "age": 30.0,
        "qos": 500.0,
        "slurmsched": 70.0,
        "other": 1000.0,
    }


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
    assert "forecast an unknown time" in " ".join(explain(seen, decided(seen), 1).sentences)
    assert why(seen, decided(seen), 2).rank == 2


def test_the_queue_lists_ranked_jobs_first_in_their_order():
    seen = view(jobs(3, reason=["JobHeldUser", "Priority", "Priority"]), [1.0, 900.0, 60.0])
    rows = queue(seen, decided(seen))
    assert [(row.job_id, row.rank, row.standing) for row in rows] == [
        (3, 1, "ranked"),
        (2, 2, "ranked"),
        (1, None, "held_by_user"),
    ]


@pytest.mark.parametrize("standing", [standing for standing in Standing if standing != Standing.RANKED])
def test_each_job_left_alone_is_told_why_in_a_whole_sentence(standing):
    fields = {"job": 1, "reason": "R", "partition": "P", "reservation": "V", "dependency": "D"}
    text = LEFT_ALONE[standing].format(**fields)
    assert "{" not in text
    assert len(text.split()) > 4


def test_braces_and_markup_in_texts_of_users_pass_through_unchanged():
    hostile = "{job} [red]%s\n\x1b[31m"
    seen = view(jobs(1, reason=["Dependency"], user=[hostile], dependency=[hostile]))
    assert said(seen, 1).count(hostile) == 2


@given(views())
@examples(60)
def test_any_view_can_be_explained_and_written_as_json(seen):
    plan = decided(seen)
    for job_id in [*seen.pending.job_id.tolist(), *seen.running.job_id.tolist(), 12345]:
        for answer in (why(seen, plan, job_id), explain(seen, plan, job_id)):
            assert answer.sentences
            json.dumps(asdict(answer))
    for row in queue(seen, plan):
        json.dumps(asdict(row))


def test_a_veiled_view_names_nobody_else():
    pending = jobs(3, user=["alice", "secret_bob", "secret_bob"], name=["mine", "secret_x", "secret_y"])
    running = running_jobs(1, user=["secret_carol"], name=["secret_z"])
    seen = view(pending, [900.0, 60.0, 60.0], running=running, room=nodes((4,), (4,)))
    plan, seen = decided(seen), veil(seen, "alice")
    for job_id in (1, 2, 3, 901):
        text = json.dumps([asdict(why(seen, plan, job_id)), asdict(explain(seen, plan, job_id))])
        assert "secret" not in text
    text = " ".join(why(seen, plan, 1).sentences)
    assert "2 jobs asking for 2 GPUs stand ahead of it; it is number 3 of 3." in text
    assert explain_module.HIDDEN == HIDDEN, "the same word in both places"


def test_the_gpus_ahead_count_every_task():
    seen = view(jobs(2, tasks=[1, 3], gpus=[1, 2]), [900.0, 60.0])
    assert why(seen, decided(seen), 1).ahead_gpus == 6
    assert np.isfinite(queue(seen, decided(seen))[0].forecast_s)


def test_one_job_stands_ahead_and_two_stand():
    seen = view(jobs(3, gpus=[1, 2, 4]), [900.0, 60.0, 120.0], room=nodes((4,), (4,)))
    assert "1 job asking for 2 GPUs stands ahead of it" in said(seen, 3)
    assert "2 jobs asking for 6 GPUs stand ahead of it" in said(seen, 1)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, "We leave it alone: its begin time has not come; it comes in 5 min."),
        (
            {"restarts": [1]},
            "We leave it alone: it was requeued, and Slurm lets a requeued job wait before it starts again: in 5 min.",
        ),
        ({"eligible_s": [np.nan]}, "We leave it alone: its begin time has not come."),
    ],
)
def test_a_begin_time_is_told_with_when_and_whether_a_requeue_set_it(columns, told):
    waiting = {"reason": ["BeginTime"], "eligible_s": [NOW_S + 300]} | columns
    assert told in said(view(jobs(1, **waiting), [60.0]), 1)
