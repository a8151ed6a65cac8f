"""The settings of a site as policies of a replay: as its daemon would act, and what no daemon reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..app import App, artifacts_of

if TYPE_CHECKING:
    from ...cluster.nodes import QosTable
    from ...config import Settings
    from ...simulator.setup import Setup
    from ...simulator.traces.trace import Trace

IDEAL = "ideal"
ASSUMED_ORDERING = "sjf"
"""Assumed where the settings leave the order to Slurm."""


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

    Slurm is modelled with its own priorities, the orderings know forecasts from earlier runs alone, and the settings
    bound the points. Without *orderings* theirs is taken.
    """
    from ...policies.contract import find_ordering
    from ...simulator.setup import STOCK, Setup

    settings = app.settings()
    own = settings.policy.ordering
    native = own != "auto" and find_ordering(own).native
    found = [Setup.of(STOCK, "conservative")] if baseline else []
    for line in orderings or (ASSUMED_ORDERING if native else own,):
        found.append(site_setup(settings, line, {"forecast": "history"}, line))
        found.append(Setup.of(line, name=f"{line}, {IDEAL}"))
    return found


def notes_in_force(
    app: App, setups: Sequence[Setup], config: Mapping[str, str], qos: QosTable, trace: Trace
) -> list[str]:
    """Say what the rows are, what bounds the points, and what is assumed; what is not known comes first."""
    from ...decide.points_cap import PriorityWeights, natural_cap
    from ...simulator.slurmctld.slurmconf import SlurmConf

    settings, notes = app.settings(), []
    weight = SlurmConf.of(config).weights.fair_share
    if not config:
        notes.append("assumed: Slurm does not answer: its default priorities, so no fair share, and no QOS")
    elif weight and trace.past is None:
        notes.append("assumed: no run before this span is known: fair share begins with nobody having used anything")
    if weight:
        notes.append("assumed: every user has an equal share, of GPU-hours")
    if not app.loaded.files:
        notes.append("assumed: no settings file was read: the defaults of [order]")
    acting = [setup.label for setup in setups if setup.site is not None]
    scope, most = settings.order.scope, settings.order.max_points or natural_cap(qos, PriorityWeights.of(config))
    reach = f"at most {most:,} points beside Slurm's own priority" if scope == "points" else f"scope {scope}"
    if settings.policy.ordering not in acting:
        notes.append(f"the settings have the ordering {settings.policy.ordering}")
    notes.append(
        f"{', '.join(acting)}: what acting with these settings would bring: {reach}; forecasts from earlier runs alone"
    )
    notes.append(f"{IDEAL}: exact runtimes, no fair share, no cap on points, no slurmctld: no site reaches it")
    return notes
