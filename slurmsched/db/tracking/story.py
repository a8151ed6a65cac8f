"""The story of a job: its changes with their times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from sqlalchemy import CompoundSelect, Connection, select

from ...cluster.actions import ACTIONS, Action, Hold, job_of
from ...cluster.columns import IntArray
from ...cluster.events import Event, JobEnded, JobModified, JobRequeued, JobStarted, JobSubmitted
from ...cluster.job_tracker import SAME_TIME_S
from ...cluster.plan import Standing
from ...cluster.records.promises import PromiseState
from ...cluster.records.report_rows import JobKey
from ...cluster.records.shared_times import MeasuredTime
from ..database import insert_or
from ..tables import job_events

#: Every kind of story event, in the order for events of the same time.
KINDS = (
    "submitted",
    "limit changed",
    "comment changed",
    "partition changed",
    "qos changed",
    "nice changed",
    "suspended by others",
    "resumed by others",
    "standing",
    "deadline",
    "policy",
    *(kind for action in ACTIONS.values() for kind, _ in action.story),
    "failed together",
    "failed beside",
    "shared with",
    "unstable together",
    "refused",
    "requeued",
    "passed",
    "started",
    "ended",
)

_EFFECTS = {kind: effect for action in ACTIONS.values() if (effect := action.slurm_event) for kind, _ in action.story}
"""What Slurm does upon our requests, by kind of event."""

_AFTER_ANSWERS = {("deadline", PromiseState.OPEN.name.lower()): "started"}
"""What follows an answer to a request for a deadline: only a job that waits is promised one."""

_OF_EVENT = {JobSubmitted: "submitted", JobStarted: "started", JobRequeued: "requeued", JobEnded: "ended"}
_COMMON = {f.name for f in fields(Event)}
_DETAILS = {kind: [f.name for f in fields(kind) if f.name not in _COMMON] for kind in _OF_EVENT}


MEASURED_MOST = 50_000  #: times beside others that are read, the newest

_COMPACT = json.JSONEncoder(separators=(",", ":"))  # json.dumps makes one for each of thousands of events


@dataclass(frozen=True)
class StoryEvent:
    """A change: *kind* is one of ``KINDS``, *details* are the values for a sentence about it."""

    at_s: float
    kind: str
    details: dict[str, Any] = field(default_factory=dict)
    job_id: int = 0
    first_submit_s: float = field(default=math.nan, compare=False)  #: identifies the job; NaN: the one at that time


def story_of(event: Event) -> StoryEvent:
    """Convert an event of the job tracker into an event of the story."""
    details = {name: getattr(event, name) for name in _DETAILS[type(event)]}
    if isinstance(event, JobEnded):
        details["state"] = event.state.name
    return StoryEvent(event.at_s, _OF_EVENT[type(event)], details, event.job_id, event.first_submit_s)


def story_of_answer(cycle: int, action: Action, refused: str | None, now_s: float) -> StoryEvent:
    """Convert Slurm's answer to *action* into an event of the story."""
    kind, value = action.event
    details: dict[str, Any] = {"cycle": cycle, "value": value}
    if refused is not None:
        kind, details = "refused", {**details, "value": action.value, "action": action.stored, "answer": refused}
    return StoryEvent(now_s, kind, details, job_of(action))


def story_of_promise(row: dict[str, Any], now_s: float) -> StoryEvent:
    """Convert an answer to a deadline request, or its outcome, into an event of the story."""
    details = {name: row[name] if row[name] == row[name] else None for name in ("promised_s", "earliest_s")}
    doubtful = row["state"] == PromiseState.OPEN and row["announced_s"] == row["announced_s"]
    what = "in doubt" if doubtful else PromiseState(row["state"]).name.lower()
    return StoryEvent(
        now_s, "deadline", {**details, "what": what, "reason": row["reason"]}, row["job_id"], row["first_submit_s"]
    )


def story_of_modification(event: JobModified) -> StoryEvent:
    """Convert a change of a job by others into an event of the story."""
    details: dict[str, Any] = {}
    if event.what in ("suspended", "resumed"):
        kind = f"{event.what} by others"
    else:
        kind, details = f"{event.what} changed", {"before": event.before, "after": event.after}
    details |= {"last": True} if event.last else {}
    return StoryEvent(event.at_s, kind, details, event.job_id, event.first_submit_s)


class Standings:
    """The standing of each pending job in the last decision, for the detection of changes."""

    def __init__(self) -> None:
        self._job_id: IntArray = np.zeros(0, dtype=np.int64)
        self._standing: IntArray = np.zeros(0, dtype=np.int64)

    def change(self, cycle: int, job_id: IntArray, standing: IntArray, now_s: float) -> list[StoryEvent]:
        """Return the changes since the last call; a new job that is ranked is no change."""
        before = np.full(len(job_id), Standing.RANKED, dtype=np.int64)
        if len(self._job_id):
            at = np.minimum(np.searchsorted(self._job_id, job_id), len(self._job_id) - 1)
            before = np.where(self._job_id[at] == job_id, self._standing[at], before)
        rows = np.flatnonzero(before != standing).tolist()
        order = np.argsort(job_id)
        self._job_id, self._standing = job_id[order], standing[order]
        return [
            StoryEvent(
                now_s,
                "standing",
                {"cycle": cycle, "standing": Standing(standing[row]).name, "before": Standing(before[row]).name},
                int(job_id[row]),
            )
            for row in rows
        ]


