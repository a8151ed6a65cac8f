"""Asking about jobs: the daemon where one answers, else the latest record of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Unreadable
from ..errors import SlurmschedError
from .output import Sheet, emit
from .spans import as_of

if TYPE_CHECKING:
    from ..daemon.figures import Figures
    from ..db.decisions import DecisionRecord

NO_DAEMON = "no daemon runs"
"""Why the order of a recorded cycle is not in force now: an ordered stop gave every job back."""

Recorded = Callable[[], "DecisionRecord | None"]


class Answers:
    """Answers in the daemon's own form; ``source`` in each says whether it came from the daemon or from a record."""

    def __init__(
        self, socket: Path, recorded: Recorded, story: Callable[[int], Sequence[Any]], figures: Callable[[], Figures]
    ) -> None:
        self._socket, self._recorded, self._story, self._figures = socket, recorded, story, figures

    def ask(self, about: str, **details: int | float | str | list[int]) -> dict[str, Any]:
        """What the daemon says *about* a job or the queue; where no daemon answers, what its last record says.

        Raises AnswerRefused where the daemon will not tell, DaemonUnreachable where there is no record either.
        """
        from ..daemon.answers import DaemonUnreachable, ask

        try:
            return {"source": "daemon", **ask(self._socket, {"ask": about, **details})}
        except DaemonUnreachable as away:
            try:
                return {"source": "record", "ask": about, **self._from_record(about, details)}
            except Unreadable:
                raise away from None  # the record is for those who may read the settings
            except SlurmschedError as error:
                raise DaemonUnreachable(f"{away}\nand without it: {error}") from error

    def _from_record(self, about: str, details: Mapping[str, Any]) -> dict[str, Any]:
        from ..daemon.questions import FIGURES, plain

        if about == "story":
            return {"job_id": details["job_id"], "story": plain(list(self._story(details["job_id"])))}
        if about in FIGURES:
            return dict(plain(self._figures().answer(about, details.get("days"))))
        if about in ("eta", "eta_check"):
            raise SlurmschedError("when jobs will start and finish only a daemon can say")
        from ..decide import explain

        record = self._recorded()
        if record is None:
            raise SlurmschedError("no cycle is recorded in the database yet")
        facts = {"as_of_s": record.now_s, "cycle": record.number}
        if about == "status":
            return facts | {"mode": record.mode, "sentence": record.sentence, "running": False}
        if about == "queue":
            rows = explain.queue(record.view, record.plan)
            shown = {"order_off": NO_DAEMON, "pending": len(rows), "limit": details["limit"]}
            return facts | shown | {"queue": plain(rows[: details["limit"]])}
        if about == "check":
            raise SlurmschedError("what a new job would be told only a daemon can say")
        if about in ("deadline", "deadlines", "claims"):
            return facts | {"mode": record.mode, about: plain(_deadlines(about, record, details))}
        if about == "chart":
            from ..decide.chart import chart
            from ..decide.policy import Policy

            rules = Policy.from_json(record.settings_json).rules
            drawn = chart(record.view, record.plan, details["job_id"], rules)
            return facts | {"mode": record.mode, about: plain(drawn)}
        if about == "advice":
            from ..decide.advice import advice

            return facts | {"advice": plain(advice(record.view, record.plan))}
        from ..decide.slurm_place import with_slurm_place

        explained = getattr(explain, about)(record.view, record.plan, details["job_id"])
        explained = with_slurm_place(explained, record.view, NO_DAEMON)
        if about == "why":
            from ..decide.paired import with_sharing
            from ..decide.policy import Policy
            from ..decide.profiled import with_profiling

            rules = Policy.from_json(record.settings_json).rules
            explained = with_profiling(explained, record.view, rules.profiling)
            explained = with_sharing(explained, record.view, record.plan, rules)
        return facts | {"job_id": details["job_id"], about: plain(explained)}


def _deadlines(about: str, record: DecisionRecord, details: Mapping[str, Any]) -> Any:
    from ..decide import deadlines

    if about == "deadlines":
        return deadlines.deadlines(record.view, record.plan)
    if about == "claims":
        from ..decide.claims import claims
        from ..decide.policy import Policy

        return claims(record.view, record.plan, Policy.from_json(record.settings_json).rules.deadlines)
    return deadlines.deadline(record.view, record.plan, details["job_id"])


def tell(reply: Mapping[str, Any], *parts: str | Sheet, now_s: float, as_json: bool) -> None:
    """Print an answer and how old it is; JSON gets the answer whole."""
    age = as_of(reply["as_of_s"], reply["cycle"], now_s)
    emit(
        reply,
        *parts,
        age if reply["source"] == "daemon" else f"{age}, from the record: no daemon answers",
        as_json=as_json,
    )
