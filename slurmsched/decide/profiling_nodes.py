"""The nodes of the profiling partition: time-aware scaling (Lucid section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..cluster.actions import Action, MoveNodes
from ..cluster.columns import IntArray
from ..cluster.records.node_loans import NodeLists, lent_lists, members, own_lists
from ..cluster.state import View
from ..cluster.text.hostlist import expand
from ..models.throughput import LoadOutlook
from ..policies.contract import PROFILINGS, Profiling
from ..policies.registry import summary_of
from .profiling import new_jobs, overtime, waiting_gpus
from .rules import ProfilingRules, Rules


def pressure(outlooks: Mapping[str, LoadOutlook]) -> float:
    """Rate the load of submissions from 0 to 1: 1/2 for more than usual now, 1/2 for more expected than now.

    The *outlooks* are those of jobs and of GPUs; the higher pressure counts.
    """
    pressures = [0.5 * one.busy() + 0.5 * (one.rising() and not one.idle()) for one in outlooks.values()]
    return max(pressures, default=0.0)


def node_wishes(view: View, rules: Rules, standings: IntArray) -> list[Action]:
    """Return the next move of nodes between the profiling partition and ``home``, if there is one.

    Nodes that other partitions still lend each other, or that are lent after the power was switched off, go back first.
    """
    loans, profiling = rules.loans, rules.profiling
    if loans is None:
        return []
    lends = profiling is not None and bool(profiling.home) and MoveNodes.power in rules.powers
    pair = [profiling.partition, profiling.home] if lends and profiling is not None else []
    if loans and {one.partition for one in loans} != set(pair):
        before, own = lent_lists(loans, view.partitions, view.nodes.name.names)
        return _moves(own, before, own)
    current = {name: members(view.partitions, name) for name in pair}
    if profiling is None or not current or not all(current.values()):
        return []
    own = own_lists(loans, current)
    wanted_gpus = waiting_gpus(view, profiling, standings) if profiling.pressure else 0
    chosen = PROFILINGS.find(profiling.part).lend(view, profiling, current, own, wanted_gpus)
    return _moves(own, current, chosen)


def _moves(own: NodeLists, before: NodeLists, after: NodeLists) -> list[Action]:
    return [] if after == before else [MoveNodes.between(own, before, after)]


def lend(view: View, rules: ProfilingRules, current: NodeLists, own: NodeLists, wanted_gpus: int) -> NodeLists:
    """Return the nodes of the profiling partition and of ``rules.home``, at most one move away from *current*.

    A node whose GPUs are all held by jobs past T_prof is useless for profiling: it moves to the other partition, and
    another node replaces it. The target is the GPUs of its *own* nodes, or *wanted_gpus* if those are more, on at most
    ``rules.nodes_most`` nodes more than its own. Each node stays in exactly one of the two partitions, and neither
    partition becomes empty.
    """
    nodes = _nodes(view, rules)
    everyone = {name for names in (*current.values(), *own.values()) for name in names} & nodes.keys()
    here, ours = set(current[rules.partition]) & everyone, set(own[rules.partition]) & everyone
    need = max(sum(nodes[name].gpus for name in ours), wanted_gpus)
    spare_gpus = sum(nodes[name].spare for name in here)
    for name in sorted(here, key=lambda name: (nodes[name].spare, name in ours, name)):
        node = nodes[name]
        useless = node.usable and not node.spare
        if len(here) > 1 and (useless or (name not in ours and spare_gpus - node.spare >= need)):
            return _lists(rules, everyone, here - {name})
    others = sorted(everyone - here, key=lambda name: (name not in ours, -nodes[name].free, name))
    for name in others if len(others) > 1 else ():
        back = name in ours and nodes[name].free == nodes[name].gpus and bool(here - ours)
        grows = spare_gpus < need and len(here) < len(ours) + rules.nodes_most
        if nodes[name].free and (back or grows):
            return _lists(rules, everyone, here | {name})
    return _lists(rules, everyone, here)


@dataclass(frozen=True)
class _Node:
    gpus: int  #: 0 if the node takes no jobs
    free: int  #: GPUs not in use
    spare: int  #: GPUs not held by jobs past T_prof
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


PROFILINGS.add(
    Profiling("new-jobs", new_jobs, summary_of(new_jobs), lend=lend, powers=frozenset({"profile", MoveNodes.power}))
)
