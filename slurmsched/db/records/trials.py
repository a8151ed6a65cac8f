"""Trials of the policy in the database: the latest of a cluster is in effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, select, update

from ...cluster.records.trial import Ending, OfBlock, Trial, TrialSums
from ..database import insert_or
from ..tables import trial_sums, trials

_NAMES = tuple(one.name for one in fields(Trial))


def start_trial(connection: Connection, cluster: str, trial: Trial) -> bool:
    """Add *trial* unless one runs; return False where one does, or one began later."""
    latest = load_trials(connection, cluster, 1)
    if latest and (latest[0].runs or latest[0].started_s >= trial.started_s):
        return False
    insert_or(connection, trials, [{"cluster": cluster, **asdict(trial)}])
    return True


def end_trial(connection: Connection, cluster: str, started_s: float, at_s: float, ending: Ending, detail: str) -> bool:
    """End the trial that began then, or let the policy go on after one that ended by harm; False where neither is so.

    A trial ends once: what comes later changes nothing of its ending.
    """
    mine = (trials.c.cluster == cluster) & (trials.c.started_s == started_s)
    running = update(trials).where(mine, trials.c.ending == "").values(ended_s=at_s, ending=ending, detail=detail)
    if connection.execute(running).rowcount:
        return True
    if ending != "stopped":
        return False
    kept_off = update(trials).where(mine, trials.c.ending == "harm", trials.c.released_s.is_(None))
    return bool(connection.execute(kept_off.values(released_s=at_s)).rowcount)


def load_trials(connection: Connection, cluster: str, last: int | None = None) -> list[Trial]:
    """Return the *last* trials, or all; the latest first."""
    query = select(*(trials.c[name] for name in _NAMES)).where(trials.c.cluster == cluster)
    found = connection.execute(query.order_by(trials.c.started_s.desc()).limit(last))
    return [Trial(**row) for row in found.mappings()]


def load_in_span(
    connection: Connection, cluster: str, since_s: float, until_s: float
) -> list[tuple[Trial, dict[OfBlock, TrialSums]]]:
    """Return the trials that ran in [since_s, until_s) with their sums, the latest first."""
    found = load_trials(connection, cluster)
    inside = [one for one in found if one.started_s < until_s and not one.ended_s < since_s]
    return [(one, load_sums(connection, cluster, one.started_s)) for one in inside]


def add_sums(connection: Connection, cluster: str, started_s: float, news: Mapping[OfBlock, TrialSums]) -> None:
    """Add *news* to the sums of the trial that began then."""
    rows: list[dict[str, Any]] = [
        {"cluster": cluster, "started_s": started_s, **of._asdict(), **sums._asdict()} for of, sums in news.items()
    ]
    insert_or(connection, trial_sums, rows, add=TrialSums._fields)


def load_sums(connection: Connection, cluster: str, started_s: float) -> dict[OfBlock, TrialSums]:
    """Return the sums of the trial that began then."""
    names = (*OfBlock._fields, *TrialSums._fields)
    query = select(*(trial_sums.c[name] for name in names)).where(
        trial_sums.c.cluster == cluster, trial_sums.c.started_s == started_s
    )
    found = connection.execute(query.order_by(trial_sums.c.block, trial_sums.c.account))
    return {OfBlock(*row[:2]): TrialSums(*row[2:]) for row in found}
