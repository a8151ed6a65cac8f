"""Leases: a running job with ``ckpt`` that had its lease yields to jobs that come before it in the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.rules import LeaseRules, Rules
from ...errors import ConfigError
from ...policies.contract import PREEMPTIONS, Ordering
from ...policies.preemption import Lease
from ..stop_terms import stop_terms
from .yielding import lease_wishes, next_lease_change_s

name = "lease"
section = "lease"
can_wait = True


def terms(settings: Settings) -> LeaseRules | None:
    """Return the rules of leases, None unless ``policy.preemption`` has one; ConfigError for a conflict.

    A stop is as in ``[deadline]``, whether promises are made or not.
    """
    part, own = PREEMPTIONS.find(settings.policy.preemption), settings.deadline
    if part.name == "never" and own.enabled and own.yields:
        raise ConfigError("policy.preemption = 'never': then no job yields to promises, so deadline.yields is false")
    if not isinstance(part.function, Lease):
        return None
    if missing := [name for name in sorted(part.powers) if not getattr(settings.power, name)]:
        raise ConfigError(
            f"policy.preemption = {settings.policy.preemption!r} stops jobs: it needs power.{missing[0]} = true"
        )
    return LeaseRules(
        part.line, part.function.lease_s, **stop_terms(settings, "lead_s", "restart_s", "restart_doubling_s")
    )


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return requests to stop, for the order."""
    asks = lease_wishes(draft.view, draft.ordering, draft.rules, draft.undelayed, draft.starving, draft.asked)
    return {Lane.STOP: asks}


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield nothing: ``why`` has a sentence about each stop."""
    yield from ()


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when the next lease ends at which a running job may have to yield."""
    yield next_lease_change_s(view, ordering, rules)
