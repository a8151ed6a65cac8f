"""Queries about jobs: to the daemon where one answers, else to the latest record of its decisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..config import Unreadable
from ..errors import SlurmschedError
from .output import TextTable, emit
from .time_format import as_of

if TYPE_CHECKING:
    from ..cluster.plan import Plan
    from ..cluster.state import View
    from ..daemon.api.questions.contract import Sources
    from ..daemon.api.questions.records import RecordedStatus
    from ..daemon.api.record_summaries import FigureQueries
    from ..db.tracking.decisions import DecisionRecord
    from ..decide.policy import Policy
    from ..explain.explain import Explanation
    from ..explain.why import Circumstances

NO_DAEMON = "no daemon runs"
"""The reason why the order of a recorded cycle is not in force now: an ordered stop gave every job back."""

NO_PREDICTION = "only a running daemon predicts starts and finishes"


class QueryClient:
    """Answers of a daemon, by *ask*, which sends a request; ``source`` in each says where it is from."""

    def __init__(self, ask: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self._ask = ask

    def query(self, about: str, **details: Any) -> dict[str, Any]:
        """Return the daemon's answer *about* a job or the queue.

        Raises AnswerRefused where the daemon refuses, DaemonUnreachable where none answers.
        """
        return {"source": "daemon", **self._ask({"ask": about, **details})}


class RecordedQueryClient(QueryClient):
    """The same, and without a daemon answers from its *records*, in the daemon's own form."""

    def __init__(self, ask: Callable[[Mapping[str, Any]], dict[str, Any]], records: Records) -> None:
        super().__init__(ask)
        self._records = records

    def query(self, about: str, **details: Any) -> dict[str, Any]:
        """Return the daemon's answer *about* a job or the queue; without a daemon, that of its records.

        Raises AnswerRefused where the daemon refuses, DaemonUnreachable where there is no record either.
        """
        from ..daemon.api.query_protocol import DaemonUnreachable

        try:
            return super().query(about, **details)
        except DaemonUnreachable as away:
            try:
                return {"source": "record", **self._records.answer({"ask": about, **details})}
            except Unreadable:
                raise away from None  # the record is for those who may read the settings
            except SlurmschedError as error:
                raise DaemonUnreachable(f"{away}\nand without it: {error}") from error


@dataclass(frozen=True)
class Records:
    """What is recorded, as a source of answers for a user who may read all of it."""

    latest: Callable[[], DecisionRecord | None]
    story: Callable[[int], Sequence[Any]]
    figures: Callable[[], FigureQueries]

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer *request*; SlurmschedError where the records have no answer."""
        from ..daemon.api.query_handlers import QueryHandlers
        from ..daemon.api.questions.table import QUESTIONS

        question = QUESTIONS.get(request["ask"])
        if question is not None and question.live_only:
            raise SlurmschedError(question.live_only)
        handlers = QueryHandlers(self._sources(), trusted=(os.getuid(),))
        if question is not None and question.decided:
            handlers.observe(self._decided)
        return handlers.answer(request, os.getuid())

    @cached_property
    def _decided(self) -> DecisionRecord:
        record = self.latest()
        if record is None:
            raise SlurmschedError("no cycle is recorded in the database yet")
        return record

    @cached_property
    def _policy(self) -> Policy:
        """The policy that was recorded with the decision."""
        from ..decide.policy import Policy

        return Policy.from_json(self._decided.settings_json)

    def _sources(self) -> Sources:
        from ..daemon.api.questions.contract import Sources
        from ..explain.eta import LivePredictions
        from ..explain.explain import explain, queue
        from ..explain.shadow import order_words
        from ..explain.why import why

        def explained(view: View, plan: Plan, job_id: int, beside: Circumstances) -> Explanation:
            more = order_words(view, self._policy.without_plugins(), job_id)
            return explain(view, plan, self._policy.rules, job_id, beside, more=more)

        return Sources(
            status=self._status,
            why=lambda view, plan, job_id, beside: why(view, plan, self._policy.rules, job_id, beside),
            explain=explained,
            queue=queue,
            story=lambda job_id, since_s: self.story(job_id),
            rules=lambda: self._policy.rules,
            predictions=lambda: LivePredictions(trouble=NO_PREDICTION),
            order_off=lambda mode: NO_DAEMON,
            figures=lambda about, days, only: self.figures().answer(about, days),
            report=lambda span_s, of: self.figures().report(span_s, of),
            recorded=True,
        )

    def _status(self) -> RecordedStatus:
        record = self._decided
        return {
            "as_of_s": record.now_s,
            "cycle": record.number,
            "mode": record.mode,
            "sentence": record.sentence,
            "running": False,
        }


def print_reply(reply: Mapping[str, Any], *parts: str | TextTable, now_s: float, as_json: bool) -> None:
    """Print an answer and its age; JSON gets the whole answer."""
    age = as_of(reply["as_of_s"], reply["cycle"], now_s)
    emit(
        reply,
        *parts,
        age if reply["source"] == "daemon" else f"{age}, from the record: no daemon answers",
        as_json=as_json,
    )