def save_story(connection: Connection, cluster: str, some: Iterable[StoryEvent]) -> None:
    """Write *some* events; a stored one stays unchanged, so that a repeat is harmless."""
    names = ("job_id", "at_s", "kind", "first_submit_s")
    rows = [
        {
            "cluster": cluster,
            "details": _COMPACT.encode(e.details),
            **{name: getattr(e, name) for name in names},
        }
        for e in some
    ]
    insert_or(connection, job_events, rows)


def load_story(
    connection: Connection, cluster: str, job_id: int, first_submit_s: float | None = None
) -> list[StoryEvent]:
    """Return the events of the job of that id and first submit time, or of the last one of that id; oldest first."""
    names = ("at_s", "kind", "details", "first_submit_s")
    query = select(*(job_events.c[name] for name in names)).where(
        job_events.c.cluster == cluster, job_events.c.job_id == job_id
    )
    events = [
        StoryEvent(at_s, kind, json.loads(details), job_id, first_s)
        for at_s, kind, details, first_s in connection.execute(query)
    ]
    submitted_s = [event.at_s for event in events if event.kind == "submitted"]
    dated = [replace(event, first_submit_s=_identity(event, submitted_s)) for event in events]
    if first_submit_s is None:
        known_s = (event.first_submit_s for event in dated if not math.isnan(event.first_submit_s))
        first_submit_s = max(known_s, default=math.nan)
    return in_order(event for event in dated if _same(event.first_submit_s, first_submit_s))


@dataclass(frozen=True)
class Submission:
    """The first observation of a job: its partitions, a comma list, and the tokens for us in its comment."""

    partition: str = ""
    request: str = ""


def load_submissions(connection: Connection, cluster: str, since_s: float) -> dict[tuple[int, int], Submission]:
    """Return the submissions since *since_s*, by job id and whole second."""
    query = select(job_events.c.job_id, job_events.c.at_s, job_events.c.details).where(
        job_events.c.cluster == cluster, job_events.c.kind == "submitted", job_events.c.at_s >= since_s
    )
    names = [f.name for f in fields(Submission)]
    found = {}
    for job_id, at_s, text in connection.execute(query):
        details = json.loads(text)
        found[job_id, int(at_s)] = Submission(**{name: details.get(name, "") for name in names})
    return found


def load_measured_times(connection: Connection, cluster: str, since_s: float, least_s: float) -> list[MeasuredTime]:
    """Return what jobs kept of their speed beside others since *since_s*, for *least_s* or more; oldest first."""
    query = (
        select(job_events.c.at_s, job_events.c.details)
        .where(job_events.c.cluster == cluster, job_events.c.kind == "shared with", job_events.c.at_s >= since_s)
        .order_by(job_events.c.at_s.desc())
        .limit(MEASURED_MOST)
    )
    read = [MeasuredTime.of(at_s, json.loads(text), least_s) for at_s, text in connection.execute(query)]
    return [time for time in reversed(read) if time is not None]


def load_held(
    connection: Connection, cluster: str, since_s: float, job_ids: CompoundSelect[Any] | None = None
) -> frozenset[JobKey]:
    """Return the jobs that we held since *since_s*; with *job_ids* only of these."""
    kinds = [kind for kind, _ in Hold.story]
    query = select(job_events.c.job_id, job_events.c.first_submit_s).where(
        job_events.c.cluster == cluster, job_events.c.kind.in_(kinds), job_events.c.at_s >= since_s
    )
    if job_ids is not None:
        query = query.where(job_events.c.job_id.in_(job_ids))
    return frozenset((job_id, int(first_s)) for job_id, first_s in connection.execute(query) if first_s == first_s)


def _identity(event: StoryEvent, submitted_s: list[float]) -> float:
    """Return the first submit time of the job of *event*: its own, else the last before it; NaN if unknown."""
    if not math.isnan(event.first_submit_s):
        return event.first_submit_s
    return max((first_s for first_s in submitted_s if first_s <= event.at_s + SAME_TIME_S), default=math.nan)


def _same(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) <= SAME_TIME_S or (math.isnan(one_s) and math.isnan(other_s))


def _caused(event: StoryEvent) -> str:
    """Return the kind of the event of Slurm that follows *event* in its second; empty for none."""
    return _EFFECTS.get(event.kind) or _AFTER_ANSWERS.get((event.kind, str(event.details.get("what"))), "")


def in_order(events: Iterable[StoryEvent]) -> list[StoryEvent]:
    """Return *events*, oldest first.

    Slurm tells whole seconds: what it did in the second of our request follows the request, and a job that was promised
    its time while it waited starts after that.
    """
    every = list(events)
    caused = {(_caused(e), float(math.floor(e.at_s))): e.at_s for e in every if _caused(e)}

    def place(event: StoryEvent) -> tuple[float, int]:
        return caused.get((event.kind, event.at_s), event.at_s), KINDS.index(event.kind)

    return sorted(every, key=place)
