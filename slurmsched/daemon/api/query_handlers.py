"""The daemon's queries, and the rules for who may see the answers."""

from __future__ import annotations

import math
import pwd
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, NoReturn

import numpy as np

from ...cluster.columns import BoolArray
from ...cluster.kind_speeds import SpreadSpeed, TypeSpeed
from ...cluster.plan import Plan
from ...cluster.records.predictions import PredictionTable
from ...cluster.records.profiles import LinkUse
from ...cluster.records.promises import NO_PROMISES, SAME_S
from ...cluster.records.scope import Scope
from ...cluster.state import View
from ...cluster.stranded_gpus import StrandedBy
from ...cycle import CycleReport
from ...db.tracking.story import StoryEvent
from ...decide.deadlines.deadline_usage import DeadlineUsage
from ...decide.fragmented_waits import Fragmentation
from ...decide.synthesis import AUTO
from ...errors import MemoryUnavailable
from ...explain.causes import Cause
from ...explain.deadlines import DeadlineAnswer
from ...explain.eta import Eta, LivePredictions, coverage_words, eta_of, etas
from ...explain.explain import Explanation, QueueRow, chosen_rows
from ...explain.impact import GroupImpact
from ...explain.lease_chart import LeaseChart
from ...explain.why import Circumstances, Why
from ...models.runtime.overruns import Overrunner
from ..daemon_status import DaemonStatus
from .answers import (
    AdviceAnswer,
    ChartAnswer,
    Claims,
    DeadlineOfJob,
    DeadlineOfNewJob,
    Deadlines,
    EtaAnswer,
    ExplainAnswer,
    MyJobs,
    OfCycle,
    QueueAnswer,
    SpreadRow,
    Story,
    WhyAnswer,
)
from .privacy import narrow, owns, veil
from .query_arguments import (
    QUEUE_MOST,
    AnswerRefused,
    days_of,
    filters_of,
    job_id_of,
    job_ids_of,
    most_rows,
    options_of,
    rows_to_skip,
    scope_of,
    span_of,
)
from .query_protocol import SCHEMA
from .record_summaries import Choice

FIGURES = ("accuracy", "history", "models", "choices")
ASKS = (
    *("status", "queue", "why", "explain", "story", "advice", "deadline", "deadlines", "check", "chart"),
    *("eta", "eta_check", "claims", "mine", "report"),
    *FIGURES,
)
SLOW = (*FIGURES, "report", "queue", "advice", "deadlines", "check", "chart", "eta_check", "claims", "mine")
"""Queries that plan, forecast or go through all jobs: 10 ms and more on a busy cluster."""

COMPILED = ("check", "chart", "eta_check")
"""Queries that run compiled code which no cycle may have run before."""

OVERRUNNERS_MOST = 20  #: users in one answer
STRANDED_MOST = 20  #: likewise, of those whose jobs left GPUs without CPUs or memory
_SCALARS = {bool, int, str}
ETA_USUAL = 100
MINE_USUAL = 10
MINE_MOST = 100  #: jobs explained in one answer
ETA_MOST = 500  #: rows in one answer: a longer one takes more than 50 ms, which delays the next query


def _unknown(*_: object) -> NoReturn:
    raise AnswerRefused("this daemon has no answer to that")


