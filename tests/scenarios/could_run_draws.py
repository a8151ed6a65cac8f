"""Jobs that some nodes can hold and others cannot, drawn: their options for sbatch, with what each asks for."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import NamedTuple

import could_run_limits
from could_run_limits import PAIR

from slurmsched.lab import LabSpec

SHAPES = (
    "CPUs=8 RealMemory=16000 Gres=gpu:a100:2,gpu:v100:2 Feature=ib,fast",
    "CPUs=4 RealMemory=8000 Gres=gpu:a100:2 Feature=ib,slow",
    "CPUs=8 RealMemory=16000 Gres=gpu:v100:1 Feature=fast",
    "CPUs=2 RealMemory=4000 Feature=slow",
    "CPUs=4 RealMemory=8000 CoreSpecCount=1 MemSpecLimit=2000 Feature=ib",
)
"""The nodes of a cell, in words of slurm.conf."""

PARTITIONS = {
    "all": ("1234", ""),
    "few": ("234", "MaxNodes=2 MaxTime=30"),
    "many": ("1234", "MinNodes=2"),
    "lean": ("123", "MaxCPUsPerNode=3 MaxMemPerNode=3000"),
    "cores": ("123", "MaxCPUsPerNode=2"),
    "mem": ("123", "MaxMemPerNode=5000"),
    "whole": ("124", "OverSubscribe=EXCLUSIVE"),
    "charged": ("123", "MaxMemPerCPU=1000"),
    "spec": ("45", ""),
    "one": ("3", "MaxNodes=1"),
    "none": ("", ""),
}
"""The partitions of a cell: its nodes, and its limits."""

VALUES = {
    "nodes": "1 1 2 2 3 4 5 1-2 2-3 2-4 3-5 1-4",
    "ntasks": " ".join(map(str, range(1, 25))),
    "cpus-per-task": "1 2 2 3 4 5 8 9",
    "ntasks-per-node": "1 2 3 4 5 9",
    "mincpus": "1 2 4 5 8 9",
    "gres": "gpu:1 gpu:2 gpu:3 gpu:4 gpu:5 gpu:a100:1 gpu:a100:2 gpu:v100:2 gpu:a100:3 gpu:a100:1,gpu:v100:1 "
            "gpu:a100:2,gpu:v100:2 gpu:v100:2,gpu:a100:1",
    "gpus": "1 2 3 4 5 6 7 8 a100:1 a100:3 a100:4 a100:5 v100:2 v100:3 v100:4 a100:2,v100:1",
    "gpus-per-node": "1 2 3 4 5 a100:1 a100:2 v100:1 v100:2 v100:3",
    "gpus-per-task": "1 2 3 a100:1 v100:1",
    "cpus-per-gpu": "1 2 3 4 5",
    "mem": "1 500 2000 3000 3001 4000 4001 5000 5001 6000 6001 8000 8001 12000 16000 16001 0",
    "mem-per-cpu": "1 500 1000 1001 1500 2000 2001 3000 4000 5001 8000 16001",
    "mem-per-gpu": "500 2000 4000 4001 8000 16001",
    "constraint": "ib fast slow ib&fast ib&slow fast&slow ib|slow fast|slow [ib|fast] [fast|slow] [fast*1&slow*1] "
                  "[ib*2&fast*1] ib*2 slow*2 slow*3 fast*3 (ib|slow)&fast (fast&slow)|ib ib,fast ib&[fast|slow] "
                  "fast&slow|ib ib|fast&slow",
    "time": "5 30 31 60 1-0 0 UNLIMITED",
    "nodelist": "@1 @2 @4 @5 @1,@2 @2,@3,@4 @1,@2,@3,@4",
    "exclude": "@1 @2 @3 @1,@2 @1,@2,@3 @1,@2,@3,@4",
    "exclusive": "",
    "overcommit": "",
}  # fmt: skip
"""By option, what it may ask for; ``@2`` is the second node of the job's cell."""

OFTEN = ("constraint", "constraint", "gres", "gpus", "nodes")
"""Options that are drawn more often than others: of many forms."""

ONE_OF = (("mem", "mem-per-cpu", "mem-per-gpu"), ("cpus-per-gpu", "cpus-per-task"))
"""Options that sbatch takes only one of."""

GPU_OPTIONS = ("gpus", "gres", "gpus-per-node", "gpus-per-task")
WITH = {"gpus-per-task": ("ntasks",), "cpus-per-gpu": GPU_OPTIONS, "mem-per-gpu": GPU_OPTIONS}
"""Options that sbatch takes only beside one of some others."""

