"""``slurmsched replay``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from ..app import App
from ..failure import NotFound
from ..output import emit, json_option
from ..time_format import moment

if TYPE_CHECKING:
    from ...cluster.jobs import JobTable
    from ...cluster.plan import Plan

SHOWN = 20


@click.command()
@click.argument("cycle", type=click.IntRange(min=1), metavar="CYCLE")
@json_option
@click.pass_obj
def replay(app: App, cycle: int, as_json: bool) -> None:
    """Decide a recorded CYCLE again and compare the plans.

    Exit status 1 if the plan differs in any bit, 3 if the cycle is not on record (any more).
    """
    from ...decide.engine import decide
    from ...decide.policy import Policy

    record = app.decision(cycle)
    if record is None:
        raise NotFound(f"cycle {cycle} is not stored; database.keep_decisions_days sets how long cycles are stored")
    policy = Policy.from_json(record.settings_json)
    again = decide(record.view, policy.ordering, policy.rules)
    differing = list(differences(record.plan, again, record.view.pending))
    facts = {"cycle": cycle, "at_s": record.now_s, "identical": not differing, "differences": differing}
    jobs, actions = len(record.view.pending), len(record.plan.actions)
    what = f"cycle {cycle} of {moment(record.now_s)}, {jobs} pending, {actions} actions"
    verdict = f"{what}: {len(differing)} differences" if differing else f"{what}: identical"
    emit(facts, verdict, *differing[:SHOWN], as_json=as_json)
    sys.exit(1 if differing else 0)


def differences(recorded: Plan, again: Plan, jobs: JobTable) -> Iterator[str]:
    """Yield one line per difference between two plans for *jobs*."""
    import numpy as np

    for column in fields(recorded.jobs):
        before, now = getattr(recorded.jobs, column.name), getattr(again.jobs, column.name)
        if before.dtype != now.dtype or before.shape != now.shape:
            yield f"{column.name}: {before.dtype}{before.shape} on record, {now.dtype}{now.shape} now"
            continue
        for row in np.flatnonzero(before != now):
            yield f"job {jobs.job_id[row]}: {column.name} {before[row]} on record, {now[row]} now"
    if not recorded.promises.equals(again.promises):
        yield f"promises: {len(recorded.promises)} on record, {len(again.promises)} now, and not the same"
    if recorded.solved != again.solved:
        yield f"promises start as the solver planned: {recorded.solved} on record, {again.solved} now"
    for noun, before, now in (
        ("action", recorded.actions, again.actions),
        ("refusal", recorded.refusals, again.refusals),
    ):
        if len(before) != len(now):
            yield f"{noun}s: {len(before)} on record, {len(now)} now"
        for place, (old, new) in enumerate(zip(before, now, strict=False), start=1):
            if old != new:
                yield f"{noun} {place}: {old} on record, {new} now"
