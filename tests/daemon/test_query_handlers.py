from __future__ import annotations

import json
import pwd
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import pytest
from daemon_worlds import seen
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.kind_speeds import SpreadSpeed, TypeSpeed
from slurmsched.cluster.records.predictions import prediction_table
from slurmsched.cluster.records.profiles import LinkUse
from slurmsched.cluster.records.promises import promise_table
from slurmsched.cluster.stranded_gpus import StrandedBy
from slurmsched.daemon.api.privacy import HIDDEN
from slurmsched.daemon.api.query_arguments import AnswerRefused, NotYet
from slurmsched.daemon.api.query_handlers import QueryHandlers, plain, takes_long
from slurmsched.daemon.api.questions.advice import OVERRUNNERS_MOST
from slurmsched.daemon.api.questions.contract import Sources, Who
from slurmsched.daemon.api.questions.table import QUESTIONS
from slurmsched.daemon.api.remote_server import REMOTE_ASKS
from slurmsched.errors import MemoryUnavailable
from slurmsched.explain.eta import LivePredictions
from slurmsched.explain.explain import queue
from slurmsched.models.runtime.overruns import Overrunner

ALICE = pwd.getpwnam("nobody").pw_uid  # any user of the machine; the worlds below call her by that name
HER = "nobody"


@dataclass(frozen=True)
class Told:
    """A peer of what explains: it tells all it was shown."""

    job_id: int
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class StoryEvent:
    at_s: float
    kind: str
    details: dict = field(default_factory=dict)


def tell(view, plan, job_id, beside):
    return Told(
        job_id, tuple(f"{user}'s {name}" for user, name in zip(view.pending.user, view.pending.name, strict=True))
    )


def tell_queue(view, plan):
    assert len(view.pending) == len(plan.jobs)
    return Told(
        0, tuple(f"{job_id} {user}" for job_id, user in zip(view.pending.job_id, view.pending.user, strict=True))
    )


def story(job_id, first_submit_s):
    return [StoryEvent(1.0, "submitted"), StoryEvent(2.0, "ended", {"state": "COMPLETED"})]


def questions(report=None, **known):
    sources = Sources(lambda: {"mode": "observe"}, tell, tell, tell_queue, story, **known)
    asked = QueryHandlers(sources, trusted=(0,))
    if report:
        asked.observe(report)
    return asked


def private(**known):
    report = seen(pending={7: HER, 8: "bob", 9: HER}, running={5: "carol", 6: HER})
    return questions(report, private=lambda: True, **known)


def test_status_is_told_before_the_first_cycle():
    assert questions().answer({"ask": "status"}, ALICE) == {
        "schema": "slurmsched/1",
        "ask": "status",
        "mode": "observe",
    }


def test_the_rest_waits_for_the_first_cycle():
    with pytest.raises(NotYet, match="has not observed the cluster yet"):
        questions().answer({"ask": "why", "job_id": 7}, 0)


def test_while_code_is_compiled_only_answers_that_run_it_are_put_off():
    asked = questions(seen(), starting=lambda: "the daemon is still starting")
    for kind in ("check", "eta_check", "chart"):
        with pytest.raises(NotYet, match="still starting"):
            asked.answer({"ask": kind, "options": "-G 4", "job_id": 7}, ALICE)
    assert asked.answer({"ask": "why", "job_id": 7}, ALICE)["why"]


def test_before_the_first_prediction_an_answer_says_that_there_is_none_yet():
    told = []
    ask = Sources(dict, lambda *words: told.append(words[-1].no_eta) or {}, tell, tell_queue, story)
    handlers = QueryHandlers(replace(ask, predictions=LivePredictions), trusted=(0,))
    handlers.observe(seen())
    handlers.answer({"ask": "why", "job_id": 7}, 0)
    assert told == [LivePredictions().why_none]
    assert "nothing is predicted yet" in told[0]


@pytest.mark.parametrize("ask", ["why", "explain"])
def test_a_job_is_explained_from_the_latest_report(ask):
    asked = questions(seen(1))
    asked.observe(seen(2))
    answer = asked.answer({"ask": ask, "job_id": 7}, ALICE)
    assert (answer["cycle"], answer["as_of_s"]) == (2, 1000.0)
    assert answer[ask] == {"job_id": 7, "sentences": ["alice's alice_secret", "bob's bob_secret"]}


