"""The parts of the network that jobs ask to stay within: blocks of a block topology, switches of a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from .columns import IntArray, Labels, Table, table_of
from .text.hostlist import expanded

NONE = -1
_SWITCHES = re.compile(r"switches=([0-9]{1,6})@([0-9]{1,9})")
_SEGMENT = re.compile(r"segment=([0-9]{1,6})")
WHOLE = "whole"


class Unit(NamedTuple):
    """A block or a switch."""

    name: str
    nodes: tuple[str, ...]
    size: int  #: the nodes that jobs may plan with; of a switch all of its nodes


@dataclass(frozen=True, eq=False)
class UnitTable(Table):
    """The units of a network as records hold them, the smallest ones first."""

    plugin: Labels
    level: IntArray
    name: Labels
    nodes: Labels  #: host list
    size: IntArray


@dataclass(frozen=True)
class Topology:
    """The units of a network, by level: the smallest ones first. A flat network has none."""

    plugin: str = ""  #: tree or block; ring or torus, of which no units are read
    levels: tuple[tuple[Unit, ...], ...] = ()  #: the last one of a tree has the networks that nothing connects

    @property
    def noun(self) -> str:
        """The word for a unit."""
        return "block" if self.plugin == "block" else "switch"

    def numbers(self, nodes: Iterable[str]) -> IntArray:
        """Return the number of the unit of each node, [level, node]; NONE for a node that is in none."""
        places = [{name: number for number, unit in enumerate(level) for name in unit.nodes} for level in self.levels]
        names = list(nodes)
        found = [[place.get(name, NONE) for name in names] for place in places]
        return np.array(found, dtype=np.int64).reshape(len(places), len(names))

    @cached_property
    def table(self) -> UnitTable:
        """The units as rows, of which ``of_table`` makes the same topology."""
        units = [(level, unit) for level, of_level in enumerate(self.levels) for unit in of_level]
        columns = {
            "plugin": Labels.of(self.plugin for _ in units),
            "level": [level for level, _ in units],
            "name": Labels.of(unit.name for _, unit in units),
            "nodes": Labels.of(",".join(unit.nodes) for _, unit in units),
            "size": [unit.size for _, unit in units],
        }
        return table_of(UnitTable, len(units), {}, columns)

    @classmethod
    def of_table(cls, table: UnitTable) -> Topology:
        """Return the topology of these rows; FLAT for none."""
        if not len(table):
            return FLAT
        levels: list[list[Unit]] = [[] for _ in range(int(table.level.max()) + 1)]
        rows = zip(table.level.tolist(), table.name, table.nodes, table.size.tolist(), strict=True)
        for level, name, nodes, size in rows:
            levels[level].append(Unit(name, tuple(expanded(nodes)), size))
        return cls(table.plugin[0], tuple(map(tuple, levels)))


FLAT = Topology()


class TopologyRequest(NamedTuple):
    """What a job asks of the topology, as far as Slurm shows it."""

    switches: int = 0  #: the most switches that it may be spread over; 0 for any number
    wait_s: float = 0.0  #: for so long, after which it takes any
    segment: int = 0  #: nodes of each of its segments; 0 for none
    whole: bool = False  #: no other job may be in its blocks


@lru_cache(maxsize=10_000)
def read_topology_request(text: str) -> TopologyRequest:
    """Parse the column ``topology_request``: ``switches=1@300``, ``segment=4``, ``whole``, joined by blanks."""
    switches, segment = _SWITCHES.search(text), _SEGMENT.search(text)
    return TopologyRequest(
        int(switches[1]) if switches else 0,
        float(switches[2]) if switches else 0.0,
        int(segment[1]) if segment else 0,
        WHOLE in text.split(),
    )


def topology_request_text(asked: TopologyRequest) -> str:
    """Return the text of the column ``topology_request`` that is parsed as *asked*."""
    found = [f"switches={asked.switches}@{asked.wait_s:.0f}"] if asked.switches else []
    found += [f"segment={asked.segment}"] if asked.segment else []
    return " ".join([*found, *([WHOLE] if asked.whole else [])])


class UnitRule(NamedTuple):
    """Which nodes a job may have together, for the search for nodes; ``loose`` where it may have any."""

    base: int  #: the level of the units that its nodes are counted in
    level: int  #: the level of the larger units that these are in; NONE for all
    larger: int  #: the most larger units
    units: int  #: the most units; 0 for any number
    segment: int  #: so many of its nodes are in one unit, and so on; 1 where each is for itself
    whole: bool  #: the units are its alone


def rule_of(topology: Topology, request: TopologyRequest, nodes: int) -> UnitRule | None:
    """Return the rule for a job on so many *nodes*; None where it may have any.

    In a block topology a job is in the smallest block that has as many nodes as it asks for, and in as few blocks of
    the smallest size as hold it (topology/block, seen on 24.11 and 26.05). Slurm lets some jobs into more. Segments may
    be in any blocks, each in one. In a tree a job is within nodes that switches connect, and in as few as it asks for.
    """
    if not topology.levels:
        return None
    if topology.plugin != "block":
        several = len(topology.levels[-1]) > 1
        level = len(topology.levels) - 1 if several else NONE
        bound = nodes > 1 and (several or request.switches)
        return UnitRule(0, level, 1, request.switches, 1, False) if bound else None
    if nodes < 2 and not request.whole:
        return None
    sizes = [max(unit.size for unit in level) for level in topology.levels]
    holding = [level for level, size in enumerate(sizes) if size >= nodes]
    level, larger = (holding[0], 1) if holding else (len(sizes) - 1, -(-nodes // sizes[-1]))
    if not request.segment:
        return UnitRule(0, level, larger, -(-nodes // sizes[0]), 1, request.whole)
    base = next((at for at, size in enumerate(sizes) if size >= request.segment), len(sizes) - 1)
    return UnitRule(base, NONE, 1, 0, request.segment, request.whole)
