"""The settings as a policy and its rules."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import Any

from ..config import Settings
from ..config.settings import MlfsSettings, PolicySettings, PowerSettings
from ..decide.policy import Policy
from ..decide.rules import Rules
from ..decide.synthesis import AUTO, Candidate, SynthesisRules, is_auto
from ..decide.synthesis_record import Admissible, admissible
from ..errors import ConfigError, MissingExtra
from ..policies.contract import GUESTS, PREEMPTIONS, SELECTIONS, Ordering, find_ordering
from ..policies.preemption import Lease
from ..policies.presets import preset_of
from ..powers import POWERS
from ..slurm.checkup import powers

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


_SLURMS_OWN = {
    "selection": ("slurm", "Slurm starts jobs itself: SchedulerParameters in slurm.conf(5) has its backfill"),
    "placement": ("slurm", "Slurm chooses the nodes itself: SelectTypeParameters in slurm.conf(5) says how"),
}
"""The parts of a policy that Slurm does itself: the accepted value, and what to use for others."""


def policy_of(settings: Settings, line: str | None = None) -> Policy:
    """Build the policy of the settings, with the ordering *line* in place of theirs; ConfigError for an invalid one.

    So is a part that Slurm does not leave to anybody.
    """
    settings, line = _composed(settings, ordering_line(settings, line or ""))
    order = settings.order
    rules = Rules(
        powers=frozenset(powers(settings)),
        scope=order.scope,  # type: ignore[arg-type]  # the loader lets only scopes through
        max_points=order.max_points,
        window=order.window,
        only_partitions=frozenset(order.partitions),
        starvation_s=settings.policy.starvation_s,
        most_requeues=settings.stop.most_requeues,
        guests=guest_lines(settings),
        **terms_of_powers(settings),
    )
    return Policy(ordering_of(settings, line), rules, shadow=shadow_of(settings))


def terms_of_powers(settings: Settings) -> dict[str, Any]:
    """Return the terms of each power as fields of ``Rules``; ConfigError for settings that contradict."""
    return {power.section: power.terms(settings) for power in POWERS if power.section}


def guest_lines(settings: Settings) -> tuple[str, ...]:
    """Return the powers of plug-ins that take part; ConfigError for one that is not there, or whose power is off."""
    parts = [GUESTS.find(line) for line in settings.policy.powers]
    for part in parts:
        if missing := sorted(part.powers - set(powers(settings))):
            raise ConfigError(f"policy.powers has {part.name!r}, which needs power.{missing[0]} = true")
    return tuple(part.line for part in parts)


def ordering_of(settings: Settings, line: str | None = None) -> Ordering:
    """Return the ordering of ``[policy]``, or that of *line*; ConfigError for parts that Slurm leaves to nobody."""
    for part, (accepted, instead) in _SLURMS_OWN.items():
        value = getattr(settings.policy, part)
        if value != accepted:
            raise ConfigError(
                f"policy.{part} = {value!r}: accepted on a cluster is {accepted}. {instead}; "
                f"slurmsched simulate --{part} shows what another would do"
            )
    return find_ordering(_across(settings, _composed(settings, ordering_line(settings, line or ""))[1])).installed()


def notes_on(policy: Policy) -> list[str]:
    """Return sentences about what *policy* cannot do with its rules and powers."""
    name, rules, notes = policy.ordering.name, policy.rules, []
    if policy.ordering.turns and rules.lease is None:
        notes.append(
            f"{name} only orders pending jobs: no running job yields to them without policy.preemption = 'lease 20m'"
        )
    if name == "gavel" and rules.steering is None:
        notes.append("gavel sends no job to a type of GPU without power.steer = true")
    for power in fields(PowerSettings):
        needed = power.metadata.get("needs")
        if needed and power.name in rules.powers and needed not in rules.powers:
            notes.append(f"power.{power.name} does nothing without power.{needed} = true")
    return notes


def shadow_of(settings: Settings) -> Ordering | None:
    """Return the ordering of ``policy.shadow``, None without one; ConfigError for one whose code may hang or choose."""
    line = settings.policy.shadow
    if not line:
        return None
    if is_auto(line):
        raise ConfigError(
            f"policy.shadow = {line!r}: it is one ordering; policy.auto = 'advise' records what auto does"
        )
    found = find_ordering(_across(settings, line)).installed()
    if not found.built_in:
        raise ConfigError(f"policy.shadow = {line!r} is a plug-in's: accepted is a built-in ordering")
    return found


def _across(settings: Settings, line: str) -> str:
    """Return *line* with the setting ``mlfs.across`` where the ordering has such a parameter and does not say it."""
    across = settings.mlfs.across
    if line.split()[0] in ("mlfs-h", "mlfs-rl") and across != MlfsSettings.across and "across=" not in line:
        return f"{line} across={across}"
    return line


def synthesis_of(settings: Settings, line: str = "") -> Admissible | None:
    """Return the compositions among which the policy *line* chooses, by default that of the settings.

    None for a policy that is one composition. ConfigError for settings that go with no choice.
    """
    line = ordering_line(settings, line or "")
    if not is_auto(line):
        return None
    if find_spec("numba") is None:
        raise MissingExtra(f"{AUTO} plays compositions forward with Numba", "sim")
    policy = settings.policy
    if policy.admission != PolicySettings.admission:
        raise ConfigError(
            f"policy.admission = {policy.admission!r}: {AUTO} chooses the admission itself, with loads=all,1.2 after it"
        )
    if isinstance(PREEMPTIONS.find(policy.preemption).function, Lease):
        raise ConfigError(
            f"policy.preemption = {policy.preemption!r}: leases are not played forward, and {AUTO} chooses by that: "
            f"slurmsched simulate --policy {AUTO} shows what it does where running jobs yield"
        )
    found = admissible(SynthesisRules.of(line).candidates, powers(settings))
    if not found.candidates:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in found.left_out.items())
        raise ConfigError(f"{AUTO}: no composition can be played forward: {reasons}")
    return found


def with_composition(settings: Settings, candidate: Candidate) -> Settings:
    """Return *settings* with the ordering and the admission of *candidate*."""
    policy = replace(settings.policy, ordering=candidate.ordering, admission=candidate.admission)
    return replace(settings, policy=policy)


def _composed(settings: Settings, line: str) -> tuple[Settings, str]:
    """Return settings and ordering line of one composition: the first one where *line* chooses among several."""
    found = synthesis_of(settings, line)
    if found is None:
        return settings, line
    return with_composition(settings, found.candidates[0]), found.candidates[0].ordering


def ordering_line(settings: Settings, line: str = "") -> str:
    """Return *line*, or where it is empty the ordering of the settings or their preset.

    ConfigError for a preset that Slurm cannot carry out.
    """
    if line:
        return line
    name, ordering = settings.policy.preset, settings.policy.ordering
    if not name:
        return ordering
    preset = preset_of(name)
    if ordering not in (PolicySettings.ordering, preset.ordering):
        raise ConfigError(
            f"policy.preset = {name!r} has the ordering {preset.ordering}, and policy.ordering = {ordering!r}"
        )
    leases = isinstance(PREEMPTIONS.find(settings.policy.preemption).function, Lease)
    if SELECTIONS.find(preset.selection).preempts and not leases:
        raise ConfigError(
            f"policy.preset = {name!r} preempts running jobs, and on Slurm none is without consent: "
            f"policy.ordering = {preset.ordering!r} orders pending ones; policy.preemption = 'lease 20m' asks running "
            "ones with ckpt to stop for them"
        )
    return preset.ordering