def test_the_queue_is_cut_at_the_limit_from_the_top():
    answer = questions(seen(pending={7: "a", 8: "b", 9: "c"})).answer({"ask": "queue", "limit": 2}, ALICE)
    assert answer["queue"]["sentences"] == ["7 a", "8 b"]
    assert answer["pending"] == 3


@pytest.mark.parametrize(
    "request_",
    [None, [], "status", 7, {}, {"ask": "stop"}, {"ask": ["status"]}, {"ask": "why"}, {"ask": "why", "job_id": "7"},
     {"ask": "why", "job_id": True}, {"ask": "why", "job_id": -1}, {"ask": "why", "job_id": 2**40},
     {"ask": "queue", "limit": 0}, {"ask": "queue", "limit": 10**9}, {"ask": "queue", "limit": 1.5}],
)  # fmt: skip
def test_a_malformed_question_is_refused_with_what_is_accepted(request_):
    with pytest.raises(AnswerRefused):
        questions(seen()).answer(request_, 0)


def test_on_a_private_cluster_a_user_hears_of_own_jobs_and_of_no_names():
    answer = private().answer({"ask": "why", "job_id": 9}, ALICE)
    assert answer["why"]["sentences"] == [f"{HER}'s {HER}_secret", f"{HIDDEN}'s {HIDDEN}", f"{HER}'s {HER}_secret"]
    assert "bob" not in json.dumps(answer)


def test_on_a_private_cluster_a_strangers_job_and_no_job_are_refused_alike():
    refusals = []
    for job_id in (8, 5, 4242):
        with pytest.raises(AnswerRefused) as refused:
            private().answer({"ask": "explain", "job_id": job_id}, ALICE)
        refusals.append(str(refused.value).replace(str(job_id), "N"))
    assert len(set(refusals)) == 1


def test_on_a_private_cluster_the_queue_holds_own_jobs_only():
    answer = private().answer({"ask": "queue"}, ALICE)
    assert answer["queue"]["sentences"] == [f"7 {HER}", f"9 {HER}"]
    assert answer["pending"] == 2


def test_on_a_private_cluster_a_story_is_told_to_its_owner_and_of_what_is_over_to_root_alone():
    assert len(private().answer({"ask": "story", "job_id": 7}, ALICE)["story"]) == 2
    for job_id in (8, 70):
        with pytest.raises(AnswerRefused, match="not yours"):
            private().answer({"ask": "story", "job_id": job_id}, ALICE)
    assert len(private().answer({"ask": "story", "job_id": 70}, 0)["story"]) == 2


def test_on_a_private_cluster_root_and_operators_see_all():
    request = {"ask": "queue"}
    assert len(private().answer(request, 0)["queue"]["sentences"]) == 3
    assert len(private(operator=lambda user: user == HER).answer(request, ALICE)["queue"]["sentences"]) == 3


def test_on_a_private_cluster_who_was_promised_how_much_is_for_operators():
    with pytest.raises(AnswerRefused, match="only operators"):
        private().answer({"ask": "claims"}, ALICE)
    assert private().answer({"ask": "claims"}, 0)["claims"] == []


def test_on_a_private_cluster_a_uid_without_a_name_is_refused():
    with pytest.raises(AnswerRefused, match="uid 4123456 has no name"):
        private().answer({"ask": "queue"}, 4123456)


class Colour(IntEnum):
    RED = 1


def test_whatever_is_told_becomes_strict_json():
    told = {"a": np.float64("nan"), "b": float("inf"), 3: (np.int64(4), Colour.RED), "c": np.array([1.0, np.nan])}
    expected = {"a": None, "b": None, "3": [4, "red"], "c": [1.0, None]}
    assert plain(told) == expected
    assert plain(StoryEvent(1.0, "\udcff\x1b[31m")) == {"at_s": 1.0, "kind": "\udcff\x1b[31m", "details": {}}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    )
)
def test_any_value_becomes_strict_json(value):
    json.dumps(plain(value), allow_nan=False)


def reused(promise_of=HER, queued_to=""):
    """Id 7 was *promise_of*'s, who was promised something; now it is *queued_to*'s, whose job came a day later."""
    report = seen(pending={7: queued_to} if queued_to else {8: "bob"})
    later_s = report.view.pending.first_submit_s + 86_400.0
    view = replace(report.view, pending=replace(report.view.pending, first_submit_s=later_s))
    former = promise_table(1, job_id=[7], user=[promise_of], first_submit_s=later_s - 86_400.0, asked_s=[1.0])
    return replace(report, view=view, plan=replace(report.plan, promises=former))


