"""Which nodes the profiling partition has: time-aware scaling (Lucid 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..cluster.records.node_loans import NodeLists
from ..cluster.state import View
from ..cluster.text.hostlist import expand
from ..models.throughput import LoadOutlook
from .profiling import overtime
from .rules import ProfilingRules


def pressure(outlooks: Mapping[str, LoadOutlook]) -> float:
    """Rate how far submissions exceed the usual: 1/2 for more than usual now, 1/2 for more to come than now.

    The *outlooks* are on jobs and on GPUs; the one under more pressure counts.
    """
    pressures = [0.5 * one.busy() + 0.5 * (one.rising() and not one.idle()) for one in outlooks.values()]
    return max(pressures, default=0.0)


def lend(view: View, rules: ProfilingRules, current: NodeLists, own: NodeLists, wanted_gpus: int) -> NodeLists:
    """Return the nodes of the profiling partition and of ``rules.home``, at most one step away from those *current*.

    A node whose GPUs are held by jobs past T_prof is of no use to the profiling partition: it is lent to the other one,
    and another comes for it. The aim is as many GPUs as its *own* nodes have, or the *wanted_gpus* if those are more,
    on no more than ``rules.nodes_most`` nodes beyond as many as its own. Both together keep all their nodes, each in
    one of them, and neither is left without any.
    """
    nodes = _nodes(view, rules)
    everyone = {name for names in (*current.values(), *own.values()) for name in names} & nodes.keys()
    here, ours = set(current[rules.partition]) & everyone, set(own[rules.partition]) & everyone
    need = max(sum(nodes[name].room for name in ours), wanted_gpus)
    room = sum(nodes[name].spare for name in here)
    for name in sorted(here, key=lambda name: (nodes[name].spare, name in ours, name)):
        node = nodes[name]
        useless = node.usable and not node.spare
        if len(here) > 1 and (useless or (name not in ours and room - node.spare >= need)):
            return _lists(rules, everyone, here - {name})
    others = sorted(everyone - here, key=lambda name: (name not in ours, -nodes[name].free, name))
    for name in others if len(others) > 1 else ():
        back = name in ours and nodes[name].free == nodes[name].room and bool(here - ours)
        grows = room < need and len(here) < len(ours) + rules.nodes_most
        if nodes[name].free and (back or grows):
            return _lists(rules, everyone, here | {name})
    return _lists(rules, everyone, here)


@dataclass(frozen=True)
class _Node:
    room: int  #: GPUs; 0 where it takes no jobs
    free: int  #: of these, in no use
    spare: int  #: of these, not held by jobs past T_prof
    usable: bool


def _nodes(view: View, rules: ProfilingRules) -> dict[str, _Node]:
    jobs, have = view.running, view.nodes
    held: dict[str, int] = {}
    for row in overtime(view, rules).tolist():
        hosts = expand(jobs.node_list[row])
        for host in hosts:
            held[host] = held.get(host, 0) + -(-int(jobs.gpus[row]) // len(hosts))
    columns = (have.gpus.tolist(), have.gpus_used.tolist(), have.usable.tolist())
    return {
        name: _Node(gpus * up, max(0, gpus - used) * up, max(0, gpus - held.get(name, 0)) * up, up)
        for name, gpus, used, up in zip(have.name, *columns, strict=True)
    }


def _lists(rules: ProfilingRules, everyone: set[str], here: set[str]) -> NodeLists:
    return {rules.partition: tuple(sorted(here)), rules.home: tuple(sorted(everyone - here))}