@dataclass(frozen=True)
class Sources:
    """The sources of answers; all are called in a thread other than the cycle's."""

    status: Callable[[], DaemonStatus]
    why: Callable[[View, Plan, int, Circumstances], Why]
    explain: Callable[[View, Plan, int, Circumstances], Explanation]
    queue: Callable[[View, Plan], Sequence[QueueRow]]
    story: Callable[[int, float | None], Sequence[StoryEvent]]  #: of the job of that id and submission, or the last one
    advice: Callable[[View, Plan], Sequence[GroupImpact]] = lambda view, plan: ()
    overrunners: Callable[[], Sequence[Overrunner]] = tuple  #: users whose runs went far beyond their forecasts
    links: Callable[[], Sequence[LinkUse]] = tuple  #: use of the links between GPUs, by number of GPUs
    spread: Callable[[], Sequence[SpreadSpeed]] = tuple  #: speeds of kinds of jobs on more nodes than they need
    types: Callable[[], Sequence[TypeSpeed]] = tuple  #: speeds of kinds of jobs by type of GPU
    stranded: Callable[[], Sequence[StrandedBy]] = tuple  #: whose jobs left GPUs without CPUs or memory
    fragmented: Callable[[], Sequence[Fragmentation]] = tuple  #: what jobs waited for GPUs that did not lie together
    deadline: Callable[[View, Plan, int], DeadlineAnswer] = _unknown
    deadlines: Callable[[View, Plan], Sequence[DeadlineAnswer]] = lambda view, plan: ()
    claims: Callable[[View, Plan], Sequence[DeadlineUsage]] = lambda view, plan: ()
    chart: Callable[[View, Plan, int], LeaseChart] = _unknown
    check: Callable[[View, Plan, str, str], DeadlineAnswer] = _unknown  #: for a user's new job
    cause: Callable[[View, Plan, int], Cause | None] = lambda view, plan, row: (
        None
    )  #: what keeps a pending row from starting
    predictions: Callable[[], LivePredictions] = LivePredictions
    eta_check: Callable[[View, Plan, str, str], Eta] = _unknown  #: for a user's new job
    order_off: Callable[[str], str] = lambda mode: ""  #: why our order is not in force in a mode; empty where it is
    starting: Callable[[], str] = str  #: why compiled code cannot be run yet; empty where it can
    figures: Callable[[str, float | None, str | None], Mapping[str, Any]] = lambda about, days, only: {}
    report: Callable[[float, Scope], Mapping[str, Any]] = _unknown  #: on the last seconds, and a choice of jobs
    private: Callable[[], bool] = lambda: False  #: whether PrivateData includes jobs
    operator: Callable[[str], bool] = lambda user: False  #: whether a user may see all jobs all the same


@dataclass(frozen=True)
class Asker:
    """The client's user; ``only`` is the one user whose jobs they may see, None for all."""

    uid: int
    only: str | None
    trusted: bool


