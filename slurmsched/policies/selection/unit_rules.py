"""The rules by which jobs stay within blocks or switches, and whether free nodes keep them."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.topology import Topology, UnitRule, read_topology_request, rule_of
from .unit_choice import NO_RULES, choose_units, scratch_of

PATIENCE_S = 1800.0
"""A job that takes any switches sooner than this is predicted as one that does: Slurm lets it wait for 5 min."""


def unit_rules(jobs: JobTable, topology: Topology) -> tuple[IntArray, list[UnitRule | None], IntArray]:
    """Return the lines of all rules, the rules themselves and the place of each job's: 0 for a job without one."""
    keys = list(zip(jobs.topology_request.codes.tolist(), jobs.nodes.tolist(), strict=True))
    rules: list[UnitRule | None] = [None]
    places: dict[tuple[int, int], int] = {}
    for code, nodes in keys:
        if (code, nodes) not in places:
            rule = job_rule(topology, jobs.topology_request.names[code], nodes)
            places[code, nodes] = len(rules) if rule else 0
            rules += [rule] if rule else []
    lines = [NO_RULES[0].tolist(), *([int(part) for part in rule] for rule in rules if rule)]
    of = np.array([places[key] for key in keys], dtype=np.int64)
    return np.array(lines, dtype=np.int64), rules, of


def job_rule(topology: Topology, request: str, nodes: int, waited_s: float = PATIENCE_S) -> UnitRule | None:
    """Return the rule for one job that has waited so long; without its switches where it takes any by then."""
    asked = read_topology_request(request)
    if asked.switches and asked.wait_s < waited_s:
        asked = asked._replace(switches=0)
    return rule_of(topology, asked, nodes)


def most_together(topology: Topology, rule: UnitRule, names: list[str], open_: BoolArray, nodes: int) -> int:
    """Return how many of the *open_* nodes, up to the so many that a job needs, it may have together."""
    units = topology.numbers(names)
    line = np.array([int(part) for part in rule], dtype=np.int64)
    return int(choose_units(units, line, open_.astype(np.int64), nodes, scratch_of(units)))
