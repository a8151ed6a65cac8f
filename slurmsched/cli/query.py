"""Queries about jobs: to the daemon where one answers, else to the latest record of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..config import Unreadable
from ..errors import SlurmschedError
from .output import TextTable, emit
from .time_format import as_of

if TYPE_CHECKING:
    from ..daemon.api.record_summaries import FigureQueries
    from ..db.tracking.decisions import DecisionRecord
    from ..decide.policy import Policy
    from ..decide.rules import Rules
    from ..explain.explain import Explanation
    from ..explain.why import Circumstances
    from .json_answers import RecordedStatus

NO_DAEMON = "no daemon runs"
"""The reason why the order of a recorded cycle is not in force now: an ordered stop gave every job back."""

NO_PREDICTION = "only a running daemon predicts starts and finishes"

Recorded = Callable[[], "DecisionRecord | None"]


class QueryClient:
    """Answers of a daemon, by *ask*, which sends a request; ``source`` in each says where it is from."""

    def __init__(self, ask: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self._ask = ask

    def query(self, about: str, **details: int | float | str | list[int]) -> dict[str, Any]:
        """Return the daemon's answer *about* a job or the queue.

        Raises AnswerRefused where the daemon refuses, DaemonUnreachable where none answers.
        """
        return {"source": "daemon", **self._ask({"ask": about, **details})}


class RecordedQueryClient(QueryClient):
    """The same, and without a daemon answers from its last record, in the daemon's own form."""

    def __init__(
        self,
        ask: Callable[[Mapping[str, Any]], dict[str, Any]],
        recorded: Recorded,
        story: Callable[[int], Sequence[Any]],
        figures: Callable[[], FigureQueries],
    ) -> None:
        super().__init__(ask)
        self._recorded, self._story, self._figures = recorded, story, figures

    def query(self, about: str, **details: int | float | str | list[int]) -> dict[str, Any]:
        """Return the daemon's answer *about* a job or the queue; without a daemon, that of its last record.

        Raises AnswerRefused where the daemon refuses, DaemonUnreachable where there is no record either.
        """
        from ..daemon.api.query_protocol import DaemonUnreachable

        try:
            return super().query(about, **details)
        except DaemonUnreachable as away:
            try:
                return {"source": "record", "ask": about, **self._from_record(about, details)}
            except Unreadable:
                raise away from None  # the record is for those who may read the settings
            except SlurmschedError as error:
                raise DaemonUnreachable(f"{away}\nand without it: {error}") from error

    def _from_record(self, about: str, details: Mapping[str, Any]) -> dict[str, Any]:
        from ..daemon.api.query_arguments import scope_of, span_of
        from ..daemon.api.query_handlers import FIGURES, plain

        if about == "story":
            return {"job_id": details["job_id"], "story": plain(list(self._story(details["job_id"])))}
        if about in FIGURES:
            return dict(plain(self._figures().answer(about, details.get("days"))))
        if about == "report":
            return dict(plain(self._figures().report(span_of(details), scope_of(details))))
        if about in ("eta", "eta_check"):
            raise SlurmschedError("only a running daemon can predict starts and finishes")
        if about == "check":
            raise SlurmschedError("only a running daemon can answer about a new job")
        record = self._recorded()
        if record is None:
            raise SlurmschedError("no cycle is recorded in the database yet")
        if about == "status":
            return {**_recorded_status(record)}
        return {"as_of_s": record.now_s, "cycle": record.number, **_recorded_answer(about, record, details)}


def _recorded_status(record: DecisionRecord) -> RecordedStatus:
    return {
        "as_of_s": record.now_s,
        "cycle": record.number,
        "mode": record.mode,
        "sentence": record.sentence,
        "running": False,
    }


def _recorded_answer(about: str, record: DecisionRecord, details: Mapping[str, Any]) -> dict[str, Any]:
    """Answer from a recorded decision, by the rules recorded with it."""
    from ..daemon.api.query_arguments import filters_of
    from ..daemon.api.query_handlers import plain
    from ..decide.policy import Policy
    from ..explain.explain import chosen_rows
    from ..explain.queries import ANSWERS
    from ..explain.why import Circumstances

    policy, beside = Policy.from_json(record.settings_json), Circumstances(NO_DAEMON, no_eta=NO_PREDICTION)
    if about == "mine":
        return _recorded_mine(record, policy.rules, beside, details)
    if about == "explain":
        return {"job_id": details["job_id"], about: plain(_recorded_explanation(record, policy, beside, details))}
    if about == "queue":
        filters = filters_of(details)
        rows = chosen_rows(record.view.pending, filters)
        view, plan = record.view.take(rows), replace(record.plan, jobs=record.plan.jobs.take(rows))
        answer = ANSWERS[about](view, plan, policy.rules, 0, beside)
        shown = {"order_off": NO_DAEMON, "pending": len(answer), "limit": details["limit"]}
        return shown | {"queue": plain(answer[: details["limit"]])}
    answer = ANSWERS[about](record.view, record.plan, policy.rules, details.get("job_id", 0), beside)
    if about == "why":
        return {"job_id": details["job_id"], about: plain(answer)}
    return ({} if about == "advice" else {"mode": record.mode}) | {about: plain(answer)}


def _recorded_explanation(
    record: DecisionRecord, policy: Policy, beside: Circumstances, details: Mapping[str, Any]
) -> Explanation:
    from ..explain.order_terms import terms_of
    from ..explain.queries import explanation
    from ..explain.shadow import shadow_words

    view, job_id = record.view, details["job_id"]
    row = view.pending.row_of(job_id)
    more = [] if row is None else [*terms_of(view, policy.without_plugins().ordering, row)]
    more += shadow_words(view, policy, job_id)
    return explanation(view, record.plan, policy.rules, job_id, beside, more=more)


def _recorded_mine(
    record: DecisionRecord, rules: Rules, beside: Circumstances, details: Mapping[str, Any]
) -> dict[str, Any]:
    """Explain each pending job of the user who asks."""
    from getpass import getuser

    from ..daemon.api.query_handlers import plain
    from ..explain.explain import chosen_rows
    from ..explain.why import why

    user, jobs = getuser(), record.view.pending
    mine = sorted(chosen_rows(jobs, {"user": user}).tolist(), key=lambda row: (-jobs.priority[row], jobs.job_id[row]))
    told = [why(record.view, record.plan, rules, int(jobs.job_id[row]), beside) for row in mine[: details["limit"]]]
    return {"user": user, "pending": len(mine), "limit": details["limit"], "mine": plain(told)}


def print_reply(reply: Mapping[str, Any], *parts: str | TextTable, now_s: float, as_json: bool) -> None:
    """Print an answer and its age; JSON gets the whole answer."""
    age = as_of(reply["as_of_s"], reply["cycle"], now_s)
    emit(
        reply,
        *parts,
        age if reply["source"] == "daemon" else f"{age}, from the record: no daemon answers",
        as_json=as_json,
    )