def stories():
    """A story that tells of which job it is."""
    return lambda job_id, first_submit_s: [StoryEvent(first_submit_s or 0.0, "submitted")]


def test_the_former_owner_of_an_id_hears_nothing_of_the_job_that_has_it_now():
    asked = questions(reused(HER, "bob"), private=lambda: True)
    for ask in ("story", "why", "explain", "deadline"):
        with pytest.raises(AnswerRefused, match="not yours"):
            asked.answer({"ask": ask, "job_id": 7}, ALICE)


def test_who_has_an_id_now_hears_of_that_job_alone():
    report = reused("bob", HER)
    sources = Sources(dict, tell, tell, tell_queue, stories(), private=lambda: True)
    asked = QueryHandlers(sources, trusted=(0,))
    asked.observe(report)
    (event,) = asked.answer({"ask": "story", "job_id": 7}, ALICE)["story"]
    assert event["at_s"] == report.view.pending.first_submit_s[0]
    answer = asked.answer({"ask": "deadline", "job_id": 7}, ALICE)["deadline"]
    assert (answer["answer"], answer["user"]) == ("unasked", "")


def test_the_story_of_a_job_that_is_over_is_that_of_the_job_which_was_promised_something():
    report = reused(HER)
    asked = QueryHandlers(Sources(dict, tell, tell, tell_queue, stories(), private=lambda: True), trusted=(0,))
    asked.observe(report)
    (event,) = asked.answer({"ask": "story", "job_id": 7}, ALICE)["story"]
    assert event["at_s"] == report.plan.promises.first_submit_s[0]


def test_a_prediction_for_the_former_owner_of_an_id_is_told_to_nobody():
    report = reused("bob", HER)
    former = prediction_table(1, job_id=[7], user=["bob"], first_submit_s=[100.0], made_s=[1.0])
    asked = questions(report, predictions=lambda: LivePredictions(former))
    (one,) = asked.answer({"ask": "eta", "job_ids": [7]}, ALICE)["eta"]
    assert (one["user"], one["kind"]) == (HER, "new")
    assert asked.answer({"ask": "eta", "all": True}, 0)["eta"] == []


def test_the_queue_says_what_the_predicted_time_of_each_shown_job_does_not_count():
    report = seen(pending={7: HER, 8: "bob", 9: HER})
    doubtful = prediction_table(3, job_id=[7, 8, 9], finish_s=[9.0, 9.0, 9.0], doubts=["minutes", "billing", ""])
    sources = Sources(
        dict, tell, tell, queue, story, predictions=lambda: LivePredictions(doubtful), private=lambda: True
    )
    asked = QueryHandlers(sources, trusted=(0,))
    asked.observe(report)
    rows = [
        [(row["job_id"], row["doubts"]) for row in asked.answer({"ask": "queue"}, who)["queue"]] for who in (0, ALICE)
    ]
    assert rows == [[(7, ["minutes"]), (8, ["billing"]), (9, [])], [(7, ["minutes"]), (9, [])]]


CHOICES = {"choices": [{"at_s": 1.0, "line": "sjf", "by": "carol", "reason": "bob's jobs"}]}


@pytest.mark.parametrize("ask", ["accuracy", "history", "models", "choices"])
def test_figures_are_told_before_the_first_cycle_and_of_a_private_cluster_for_that_user_alone(ask):
    heard = []

    def figures(about, days, only):
        heard.append((about, days, only))
        return dict(CHOICES)

    questions(figures=figures).answer({"ask": ask}, ALICE)
    private(figures=figures).answer({"ask": ask, "days": 7}, ALICE)
    private(figures=figures, operator=lambda user: True).answer({"ask": ask, "days": 0.5}, ALICE)
    assert heard == [(ask, None, None), (ask, 7.0, HER), (ask, 0.5, None)]


@pytest.mark.parametrize("days", [0, -1, "7", True, 1e9, [], float("inf"), float("nan")])
def test_days_that_mean_nothing_are_refused(days):
    with pytest.raises(AnswerRefused, match='"days" must be'):
        questions(figures=lambda *_: {}).answer({"ask": "history", "days": days}, 0)


