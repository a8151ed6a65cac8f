"""Whether nodes could ever hold a job, if nothing else ran: one answer for deciding, predicting and explaining.

Nodes that are down count as if they were there: they may come back. Nodes that Slurm does not show may hold anything.
Where the columns of a job leave open how it may be spread over nodes, the answer is that it could run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.may_have import Allowances, MayHave
from ...cluster.nodes import NodeTable, PartitionTable
from ...cluster.squeue_values import NO_NUMBER
from ...cluster.text.constraint import Choice, Test
from ...cluster.text.hostlist import fold
from ...cluster.text.plural import count
from ...cluster.text.tres import timelimit
from .allowed_nodes import having
from .demand import NO_LIMIT, Demand, demand_of

_SHAPE = (
    "partition",
    "gpu_type",
    "features",
    "required_nodes",
    "excluded_nodes",
    "per_node",
    "node_request",
    "node_range",
)
_NUMBERS = (
    *("gpus", "nodes", "most_nodes", "cpus", "ntasks", "memory_mib", "node_memory_mib", "cpu_memory_mib"),
    *("time_limit_s", "per_job", "per_task", "per_gpu", "gpu_cpus", "gpus_each", "exclusive"),
)


class Never(NamedTuple):
    """Why a job could never run as it is."""

    why: str  #: a clause, which continues "it cannot run as it is: ..."
    change: str = ""  #: what would let it run, as scontrol takes it, such as timelimit=1:00:00; empty for none such
    elsewhere: bool = True  #: another partition may let it run, too


class Within(NamedTuple):
    """Where a job might run: nodes, what they are called together, and their partition."""

    nodes: BoolArray
    where: str
    row: int = 0  #: of the partition; any where there are none
    most: int = NO_LIMIT  #: nodes that a job may have there


_NUMBERLESS = Never("Slurm has no number of nodes for it, and N of them ends that", "numnodes=N", elsewhere=False)
"""Of a job that names a partition which its owner may not use: moved out of it, too, it waits for ever (22.05)."""


def never(jobs: JobTable, nodes: NodeTable, partitions: PartitionTable) -> dict[int, Never]:
    """Find the jobs that these nodes and partitions could never run as they are: each row with the reason."""
    if not len(jobs):
        return {}
    shapes = [getattr(jobs, name).codes for name in _SHAPE] + [getattr(jobs, name) for name in _NUMBERS]
    numbers = [np.unique(shape, return_inverse=True)[1] for shape in shapes]
    _, first, shape = np.unique(np.stack(numbers), axis=1, return_index=True, return_inverse=True)
    cluster = Cluster(nodes, partitions)
    whys = [cluster.refusal(jobs, row) for row in first.tolist()]
    return {row: why for row, at in enumerate(shape.reshape(-1).tolist()) if (why := whys[at]) is not None}


@dataclass(frozen=True)
class Cluster:
    """Nodes and partitions, to be asked about one job after the other."""

    nodes: NodeTable
    partitions: PartitionTable

    def refusal(self, jobs: JobTable, row: int) -> Never | None:
        """Return why the job in *row* could never run; None if it could."""
        try:
            demand = demand_of(jobs, row)
        except ValueError:  # a list or a number in a form that we cannot read
            return None
        if demand.least_nodes >= NO_NUMBER:
            return _NUMBERLESS
        if demand.all_memory_mib and self._is_all_memory(demand):
            demand = replace(demand, memory_mib=0.0)
        if jobs.node_range[row] and self._may_be_guessed(demand.most_nodes, int(jobs.cpus[row])):
            demand = replace(demand, most_nodes=NO_LIMIT, most_asked=NO_LIMIT)
        if self._charges(demand):
            by_node = 0.0 if demand.cpu_memory_mib else demand.memory_mib
            demand = replace(demand, cpus=1, task_cpus=1, node_cpus=1, memory_mib=by_node, cpu_memory_mib=0.0)
        if not len(self.partitions):
            why = self._room(demand, Within(np.ones(len(self.nodes), dtype=np.bool_), "the cluster"))
            return Never(why) if why else None
        found = []
        for name in demand.partitions:
            one = self._in_partition(demand, name)
            if one is None:
                return None
            found.append(one)
        return found[0] if len(found) == 1 else Never("; ".join(one.why for one in found), found[0].change)

    def _may_be_guessed(self, most_nodes: int, cpus: int) -> bool:
        """Return whether a range's most nodes may be those that so many *cpus* fill.

        Slurm shows these of a job that has no most: by the CPUs of the largest node, or by its cores (22.05).
        """
        cores = self.nodes.cpus // np.maximum(self.nodes.threads, 1)
        largest = {max(1, int(each.max(initial=1))) for each in (self.nodes.cpus, cores)}
        return bool(self._hidden) or most_nodes in {-(-cpus // each) for each in largest}

    def _is_all_memory(self, demand: Demand) -> bool:
        """Return whether what a job asks for may be all memory of its nodes, of which *demand* has the mean."""
        if demand.least_nodes == 1:
            return bool((self.nodes.memory_mib == demand.all_memory_mib).any())
        memory_mib = self.nodes.memory_mib
        return bool(memory_mib.min(initial=np.inf) <= demand.all_memory_mib <= memory_mib.max(initial=0.0))

    @cached_property
    def _selected(self) -> dict[str | Test, BoolArray]:
        """The nodes of each partition, and those with features, as far as somebody asked."""
        return {}

    @cached_property
    def _gpus_of(self) -> dict[str, IntArray]:
        return {}

    def _inside(self, partition: str) -> BoolArray:
        if partition not in self._selected:
            self._selected[partition] = having(self.nodes.partitions, lambda names: partition in names)
        return self._selected[partition]

    def _having(self, test: Test) -> BoolArray:
        if test not in self._selected:
            self._selected[test] = having(self.nodes.features, test.holds)
        return self._selected[test]

    def _gpus(self, kind: str) -> IntArray:
        if kind not in self._gpus_of:
            self._gpus_of[kind] = self.nodes.gpus_of(kind)
        return self._gpus_of[kind]

    def _charges(self, demand: Demand) -> bool:
        """Report whether the CPUs that are shown may be due to memory in one of several partitions (MaxMemPerCPU)."""
        rows = [self._rows[name] for name in demand.partitions if name in self._rows]
        return len(demand.partitions) > 1 and bool((self.partitions.cpu_memory_mib[rows] > 0).any())

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.partitions.name)}

    @cached_property
    def _names(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.nodes.name)}

    @cached_property
    def _hidden(self) -> dict[str, str]:
        return self.partitions.hidden_nodes

    def _in_partition(self, demand: Demand, name: str) -> Never | None:
        """Return why *demand* could never run in one partition; None if it could."""
        row = self._rows.get(name)
        if row is None:
            return Never(f"there is no partition {name}")
        parts = self.partitions
        longest_s = float(parts.max_time_s[row])
        if demand.limit_s > longest_s:
            asked, allowed = timelimit(demand.limit_s), timelimit(longest_s)
            why = f"its time limit of {asked} is longer than the {allowed} that partition {name} allows"
            return Never(why, f"timelimit={allowed}")
        least, most = int(parts.least_nodes[row]), int(parts.most_nodes[row]) or NO_LIMIT
        # Slurm lifts the number of nodes to the least of the partition for a job that asks for a single one (22.05).
        highest = demand.least_nodes if len(demand.partitions) > 1 else demand.most_asked
        for wrong, number, bound, verb in (
            (demand.least_nodes > most, demand.least_nodes, most, "allows"),
            (most < demand.most_asked < NO_LIMIT, demand.most_asked, most, "allows"),
            (highest < least, highest, least, "requires"),
        ):
            if wrong:
                why = f"it asks for {count(number, 'node')}, and partition {name} {verb} {bound}"
                return Never(why, f"numnodes={bound}")
        demand = self._charged(demand, row)
        on_each = max(demand.node_cpus, -(-demand.tasks // demand.most_nodes) * demand.task_cpus)
        most_mib = float(parts.node_memory_mib[row])
        if most_mib and on_each * demand.cpu_memory_mib > most_mib:
            asked = f"{demand.cpu_memory_mib:.0f} MiB of memory for each of {count(on_each, 'CPU')} on a node"
            return Never(f"it asks for {asked}, and partition {name} allows {most_mib:.0f} on one")
        if name in self._hidden:
            return None
        inside = self._inside(name)
        if not inside.any():
            return Never(f"partition {name} has no nodes", "partition=NAME", elsewhere=False)
        room = self._room(demand, Within(inside, f"partition {name}", row, most))
        return Never(room) if room else None

    def _charged(self, demand: Demand, row: int) -> Demand:
        """Return what Slurm makes of memory by CPU above the partition's MaxMemPerCPU: more CPUs, less for each.

        Pending jobs are shown so after slurmctld has looked at them (22.05 and later).
        """
        most_mib = float(self.partitions.cpu_memory_mib[row])
        times = math.ceil(demand.cpu_memory_mib / most_mib) if most_mib else 1
        if times <= 1 or demand.gpu_cpus:
            return demand
        return replace(
            demand,
            cpus=demand.cpus * times,
            task_cpus=demand.task_cpus * times,
            node_cpus=max(demand.node_cpus, demand.task_cpus * times),
            cpu_memory_mib=math.ceil(demand.cpu_memory_mib / times),
        )

    def _room(self, demand: Demand, within: Within) -> str | None:
        """Return why *demand* finds no room there; None if it does."""
        for name in demand.required:
            if name not in self._names or not within.nodes[self._names[name]]:
                return f"{within.where} has no node {name}, which it asks for"
            if name in demand.excluded:
                return f"it asks for node {name} and excludes it"
        excluded = set(demand.excluded)
        left = within.nodes.copy()
        left[[self._names[name] for name in excluded if name in self._names]] = False
        if demand.among:
            left &= np.isin(np.arange(len(left)), [self._names[name] for name in demand.among if name in self._names])
        one = "is one of those that it asks for" if demand.among else "is there"
        steps = [
            (left, "is left beside those that it excludes" if excluded else one),
            *self._steps(demand, left, within.row),
        ]
        within = within._replace(most=min(within.most, demand.most_nodes))
        whys = []
        for choice in self._choices(demand):
            why = self._with_choice(demand, steps, choice, within)
            if why is None:
                return None
            whys.append(why)
        return min(whys)[1]

    def _choices(self, demand: Demand) -> Sequence[Choice]:
        """Return the ways to meet the features of *demand*; any node with one of them where nodes may differ in that.

        All nodes have the same one of the alternatives in brackets, but not those that the job names (seen on 22.05).
        """
        if len(demand.constraint.choices) > 1 and (demand.required or demand.among):
            return (Choice(Test(every=False, parts=tuple(choice.each for choice in demand.constraint.choices))),)
        return demand.constraint.choices

    def _with_choice(
        self, demand: Demand, steps: Sequence[Step], choice: Choice, within: Within
    ) -> tuple[int, str] | None:
        """Return what is missing with one way to meet the features, and how much is not; None if nothing is."""
        each = np.ones(len(self.nodes), dtype=np.bool_)
        if not choice.some:  # beside numbers of nodes with a feature, no other feature binds all nodes (seen on 22.05)
            each = self._having(choice.each)
        several = len(self._choices(demand)) > 1 and bool((each & steps[0][0]).any())
        words = f"has {'the same of ' if several else ''}the features {demand.features}"
        tests = [steps[0], (each, words), *steps[1:]]
        may = np.logical_and.reduce([right for right, _ in tests])
        for test, many in choice.some:
            has = int((may & self._having(test)).sum())
            if has < many:
                nodes = f"{count(many, 'node')} with a feature of {demand.features}"
                return -has, f"it asks for {nodes}, and in {within.where} only {has} could hold it"
        some = [(may & self._having(test), many) for test, many in choice.some]
        why = self._with_tests(demand, tests, within) or self._in_all(demand, may, some, within)
        return (-int(may.sum()), why) if why else None

    def _steps(self, demand: Demand, left: BoolArray, row: int) -> Iterator[tuple[BoolArray, str]]:
        """Yield the nodes that meet one demand after the other, and how such a node is, in words."""
        cpus, memory_mib = self._cpus(demand, row), self._memory_mib(demand, row)
        for kind in demand.gpus:
            on, each = self._gpus(kind), max(1, demand.node_gpus.get(kind, 1))
            most = f" (the most is {int(on[left].max(initial=0))})" if each > 1 else ""
            yield on >= each, f"has {count(each, 'GPU')}{_of(kind)}{most}"
            if demand.gpu_cpus:
                own = count(each * demand.gpu_cpus, "CPU")
                yield cpus >= each * demand.gpu_cpus, f"has {own} for {count(each, 'GPU')}"
                least_mib = each * demand.gpu_cpus * demand.cpu_memory_mib  # each of these CPUs brings its memory
                yield self.nodes.memory_mib >= least_mib, f"has {least_mib:.0f} MiB of memory for {own}"
        if demand.by_gpu:
            memory_mib = self.nodes.memory_mib
        for has, least in ((cpus, demand.task_cpus), (self.nodes.cpus, demand.node_cpus)):
            most = f" (the most is {int(has[left].max(initial=0))})"
            yield has >= least, f"has {count(least, 'CPU')} for a job{most}"
        if demand.memory_mib > 0:
            most = f" (the most is {float(memory_mib[left].max(initial=0.0)):.0f})"
            yield memory_mib >= demand.memory_mib, f"has {demand.memory_mib:.0f} MiB of memory for a job{most}"
        if demand.exclusive and demand.cpu_memory_mib:  # for each CPU of the node
            most_mib = float(self.partitions.node_memory_mib[row]) if len(self.partitions) else 0.0
            enough = np.minimum(self.nodes.memory_mib, most_mib or np.inf) >= self.nodes.cpus * demand.cpu_memory_mib
            yield enough, f"has {demand.cpu_memory_mib:.0f} MiB of memory for each of its CPUs"

    def _with_tests(self, demand: Demand, tests: Sequence[Step], within: Within) -> str | None:
        """Return the test that leaves too few nodes, in words, with those before it that left out some of its nodes."""
        may = within.nodes
        for at, (right, last) in enumerate(tests):
            may = may & right
            many = int(may.sum())
            words = [] if many >= max(1, demand.least_nodes) else _with_others(tests[: at + 1], within.nodes)
            if not many:
                return f"no node of {within.where} {' and '.join(words)}"
            if many < demand.least_nodes:
                only = f"only {many} {' and '.join(words if many == 1 else map(_plural, words))}"
                return f"it asks for {count(demand.least_nodes, 'node')}, and in {within.where} {only}"
            if any(not may[self._names[name]] for name in demand.required):
                return f"not each node that it asks for ({fold(demand.required)}) {last}"
        return None

    def _in_all(
        self, demand: Demand, may: BoolArray, some: Sequence[tuple[BoolArray, int]], within: Within
    ) -> str | None:
        """Return what all the nodes that are left have too little of, together, as many as it may have.

        *some*: nodes of which so many must be among them.
        """

        def together(amounts: IntArray) -> int:
            """Return the most of it that the nodes of one job may have, or more."""
            named = sum(int(_most_first(amounts[these])[:many].sum()) for these, many in some)
            others = max(0, most - sum(many for _, many in some))
            return named + int(_most_first(amounts[may])[:others].sum())

        row, most = within.row, within.most
        nodes = f"the {count(min(most, int(may.sum())), 'node')} that it may use in {within.where}"
        tasks = demand.tasks
        if together(self._tasks(demand, row)) < tasks:
            return f"it asks for {count(demand.cpus, 'CPU')}, more than {nodes} can give it"
        for kind, many in demand.gpus.items():
            on = self._gpus(kind)
            if demand.gpu_cpus:
                on = np.minimum(on, self._tasks(demand, row) // demand.gpu_cpus)
            if together(on) < many:
                each = f" with {count(demand.gpu_cpus, 'CPU')} for each" if demand.gpu_cpus else ""
                return f"it asks for {count(many, 'GPU')}{_of(kind)}{each}, more than {nodes} have"
        return None

    def _tasks(self, demand: Demand, row: int) -> IntArray:
        """Return the number of tasks for which each node has CPUs and memory."""
        may = self._may_have(demand, row)
        if not demand.cpu_memory_mib:
            return may.cpus // demand.task_cpus
        each_mib = demand.cpu_memory_mib * demand.task_cpus
        by_memory = np.minimum(self.nodes.memory_mib / each_mib, NO_LIMIT)
        return np.minimum(may.cpus // int(may.charged_cpus(demand.task_cpus, each_mib)), by_memory.astype(np.int64))

    def _cpus(self, demand: Demand, row: int) -> IntArray:
        """Return the CPUs of each node that one job may have in the partition in *row*."""
        return self._may_have(demand, row).cpus

    def _memory_mib(self, demand: Demand, row: int) -> FloatArray:
        """Return the memory of each node that one job may have there."""
        return self._may_have(demand, row).memory_mib

    def _may_have(self, demand: Demand, row: int) -> MayHave:
        if not len(self.partitions):
            return MayHave(np.ones(len(self.nodes), dtype=np.bool_), self.nodes.cpus, self.nodes.memory_mib)
        return self._allowances.on(self.partitions.name[row], exclusive=demand.exclusive)

    @cached_property
    def _allowances(self) -> Allowances:
        return Allowances(self.nodes, self.partitions)


Step = tuple[BoolArray, str]
"""Nodes, and how they are, in words."""


def _of(kind: str) -> str:
    return f" of {kind}" if kind else ""


def _with_others(tests: Sequence[Step], nodes: BoolArray) -> list[str]:
    """Return the words of the last of *tests*, behind those that left out some of the *nodes* that pass it."""
    right, last = tests[-1]
    return [*(before for others, before in tests[:-1] if (nodes & right & ~others).any()), last]


def _plural(words: str) -> str:
    verb, _, rest = words.partition(" ")
    return f"{'have' if verb == 'has' else 'are'} {rest}"


def _most_first(amounts: IntArray) -> IntArray:
    return np.sort(amounts)[::-1]