KINDS = {
    "held first": lambda draft: draft.held,
    "several partitions": lambda draft: len(draft.partitions) > 1,
    "two types": lambda draft: draft.has(r"a100.*v100|v100.*a100", "gres", "gpus"),
    "range of nodes": lambda draft: draft.has("-", "nodes"),
    "alternatives": lambda draft: draft.has(r"^[^[]*[|]", "constraint"),
    "brackets": lambda draft: draft.has(r"\[[^*]*[|]", "constraint"),
    "counts": lambda draft: draft.has(r"[*]", "constraint"),
}
"""Kinds of demands beside partitions and options, and how one sees that a job has it."""


@dataclass(frozen=True)
class Draft:
    """A job to submit in a cell of its own."""

    partitions: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    held: bool  #: submitted with -H, so that sbatch compares it with no nodes

    def argv(self, cell: int) -> list[str]:
        """Return the options for sbatch in a cell."""
        names = ",".join(f"{name}{cell}" for name in self.partitions)
        return [f"--partition={names}", *(_option(name, value, cell) for name, value in self.options)]

    def has(self, pattern: str, *names: str) -> bool:
        """Return True if one of the options *names* has a value with such a text."""
        return any(name in names and re.search(pattern, value) for name, value in self.options)

    def kinds(self) -> set[str]:
        """Return what is counted of this job: its partitions, its options, and kinds of demands."""
        kinds = {kind for kind, has in KINDS.items() if has(self)}
        return kinds | {f"-p {name}" for name in self.partitions} | {name for name, _ in self.options}


ALL_KINDS = {*KINDS, *VALUES, *(f"-p {name}" for name in PARTITIONS)}


def _option(name: str, value: str, cell: int) -> str:
    for number in range(1, len(SHAPES) + 1):
        value = value.replace(f"@{number}", f"n{cell * len(SHAPES) + number}")
    return f"--{name}={value}" if value else f"--{name}"


def lines_of(cells: int) -> list[str]:
    """Return the partitions of so many cells, in lines of slurm.conf."""
    lines = []
    for cell in range(cells):
        for name, (where, limits) in PARTITIONS.items():
            nodes = ",".join(f"n{cell * len(SHAPES) + int(number)}" for number in where)
            inside = f"Nodes={nodes}" if nodes else ""
            lines.append(f"PartitionName={name}{cell} {inside} DefaultTime=5 State=UP {limits}".strip())
    return lines


def batch_of(seed: int, many: int) -> list[Draft]:
    """Draw *many* jobs."""
    chance = random.Random(seed)
    return [_draft(chance) for _ in range(many)]


def _draft(chance: random.Random) -> Draft:
    """Draw a job: one to three partitions, and one to four options."""
    partitions = chance.sample(list(PARTITIONS), chance.choice((1, 1, 1, 2, 2, 3)))
    names = dict.fromkeys(chance.choices([*VALUES, *OFTEN], k=chance.randint(1, 4)))
    for group in ONE_OF:
        for name in [name for name in names if name in group][1:]:
            del names[name]
    for name in [name for name in names if name in WITH and not names.keys() & {*WITH[name]}]:
        names[WITH[name][0]] = None
    options = tuple((name, chance.choice(VALUES[name].split() or [""])) for name in names)
    return Draft(tuple(partitions), options, chance.random() < 0.5)


class Size(NamedTuple):
    """How many jobs are compared at a time."""

    cells: int  #: groups of nodes with partitions of their own, each as good as an idle cluster
    groups: int  #: the same with limits

    @property
    def nodes(self) -> str:
        return f"n[1-{self.cells * len(SHAPES)}]"

    @property
    def last(self) -> int:
        """A node that stays drained, for one job that waits for it: slurmctld counts no pass without a job to see."""
        return self.cells * len(SHAPES) + 1

    @property
    def every(self) -> str:
        """All other nodes."""
        return f"n[1-{self.last - 1},{self.last + 1}-{self.last + PAIR * self.groups}]"

    @property
    def spec(self) -> LabSpec:
        limited = PAIR * self.groups
        return LabSpec(
            nodes=self.last + limited,
            shapes=(*SHAPES * self.cells, "CPUs=1 RealMemory=4000", *(could_run_limits.SHAPE,) * limited),
            users={},
            operators=(),
            extra_conf=(
                "SchedulerParameters=bf_interval=1,bf_continue,sched_interval=1,batch_sched_delay=0",
                "EnforcePartLimits=NO",
                "AccountingStorageEnforce=associations,limits,qos",
                *lines_of(self.cells),
                *could_run_limits.lines_of(self.last + 1, self.groups),
                f"PartitionName=last Nodes=n{self.last} State=UP",
            ),
        )


SMALL, LARGE = Size(20, 8), Size(48, 16)
SEED = 4360
"""It draws jobs of all kinds for the cells of a small one; ten of them wait for ever, of which we have to say so."""
