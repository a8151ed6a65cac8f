"""Which limits of QOS, associations and partitions no waiting opens: what we say, and what starts on an idle lab."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_could_run_differential import passes, view_of

from slurmsched.decide.explain.obstacles import cannot_run
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

CELLS = 16
"""Pairs of nodes, each with a partition, QOS and accounts of its own, for one job at a time."""

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
"""Limits of QOS by the beginning of their names, behind which stands the number of the cell."""

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
UNREAD = ("running", "bound")
"""Limits whose amounts we do not read: minutes of running jobs, and those of a partition's QOS beside the job's own."""

KINDS = {*QOS, *ACCOUNTS, *PARTITIONS, *VALUES}


def drawn(seed: int) -> list[tuple[list[str], set[str]]]:
    """Draw a job for each cell: its options, and what was drawn."""
    chance, jobs = random.Random(seed), []
    for cell in range(CELLS):
        partition = chance.choice([*PARTITIONS, "open", "open"])
        qos, account = chance.choice([*QOS, "normal"]), chance.choice([*ACCOUNTS, "free", "free", "free"])
        asked = {name: chance.choice(text.split()) for name, text in VALUES.items() if chance.random() < 0.6}
        names = [f"--partition={partition}{cell}", f"--account={account}{cell}"]
        names.append(f"--qos={qos}" if qos == "normal" else f"--qos={qos}{cell}")
        options = [f"--{name}={value}" for name, value in ({"time": "5"} | asked).items()]
        jobs.append(([*names, *options], {partition, account, qos, *asked} & KINDS))
    return jobs


class Limited:
    """A lab with limits, and how the daemon sees it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.cluster = SlurmCommand(CommandRunner(environment=lab.env(), prefix=tuple(lab.command([]))))
        lab.ask(["sacctmgr", "-i"], input="\n".join([*self._limits(), "quit"]), timeout_s=120.0)
        lines = [f"update partitionname=bound{cell} qos=ofpartition" for cell in range(CELLS)]
        lab.ask(["scontrol"], input="\n".join([*lines, "quit"]))

    def _limits(self) -> Iterator[str]:
        """Yield the commands of sacctmgr that set the limits."""

        def names(of: str) -> str:
            return ",".join(f"{of}{cell}" for cell in range(CELLS))

        for name, limit in QOS.items():
            yield f"add qos {names(name)} {limit}"
        yield f"add qos ofpartition {PARTITIONS['bound']}"
        for name, limit in ACCOUNTS.items():
            yield f"add account {names(name)} cluster={self.lab.cluster} {limit}"
        accounts, qos = ",".join(map(names, ACCOUNTS)), ",".join(["normal", *map(names, QOS)])
        yield f"add user root account={accounts} qos={qos}"

    def judge(self, seed: int) -> Iterator[tuple[str, str, str | None]]:
        """Submit a job in each cell; yield its options, Slurm's reason if it waits for ever, and what we say."""
        submitted = {}
        for options, _ in drawn(seed):
            done = self.lab.run(["sbatch", "--parsable", "-o/dev/null", "--wrap=exec sleep 600", *options])
            if done.returncode == 0:
                submitted[int(done.stdout)] = " ".join(options)
        before = passes(self.lab)
        wait_until(lambda: passes(self.lab)[0] > before[0] + 2, 60.0, "passes of slurmctld", every_s=0.1)
        state = self.cluster.observe()
        said = cannot_run(view_of(state))
        rows = {job: row for row, job in enumerate(state.pending.job_id.tolist())}
        for job, options in submitted.items():
            row = rows.get(job)
            why = None if row is None or row not in said else said[row].why
            yield options, "" if row is None else state.pending.reason[row], why
        self.lab.cancel_all()


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    parts = [
        f"PartitionName={name}{cell} Nodes=n{2 * cell + 1},n{2 * cell + 2} MaxTime=INFINITE State=UP"
        for cell in range(CELLS)
        for name in PARTITIONS
    ]
    conf = (
        "SchedulerParameters=bf_interval=1,bf_continue,sched_interval=1,batch_sched_delay=0",
        "AccountingStorageEnforce=associations,limits,qos",
        "EnforcePartLimits=NO",
        *parts,
    )
    spec = LabSpec(nodes=2 * CELLS, gpus=2, cpus=4, memory_mib=8000, extra_conf=conf)
    with Lab(Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp")), spec) as lab:
        yield Limited(lab)


def search(limited: Limited, batches: int, capsys: pytest.CaptureFixture[str], **more: object) -> Counter[str]:
    counts, ends, unsaid = Counter[str](), Counter[str](), Counter[str]()

    @settings(max_examples=batches, deadline=None, suppress_health_check=list(HealthCheck), phases=ONCE, **more)
    @given(st.integers(0, 2**32))
    def compare(seed: int) -> None:
        wrong = []
        for options, reason, why in limited.judge(seed):
            ends[reason or "starts"] += 1
            if not reason and why:
                wrong.append(f"{options}\n  it starts, and we say: {why}")
            elif reason and not why and (name := next((name for name in UNREAD if f"={name}" in options), None)):
                unsaid[name] += 1
            elif reason and not why:
                wrong.append(f"{options}\n  it waits for ever ({reason}), and we do not say so")
        counts.update(name for _, names in drawn(seed) for name in names)
        assert not wrong, "\n".join([f"seed {seed}", *wrong])

    try:
        compare()
    finally:
        with capsys.disabled():
            for words, counter in (("drawn", counts), ("ends", ends), ("not said", unsaid)):
                told = ", ".join(f"{name} {times}" for name, times in sorted(counter.items()))
                sys.stdout.write(f"\n{words}: {told}\n")
    return counts


ONCE = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.lab
def test_of_limits_we_say_which_jobs_they_keep_from_any_start(limited, capsys):
    search(limited, 2, capsys)


@pytest.mark.lab
@pytest.mark.soak
def test_of_many_limits_we_say_which_jobs_they_keep_from_any_start(limited, capsys):
    assert search(limited, 60, capsys, derandomize=False).keys() == KINDS
