"""Policies: an ordering under rules, and its text form in decision records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..cluster.records.faults import Instability
from ..cluster.records.node_loans import LentNodes
from ..cluster.text.hostlist import expand, fold
from ..policies.admission import find_admission
from ..policies.contract import PREEMPTIONS, PROFILINGS, SHARINGS, STOPPINGS, Ordering, find_ordering
from ..policies.deadlines.lease_terms import LeaseTerms
from ..policies.deadlines.value_steps import SOFT_STEPS
from ..policies.registry import Part
from ..policies.resizing import find_size_division
from .points_cap import PriorityWeights
from .rules import (
    AdmissionRules,
    Composition,
    DeadlineRules,
    LeaseRules,
    MigrationRules,
    ProfilingRules,
    ResizingRules,
    RightsizingRules,
    Rules,
    SharingRules,
    SteeringRules,
)
from .synthesis_record import SynthesisStep


@dataclass(frozen=True)
class _PluginHook:
    """A field of the rules that names a part which a plug-in may provide."""

    name: str
    find: Callable[[str], Part[Any]]
    section: str  #: of the rules; empty for the rules themselves
    field: str
    harmless: Mapping[str, Any] | None  #: fields that make nothing of the part; None drops the section

    def part(self, rules: Rules) -> Part[Any] | None:
        """Return the part, or None if the rules have no such section."""
        section = getattr(rules, self.section) if self.section else rules
        return None if section is None else self.find(getattr(section, self.field))

    def without(self, rules: Rules) -> Rules:
        """Return *rules* without the effects of the part."""
        if not self.section:
            return replace(rules, **(self.harmless or {}))
        section: Any = None if self.harmless is None else replace(getattr(rules, self.section), **self.harmless)
        changes: dict[str, Any] = {self.section: section}
        return replace(rules, **changes)


_EXCHANGEABLE = (
    _PluginHook("stopping", STOPPINGS.find, "", "stopping", {"stopping": "never"}),
    _PluginHook("admission", find_admission, "admission", "part", {"part": "unchanged"}),
    _PluginHook("lease", PREEMPTIONS.find, "lease", "part", None),
    _PluginHook(
        "preemption",
        PREEMPTIONS.find,
        "deadlines",
        "preemption",
        {"yields": False, "preemption": DeadlineRules.preemption},
    ),
    _PluginHook("sharing", SHARINGS.find, "sharing", "rule", {"rule": "none"}),
    _PluginHook("profiling", PROFILINGS.find, "profiling", "part", {"part": ProfilingRules.part}),
)


@dataclass(frozen=True)
class Policy:
    """The ordering and the rules of decide(); its other input is the view."""

    ordering: Ordering
    rules: Rules
    synthesis: SynthesisStep | None = None  #: the decision of ``auto`` for this composition; None without a new one
    shadow: Ordering | None = None  #: a second ordering, of which only a record is made

    def to_json(self) -> str:
        """Return one line for ``from_json``; policies with equal lines make equal decisions."""
        rules = asdict(self.rules) | {
            "powers": sorted(self.rules.powers),
            "only_partitions": sorted(self.rules.only_partitions),
            "loans": _stored(self.rules.loans),
            "waiting": sorted(self.rules.waiting),
        }
        if not rules["waiting"]:
            del rules["waiting"]
        for part in ("composition", "admission", "lease", "steering", "migration", "rightsizing", "resizing"):
            if rules[part] is None:  # as records had it before there was one
                del rules[part]
        step = {} if self.synthesis is None else {"synthesis": self.synthesis.to_dict()}
        shadow = {} if self.shadow is None else {"shadow": self.shadow.line}
        return json.dumps({"ordering": self.ordering.line, "rules": rules} | step | shadow, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """Return the policy that ``to_json`` wrote; ConfigError if a part of it no longer exists."""
        stored = json.loads(text)
        rules = stored["rules"]
        rules |= {"powers": frozenset(rules["powers"]), "only_partitions": frozenset(rules["only_partitions"])}
        rules["waiting"] = frozenset(rules.get("waiting", ()))
        rules["weights"] = PriorityWeights(**rules.get("weights", {}))  # older records have the cap itself
        if section := rules.get("deadlines"):
            steps = tuple(map(tuple, section.get("soft_steps", SOFT_STEPS)))
            leases = LeaseTerms(**section["leases"]) if section.get("leases") else None
            lists = {"exempt": tuple(section["exempt"]), "soft_steps": steps}
            rules["deadlines"] = DeadlineRules(**(section | lists | {"leases": leases}))
        if section := rules.get("sharing"):
            pairs = {"failed": tuple(map(tuple, section["failed"])), "unstable": _unstable(section.get("unstable", ()))}
            pairs["curve"] = tuple(map(tuple, section.get("curve", SharingRules.curve)))
            pairs["links"] = tuple(map(tuple, section.get("links", ())))
            pairs["wide"] = section.get("wide", False)
            rules["sharing"] = SharingRules(**(section | pairs))
            SHARINGS.find(rules["sharing"].rule)
        if section := rules.get("profiling"):
            rules["profiling"] = ProfilingRules(**section)
        if section := rules.get("composition"):
            rules["composition"] = Composition(**section)
        if section := rules.get("admission"):
            rules["admission"] = AdmissionRules(**section)
            find_admission(rules["admission"].part)
        if section := rules.get("lease"):
            rules["lease"] = LeaseRules(**section)
            PREEMPTIONS.find(rules["lease"].part)
        if section := rules.get("steering"):
            rules["steering"] = SteeringRules(**section)
        if section := rules.get("migration"):
            rules["migration"] = MigrationRules(**section)
        if section := rules.get("rightsizing"):
            rules["rightsizing"] = RightsizingRules(**(section | {"accounts": tuple(section["accounts"])}))
        if section := rules.get("resizing"):
            rules["resizing"] = ResizingRules(**section)
            find_size_division(rules["resizing"].division)
        if rules.get("loans") is not None:
            rules["loans"] = tuple(LentNodes(name, *map(expand, lists)) for name, *lists in rules["loans"])
        step = SynthesisStep.from_dict(stored["synthesis"]) if "synthesis" in stored else None
        shadow = find_ordering(stored["shadow"]) if "shadow" in stored else None
        return cls(find_ordering(stored["ordering"]), Rules(**rules), step, shadow)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The parts that come from plug-ins, in words."""
        return tuple(f"{hook} {part.name!r}" for hook, part in self._exchangeable() if not part.built_in)

    def without_plugins(self) -> Policy:
        """Return this policy without the parts of plug-ins: jobs stay in the order that they have, or outside.

        Nobody is asked to stop by a part of a plug-in, or told to end, and no jobs begin to share by one. New jobs are
        measured by the built-in rule.
        """
        rules = self.rules
        for hook in _EXCHANGEABLE:
            if (part := hook.part(self.rules)) is not None and not part.built_in:
                rules = hook.without(rules)
        ordering = self.ordering if self.ordering.built_in else find_ordering("unchanged")
        return replace(self, ordering=ordering, rules=rules)

    def _exchangeable(self) -> Iterator[tuple[str, Part[Any]]]:
        """Yield the hook and the part of each decision that a plug-in may make on a cluster."""
        yield "ordering", self.ordering
        for hook in _EXCHANGEABLE:
            if (part := hook.part(self.rules)) is not None:
                yield hook.name, part

    def at_site(self, config: Mapping[str, str]) -> Policy:
        """Return this policy for the site with this ``scontrol show config``, on which its own cap depends."""
        weights = PriorityWeights.of(config)
        return self if weights == self.rules.weights else replace(self, rules=replace(self.rules, weights=weights))

    def over(self, window: int) -> Policy:
        """Return this policy with points for the first *window* jobs."""
        return self if window == self.rules.window else replace(self, rules=replace(self.rules, window=window))

    def without_turn(self, powers: frozenset[str]) -> Policy:
        """Return this policy for a decision that *powers* sit out."""
        return replace(self, rules=replace(self.rules, waiting=powers)) if powers != self.rules.waiting else self

    def lending(self, loans: tuple[LentNodes, ...] | None) -> Policy:
        """Return this policy for a moment with these *loans* of nodes; None while no node may move."""
        return replace(self, rules=replace(self.rules, loans=loans))


def _stored(loans: tuple[LentNodes, ...] | None) -> list[list[str]] | None:
    return None if loans is None else [[one.partition, fold(one.own), fold(one.given)] for one in loans]


def _unstable(stored: Iterable[Mapping[str, Any]]) -> tuple[Instability, ...]:
    """Return the instabilities in a stored policy."""
    lists = ("gpus", "partners", "partner_restarts")
    return tuple(Instability(**{**one, **{name: tuple(one[name]) for name in lists}}) for one in stored)
