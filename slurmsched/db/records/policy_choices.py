"""Admins' choices of a policy, one row each: the latest is in effect, the others are the history."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, select

from ..database import insert_or
from ..tables import policy_choices
from ..tracking.story import StoryEvent


@dataclass(frozen=True)
class PolicyChoice:
    """An ordering with its parameters as one line; an empty line means that of the settings file."""

    line: str
    by: str
    at_s: float
    reason: str = ""


def save_choice(connection: Connection, cluster: str, choice: PolicyChoice) -> None:
    """Add a choice, dated after the last one even if that came from a machine whose clock was ahead."""
    latest_s = max((before.at_s for before in load_choices(connection, cluster, 1)), default=-math.inf)
    row = asdict(choice) | {"at_s": max(choice.at_s, math.nextafter(latest_s, math.inf))}
    insert_or(connection, policy_choices, [{"cluster": cluster, **row}])


def load_choices(connection: Connection, cluster: str, last: int | None = None) -> list[PolicyChoice]:
    """Return the *last* choices, or all; the latest first."""
    names = (policy_choices.c[name] for name in ("line", "by", "at_s", "reason"))
    query = select(*names).where(policy_choices.c.cluster == cluster).order_by(policy_choices.c.at_s.desc())
    return [PolicyChoice(*row) for row in connection.execute(query.limit(last))]


def choices_in(events: list[StoryEvent], choices: list[PolicyChoice]) -> list[StoryEvent]:
    """Return the *choices* made while the job of *events* waited or ran, as events of its story."""
    if not events:
        return []
    job_id, until_s = events[0].job_id, events[-1].at_s if events[-1].kind == "ended" else float("inf")
    return [
        StoryEvent(choice.at_s, "policy", {"line": choice.line, "by": choice.by, "reason": choice.reason}, job_id)
        for choice in choices
        if events[0].at_s <= choice.at_s <= until_s
    ]
