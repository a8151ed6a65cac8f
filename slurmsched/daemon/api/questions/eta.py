"""Questions about predicted starts and finishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NotRequired

import numpy as np

from ....cluster.columns import BoolArray, places_of
from ....cluster.records.predictions import PredictionTable
from ....cluster.records.promises import SAME_S
from ....cluster.state import View
from ....explain.eta import Coverage, Eta, coverage_words, eta_of, etas, with_halts_told
from ....explain.explain import chosen_rows
from ..query_arguments import ALL, JOBS, ONLY, OPTIONS, SKIP, AnswerRefused, NotYet, filters_of, limit
from .contract import Asked, OfCycle, for_users

ETA_USUAL = 100
ETA_MOST = 500  #: rows in one answer: a longer one takes more than 50 ms, which delays the next query


class EtaAnswer(OfCycle):
    """Predicted starts and finishes."""

    jobs: NotRequired[int]
    limit: NotRequired[int]
    eta: Sequence[Eta]
    coverage: Coverage | None
    coverage_words: str


def _eta(asked: Asked) -> EtaAnswer:
    report, given, predictions = asked.decided, asked.given, asked.sources.predictions()
    table, most = predictions.table, min(given["limit"], ETA_MOST)
    if table is None:
        raise (AnswerRefused if predictions.trouble else NotYet)(predictions.why_none)
    if given["job_ids"] is not None:
        total, answers = len(given["job_ids"]), [_of_job(asked, table, job_id) for job_id in given["job_ids"]]
    else:
        user = asked.asker.only if given["all"] else asked.asker.user
        mine = table.user.map([user in (name, None) for name in table.user.names], np.bool_)
        kept = np.isin(np.arange(len(table)), chosen_rows(table, filters_of(given)))
        rows = np.flatnonzero(mine & kept & _still_there(table, report.view))
        total = len(rows)
        soonest = rows[np.argsort(table.start_s[rows], kind="stable")]
        listed = etas(table, report.now_s, soonest[given["skip"] : given["skip"] + most].tolist())
        answers = [_without_time(asked, answer) for answer in listed]
    return {
        **asked.head,
        "as_of_s": float(table.made_s[0]) if len(table) else report.now_s,
        "jobs": total,
        "limit": most,
        "eta": answers,
        "coverage": predictions.coverage,
        "coverage_words": coverage_words(predictions.coverage),
    }


def _of_job(asked: Asked, table: PredictionTable, job_id: int) -> Eta:
    asked.demand_own(job_id)
    return _without_time(asked, eta_of(table, asked.decided.view, job_id, asked.decided.now_s))


def _without_time(asked: Asked, answer: Eta) -> Eta:
    """Return *answer*, where it has no time with the reason that ``why`` gives and with what can be done."""
    view = asked.decided.view
    row = view.pending.row_of(answer.job_id)
    answer = with_halts_told(answer, view, asked.sources.rules())
    if row is None or answer.start_s is not None or answer.kind == "new":
        return answer
    cause = asked.sources.cause(view, asked.plan, row)
    return answer if cause is None else replace(answer, notes=(cause.reason, cause.advice))


def _eta_check(asked: Asked) -> EtaAnswer:
    predictions = asked.sources.predictions()
    if predictions.table is None:
        raise (AnswerRefused if predictions.trouble else NotYet)(predictions.why_none)
    report, view, plan = asked.decided, asked.decided.view, asked.plan
    return {
        "as_of_s": report.now_s,
        "cycle": report.number,
        "mode": report.mode,
        "eta": [asked.sources.eta_check(view, plan, asked.given["options"], asked.asker.user)],
        "coverage": predictions.coverage,
        "coverage_words": coverage_words(predictions.coverage),
    }


def _still_there(table: PredictionTable, view: View) -> BoolArray:
    """Return the mask of the rows of *table* for jobs that wait or run now, excluding others that had their ids."""
    job_id = np.concatenate([view.pending.job_id, view.running.job_id])
    first_s = np.concatenate([view.pending.first_submit_s, view.running.first_submit_s])
    at = places_of(table.job_id, job_id, first=True)
    here = np.flatnonzero(at >= 0)
    same = np.zeros(len(table), dtype=np.bool_)
    same[here] = np.abs(first_s[at[here]] - table.first_submit_s[here]) <= SAME_S
    return same


_predicted = partial(
    for_users, command="eta", live_only="only a running daemon can predict starts and finishes", form=EtaAnswer
)

QUESTIONS = (
    _predicted(
        name="eta", about="predicted starts of jobs", answer=_eta, parameters=(JOBS, ALL, limit(ETA_USUAL), SKIP, *ONLY)
    ),
    _predicted(
        name="eta_check",
        about="the predicted start of a new job",
        answer=_eta_check,
        parameters=(OPTIONS,),
        slow=True,
        compiled=True,
    ),
)
