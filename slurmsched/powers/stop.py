"""Early ends: running jobs that have what their owner's ``stop=`` asked for are told so at their next report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..cluster.actions import Action, End
from ..cluster.plan import Plan
from ..cluster.state import View
from ..config import Settings
from ..decide.draft import Draft, Lane
from ..decide.rules import Rules
from ..policies.contract import STOPPINGS, Ordering

name = "stop"
section = "stopping"
can_wait = False


def terms(settings: Settings) -> str:
    """Return the rule of ``policy.stopping``, ``never`` without power.stop; ConfigError for one that is not known."""
    line = STOPPINGS.find(settings.policy.stopping).line
    return line if settings.power.stop else "never"


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return an End for each running job that may end; its permission lasts until the next cycle."""
    view = draft.view
    if not len(view.progress):
        return {}
    ends = view.running.job_id[STOPPINGS.find(draft.rules.stopping)(view)].tolist()
    return {Lane.END: [End(job) for job in ends]}


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield nothing: ``why`` has a sentence about the progress of each job with ``stop=``."""
    yield from ()


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield nothing: a job may end by its reports, which are events."""
    yield from ()
