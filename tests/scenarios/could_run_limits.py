"""Jobs under limits of QOS, associations and partitions, drawn, and these limits."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from slurmsched.lab import Lab

PAIR = 2
"""The nodes of a group, which has a partition, QOS and accounts of its own, for one job at a time."""

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
    "budget": "grptresmins=cpu=20",
    "spent": "grptresmins=cpu=0",
    "closed": "maxjobsperuser=0",
    "over": "maxtresperjob=cpu=4,gres/gpu=2 flags=OverPartQOS",
    "wide": "grptres=cpu=4",
    "denying": "maxtresperjob=gres/gpu=1 flags=DenyOnLimit",
}
"""Limits of QOS by the beginning of their names, behind which stands the number of the group."""

ACCOUNTS = {
    "free": "",
    "small": "grptres=cpu=2",
    "short": "maxwall=10",
    "narrow": "maxtresperjob=gres/gpu=1",
    "broke": "grptresmins=gres/gpu=0",
}
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

    def options_text(self, group: int) -> str:
        """Return the same as one writes them."""
        return " ".join(self.argv(group))

    def argv(self, group: int) -> list[str]:
        """Return the options for sbatch in a group."""
        qos = self.qos if self.qos == "normal" else f"{self.qos}{group}"
        names = [f"--partition={self.partition}{group}", f"--account={self.account}{group}", f"--qos={qos}"]
        return [*names, *(f"--{name}={value}" for name, value in self.options)]

    def kinds(self) -> set[str]:
        """Return what is counted of this job: its partition, account and QOS, and its options."""
        return {self.partition, self.account, self.qos, *(name for name, _ in self.options)} & KINDS


def limited_of(seed: int, groups: int) -> list[Limited]:
    """Draw a job for each group."""
    chance = random.Random(f"limits {seed}")
    return [_drawn(chance) for _ in range(groups)]


def _drawn(chance: random.Random) -> Limited:
    asked = {name: chance.choice(text.split()) for name, text in VALUES.items() if chance.random() < 0.6}
    return Limited(
        partition=chance.choice([*PARTITIONS, "open", "open"]),
        account=chance.choice([*ACCOUNTS, "free", "free", "free"]),
        qos=chance.choice([*QOS, "normal"]),
        options=tuple(({"time": "5"} | asked).items()),
    )


def lines_of(first: int, groups: int) -> list[str]:
    """Return the partitions of so many groups, in lines of slurm.conf; *first* is the number of their first node."""
    return [
        f"PartitionName={name}{group} Nodes=n[{first + PAIR * group}-{first + PAIR * group + 1}] DefaultTime=5 State=UP"
        for group in range(groups)
        for name in PARTITIONS
    ]


def set_limits(lab: Lab, groups: int) -> None:
    """Set all limits: all QOS at once, as each command waits for slurmdbd, then accounts, which lock each other out."""
    with ThreadPoolExecutor(4) as beside:
        limits = [("ofpartition", PARTITIONS["bound"]), *((_names(name, groups), limit) for name, limit in QOS.items())]
        list(
            beside.map(
                lambda one: lab.ask(["sacctmgr", "-i", "add", "qos", one[0], *one[1].split()], timeout_s=120.0), limits
            )
        )
    accounts, qos = (
        ",".join(_names(name, groups) for name in ACCOUNTS),
        ",".join(["normal", *(_names(name, groups) for name in QOS)]),
    )
    lines = [f"add account {_names(name, groups)} cluster={lab.cluster} {limit}" for name, limit in ACCOUNTS.items()]
    lines.append(f"add user root account={accounts} qos={qos}")
    lab.ask(["sacctmgr", "-i"], input="\n".join([*lines, "quit"]), timeout_s=120.0)
    lines = [f"update partitionname=bound{group} qos=ofpartition" for group in range(groups)]
    lab.ask(["scontrol"], input="\n".join([*lines, "quit"]))


def _names(of: str, groups: int) -> str:
    return ",".join(f"{of}{group}" for group in range(groups))
