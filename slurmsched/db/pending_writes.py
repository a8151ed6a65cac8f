"""Facts on their way to the database: saved at once, or kept during an outage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, delete, select

from ..cluster.actions.intent import Intent
from ..cluster.job_record import JobRecord, Phase
from ..cluster.records.outcomes import OutcomeTable
from .database import insert_or
from .records.outcomes import add_outcomes
from .records.promises import Key, Row, save_promises
from .tables import jobs
from .tracking.intent_records import save_intents
from .tracking.story import StoryEvent, save_story

K = TypeVar("K")
V = TypeVar("V")

_STEP = 500  #: ids deleted in one statement


@dataclass
class PendingWrites:
    """The facts not saved yet; of each job (by its unit) and each intent only the latest state."""

    jobs: dict[int, JobRecord | None] = field(default_factory=dict)
    intents: dict[tuple[int, int, str], Intent] = field(default_factory=dict)
    outcomes: list[OutcomeTable] = field(default_factory=list)
    story: list[StoryEvent] = field(default_factory=list)
    promises: dict[Key, Row] = field(default_factory=dict)

    def __len__(self) -> int:
        few = len(self.jobs) + len(self.intents) + len(self.story) + len(self.promises)
        return few + sum(len(table) for table in self.outcomes)

    def note(self, intents: Iterable[Intent]) -> None:
        """Add the present state of *intents*."""
        self.intents.update((intent.key, intent) for intent in intents)

    def trim(self, limit: int) -> int:
        """Drop facts down to *limit*: the oldest story first, then intents, jobs and outcomes; return the number.

        Promises are kept and do not count towards the limit.
        """
        before, limit = len(self), limit + len(self.promises)
        del self.story[: max(0, before - limit)]
        _drop_oldest(self.intents, len(self) - limit)
        _drop_oldest(self.jobs, len(self) - limit)
        while len(self) > limit:
            self.outcomes.pop(0)
        return before - len(self)


def _drop_oldest(pending: dict[K, V], count: int) -> None:
    for key in list(pending)[: max(0, count)]:
        del pending[key]


def save_facts(connection: Connection, cluster: str, facts: PendingWrites) -> None:
    """Write *facts*; a repeat changes nothing."""
    rows = [{"cluster": cluster, "unit": unit, **job._asdict()} for unit, job in facts.jobs.items() if job is not None]
    insert_or(connection, jobs, rows, replace=JobRecord._fields)
    gone = [unit for unit, job in facts.jobs.items() if job is None]
    for start in range(0, len(gone), _STEP):
        some = gone[start : start + _STEP]
        connection.execute(delete(jobs).where(jobs.c.cluster == cluster, jobs.c.unit.in_(some)))
    for table in facts.outcomes:
        add_outcomes(connection, cluster, table)
    save_intents(connection, cluster, list(facts.intents.values()))
    save_story(connection, cluster, facts.story)
    save_promises(connection, cluster, facts.promises.values())


def load_jobs(connection: Connection, cluster: str) -> list[JobRecord]:
    """Return the jobs as last observed."""
    query = select(*(jobs.c[name] for name in JobRecord._fields)).where(jobs.c.cluster == cluster).order_by(jobs.c.unit)
    found = (JobRecord(*row) for row in connection.execute(query))
    return [job._replace(phase=Phase(job.phase)) for job in found]
