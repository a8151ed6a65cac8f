"""What happened between two looks at the cluster that somebody should hear of. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...cluster.actions import Requeue
from ...cluster.jobs import JobTable
from ...cluster.plan import Plan
from ...cluster.records.predictions import PredictionTable
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.records.report_rows import JobKey
from ...cluster.state import View
from ...explain.freed_queue import IdleHold

ADMINS = ""  #: in place of an owner
ASKED_S = 900.0  #: for how long a job that we asked Slurm to requeue counts as evicted by us when it waits again
TROUBLE_S = 300.0  #: for which a daemon has trouble before admins hear of it
_OF_STATES = {
    PromiseState.REFUSED: "promise-refused",
    PromiseState.OPEN: "promise-given",
    PromiseState.BROKEN: "promise-broken",
}


@dataclass(frozen=True)
class Notice:
    """Something that happened; *facts* are what its template shows."""

    kind: str  #: one of ``config.service_settings.NOTICES``
    at_s: float
    owner: str = ADMINS  #: user name of the job's owner
    job_id: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """The state of the daemon, in words; empty where all is well."""

    degraded: str = ""
    database: str = ""
    accuracy: str = ""


@dataclass(frozen=True)
class Look:
    """All that notices come from, at one moment."""

    view: View
    plan: Plan
    mode: str
    predictions: PredictionTable | None = None
    idle: Sequence[IdleHold] = ()
    health: Health = field(default_factory=Health)


class Watcher:
    """Compares each look with the one before; the first one tells nothing. A start that moves tells from *moved_s* on.

    Jobs whose owner said ``quiet`` or ``off`` are nobody's news.
    """

    def __init__(self, moved_s: float = 3600.0) -> None:
        self._moved_s = moved_s
        self._promises: dict[tuple[int, float], tuple[int, bool]] | None = None
        self._idle: set[JobKey] = set()
        self._asked: dict[JobKey, float] = {}
        self._ran: set[JobKey] = set()
        self._told: dict[JobKey, float] = {}
        self._trouble: dict[str, float] = {}
        self._told_trouble: set[str] = set()

    def seen(self, look: Look) -> list[Notice]:
        """Return what is new in *look*."""
        first = self._promises is None
        found = [*self._of_promises(look), *self._of_idle(look), *self._of_evicted(look), *self._of_moved(look)]
        found += self._of_health(look)
        if first:
            found = [one for one in found if one.owner == ADMINS]
        silent = _quiet(look.view.pending) | _quiet(look.view.running)
        return [one for one in found if one.owner == ADMINS or one.job_id not in silent]

    def _of_promises(self, look: Look) -> Iterator[Notice]:
        table = look.plan.promises
        before, now = self._promises or {}, {}
        for row in range(len(table)):
            key = int(table.job_id[row]), float(table.asked_s[row])
            state = int(table.state[row])
            doubt = state == PromiseState.OPEN and math.isfinite(table.announced_s[row])
            now[key] = state, doubt
            was = before.get(key)
            if look.mode != "act" or was == (state, doubt):
                continue
            kind = (
                "promise-doubt" if doubt else None if was and was[0] == state else _OF_STATES.get(PromiseState(state))
            )
            if kind is not None:
                yield _of_promise(kind, table, row, look.view)
        self._promises = now

    def _of_idle(self, look: Look) -> Iterator[Notice]:
        jobs, now = look.view.running, set()
        for hold in look.idle:
            row = jobs.row_of(hold.job_id)
            if row is None:
                continue
            now.add(_key(jobs, row))
            if _key(jobs, row) not in self._idle:
                facts = {"name": jobs.name[row], "gpus": hold.gpus, "since_s": hold.since_s}
                yield Notice("idle", look.view.now_s, hold.user, hold.job_id, facts)
        self._idle = now

    def _of_evicted(self, look: Look) -> Iterator[Notice]:
        view = look.view
        if look.mode == "act":
            for action in look.plan.actions:
                row = view.running.row_of(action.job_id) if isinstance(action, Requeue) else None
                if row is not None:
                    self._asked[_key(view.running, row)] = view.now_s
        self._asked = {key: at_s for key, at_s in self._asked.items() if view.now_s - at_s <= ASKED_S}
        for row in range(len(view.pending)) if self._asked else ():
            key = _key(view.pending, row)
            if key in self._asked and view.pending.restarts[row] > 0:
                del self._asked[key]
                facts = {"name": view.pending.name[row], "restarts": int(view.pending.restarts[row])}
                yield Notice("evicted", view.now_s, view.pending.user[row], key[0], facts)

    def _of_moved(self, look: Look) -> Iterator[Notice]:
        table, jobs, now = look.predictions, look.view.pending, {}
        if table is None:
            return
        rows = {int(job): row for row, job in enumerate(table.job_id.tolist())}
        for row in range(len(jobs)):
            key, at = _key(jobs, row), rows.get(int(jobs.job_id[row]))
            start_s = math.nan if at is None else float(table.start_s[at])
            told_s = self._told.get(key, math.nan)
            if math.isnan(start_s):
                if told_s == told_s:
                    now[key] = told_s
                continue
            now[key] = start_s if math.isnan(told_s) else told_s
            if abs(start_s - told_s) > self._moved_s:
                now[key] = start_s
                facts = {"name": jobs.name[row], "was_s": told_s, "start_s": start_s}
                yield Notice("moved", look.view.now_s, jobs.user[row], key[0], facts)
        self._told = now

    def _of_health(self, look: Look) -> Iterator[Notice]:
        for kind in ("accuracy", "degraded", "database"):
            words, now_s = getattr(look.health, kind), look.view.now_s
            if not words:
                self._trouble.pop(kind, None)
                self._told_trouble.discard(kind)
            elif now_s - self._trouble.setdefault(kind, now_s) >= TROUBLE_S and kind not in self._told_trouble:
                self._told_trouble.add(kind)
                yield Notice(kind, now_s, facts={"words": words})


def _of_promise(kind: str, table: PromiseTable, row: int, view: View) -> Notice:
    job_id = int(table.job_id[row])
    names = [jobs.name[at] for jobs in (view.pending, view.running) if (at := jobs.row_of(job_id)) is not None]
    facts = {
        "name": names[0] if names else "",
        "deadline_s": float(table.deadline_s[row]),
        "promised_s": float(table.promised_s[row]),
        "earliest_s": float(table.earliest_s[row]),
        "reason": table.reason[row],
    }
    return Notice(kind, view.now_s, table.user[row], job_id, facts)


def _quiet(jobs: JobTable) -> set[int]:
    return set(jobs.job_id[np.asarray(jobs.quiet | jobs.off)].tolist())


def _key(jobs: JobTable, row: int) -> JobKey:
    first_s = float(jobs.first_submit_s[row])
    return int(jobs.job_id[row]), int(first_s) if first_s == first_s else 0
