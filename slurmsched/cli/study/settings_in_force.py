"""The settings of a site as policies of a replay: as its daemon would act, and what no daemon reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import SlurmError
from ..app import App, artifacts_of

if TYPE_CHECKING:
    from ...cluster.nodes import QosTable
    from ...cluster.records.associations import AssociationTable
    from ...config import Settings
    from ...decide.rules import Rules
    from ...simulator.setup import Setup
    from ...simulator.traces.trace import Trace

IDEAL = "ideal"
FORECASTS = {"history": "baseline", "model": "trained"}
"""What a row says of its forecasts."""
LEARNT = {
    "history": "the baseline, as it knew at each submission what had ended",
    "model": "a model trained each day on what had ended",
}

ASSUMED_ORDERING = "sjf"
"""Assumed where the settings leave the order to Slurm."""

UNMODELLED_FLAGS = re.compile(
    r"DEPTH_OBLIVIOUS|INCR_ONLY|MAX_TRES\w*|NO_NORMAL_\w+|SMALL_RELATIVE_TO_TIME", re.IGNORECASE
)
"""Values of PriorityFlags that change a factor."""
NO_RESET = ("", "NONE")


def site_setup(settings: Settings, name: str, parts: Mapping[str, Any], line: str = "") -> Setup:
    """Return the set-up of a daemon with these settings, acting; the ordering *line* replaces theirs."""
    from ...daemon.active_actor import ActiveActor
    from ...models.throughput import active_throughput
    from ...simulator.setup import Setup

    writes = {"writes_per_s": settings.slurm.writes_per_s, "writes_burst": settings.slurm.writes_burst}
    policy = ActiveActor(artifacts_of(settings)).policy_of(settings, line)
    policy = replace(policy, rules=replace(policy.rules, powers=policy.rules.powers | {"order"})) if line else policy
    setup = Setup.of_site(policy, settings.daemon.every_s, name, **{**parts, **writes})
    throughput = active_throughput(artifacts_of(settings))
    return replace(setup, throughput=throughput, despite_limits=settings.rightsize.despite_limits)


def setups_in_force(app: App, orderings: Sequence[str], *, baseline: bool) -> list[Setup]:
    """Return stock Slurm, then for each ordering what the settings would make of it, and the ideal.

    Slurm is modelled with its own priorities, the orderings know forecasts from earlier runs alone, of the kind of
    model that serves now, and the settings bound the points. Without *orderings* theirs is taken.
    """
    from ...policies.contract import find_ordering
    from ...simulator.setup import STOCK, Setup

    settings = app.settings()
    own = settings.policy.ordering
    native = own != "auto" and find_ordering(own).native
    found = [Setup.of(STOCK, "conservative")] if baseline else []
    forecast = forecast_in_force(settings)
    for line in orderings or (ASSUMED_ORDERING if native else own,):
        found.append(site_setup(settings, f"{line}, {FORECASTS[forecast]}", {"forecast": forecast}, line))
        found.append(Setup.of(line, name=f"{line}, {IDEAL}"))
    return found


def forecast_in_force(settings: Settings) -> str:
    """Return the kind of forecasts that a daemon with these settings has: of the baseline, or of a trained model."""
    from ...models.registry import RUNTIME
    from ...models.runtime.active import BASELINE

    trained = settings.models.serve != BASELINE and artifacts_of(settings).stamp(RUNTIME) is not None
    return "model" if trained else "history"


def reach(rules: Rules, qos: QosTable, config: Mapping[str, str]) -> str:
    """Say how far our order reaches beside that of a Slurm with this *config*."""
    from ...decide.points_cap import PriorityWeights

    if rules.scope != "points":
        return f"scope {rules.scope}"
    most = replace(rules, weights=PriorityWeights.of(config)).cap(qos)
    return f"at most {most:,} points beside Slurm's own priority"


def associations_of(app: App) -> AssociationTable:
    """Return Slurm's accounts with their shares; none where it does not answer, or hides them."""
    from ...cluster.records.associations import NO_ASSOCIATIONS

    try:
        return app.cluster().associations()
    except SlurmError:
        return NO_ASSOCIATIONS


def fair_share_notes(config: Mapping[str, str], associations: AssociationTable, past_known: bool) -> list[str]:
    """Say what is assumed of fair share, and which parts of Slurm's priority are not modelled."""
    from ...simulator.slurmctld.slurmconf import SlurmConf, has_fair_tree

    if not config:
        return ["assumed: Slurm does not answer: its default priorities, so no fair share, and no QOS"]
    notes, weight = [], SlurmConf.of(config).weights.fair_share
    if weight and not past_known:
        notes.append("assumed: no run before this span is known: fair share begins with nobody having used anything")
    if weight:
        kind = "Fair Tree" if has_fair_tree(config) else "classic fair share"
        over = "Slurm's accounts and shares" if len(associations) else "the accounts of the jobs, with equal shares"
        notes.append(f"assumed: {kind} over {over}, of GPU-hours")
    if apart := list(_not_modelled(config)):
        notes.append(f"not modelled of Slurm's priority: {'; '.join(apart)}")
    return notes


def _not_modelled(config: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings of Slurm's priority that a replay leaves out."""
    from ...simulator.slurmctld.fixed_points import not_counted, resource_weights

    yield from UNMODELLED_FLAGS.findall(config.get("PriorityFlags", ""))
    if config.get("PriorityUsageResetPeriod", "").strip() not in NO_RESET:
        yield "PriorityUsageResetPeriod"
    if config.get("PriorityFavorSmall", "").strip().lower() == "yes":
        yield "PriorityFavorSmall"
    if apart := not_counted(resource_weights(config.get("PriorityWeightTRES", ""))):
        yield f"PriorityWeightTRES of {', '.join(apart)}"


def assumed_in_force(
    app: App, setups: Sequence[Setup], config: Mapping[str, str], associations: AssociationTable, trace: Trace
) -> list[str]:
    """Say what a replay of the settings assumes, and what it does not model."""
    settings, notes = app.settings(), fair_share_notes(config, associations, trace.past is not None)
    if not app.loaded.files:
        notes.append("assumed: no settings file was read: the defaults of [order]")
    if settings.policy.ordering not in [setup.site.ordering.line for setup in setups if setup.site is not None]:
        notes.append(f"the settings have the ordering {settings.policy.ordering}")
    return notes


def meaning_in_force(setup: Setup, config: Mapping[str, str], qos: QosTable) -> str:
    """Say what the row of *setup* is, and what bounds the points; nothing of stock Slurm."""
    if setup.site is not None:
        bound = f"{reach(setup.site.rules, qos, config)}; forecasts by {LEARNT[setup.forecast]}"
        return f"what acting with these settings would bring: {bound}"
    if setup.executor == "slurm":
        return ""
    return "exact runtimes, no fair share, no cap on points, no slurmctld: no site reaches it"