class QueryHandlers:
    """Answers from the latest report; the cycle swaps it in one assignment."""

    def __init__(self, sources: Sources, *, trusted: Sequence[int]) -> None:
        self._sources = sources
        self._trusted = frozenset(trusted)  # uids that see all: root and the daemon's own
        self._latest: CycleReport | None = None

    def observe(self, report: CycleReport) -> None:
        """Answer from *report* from now on."""
        self._latest = report

    def answer(self, request: object, uid: int, *, local: bool = True) -> dict[str, Any]:
        """Answer *request* for the unix user *uid*, ready for JSON; AnswerRefused where there is no answer.

        Unless the user is *local*, identified by this machine's kernel, no uid is trusted to see all.
        """
        if not isinstance(request, Mapping) or request.get("ask") not in ASKS:
            raise AnswerRefused(f'a question is one JSON object with "ask" one of {", ".join(ASKS)}')
        kind = request["ask"]
        if kind in COMPILED and (starting := self._sources.starting()):
            raise AnswerRefused(starting)
        trusted = local and uid in self._trusted
        asker = Asker(uid, None if trusted else self._only(uid), trusted)
        body: Mapping[str, object]
        if kind == "status":
            body = self._status(asker)
        elif kind in FIGURES:
            body = self._figures(kind, request, asker)
        elif kind == "report":
            body = self._sources.report(span_of(request), self._report_scope(request, asker))
        elif kind == "story":
            body = self._story(job_id_of(request), asker)
        elif kind == "advice":
            body = self._advice(asker)
        elif kind == "deadlines":
            body = self._deadlines(asker)
        elif kind == "claims":
            body = self._claims(asker)
        elif kind == "check":
            body = self._check(request, uid)
        elif kind == "eta":
            body = self._eta(request, asker)
        elif kind == "eta_check":
            body = self._eta_check(request, uid)
        elif kind == "queue":
            body = self._queue(most_rows(request), filters_of(request), asker)
        elif kind == "mine":
            body = self._mine(min(most_rows(request, MINE_USUAL), MINE_MOST), asker)
        else:
            body = self._job(kind, job_id_of(request), asker)
        return {"schema": SCHEMA, "ask": kind, **plain(body)}

    def _only(self, uid: int) -> str | None:
        if not self._sources.private():
            return None
        user = _user(uid, "jobs are private on this cluster, and ")
        return None if self._sources.operator(user) else user

    def _status(self, asker: Asker) -> DaemonStatus:
        status = self._sources.status()
        policy = status.get("policy")
        if policy is None or self._sees_author(policy["by"], asker):
            return status
        return {**status, "policy": {**policy, "by": None, "reason": None}}

    def _figures(self, kind: str, request: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        body = self._sources.figures(kind, days_of(request), asker.only)
        return body if kind != "choices" else {"choices": [self._choice(choice, asker) for choice in body["choices"]]}

    def _report_scope(self, request: Mapping[str, Any], asker: Asker) -> Scope:
        """Return the jobs that the asker may see of those that a report shall be on: own ones, operators all."""
        of = scope_of(request)
        if asker.trusted:
            return of
        user = _user(asker.uid)
        if self._sources.operator(user):
            return of
        if of.user not in ("", user):
            raise AnswerRefused(f"only operators get reports on others: you may ask for {user}")
        return replace(of, user=user)

    def _choice(self, choice: Choice, asker: Asker) -> Choice:
        return choice if self._sees_author(choice["by"], asker) else {**choice, "by": None, "reason": None}

    def _sees_author(self, by: str | None, asker: Asker) -> bool:
        """Report whether *asker* may see the author and the reason of a choice: operators may, and the author."""
        if by == AUTO or asker.trusted:
            return True
        user = user_name(asker.uid)
        return bool(user) and (by == user or self._sources.operator(user))

    def _report(self) -> CycleReport:
        if self._latest is None:
            raise AnswerRefused(
                "the daemon is still starting: it has not observed the cluster yet; ask again after its first cycle"
            )
        return self._latest

    def _job(self, kind: str, job_id: int, asker: Asker) -> WhyAnswer | ExplainAnswer | DeadlineOfJob | ChartAnswer:
        report, sources = self._report(), self._sources
        view, plan = report.view, report.plan
        if asker.only is not None:
            if self._owner(job_id) != asker.only:
                raise _not_yours(job_id)
            view = veil(view, asker.only)
        head = _of_cycle(report)
        if kind == "deadline":
            return {**head, "job_id": job_id, "deadline": sources.deadline(view, plan, job_id)}
        if kind == "chart":
            return {**head, "job_id": job_id, "chart": sources.chart(view, plan, job_id)}
        beside = self._beside(report, job_id)
        if kind == "why":
            return {**head, "job_id": job_id, "why": sources.why(view, plan, job_id, beside)}
        return {**head, "job_id": job_id, "explain": sources.explain(view, plan, job_id, beside)}

    def _beside(self, report: CycleReport, job_id: int) -> Circumstances:
        """Return what an answer about a job needs beside the decision: the order in force and the prediction."""
        off, predictions = self._sources.order_off(report.mode), self._sources.predictions()
        if predictions.table is None:
            return Circumstances(off, no_eta=predictions.trouble)
        return Circumstances(off, eta_of(predictions.table, report.view, job_id, report.now_s))

    def _mine(self, limit: int, asker: Asker) -> MyJobs:
        """Explain each of the asker's pending jobs, those next in Slurm's order first."""
        report, user = self._report(), _user(asker.uid)
        view = report.view if asker.only is None else veil(report.view, asker.only)
        rows = np.flatnonzero(owns(view.pending, user))
        first = rows[np.lexsort((view.pending.job_id[rows], -view.pending.priority[rows]))][:limit]
        return {
            **_of_cycle(report),
            "user": user,
            "pending": len(rows),
            "limit": limit,
            "mine": [
                self._sources.why(view, report.plan, job_id, self._beside(report, job_id))
                for job_id in view.pending.job_id[first].tolist()
            ],
        }

    def _queue(self, limit: int, filters: Mapping[str, str], asker: Asker) -> QueueAnswer:
        report = self._report()
        view, plan = report.view, report.plan
        shown = chosen_rows(view.pending, filters)
        if asker.only is not None:
            shown = shown[owns(view.pending, asker.only)[shown]]
        total = len(shown)
        # Ranked jobs first, each in its place; the rest by Slurm's priority.
        rank = plan.jobs.rank[shown]
        order = np.lexsort((-view.pending.priority[shown], np.where(rank < 0, np.iinfo(np.int64).max, rank)))
        rows = np.sort(shown[order[:limit]])
        if asker.only is not None:
            view, plan = narrow(view, plan, rows, asker.only)
            view = veil(view, asker.only)  # last: hiding costs by the row
        elif len(rows) < len(view.pending):
            view, plan = view.take(rows), Plan(plan.jobs.take(rows), plan.actions, plan.refusals)
        return {
            **_of_cycle(report),
            "order_off": self._sources.order_off(report.mode),
            "pending": total,
            "limit": limit,
            "queue": self._sources.queue(view, plan),
        }

    def _advice(self, asker: Asker) -> AdviceAnswer:
        if asker.only is not None:
            raise AnswerRefused(
                "jobs are private on this cluster: only operators may see the effect of our order on accounts"
            )
        report = self._report()
        links: Sequence[LinkUse] = ()
        with suppress(MemoryUnavailable):  # the rest needs no database
            links = self._sources.links()
        return {
            "as_of_s": report.now_s,
            "cycle": report.number,
            "advice": self._sources.advice(report.view, report.plan),
            "overrunners": self._sources.overrunners()[:OVERRUNNERS_MOST],
            "links": links,
            "spread": [_spread_row(row) for row in self._sources.spread()],
            "types": self._sources.types(),
            "stranded": self._sources.stranded()[:STRANDED_MOST],
            "fragmented": self._sources.fragmented(),
        }

    def _deadlines(self, asker: Asker) -> Deadlines:
        report = self._report()
        plan = report.plan
        if asker.only is not None:
            theirs = [name == asker.only for name in plan.promises.user]
            plan = replace(plan, promises=plan.promises.take(np.array(theirs, dtype=np.bool_)))
        return {**_of_cycle(report), "deadlines": self._sources.deadlines(report.view, plan)[:QUEUE_MOST]}

    def _claims(self, asker: Asker) -> Claims:
        if asker.only is not None:
            raise AnswerRefused("jobs are private on this cluster: only operators may see the promises of each user")
        report = self._report()
        return {**_of_cycle(report), "claims": self._sources.claims(report.view, report.plan)}

    def _check(self, request: Mapping[str, Any], uid: int) -> DeadlineOfNewJob:
        options, report = options_of(request), self._report()
        reply = self._sources.check(report.view, report.plan, options, _user(uid))
        return {**_of_cycle(report), "check": reply}

    def _eta(self, request: Mapping[str, Any], asker: Asker) -> EtaAnswer:
        report, predictions, limit = (
            self._report(),
            self._sources.predictions(),
            min(most_rows(request, ETA_USUAL), ETA_MOST),
        )
        table = predictions.table
        if table is None:
            raise AnswerRefused(predictions.why_none)
        if "job_ids" in request:
            job_ids = job_ids_of(request)
            total, answers = len(job_ids), [self._eta_of(job_id, table, report, asker) for job_id in job_ids]
        else:
            user = asker.only if request.get("all") is True else _user(asker.uid)
            mine = table.user.map([user in (name, None) for name in table.user.names], np.bool_)
            rows = np.flatnonzero(mine & _still_there(table, report.view))
            total = len(rows)
            soonest = rows[np.argsort(table.start_s[rows], kind="stable")]
            skip = rows_to_skip(request)
            listed = etas(table, report.now_s, soonest[skip : skip + limit].tolist())
            answers = [self._without_time(answer, report) for answer in listed]
        return {
            "as_of_s": float(table.made_s[0]) if len(table) else report.now_s,
            "cycle": report.number,
            "mode": report.mode,
            "jobs": total,
            "limit": limit,
            "eta": answers,
            "coverage": predictions.coverage,
            "coverage_words": coverage_words(predictions.coverage),
        }

    def _eta_of(self, job_id: int, table: PredictionTable, report: CycleReport, asker: Asker) -> Eta:
        if asker.only is not None and self._owner(job_id) != asker.only:
            raise _not_yours(job_id)
        return self._without_time(eta_of(table, report.view, job_id, report.now_s), report)

    def _without_time(self, answer: Eta, report: CycleReport) -> Eta:
        """Return *answer*, where it has no time with the reason that ``why`` gives and with what can be done."""
        row = report.view.pending.row_of(answer.job_id)
        if row is None or answer.start_s is not None or answer.kind == "new":
            return answer
        cause = self._sources.cause(report.view, report.plan, row)
        return answer if cause is None else replace(answer, notes=(cause.reason, cause.advice))

    def _eta_check(self, request: Mapping[str, Any], uid: int) -> EtaAnswer:
        options, report, predictions = options_of(request), self._report(), self._sources.predictions()
        if predictions.table is None:
            raise AnswerRefused(predictions.why_none)
        reply = self._sources.eta_check(report.view, report.plan, options, _user(uid))
        return {
            "as_of_s": report.now_s,
            "cycle": report.number,
            "mode": report.mode,
            "eta": [reply],
            "coverage": predictions.coverage,
            "coverage_words": coverage_words(predictions.coverage),
        }

    def _story(self, job_id: int, asker: Asker) -> Story:
        # Only the queue names a job's owner: the story of a job that has ended is for users who may see all jobs.
        owner, first_submit_s = self._identity(job_id)
        if asker.only is not None and owner != asker.only:
            raise _not_yours(job_id)
        return {"job_id": job_id, "story": self._sources.story(job_id, first_submit_s)}

    def _owner(self, job_id: int) -> str | None:
        return self._identity(job_id)[0]

    def _identity(self, job_id: int) -> tuple[str | None, float | None]:
        """Return the owner and first submission of a job (Unix seconds): they tell it from others with its id."""
        latest = self._latest
        for jobs in (latest.view.pending, latest.view.running) if latest else ():
            row = jobs.row_of(job_id)
            if row is not None:
                return jobs.user[row], float(jobs.first_submit_s[row])
        promises = latest.plan.promises if latest else NO_PROMISES
        place = promises.last_of(job_id)
        return (None, None) if place is None else (promises.user[place], float(promises.first_submit_s[place]))


def _of_cycle(report: CycleReport) -> OfCycle:
    return {"as_of_s": report.now_s, "cycle": report.number, "mode": report.mode}


def _spread_row(row: SpreadSpeed) -> SpreadRow:
    return {
        "kind": row.kind,
        "gpus": row.gpus,
        "gpu_type": row.gpu_type,
        "runs": row.runs,
        "iteration_s": row.iteration_s,
        "spread_runs": row.spread_runs,
        "spread_iteration_s": row.spread_iteration_s,
        "speed": row.speed,
    }


def _still_there(table: PredictionTable, view: View) -> BoolArray:
    """Return the mask of the rows of *table* for jobs that wait or run now, excluding others that had their ids."""
    job_id = np.concatenate([view.pending.job_id, view.running.job_id])
    first_s = np.concatenate([view.pending.first_submit_s, view.running.first_submit_s])
    if not len(job_id):
        return np.zeros(len(table), dtype=np.bool_)
    order = np.argsort(job_id, kind="stable")
    at = order[np.minimum(np.searchsorted(job_id[order], table.job_id), len(order) - 1)]
    same = (job_id[at] == table.job_id) & (np.abs(first_s[at] - table.first_submit_s) <= SAME_S)
    return np.asarray(same, dtype=np.bool_)


def takes_long(request: object) -> bool:
    """Report whether the answer to *request* may take long; false for anything that is not a request."""
    return isinstance(request, Mapping) and request.get("ask") in SLOW


def _user(uid: int, why: str = "") -> str:
    if user := user_name(uid):
        return user
    raise AnswerRefused(f"{why}uid {uid} has no name here")


def user_name(uid: int) -> str:
    """Return the user's name; empty for an unknown uid."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


def plain(value: Any) -> Any:
    """Convert *value* for JSON: dataclasses become objects, arrays lists, NaN and infinity null."""
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, Eta):
        return vars(value)  # plain already; an answer has hundreds
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _not_yours(job_id: int) -> AnswerRefused:
    # The same text for a job that does not exist: the refusal must not reveal which ids are in use.
    return AnswerRefused(f"job {job_id} is not yours or does not exist; jobs are private on this cluster")
