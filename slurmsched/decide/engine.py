"""decide(): compute a Plan from a view, a policy and rules. Pure: equal inputs give the same Plan, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

from ..cluster.plan import Plan
from ..cluster.state import View
from ..policies.contract import Ordering
from .compatible import keep_compatible
from .draft import Deciding, Lane
from .giving_back import give_back_wishes
from .order import ordered
from .placing import place
from .referee import judge
from .rules import Rules
from .trial import still_wanted
from .turns import ORDER, Watch, unwatched


def decide(
    view: View, ordering: Ordering, rules: Rules, powers: Sequence[Deciding], entering: Watch = unwatched
) -> Plan:
    """Compute the jobs to run, their order, and the writes that make Slurm follow it.

    *powers* have their turns one after the other; *entering* is told of each part as it begins.
    """
    entering(ORDER)
    draft = place(ordered(view, ordering, rules, entering))
    back = give_back_wishes(draft.view, rules)
    draft.wishes.add(Lane.GIVE_BACK, back.wishes)
    for power in powers:
        if power.name not in rules.waiting:
            entering(power.name)
            for lane, wishes in still_wanted(power.name, power.wishes(draft), draft.view, rules).items():
                draft.wishes.add(lane, wishes)
    entering("referee")
    keep_compatible(draft, back.jobs)
    actions, refusals = judge(draft.wishes.in_order(), draft.view, rules)
    entering(ORDER)
    solved = draft.promised is not None and draft.promised.solved
    return Plan(draft.placing, tuple(actions), tuple(refusals), draft.view.promises, solved)
