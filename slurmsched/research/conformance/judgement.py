"""Requests about parts of policies, and the answers to them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ...errors import ConfigError
from ...policies import contract
from ...policies.registry import Registry, load_plugins
from .demands import Case, judged

REGISTRIES: dict[str, Registry[Any]] = {
    "ordering": contract.ORDERINGS,
    "admission": contract.ADMISSIONS,
    "selection": contract.SELECTIONS,
    "placement": contract.PLACEMENTS,
    "preemption": contract.PREEMPTIONS,
    "stopping": contract.STOPPINGS,
    "scaling": contract.SCALINGS,
}
"""The registries of the hooks that have trials."""


class PartsWanted(NamedTuple):
    """A request for the parts of a name, with its parameters; for those of all plug-ins where *line* is empty."""

    hooks: tuple[str, ...]
    line: str


class MatchedParts(NamedTuple):
    """The parts found, as hook and line, and what is wrong."""

    parts: tuple[tuple[str, str], ...]
    troubles: tuple[str, ...]


class Judge(NamedTuple):
    """A request to judge a part by a demand, with so many random inputs."""

    hook: str
    line: str
    demand: str
    inputs: int


def found(wanted: PartsWanted) -> MatchedParts:
    """Find the parts that are wanted."""
    if not wanted.line:
        broken = load_plugins()
        parts = [(hook, part.line) for hook in wanted.hooks for part in REGISTRIES[hook].values() if not part.built_in]
        return MatchedParts(tuple(parts), tuple(broken))
    parts, troubles = [], []
    for hook in wanted.hooks:
        try:
            parts.append((hook, REGISTRIES[hook].find(wanted.line).line))
        except ConfigError as error:
            troubles.append(str(error))
    return MatchedParts(tuple(parts), () if parts else tuple(dict.fromkeys(troubles)))


@cache
def _case(hook: str, line: str, count: int) -> Case:
    return Case(hook, REGISTRIES[hook].find(line), count)


def answer(request: PartsWanted | Judge) -> MatchedParts | tuple[bool, str]:
    """Answer one request."""
    if isinstance(request, PartsWanted):
        return found(request)
    return judged(_case(request.hook, request.line, request.inputs), request.demand)
