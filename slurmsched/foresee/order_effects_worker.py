"""A process that plays the queue forward under other orders: ``python -m slurmsched.foresee.order_effects_worker FD``.

A request is (view, policy in force as JSON, configuration of Slurm, seconds between cycles, whether our order is in
force, names of orderings); an answer is (error, OrderEffects).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..child_process import serve
from ..cluster.records.order_effects import OrderEffect, OrderEffects, UserLoss
from ..cluster.state import View
from ..decide.policy import Policy
from ..errors import SlurmschedError
from ..policies.contract import find_ordering
from .whatif import Comparison, Option, compare

Request = tuple[View, str, Mapping[str, str], float, bool, Sequence[str]]


def answer(request: Request) -> tuple[str, OrderEffects | None]:
    """Return the effects, or the error."""
    try:
        return "", order_effects(*request)
    except (SlurmschedError, ValueError, IndexError, KeyError) as error:
        return f"{type(error).__name__}: {error}", None


def order_effects(
    view: View, policy_json: str, config: Mapping[str, str], every_s: float, in_force: bool, orders: Sequence[str]
) -> OrderEffects:
    """Play the jobs of *view* forward as now and under each of *orders*, which reach as far as the policy does."""
    ours = Policy.from_json(policy_json)
    rules = replace(ours.rules, powers=ours.rules.powers | {"order"})
    options = [Option("as now", ours if in_force else None)]
    options += [Option(name, replace(ours, ordering=find_ordering(name), rules=rules)) for name in orders]
    return _effects(compare(view, config, options, every_s))


def _effects(found: Comparison) -> OrderEffects:
    rows = [
        OrderEffect(
            order=row.name,
            mean_wait_s=row.mean_wait_s,
            median_wait_s=row.median_wait_s,
            last_end_s=row.last_end_s,
            sooner=row.sooner,
            later=row.later,
            losers=tuple(UserLoss(one.user, one.jobs, one.wait_s) for one in row.worst_off),
        )
        for row in found.rows
    ]
    return OrderEffects(found.now_s, found.queued, found.counted, found.draws, tuple(rows))


if __name__ == "__main__":
    serve(answer)
