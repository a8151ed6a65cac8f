"""Choices of a policy by admins and by ``auto``, one row each: the latest is in effect, the others are the history."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, select

from ..database import insert_or
from ..tables import policy_choices
from ..tracking.story import StoryEvent


@dataclass(frozen=True)
class PolicyChoice:
    """An ordering or ``auto`` with its parameters as one line; an empty line means that of the settings file."""

    line: str
    by: str
    at_s: float
    reason: str = ""
    synthesis: str = ""  #: the composition in force under ``auto``: a ``SynthesisState`` as JSON; else empty


def save_choice(connection: Connection, cluster: str, choice: PolicyChoice) -> None:
    """Add a choice, dated after the last one even if that came from a machine whose clock was ahead."""
    latest_s = max((before.at_s for before in load_choices(connection, cluster, 1)), default=-math.inf)
    row = asdict(choice) | {"at_s": max(choice.at_s, math.nextafter(latest_s, math.inf))}
    insert_or(connection, policy_choices, [{"cluster": cluster, **row}])


def save_next_choice(connection: Connection, cluster: str, choice: PolicyChoice, before: PolicyChoice | None) -> bool:
    """Add a choice if *before* is still the latest one; return False where another one was made meanwhile."""
    if load_choices(connection, cluster, 1) != ([] if before is None else [before]):
        return False
    save_choice(connection, cluster, choice)
    return True


def load_choices(connection: Connection, cluster: str, last: int | None = None) -> list[PolicyChoice]:
    """Return the *last* choices, or all; the latest first."""
    names = (policy_choices.c[name] for name in ("line", "by", "at_s", "reason", "synthesis"))
    query = select(*names).where(policy_choices.c.cluster == cluster).order_by(policy_choices.c.at_s.desc())
    return [PolicyChoice(*row) for row in connection.execute(query.limit(last))]


def choices_in(events: list[StoryEvent], choices: list[PolicyChoice]) -> list[StoryEvent]:
    """Return the *choices* made while the job of *events* waited or ran, as events of its story."""
    if not events:
        return []
    job_id, until_s = events[0].job_id, events[-1].at_s if events[-1].kind == "ended" else float("inf")
    return [
        StoryEvent(choice.at_s, "policy", _details(choice), job_id)
        for choice in choices
        if events[0].at_s <= choice.at_s <= until_s
    ]


def _details(choice: PolicyChoice) -> dict[str, Any]:
    details: dict[str, Any] = {"line": choice.line, "by": choice.by, "reason": choice.reason}
    if choice.synthesis:
        state = json.loads(choice.synthesis)
        details |= {name: state[name] for name in ("composition", "advised", "frozen")}
    return details
