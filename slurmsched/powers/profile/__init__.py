"""Profiling: new jobs are measured first, in a partition of their own, which borrows nodes in a burst (Lucid 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...cluster.actions import Action
from ...cluster.plan import Plan
from ...cluster.state import View
from ...config import Settings
from ...decide.draft import Draft, Lane
from ...decide.next_change import next_s
from ...decide.profiling import both, limits_s, profiling_wishes
from ...decide.profiling_nodes import node_wishes
from ...decide.rules import ProfilingRules, Rules
from ...errors import ConfigError
from ...policies.contract import PROFILINGS, Ordering
from .wording import profiling_words

name = "profile"
section = "profiling"
can_wait = False
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def terms(settings: Settings) -> ProfilingRules | None:
    """Return the rules of ``[profile]``, None without power.profile; ConfigError for partitions that make no sense."""
    if settings.power.profile:
        return profiling_rules(settings)
    PROFILINGS.find(settings.policy.profiling)
    return None


def profiling_rules(settings: Settings) -> ProfilingRules:
    """Return the rules of ``[profile]``; ConfigError for partitions that make no sense."""
    section = settings.profile
    for key, name in (("partition", section.partition), ("home", section.home or "none")):
        if not _NAME.fullmatch(name):
            raise ConfigError(f"profile.{key} = {name!r}: with power.profile it is the name of one partition")
    if section.partition == section.home:
        raise ConfigError(f"profile.home = {section.home!r}: it lends nodes to profile.partition, so it is another one")
    names = ("partition", "n_max", "n_least", "t_s", "t_least_s", "wait_s", "home", "nodes_most")
    part = PROFILINGS.find(settings.policy.profiling).line
    return ProfilingRules(**{name: getattr(section, name) for name in names}, part=part)


def wishes(draft: Draft) -> Mapping[Lane, Sequence[Action]]:
    """Return moves of jobs to and from the profiling partition, and of its nodes."""
    view, rules = draft.view, draft.rules
    moves = [] if rules.profiling is None else profiling_wishes(view, rules.profiling, draft.standings)
    return {Lane.MOVE: moves, Lane.LEND: node_wishes(view, rules, draft.standings)}


def words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about the role of the profiling partition for a job."""
    yield from profiling_words(view, rules.profiling, job_id)


def changes_s(view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterator[float]:
    """Yield when jobs have run or waited long enough in the profiling partition."""
    own = rules.profiling
    if own is None:
        return
    pending, running = view.pending, view.running
    yield next_s(pending.eligible_s[both(pending, own)] + own.wait_s, view.now_s)
    here = running.partition.map([name == own.partition for name in running.partition.names], np.bool_)
    ends_s = running.started_s[here] + np.array(limits_s(running.take(np.flatnonzero(here)), own))
    yield next_s(ends_s, view.now_s)
