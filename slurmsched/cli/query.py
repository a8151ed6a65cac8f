"""Queries about jobs: to the daemon where one answers, else to the latest record of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config import Unreadable
from ..errors import SlurmschedError
from .output import TextTable, emit
from .time_format import as_of

if TYPE_CHECKING:
    from ..daemon.api.record_summaries import FigureQueries
    from ..db.tracking.decisions import DecisionRecord
    from .json_answers import RecordedStatus

NO_DAEMON = "no daemon runs"
"""The reason why the order of a recorded cycle is not in force now: an ordered stop gave every job back."""

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
        from ..daemon.api.query_handlers import FIGURES, plain

        if about == "story":
            return {"job_id": details["job_id"], "story": plain(list(self._story(details["job_id"])))}
        if about in FIGURES:
            return dict(plain(self._figures().answer(about, details.get("days"))))
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
    from ..daemon.api.query_handlers import plain
    from ..decide.explain.order_terms import with_order_terms
    from ..decide.explain.queries import ANSWERS
    from ..decide.explain.shadow import with_shadow_place
    from ..decide.explain.slurm_place import with_slurm_place
    from ..decide.policy import Policy

    job_id = details.get("job_id", 0)
    policy = Policy.from_json(record.settings_json)
    answer = ANSWERS[about](record.view, record.plan, policy.rules, job_id)
    if about == "explain":
        answer = with_order_terms(answer, record.view, policy.without_plugins().ordering)
        answer = with_shadow_place(answer, record.view, policy)
    if about == "queue":
        shown = {"order_off": NO_DAEMON, "pending": len(answer), "limit": details["limit"]}
        return shown | {"queue": plain(answer[: details["limit"]])}
    if about in ("why", "explain"):
        return {"job_id": job_id, about: plain(with_slurm_place(answer, record.view, NO_DAEMON))}
    return ({} if about == "advice" else {"mode": record.mode}) | {about: plain(answer)}


def print_reply(reply: Mapping[str, Any], *parts: str | TextTable, now_s: float, as_json: bool) -> None:
    """Print an answer and its age; JSON gets the whole answer."""
    age = as_of(reply["as_of_s"], reply["cycle"], now_s)
    emit(
        reply,
        *parts,
        age if reply["source"] == "daemon" else f"{age}, from the record: no daemon answers",
        as_json=as_json,
    )