def test_who_chose_an_ordering_and_why_is_for_operators():
    def chosen(uid, **known):
        asked = questions(figures=lambda *_: CHOICES, **known)
        return asked.answer({"ask": "choices"}, uid)["choices"][0]

    assert chosen(0)["by"] == chosen(ALICE, operator=lambda user: user == HER)["by"] == "carol"
    hidden = chosen(ALICE)
    assert (hidden["line"], hidden["by"], hidden["reason"]) == ("sjf", None, None)
    sources = Sources(lambda: {"policy": CHOICES["choices"][0]}, tell, tell, tell_queue, story)
    status = QueryHandlers(sources, trusted=(0,))
    assert status.answer({"ask": "status"}, 0)["policy"]["by"] == "carol"
    assert "carol" not in json.dumps(status.answer({"ask": "status"}, ALICE))


def test_advice_says_what_share_of_link_bandwidth_runs_lost_and_does_without_where_the_database_is_away():
    rows = [LinkUse(2, 40, 37.5, 50.0, 0.25)]
    answer = questions(seen(), links=lambda: rows).answer({"ask": "advice"}, uid=0)
    assert answer["links"] == [{"gpus": 2, "runs": 40, "gbps": 37.5, "best_gbps": 50.0, "lost": 0.25}]

    def away():
        raise MemoryUnavailable("no database")

    assert questions(seen(), links=away).answer({"ask": "advice"}, uid=0)["links"] == []


def test_advice_says_what_spreading_costs_kinds_of_jobs():
    rows = [SpreadSpeed("eva/bert", 4, "a100", 9, 0.3, 4, 0.5)]
    (row,) = questions(seen(), spread=lambda: rows).answer({"ask": "advice"}, uid=0)["spread"]
    assert (row["kind"], row["gpus"], row["speed"]) == ("eva/bert", 4, 0.6)


def test_advice_says_how_fast_kinds_are_by_type_of_gpu_and_whose_jobs_left_gpus_without_cpus():
    types = [TypeSpeed("eva/bert", 4, "a100", 9, 300.0, 1.0), TypeSpeed("eva/bert", 4, "v100", 4, 600.0, 0.5)]
    owners = [StrandedBy("bio", "bob", 7.5, 0.25)]
    answer = questions(seen(), types=lambda: types, stranded=lambda: owners).answer({"ask": "advice"}, uid=0)
    assert [(row["gpu_type"], row["speed"]) for row in answer["types"]] == [("a100", 1.0), ("v100", 0.5)]
    assert answer["stranded"] == [{"account": "bio", "user": "bob", "cpu_gpu_hours": 7.5, "memory_gpu_hours": 0.25}]


def test_advice_names_whose_runs_go_far_beyond_their_forecasts_to_those_who_see_all_jobs():
    beyond = [Overrunner("mallory", 9, 900.0, 10_800.0, 1.0)] * (OVERRUNNERS_MOST + 1)
    answer = questions(seen(), overrunners=lambda: beyond).answer({"ask": "advice"}, uid=0)
    assert len(answer["overrunners"]) == OVERRUNNERS_MOST
    named = {"user": "mallory", "runs": 9, "times": 900.0, "length_s": 10_800.0, "raised": 1.0}
    assert answer["overrunners"][0] == named
    with pytest.raises(AnswerRefused, match="only operators"):
        questions(seen(), overrunners=lambda: beyond, private=lambda: True).answer({"ask": "advice"}, uid=ALICE)


def test_what_other_hosts_may_ask_takes_long_or_runs_compiled_code_is_said_one_by_one():
    users = {"status", "queue", "why", "mine", "explain", "story", "accuracy", "eta", "eta_check", "windows"}
    assert set(REMOTE_ASKS) == users | {
        *(
            "deadline",
            "deadlines",
            "check",
            "chart",
            "claims",
            "advice",
            "report",
            "schedule",
            "nodes",
            "gpus",
            "orders",
        )
    }
    slow = {"accuracy", "history", "models", "choices", "trial", "report", "queue", "advice", "mine"}
    slow |= {"deadlines", "check", "chart", "eta_check", "claims", "schedule", "nodes"}
    assert {name for name in QUESTIONS if takes_long({"ask": name})} == slow
    assert {name for name, one in QUESTIONS.items() if one.compiled} == {"check", "chart", "eta_check"}
    operators = {name for name, one in QUESTIONS.items() if one.who is Who.OPERATOR}
    owners = {name for name, one in QUESTIONS.items() if one.who is Who.OWNER}
    assert (operators, owners) == (
        {"advice", "claims", "orders"},
        {"why", "explain", "story", "deadline", "chart", "gpus"},
    )
    assert all(one.read_only for one in QUESTIONS.values())
    assert all("job_id" in [parameter.name for parameter in QUESTIONS[name].parameters] for name in owners)
