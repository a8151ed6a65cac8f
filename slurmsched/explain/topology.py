"""What keeps a job from free nodes that do not lie together: blocks or switches of the network. Pure."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import BoolArray
from ..cluster.state import View
from ..cluster.text.plural import count
from ..cluster.topology import UnitRule
from ..policies.selection.unit_rules import job_rule, most_together


def together_words(view: View, row: int, room: BoolArray, nodes: int) -> str:
    """Return what a pending job on so many *nodes* needs of the topology and does not find on those with *room*.

    Empty where it needs nothing of it, or finds it.
    """
    waited_s = max(0.0, view.now_s - float(np.nan_to_num(view.pending.eligible_s[row], nan=view.now_s)))
    rule = job_rule(view.topology, view.pending.topology_request[row], nodes, waited_s)
    if rule is None:
        return ""
    most = most_together(view.topology, rule, list(view.nodes.name), room, nodes)
    return "" if most >= nodes else f"it needs {_needs(rule, view.topology.noun, nodes)}; {_most(rule, view, most)}"


def _needs(rule: UnitRule, noun: str, nodes: int) -> str:
    if rule.segment > 1:
        segments = count(-(-nodes // rule.segment), "segment")
        return f"{segments} of {rule.segment} nodes, each within one {noun}"
    if not rule.units:
        return f"{count(nodes, 'node')} that {noun}es connect"
    alone = " without other jobs" if rule.whole else ""
    return f"{count(nodes, 'node')} of {_units(rule.units, noun)}{alone}"


def _most(rule: UnitRule, view: View, most: int) -> str:
    if rule.segment > 1:
        return f"there is room for {most // rule.segment} of them"
    if not rule.units:
        return f"the most free that are connected is {most}"
    where = "one" if rule.units == 1 else str(rule.units)
    return f"the most free in {where} is {most}"


def _units(many: int, noun: str) -> str:
    return f"one {noun}" if many == 1 else f"{many} {noun}{'es' if noun == 'switch' else 's'}"
