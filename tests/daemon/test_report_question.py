"""Who may ask for a report on whom."""

from __future__ import annotations

import os
import pwd

import pytest

from slurmsched.cluster.records.scope import Scope
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.questions.contract import Sources

HER = "nobody"
ALICE = pwd.getpwnam(HER).pw_uid


def asked(uid, operator=(), *, local=True, **request):
    """The span and the choice of jobs that a question comes to."""
    seen = []

    def report(span_s, of):
        seen.append((span_s, of))
        return {}

    nothing = [lambda *_: None for _ in range(4)]
    sources = Sources(dict, *nothing, report=report, operator=lambda user: user in operator)
    QueryHandlers(sources, trusted=(0, os.geteuid())).answer({"ask": "report", **request}, uid, local=local)
    return seen[0]


def test_users_get_a_report_on_themselves_whatever_else_they_choose():
    assert asked(ALICE) == (604_800.0, Scope(user=HER))
    assert asked(ALICE, span_s=3600, only_account="a", job_id=7) == (3600.0, Scope(HER, "a", "", 7))
    assert asked(ALICE, only_user=HER)[1] == Scope(user=HER)


def test_users_get_none_on_others():
    with pytest.raises(AnswerRefused, match="only operators get reports on others: you may ask for nobody"):
        asked(ALICE, only_user="root")


def test_operators_and_root_get_all():
    assert asked(ALICE, operator=[HER])[1] == Scope()
    assert asked(0)[1] == Scope()
    assert asked(0, only_user="bob")[1] == Scope(user="bob")


def test_root_of_another_host_is_a_user_like_others():
    assert asked(0, local=False)[1] == Scope(user="root")


@pytest.mark.parametrize(
    "request_",
    [{"span_s": 0}, {"span_s": "week"}, {"span_s": True}, {"span_s": 1e12}, {"span_s": float("nan")}, {"job_id": -1},
     {"only_user": ""}, {"only_account": ["a"]}, {"only_partition": "x" * 300}],
)  # fmt: skip
def test_a_malformed_question_is_refused(request_):
    with pytest.raises(AnswerRefused):
        asked(0, **request_)


def test_a_user_without_a_name_is_refused():
    with pytest.raises(AnswerRefused, match="has no name"):
        asked(4_123_456)
