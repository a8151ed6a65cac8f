"""Questions about the daemon and what is recorded: its state, figures of the past, models, choices of a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from ....cluster.records.scope import Scope
from ....decide.synthesis import AUTO
from ....report.answer import Report
from ....report.trial_effects import TrialFacts
from ...daemon_status import DaemonStatus
from ..query_arguments import DAYS, ONE_JOB, ONLY, SPAN, AnswerRefused, filters_of
from ..record_summaries import Accuracy, Choice, Choices, HistoryStats, ModelList, Trials
from .contract import Asked, OfCycle, Question, for_users, user_name


class RecordedStatus(OfCycle):
    """The last cycle on record, where no daemon answers."""

    sentence: str
    running: Literal[False]


def _status(asked: Asked) -> Mapping[str, Any]:
    status = asked.sources.status()
    policy = status.get("policy")
    if policy is None or _sees_author(policy["by"], asked):
        return status
    return {**status, "policy": {**policy, "by": None, "reason": None}}


def _figures(about: str) -> Callable[[Asked], Mapping[str, Any]]:
    """Return the function that answers with the figures *about* a subject."""
    return lambda asked: asked.sources.figures(about, asked.given["days"], asked.asker.only)


def _choices(asked: Asked) -> Choices:
    choices: Sequence[Choice] = _figures("choices")(asked)["choices"]
    return {
        "choices": [
            choice if _sees_author(choice["by"], asked) else {**choice, "by": None, "reason": None}
            for choice in choices
        ]
    }


def _trials(asked: Asked) -> Trials:
    """Return the trials; to users without their seeds, by which they could tell the blocks to come, and accounts."""
    trials: Sequence[TrialFacts] = asked.sources.figures("trials", None, None)["trials"]
    if asked.asker.trusted or asked.sources.operator(asked.asker.user):
        return {"trials": trials}
    return {
        "trials": [
            {
                **trial,
                "by": None,
                "seed": None,
                "detail": "",
                "effects": [one for one in trial["effects"] if not one["account"]],
            }
            for trial in trials
        ]
    }


def _sees_author(by: str | None, asked: Asked) -> bool:
    """Report whether the asker may see the author and the reason of a choice: operators may, and the author."""
    if by == AUTO or asked.asker.trusted:
        return True
    user = user_name(asked.asker.uid)
    return bool(user) and (by == user or asked.sources.operator(user))


def _report(asked: Asked) -> Mapping[str, Any]:
    names, given = filters_of(asked.given), asked.given
    of = Scope(names.get("user", ""), names.get("account", ""), names.get("partition", ""), given["job_id"])
    return asked.sources.report(given["span_s"], _visible(of, asked))


def _visible(of: Scope, asked: Asked) -> Scope:
    """Return the jobs that the asker may see of those that a report shall be on: own ones, operators all."""
    if asked.asker.trusted:
        return of
    user = asked.asker.user
    if asked.sources.operator(user):
        return of
    if of.user not in ("", user):
        raise AnswerRefused(f"only operators get reports on others: you may ask for {user}")
    return replace(of, user=user)


_recorded = partial(Question, decided=False, slow=True)

QUESTIONS = (
    for_users(
        *("status", "the state of the daemon", _status, DaemonStatus),
        command="status",
        recorded_form=RecordedStatus,
        decided=False,
    ),
    _recorded(
        *("accuracy", "predictions beside what came", _figures("accuracy"), Accuracy, (DAYS,)),
        command="accuracy",
        remote=True,
    ),
    _recorded(
        *("report", "what jobs held, used and waited for", _report, Report, (SPAN, *ONLY, ONE_JOB)),
        command="report",
        remote=True,
    ),
    _recorded(
        *("history", "the runs in the database", _figures("history"), HistoryStats, (DAYS,)), command="history stats"
    ),
    _recorded("models", "the trained models", _figures("models"), ModelList, (DAYS,), command="models list"),
    _recorded("trial", "the trials of the policy", _trials, Trials, command="trial status"),
    _recorded("choices", "the choices of an ordering", _choices, Choices, (DAYS,)),
)
