"""Policies: an ordering under rules, and its text form in decision records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cache, cached_property
from itertools import repeat
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ..cluster.records.node_loans import LentNodes
from ..errors import ConfigError
from ..policies.admission import find_admission
from ..policies.contract import GUESTS, PREEMPTIONS, PROFILINGS, SHARINGS, STOPPINGS, Ordering, find_ordering
from ..policies.registry import Part
from ..policies.resizing import find_size_division
from .points_cap import PriorityWeights
from .rules import DeadlineRules, ProfilingRules, Rules
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
        return self._line

    @cached_property
    def _line(self) -> str:
        step = {} if self.synthesis is None else {"synthesis": self.synthesis.to_dict()}
        shadow = {} if self.shadow is None else {"shadow": self.shadow.line}
        facts = {"ordering": self.ordering.line, "rules": asdict(self.rules)} | step | shadow
        return json.dumps(facts, sort_keys=True, default=sorted)

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """Return the policy that ``to_json`` wrote; ConfigError for other content, or if a part no longer exists."""
        try:
            stored = json.loads(text)
            rules = _restored(Rules, stored["rules"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"this is no policy of this version of slurmsched: {error!r}") from error
        for hook in _EXCHANGEABLE:
            hook.part(rules)
        for line in rules.guests:
            GUESTS.find(line)
        if rules.resizing is not None:
            find_size_division(rules.resizing.division)
        step = SynthesisStep.from_dict(stored["synthesis"]) if "synthesis" in stored else None
        shadow = find_ordering(stored["shadow"]) if "shadow" in stored else None
        return cls(find_ordering(stored["ordering"]), rules, step, shadow)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The parts that come from plug-ins, in words."""
        return tuple(f"{hook} {part.name!r}" for hook, part in self._exchangeable() if not part.built_in)

    def without_plugins(self) -> Policy:
        """Return this policy without the parts of plug-ins: jobs stay in the order that they have, or outside.

        Nobody is asked to stop by a part of a plug-in, or told to end, no jobs begin to share by one, and none of their
        powers takes part. New jobs are measured by the built-in rule.
        """
        rules = self.rules
        for hook in _EXCHANGEABLE:
            if (part := hook.part(self.rules)) is not None and not part.built_in:
                rules = hook.without(rules)
        ordering = self.ordering if self.ordering.built_in else find_ordering("unchanged")
        return replace(self, ordering=ordering, rules=replace(rules, guests=()))

    def _exchangeable(self) -> Iterator[tuple[str, Part[Any]]]:
        """Yield the hook and the part of each decision that a plug-in may make on a cluster."""
        yield "ordering", self.ordering
        for hook in _EXCHANGEABLE:
            if (part := hook.part(self.rules)) is not None:
                yield hook.name, part
        for line in self.rules.guests:
            yield "power", GUESTS.find(line)

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
        return self if loans == self.rules.loans else replace(self, rules=replace(self.rules, loans=loans))


def _restored(kind: Any, value: Any) -> Any:
    """Return *value*, as JSON has it, as an instance of *kind*, an annotation of a field."""
    inner = get_args(kind)
    if isinstance(kind, UnionType):  # of a kind and None
        return None if value is None else _restored(inner[0], value)
    if is_dataclass(kind):
        names = _hints(kind)  # type: ignore[arg-type]  # a class can be hashed
        return kind(**{name: _restored(names[name], one) for name, one in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(map(_restored, repeat(inner[0]) if inner[-1] is Ellipsis else inner, value))
    return frozenset(value) if get_origin(kind) is frozenset else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
