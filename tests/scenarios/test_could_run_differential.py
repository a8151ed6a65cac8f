"""No job starts on idle nodes of which we say that it cannot run, and we say so of each that waits there for ever."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from could_run_draws import ALL_KINDS, GPU_OPTIONS, SHAPES, Draft, batch_of, lines_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import ClusterState, View
from slurmsched.decide.explain.obstacles import cannot_run
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.selection.could_hold import never
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

CELLS = 48
"""Groups of nodes with partitions of their own, each for one job at a time: as good as so many idle clusters."""

NODES = f"n[1-{CELLS * len(SHAPES)}]"
LAST = f"n{CELLS * len(SHAPES) + 1}"
"""A node that stays drained, for one job that waits for it: slurmctld counts no pass without a job to look at."""

READINGS = (frozenset[str](), frozenset({"excluded_nodes", "node_request", "node_range"}))
"""The columns that an observation has only where somebody needs them: none, and all."""

CONF = ("SchedulerParameters=bf_interval=1,bf_continue,sched_interval=1,batch_sched_delay=0", "EnforcePartLimits=NO")


SPEC = LabSpec(
    nodes=len(SHAPES) * CELLS + 1,
    shapes=(*SHAPES * CELLS, "CPUs=1 RealMemory=4000"),
    accounting=False,
    extra_conf=(*CONF, *lines_of(CELLS), f"PartitionName=last Nodes={LAST} State=UP"),
)


@dataclass
class Judged:
    """What became of a job on idle nodes, and what was said of it before and after."""

    draft: Draft
    job: int
    refused: str = ""  #: what sbatch said to the job, unless it took it at once
    reason: str = ""  #: of a job that waits on idle nodes
    started: bool = False
    before: list[str] = field(default_factory=list)  #: by which it could never run, while its nodes were drained
    after: list[str] = field(default_factory=list)  #: while they were idle


@dataclass
class Bench:
    """A lab, and the ways to see it."""

    lab: Lab
    clusters: list[SlurmCommand]

    @classmethod
    def of(cls, lab: Lab) -> Bench:
        def cluster(columns: frozenset[str]) -> SlurmCommand:
            runner = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([])))
            return SlurmCommand(runner, apart=lambda: columns)

        lab.ask(["scontrol", "update", f"nodename={LAST}", "state=drain", "reason=stays"])
        lab.submit("--partition=last", "-o/dev/null", "--wrap=true")
        return cls(lab, [cluster(columns) for columns in READINGS])

    def judge(self, batch: list[Draft]) -> list[Judged]:
        """Let Slurm have the jobs of *batch*, each on nodes of its own; return what came of those that it took."""
        self.lab.ask(["scontrol", "update", f"nodename={NODES}", "state=drain", "reason=not yet"])
        jobs = {one.job: one for cell, draft in enumerate(batch) if (one := self._submitted(draft, cell)).job}
        self._looked()
        for cluster in self.clusters:
            state = cluster.observe()
            said = never(state.pending, state.nodes, state.partitions)
            for row, job in ours(state, jobs):
                jobs[job].before.append(said[row].why if row in said else "")
        self.lab.ask(["scontrol", "update", f"nodename={NODES}", "state=resume"])
        if held := [job for job, one in jobs.items() if one.draft.held or one.refused]:
            self.lab.run(["scontrol", "release", *map(str, held)])  # of some it says why they cannot start
        self._looked(2)
        for cluster in self.clusters:
            state = cluster.observe()
            said = cannot_run(view_of(state))
            for row, job in ours(state, jobs):
                jobs[job].reason = state.pending.reason[row]
                jobs[job].after.append(said[row].why if row in said else "")
        for one in jobs.values():
            one.started = not one.reason
        self._ended(list(jobs))
        return list(jobs.values())

    def _submitted(self, draft: Draft, cell: int) -> Judged:
        words = ""
        for hold in [["-H"]] if draft.held else [[], ["-H"]]:
            argv = ["sbatch", "--parsable", "-o/dev/null", "--wrap=exec sleep 600", *hold, *draft.argv(cell)]
            done = self.lab.run(argv)
            if done.returncode == 0:
                return Judged(draft, int(done.stdout), words)
            words = done.stderr
        return Judged(draft, 0, words)

    def _looked(self, times: int = 1) -> None:
        """Wait until slurmctld has gone through the queue in both of its loops."""
        first = passes(self.lab)
        wait_until(
            lambda: all(now > then + times for then, now in zip(first, passes(self.lab), strict=True)),
            60.0,
            "passes of slurmctld",
            every_s=0.1,
        )

    def _ended(self, jobs: list[int]) -> None:
        """End the *jobs*, and wait until their nodes are idle."""
        for kill in (["--state=PENDING"], ["--full", "--signal=KILL"]):
            self.lab.run(["scancel", "--quiet", *kill, *map(str, jobs)])
        states = ["sinfo", "-h", "-n", NODES, "-N", "-o", "%T"]
        wait_until(lambda: set(self.lab.ask(states).split()) == {"idle"}, 60.0, "idle nodes", every_s=0.1)


def passes(lab: Lab) -> list[int]:
    """Return how often slurmctld has gone through its queue: in the loop after each event, and in that of backfill."""
    return [int(number) for number in re.findall(r"Total cycles:\s*(\d+)", lab.ask(["sdiag"]))]


def ours(state: ClusterState, jobs: Collection[int]) -> list[tuple[int, int]]:
    """Return the pending rows of *jobs*, with their ids."""
    return [(row, job) for row, job in enumerate(state.pending.job_id.tolist()) if job in jobs]


def view_of(state: ClusterState) -> View:
    model, now_s = RuntimeModel.fit(table_of(OutcomeTable, 0, {}, {})), time.time()
    forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
    return View(
        now_s, state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts, limits=state.limits
    )


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Lab(Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp")), SPEC) as lab:
        yield Bench.of(lab)


UNSAID = {
    "the most nodes": lambda draft: draft.has(".", "nodes", "ntasks"),
    "CPUs by GPU": lambda draft: draft.has(".", "cpus-per-gpu"),
    "memory by GPU": lambda draft: draft.has(".", "mem-per-gpu"),
    "GPUs by several options": lambda draft: sum(draft.has(".", name) for name in GPU_OPTIONS) > 1,
    "CPUs or tasks of a node": lambda draft: draft.has(".", "mincpus", "ntasks-per-node"),
    "whole nodes": lambda draft: draft.has("", "exclusive") or "whole" in draft.partitions,
    "CPUs of tasks that share them": lambda draft: draft.has("", "overcommit"),
    "all memory of a node": lambda draft: draft.has("^0$", "mem"),
    "CPUs for memory": lambda draft: "charged" in draft.partitions,
    "numbers of nodes with a feature": lambda draft: draft.has("[*]", "constraint"),
}
"""Demands of which no column has as much as would tell that a job in several partitions can run in none of them.

