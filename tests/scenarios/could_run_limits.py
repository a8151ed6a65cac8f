"""Jobs under limits of QOS, associations and partitions, drawn, and the commands that set these limits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

GROUPS = 16
"""Pairs of nodes, each with a partition, QOS and accounts of its own, for one job at a time."""

NODES = 2 * GROUPS
SHAPE = "CPUs=4 RealMemory=8000 Gres=gpu:2"

QOS = {
    "job": "maxtresperjob=gres/gpu=1",
    "cores": "maxtresperjob=cpu=2",
    "memory": "maxtresperjob=mem=3000",
    "node": "maxtrespernode=cpu=2",
    "nodes": "maxtresperjob=node=1",
    "wall": "maxwall=10",
    "minutes": "maxtresminsperjob=cpu=20",
    "least": "mintresperjob=gres/gpu=2",
    "group": "grptres=gres/gpu=1",
    "user": "maxtresperuser=cpu=2",
    "account": "maxtresperaccount=cpu=2",
    "running": "grptresrunmins=cpu=20",
    "closed": "maxjobsperuser=0",
}
"""Limits of QOS by the beginning of their names, behind which stands the number of the group."""

ACCOUNTS = {"free": "", "small": "grptres=cpu=2", "short": "maxwall=10", "narrow": "maxtresperjob=gres/gpu=1"}
PARTITIONS = {"open": "", "bound": "maxtresperjob=cpu=3"}
"""Partitions by the limit of their own QOS."""

VALUES = {
    "cpus-per-task": "1 2 3 4",
    "nodes": "1 1 2",
    "gres": "gpu:1 gpu:2",
    "time": "5 9 11 30",
    "mem": "500 1500 3001",
}
KINDS = {*QOS, *ACCOUNTS, *PARTITIONS, *VALUES}


@dataclass(frozen=True)
class Limited:
    """A job to submit in a group of its own."""

    partition: str
    account: str
    qos: str
    options: tuple[tuple[str, str], ...]
    held = False

    def argv(self, group: int) -> list[str]:
        """Return the options for sbatch in a group."""
        qos = self.qos if self.qos == "normal" else f"{self.qos}{group}"
        names = [f"--partition={self.partition}{group}", f"--account={self.account}{group}", f"--qos={qos}"]
        return [*names, *(f"--{name}={value}" for name, value in self.options)]

    def kinds(self) -> set[str]:
        """Return what is counted of this job: its partition, account and QOS, and its options."""
        return {self.partition, self.account, self.qos, *(name for name, _ in self.options)} & KINDS


def limited_of(seed: int) -> list[Limited]:
    """Draw a job for each group."""
    chance = random.Random(f"limits {seed}")
    return [_drawn(chance) for _ in range(GROUPS)]


def _drawn(chance: random.Random) -> Limited:
    asked = {name: chance.choice(text.split()) for name, text in VALUES.items() if chance.random() < 0.6}
    return Limited(
        partition=chance.choice([*PARTITIONS, "open", "open"]),
        account=chance.choice([*ACCOUNTS, "free", "free", "free"]),
        qos=chance.choice([*QOS, "normal"]),
        options=tuple(({"time": "5"} | asked).items()),
    )


def lines_of(first: int) -> list[str]:
    """Return the partitions of all groups, in lines of slurm.conf; *first* is the number of their first node."""
    return [
        f"PartitionName={name}{group} Nodes=n[{first + 2 * group}-{first + 2 * group + 1}] DefaultTime=5 State=UP"
        for group in range(GROUPS)
        for name in PARTITIONS
    ]


def commands(cluster: str) -> Iterator[str]:
    """Yield the commands of sacctmgr that set the limits."""

    def names(of: str) -> str:
        return ",".join(f"{of}{group}" for group in range(GROUPS))

    for name, limit in QOS.items():
        yield f"add qos {names(name)} {limit}"
    yield f"add qos ofpartition {PARTITIONS['bound']}"
    for name, limit in ACCOUNTS.items():
        yield f"add account {names(name)} cluster={cluster} {limit}"
    accounts, qos = ",".join(map(names, ACCOUNTS)), ",".join(["normal", *map(names, QOS)])
    yield f"add user root account={accounts} qos={qos}"


def updates() -> Iterator[str]:
    """Yield the commands of scontrol that give partitions their QOS, which must be known to slurmctld."""
    for group in range(GROUPS):
        yield f"update partitionname=bound{group} qos=ofpartition"
