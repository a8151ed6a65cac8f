"""Early ends: running jobs that have what their owner's ``stop=`` asked for are told so at their next report. Pure."""

from __future__ import annotations

from ..cluster.actions import Action, End
from ..cluster.state import View
from ..policies.contract import STOPPINGS
from .rules import Rules


def end_wishes(view: View, rules: Rules) -> list[Action]:
    """Return an End for each running job that may end; its permission lasts until the next cycle."""
    if not len(view.progress):
        return []
    return [End(job) for job in view.running.job_id[STOPPINGS.find(rules.stopping)(view)].tolist()]
