"""Failures and instabilities of jobs that shared GPUs, and the pairs of kinds that must not share again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, fields

from sqlalchemy import Connection, select, union_all

from ...cluster.job_kind import kind_of
from ...cluster.records.faults import Fault, Instability
from ..database import insert_or
from ..tables import faults, instabilities, jobs, outcomes
from ..tracking.story import StoryEvent, save_story

MOST = 1000  #: faults that count, the newest
UNSTABLE_MOST = 200  #: instabilities that decisions receive, the newest
UNSTABLE_S = 7 * 86_400.0  #: and their greatest age
SAME_S = 60.0  #: the greatest difference between the clocks of a node and of the controller
_STEP = 500  #: ids in one query

_Named = tuple[float, float, str]  #: start and end of a job's presence, and its kind


def add_faults(connection: Connection, cluster: str, news: Iterable[Fault]) -> None:
    """Write the records that are not stored yet, each also as an event of the job's story.

    A fault that harmed no other job is in the story alone: it keeps no kinds apart.
    """
    for fault in news:
        if not fault.own:
            row = _row(cluster, fault)
            del row["own"]
            insert_or(connection, faults, [row])
        details = {"partners": ", ".join(map(str, fault.partners)), "fault": fault.fault}
        kind = "failed beside" if fault.own else "failed together"
        save_story(connection, cluster, [StoryEvent(float(fault.end_s), kind, details, fault.job_id)])


def add_instabilities(connection: Connection, cluster: str, news: Iterable[Instability]) -> None:
    """Write the records that are not stored yet, each also as an event of the stories of all its jobs."""
    for one in news:
        insert_or(connection, instabilities, [_row(cluster, one)])
        everyone = (one.job_id, *one.partners)
        for job_id in everyone:
            others = ", ".join(str(other) for other in everyone if other != job_id)
            event = StoryEvent(float(one.end_s), "unstable together", {"partners": others, "why": one.why}, job_id)
            save_story(connection, cluster, [event])


def load_instabilities(connection: Connection, cluster: str, now_s: float) -> tuple[Instability, ...]:
    """Return the newest instabilities of the last ``UNSTABLE_S``, newest first."""
    names = [field.name for field in fields(Instability)]
    query = (
        select(*(instabilities.c[name] for name in names))
        .where(instabilities.c.cluster == cluster, instabilities.c.end_s >= int(now_s - UNSTABLE_S))
        .order_by(instabilities.c.end_s.desc(), instabilities.c.job_id)
        .limit(UNSTABLE_MOST)
    )
    rows = (dict(zip(names, row, strict=True)) for row in connection.execute(query))
    lists = ("gpus", "partners", "partner_restarts")
    return tuple(Instability(**(row | {name: _numbers(row[name]) for name in lists})) for row in rows)


def _row(cluster: str, record: Fault | Instability) -> dict[str, object]:
    body = {"cluster": cluster, **asdict(record)}
    return {name: "+".join(map(str, value)) if isinstance(value, tuple) else value for name, value in body.items()}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split("+") if word)


def load_failed(connection: Connection, cluster: str) -> tuple[tuple[str, ...], ...]:
    """Return the sorted sets of kinds of jobs that failed or were unstable together; one kind if both had the same."""
    query = union_all(
        *(
            select(table.c.job_id, table.c.partners, table.c.start_s, table.c.end_s).where(table.c.cluster == cluster)
            for table in (faults, instabilities)
        )
    )
    found = [
        (job_id, _numbers(partners), start_s, end_s)
        for job_id, partners, start_s, end_s in connection.execute(
            query.order_by(query.selected_columns.end_s.desc()).limit(MOST)
        )
    ]
    named = _named(connection, cluster, {job for job_id, partners, *_ in found for job in (job_id, *partners)})
    failed = set()
    for job_id, partners, start_s, end_s in found:
        mine = _kind(named[job_id], start_s, end_s)
        for partner in partners:
            other = _kind(named[partner], start_s, end_s)
            if mine and other:
                failed.add(tuple(sorted({mine, other})))
    return tuple(sorted(failed))


def _named(connection: Connection, cluster: str, ids: set[int]) -> dict[int, list[_Named]]:
    """Return the kinds of jobs by id: of ended runs, and of jobs that Slurm still has."""
    found: dict[int, list[_Named]] = defaultdict(list)
    ordered = sorted(ids)
    for start in range(0, len(ordered), _STEP):
        some = ordered[start : start + _STEP]
        ended = select(
            outcomes.c.job_id, outcomes.c.first_submit_s, outcomes.c.ended_s, outcomes.c.user, outcomes.c.name
        ).where(outcomes.c.cluster == cluster, outcomes.c.job_id.in_(some))
        for job_id, first_submit_s, ended_s, user, name in connection.execute(ended):
            found[job_id].append((first_submit_s, ended_s, kind_of(user, name)))
        named_jobs = select(jobs.c.job_id, jobs.c.first_submit_s, jobs.c.user, jobs.c.name).where(
            jobs.c.cluster == cluster, jobs.c.job_id.in_(some)
        )
        for job_id, first_submit_s, user, name in connection.execute(named_jobs):
            found[job_id].append((first_submit_s, float("inf"), kind_of(user, name)))
    return found


def _kind(named: list[_Named], start_s: float, end_s: float) -> str:
    """Return the kind of the job that ran in that time; ids restart on a new controller."""
    return next(
        (kind for since_s, until_s, kind in named if since_s <= end_s + SAME_S and until_s >= start_s - SAME_S), ""
    )
