"""``slurmsched replay``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..app import App
from ..failure import NotFound
from ..output import emit, json_option
from ..time_format import moment

if TYPE_CHECKING:
    from ..json_answers import Replayed

SHOWN = 20


@click.command()
@click.argument("cycle", type=click.IntRange(min=1), metavar="CYCLE")
@json_option
@click.pass_obj
def replay(app: App, cycle: int, as_json: bool) -> None:
    """Decide a recorded CYCLE again and compare the plans.

    Exit status 1 if the plan differs in any bit, 3 if the cycle is not on record (any more).
    """
    from ...decide.plan_differences import differences
    from ...decide.policy import Policy
    from ...powers import decide
    from ...powers.shadow import with_shadow

    record = app.decision(cycle)
    if record is None:
        raise NotFound(f"cycle {cycle} is not stored; database.keep_decisions_days sets how long cycles are stored")
    policy = Policy.from_json(record.settings_json)
    again = with_shadow(decide(record.view, policy.ordering, policy.rules), record.view, policy)
    differing = list(differences(record.plan, again, record.view.pending))
    step = policy.synthesis
    if step is not None and step.again() != step:
        differing.append(f"auto: recorded is {step.decision.reason!r}, now it is {step.again().decision.reason!r}")
    facts: Replayed = {
        "cycle": cycle,
        "at_s": record.now_s,
        "identical": not differing,
        "differences": differing,
        "auto": None if step is None else step.to_dict(),
    }
    jobs, actions = len(record.view.pending), len(record.plan.actions)
    what = f"cycle {cycle} of {moment(record.now_s)}, {jobs} pending, {actions} actions"
    verdict = f"{what}: {len(differing)} differences" if differing else f"{what}: identical"
    chosen = [] if step is None else [f"auto: {step.decision.reason}"]
    emit(facts, verdict, *chosen, *differing[:SHOWN], as_json=as_json)
    sys.exit(1 if differing else 0)
