"""Faults of jobs that shared GPUs, and the kinds of jobs that are never to share again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict

from sqlalchemy import Connection, select

from ..cluster.faults import Fault
from ..cluster.names import kind_of
from .database import insert_or
from .story import StoryEvent, save_story
from .tables import faults, jobs, outcomes

MOST = 1000  #: faults that count, the newest
SAME_S = 60.0  #: by which the clocks of a node and of the controller may differ
_STEP = 500  #: ids asked for in one query

_Named = tuple[float, float, str]  #: from when to when a job of this kind was known


def add_faults(connection: Connection, cluster: str, news: Iterable[Fault]) -> None:
    """Write the records that are not there yet, each also as an event of the job's story."""
    told = list(news)
    rows = [
        {
            "cluster": cluster,
            **asdict(fault),
            "gpus": "+".join(map(str, fault.gpus)),
            "partners": "+".join(map(str, fault.partners)),
        }
        for fault in told
    ]
    insert_or(connection, faults, rows)
    save_story(
        connection,
        cluster,
        (
            StoryEvent(
                float(fault.end_s),
                "failed together",
                {"partners": ", ".join(map(str, fault.partners)), "fault": fault.fault},
                fault.job_id,
            )
            for fault in told
        ),
    )


def load_failed(connection: Connection, cluster: str) -> tuple[tuple[str, ...], ...]:
    """The sets of kinds of jobs that failed together, each sorted; one kind where both jobs were of it."""
    query = (
        select(faults.c.job_id, faults.c.partners, faults.c.start_s, faults.c.end_s)
        .where(faults.c.cluster == cluster)
        .order_by(faults.c.end_s.desc())
        .limit(MOST)
    )
    found = [
        (job_id, [int(text) for text in partners.split("+") if text], start_s, end_s)
        for job_id, partners, start_s, end_s in connection.execute(query)
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
    """The kinds of these jobs: of runs that are over, and of jobs that Slurm still knows."""
    found: dict[int, list[_Named]] = defaultdict(list)
    ordered = sorted(ids)
    for start in range(0, len(ordered), _STEP):
        some = ordered[start : start + _STEP]
        ended = select(
            outcomes.c.job_id, outcomes.c.first_submit_s, outcomes.c.ended_s, outcomes.c.user, outcomes.c.name
        ).where(outcomes.c.cluster == cluster, outcomes.c.job_id.in_(some))
        for job_id, first_submit_s, ended_s, user, name in connection.execute(ended):
            found[job_id].append((first_submit_s, ended_s, kind_of(user, name)))
        known = select(jobs.c.job_id, jobs.c.first_submit_s, jobs.c.user, jobs.c.name).where(
            jobs.c.cluster == cluster, jobs.c.job_id.in_(some)
        )
        for job_id, first_submit_s, user, name in connection.execute(known):
            found[job_id].append((first_submit_s, float("inf"), kind_of(user, name)))
    return found


def _kind(named: list[_Named], start_s: float, end_s: float) -> str:
    """The kind of the job that ran then; ids begin anew on a new controller."""
    return next(
        (kind for since_s, until_s, kind in named if since_s <= end_s + SAME_S and until_s >= start_s - SAME_S), ""
    )
