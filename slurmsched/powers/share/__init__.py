"""Shared GPUs: measured jobs run two on a GPU, on nodes set aside for that, and unstable pairs end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ...cluster.actions import Action, job_of
from ...cluster.plan import Plan
from ...cluster.state import View
from ...cluster.text.links import link_counts
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.rules import Rules, SharingRules
from ...decide.sharing.pair_eviction import eviction_wishes
from ...errors import ConfigError
from ...policies.contract import SHARINGS, Ordering
from ...policies.links import GpuLinks
from ...policies.sharing_candidates import CURVE_MARGIN, OFF
from .packing import packing_wishes
from .wording import company_words

name = "share"
section = "sharing"
can_wait = False
words = company_words
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def terms(settings: Settings) -> SharingRules:
    """Return the rules of ``[share]``; no job begins to share without power.share. ConfigError for a conflict.

    Jobs under way when the power is switched off need the rules, to arrive or to go back.
    """
    section, on = settings.share, settings.power.share
    if not _NAME.fullmatch(section.partition):
        raise ConfigError(f"share.partition = {section.partition!r}: it is the name of one partition")
    if on and settings.power.profile and section.partition in (settings.profile.partition, settings.profile.home):
        raise ConfigError(
            f"share.partition = {section.partition!r}: no job may have whole GPUs there, so it is neither"
            " profile.partition nor profile.home"
        )
    # Slurm shows a request's effect in the next cycle, and one cycle may be lost.
    wait_s = 2 * settings.daemon.every_s
    return SharingRules(
        partition=section.partition,
        capacity=section.capacity if on else OFF,
        memory_mib=section.memory_mib,
        other_users=section.other_users,
        wait_s=wait_s,
        patience_s=max(SharingRules.patience_s, 5 * wait_s),
        evict=section.evict,
        accounts=tuple(sorted(set(section.accounts))),
        optin=section.optin,
        least_speed=section.least_speed,
        least_speed_each=section.least_speed_each,
        margin=CURVE_MARGIN,
        links=_links(section.links).gbps,
        rule=SHARINGS.find(settings.policy.sharing).line,
    )


def _links(lines: Sequence[str]) -> GpuLinks:
    """Parse ``share.links``; ConfigError names the line that is wrong."""
    try:
        return GpuLinks.of_counts(link_counts(lines))
    except ValueError as error:
        raise ConfigError(f"share.links: {error}") from error


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return stops of unstable pairs, and the steps of jobs to shared GPUs and back."""
    view, rules = draft.view, draft.rules
    stops = eviction_wishes(view, rules, draft.asked)
    if rules.sharing is None or not rules.executor.has_slots:
        return {Lane.STOP: stops}
    busy = {*view.pending.job_id[draft.held].tolist(), *map(job_of, draft.wishes.of(Lane.MOVE))}
    joins = "share" in rules.powers
    moves = packing_wishes(view, draft.ranked, draft.runs, rules.sharing, busy, joins=joins)
    return {Lane.STOP: stops, Lane.MOVE: moves}


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield now while jobs are on their way: a step follows the effect of the one before."""
    if rules.sharing is not None and view.pending.shares.any():
        yield view.now_s
