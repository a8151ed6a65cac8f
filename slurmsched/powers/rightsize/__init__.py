"""Right-sizing: waiting jobs ask for the CPUs and the memory that their kind uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.rules import RightsizingRules, Rules
from ...policies.contract import Ordering
from .sizes import rightsize_wishes
from .wording import rightsizing_words

name = "rightsize"
section = "rightsizing"
can_wait = True
words = rightsizing_words


def terms(settings: Settings) -> RightsizingRules | None:
    """Return the rules of ``[rightsize]``, None without power.rightsize."""
    own = settings.rightsize
    if not settings.power.rightsize:
        return None
    return RightsizingRules(
        accounts=tuple(sorted(set(own.accounts))),
        margin=own.margin,
        least_change=own.least_change,
        again_s=own.again_s,
    )


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return changes of CPUs and memory."""
    return {Lane.REQUEST: rightsize_wishes(draft.view, draft.rules, draft.standings, draft.ranked)}


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when jobs may be sized again."""
    if rules.rightsizing is not None:
        sized_s = view.pending.sized_s
        yield next_s(sized_s[sized_s > 0] + rules.rightsizing.again_s, view.now_s)