Of a job in one partition Slurm's own reason says so; of one in several it is that of one of them. squeue has no number
of CPUs by GPU, the most nodes only where they may be resized, and MinCPUsNode alike for CPUs that a node must have,
which no limit of a partition binds, and for tasks on it. That Slurm shows whole nodes may be due to one partition,
and so may be the CPUs that it adds for memory (MaxMemPerCPU).
"""

UNREAD = {
    "excluded nodes": lambda draft: draft.has(".", "exclude"),
    "memory by node, by CPU or all of it": lambda draft: True,
}
"""The same of demands that are only read where somebody needs them (``READINGS``)."""


def tolerated(draft: Draft, reading: int) -> str | None:
    """Return why a job that never starts need not be said to be one, in the words of the lists; None if it must."""
    if len(draft.partitions) < 2:
        return None
    kinds = UNSAID if reading else UNSAID | UNREAD
    return next((words for words, has in kinds.items() if has(draft)), None)


def wrong(one: Judged, unsaid: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with what we said of a job; count in *unsaid* what we did not say and need not."""
    if one.started:
        yield from (f"it starts, and we say: {why}" for why in dict.fromkeys((*one.before, *one.after)) if why)
        return
    for reading, why in enumerate(one.after):
        words = tolerated(one.draft, reading)
        if not why and words is None:
            yield f"it waits for ever ({one.reason}), and we do not say so with columns {sorted(READINGS[reading])}"
        elif not why:
            unsaid[words or ""] += 1


def search(bench: Bench, batches: int, capsys: pytest.CaptureFixture[str], **more: object) -> Counter[str]:
    """Draw *batches* of jobs and let Slurm judge; print how often each kind was drawn, and what came of the jobs."""
    counts: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    unsaid: Counter[str] = Counter()

    @settings(max_examples=batches, deadline=None, suppress_health_check=list(HealthCheck), phases=ONCE, **more)
    @given(st.integers(0, 2**32))
    def compare(seed: int) -> None:
        batch = batch_of(seed, CELLS)
        judged = bench.judge(batch)
        for draft in batch:
            counts.update(draft.kinds())
        ends.update("starts" if one.started else one.reason.partition(",")[0] for one in judged)
        ends["refused in any case"] += len(batch) - len(judged)
        found = [f"{one.draft}\n  {words}" for one in judged for words in wrong(one, unsaid)]
        assert not found, "\n".join([f"seed {seed}", *found])

    try:
        compare()
    finally:
        with capsys.disabled():
            for words, counter in (("drawn", counts), ("ends", ends), ("not said", unsaid)):
                told = ", ".join(f"{name} {times}" for name, times in sorted(counter.items()))
                sys.stdout.write(f"\n{words}: {told}\n")
    return counts


ONCE = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without the search for a smaller example, which would ask the lab for minutes: each job stands for itself."""


@pytest.mark.lab
def test_waiting_jobs_with_alternatives_in_their_features_are_not_said_to_be_impossible(bench):
    features = ("ib&fast", "ib|fast", "[ib|fast]", "(ib|fast)&ib")
    batch = [Draft(("all",), (("gres", "gpu:4"), ("constraint", text)), held=False) for text in features]
    judged = bench.judge(batch)
    assert [(one.started, one.refused, one.before) for one in judged] == [(True, "", ["", ""])] * len(features)


@pytest.mark.lab
def test_what_we_say_of_drawn_jobs_is_what_becomes_of_them_on_idle_nodes(bench, capsys):
    counts = search(bench, 1, capsys)
    assert counts.keys() == ALL_KINDS


@pytest.mark.lab
@pytest.mark.soak
def test_what_we_say_of_many_drawn_jobs_is_what_becomes_of_them_on_idle_nodes(bench, capsys):
    counts = search(bench, 5000 // CELLS, capsys, derandomize=False)
    assert counts.keys() == ALL_KINDS
