"""No job starts on idle nodes of which we say that it cannot run, and we say so of each that waits there for ever."""

from __future__ import annotations

import math
import os
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import could_run_limits
import numpy as np
import pytest
from could_run_draws import ALL_KINDS, GPU_OPTIONS, LARGE, SEED, SMALL, Draft, Size, batch_of
from could_run_limits import Limited, limited_of
from hypothesis import strategies as st
from lab_search import passes, search

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.permissions import Permissions
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import ClusterState, View
from slurmsched.daemon.predictions.hypothetical_job import new_job
from slurmsched.errors import ConfigError, LabError, SlurmError
from slurmsched.explain.obstacles import cannot_run
from slurmsched.explain.unexplained_waits import SETTLED_S, unexplained
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab
from slurmsched.lab.programs import slurm_release
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.selection.could_hold import never
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.port import ClusterInfo

READINGS = (frozenset[str](), frozenset({"excluded_nodes", "node_request", "node_range"}))
"""The columns that an observation has only where somebody needs them: none, and all."""


SOON_S = 60.0

NO_RUNS = table_of(OutcomeTable, 0, {}, {})


class Eta(NamedTuple):
    """What we say of a new job: when it starts, whether sbatch refuses it, and whether we know all of it."""

    waits_s: float = math.nan  #: NaN where we have no time
    refused: str = ""
    doubted: bool = False


NO_TIME = Eta()


@dataclass
class Judged:
    """What became of a job on idle nodes, and what was said of it before and after."""

    draft: Draft | Limited
    job: int
    refused: str = ""  #: what sbatch said to the job, unless it took it at once
    reason: str = ""  #: of a job that waits on idle nodes
    planned: bool = False  #: in one of the readings Slurm has a time for its start, or keeps nodes for another job
    started: bool = False
    before: list[str] = field(default_factory=list)  #: by which it could never run, while its nodes were drained
    after: list[str] = field(default_factory=list)  #: while they were idle
    doubted: list[bool] = field(default_factory=list)  #: that it could run, some time later
    eta: Eta = NO_TIME  #: what we said of it on idle nodes before it came
    foretold: str | None = ""  #: of one with limits, before: why it can never start; None where a doubt was said


@dataclass
class Bench:
    """A lab, and the ways to see it."""

    lab: Lab
    clusters: list[SlurmCommand]
    size: Size
    jobs: list[int] = field(default_factory=list)  #: of the last batch
    untold: list[Limited] = field(default_factory=list)  #: of the last batch, refused by Slurm and not by us

    @classmethod
    def start(cls, size: Size) -> Bench:
        lab = Lab(Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp")), size.spec)
        lab.up()
        return cls.of(lab, size)

    def start_again(self) -> None:
        """Begin with a lab of its own; slurmctld would read the jobs again over which it hung."""
        self.lab.down()
        other = Bench.start(self.size)
        self.lab, self.clusters, self.jobs = other.lab, other.clusters, []

    @classmethod
    def of(cls, lab: Lab, size: Size) -> Bench:
        def cluster(columns: frozenset[str]) -> SlurmCommand:
            runner = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([])))
            return SlurmCommand(runner, apart=lambda: columns)

        could_run_limits.set_limits(lab, size.groups)
        lab.ask(["scontrol", "update", f"nodename=n{size.last}", "state=drain", "reason=stays"])
        lab.submit("--partition=last", "-o/dev/null", "--wrap=true")
        return cls(lab, [cluster(columns) for columns in READINGS], size)

    def judge(self, batch: Sequence[Draft], limited: Sequence[Limited] = ()) -> list[Judged]:
        """Let Slurm have the jobs of a batch, each on nodes of its own; return what came of those that it took."""
        self._end()
        idle, facts = view_of(self.clusters[0].observe()), self.clusters[0].known_facts()
        told = [eta_of(idle, facts, shlex.join(draft.argv(cell))) for cell, draft in enumerate(batch)]
        self.lab.ask(["scontrol", "update", f"nodename={self.size.nodes}", "state=drain", "reason=not yet"])
        jobs = self._submitted(batch)
        for one in jobs.values():
            one.eta = next(eta for draft, eta in zip(batch, told, strict=True) if draft is one.draft)
        self._looked()
        for state in self._seen():
            said = never(state.pending, state.nodes, state.partitions)
            for row, job in ours(state, jobs):
                jobs[job].before.append(said[row].why if row in said else "")
        self.lab.ask(["scontrol", "update", f"nodename={self.size.nodes}", "state=resume"])
        if held := [job for job, one in jobs.items() if one.draft.held or one.refused]:
            self.lab.run(["scontrol", "release", *map(str, held)])  # of some it says why they cannot start
        foretold = self._foretold(limited)
        taken = self._submitted(limited)
        for one in taken.values():
            one.foretold = foretold[limited.index(one.draft)]
        with_job = [one.draft for one in taken.values()]
        self.untold = [one for one, why in zip(limited, foretold, strict=True) if not why and one not in with_job]
        jobs |= taken
        self._looked(2)
        for state in self._seen():
            view = view_of(state)
            said, doubted = cannot_run(view), unexplained(replace(view, now_s=view.now_s + SETTLED_S))
            for row, job in ours(state, jobs):
                jobs[job].reason = state.pending.reason[row]
                jobs[job].planned |= math.isfinite(state.pending.started_s[row]) or jobs[job].reason.startswith(
                    RESERVED
                )
                jobs[job].after.append(said[row].why if row in said else "")
                jobs[job].doubted.append(row in doubted)
        for one in jobs.values():
            one.started = not one.reason
        self.jobs = list(jobs)
        return list(jobs.values())

    def _foretold(self, limited: Sequence[Limited]) -> list[str | None]:
        """Return what we say of jobs with limits before they are submitted."""
        cluster = self.clusters[0]
        view, permissions = view_of(cluster.observe()), cluster.known_facts().permissions
        return [foretold(view, permissions, one.options_text(group)) for group, one in enumerate(limited)]

    def _submitted(self, drafts: Sequence[Draft | Limited]) -> dict[int, Judged]:
        with ThreadPoolExecutor(4) as beside:
            return {one.job: one for one in beside.map(self._submit, drafts, range(len(drafts))) if one.job}

    def _submit(self, draft: Draft | Limited, cell: int) -> Judged:
        words = ""
        for hold in [["-H"]] if draft.held else [[], ["-H"]]:
            argv = ["sbatch", "--parsable", "-o/dev/null", "--wrap=exec sleep 600", *hold, *draft.argv(cell)]
            done = self.lab.run(argv)
            if done.returncode == 0:
                return Judged(draft, int(done.stdout), words)
            words = done.stderr
        return Judged(draft, 0, words)

    def _seen(self) -> list[ClusterState]:
        """Return the cluster in all readings."""
        with ThreadPoolExecutor(len(self.clusters)) as beside:
            return list(beside.map(SlurmCommand.observe, self.clusters))

    def _looked(self, times: int = 1) -> None:
        """Wait until slurmctld has gone through the queue in both of its loops."""
        first = passes(self.lab)
        wait_until(
            lambda: all(now > then + times for then, now in zip(first, passes(self.lab), strict=True)),
            300.0,
            "passes of slurmctld",
            every_s=0.1,
        )

    def _end(self) -> None:
        """End the jobs of the last batch, and wait until their nodes are idle."""
        if not self.jobs:
            return
        for kill in (["--state=PENDING"], ["--full", "--signal=KILL"]):
            self.lab.run(["scancel", "--quiet", *kill, *map(str, self.jobs)])
        states = ["sinfo", "-h", "-n", self.size.every, "-N", "-o", "%T"]
        wait_until(lambda: set(self.lab.ask(states).split()) == {"idle"}, 300.0, "idle nodes", every_s=0.1)


def foretold(view: View, permissions: Permissions, options: str) -> str | None:
    """Return why a new job could never start; empty if it could, None where we say that we do not know."""
    try:
        new = new_job(view, permissions, options, "root")
    except ConfigError as error:
        return str(error)
    alone = replace(view, pending=new.job, forecast=RuntimeModel.fit(NO_RUNS).forecast(new.job, view.now_s))
    never_starts = cannot_run(alone)
    return never_starts[0].why if never_starts else None if new.not_understood else ""


def eta_of(view: View, facts: ClusterInfo, options: str) -> Eta:
    """Return what we say of a new job that comes to nodes on which nothing runs."""
    try:
        new = new_job(view, facts.permissions, options, "root")
    except ConfigError as error:
        return Eta(refused=str(error))
    alone = replace(view, pending=new.job, forecast=RuntimeModel.fit(NO_RUNS).forecast(new.job, view.now_s))
    nobody = np.full(1, -1)
    table = predict_completion(alone, nobody, np.full(1, int(Standing.OUTSIDE)), facts.config)
    return Eta(float(table.start_s[0] - view.now_s), doubted=bool(new.not_understood))


def ours(state: ClusterState, jobs: Collection[int]) -> list[tuple[int, int]]:
    """Return the pending rows of *jobs*, with their ids."""
    return [(row, job) for row, job in enumerate(state.pending.job_id.tolist()) if job in jobs]


def view_of(state: ClusterState) -> View:
    model, now_s = RuntimeModel.fit(NO_RUNS), time.time()
    forecasts = (model.forecast(state.pending, now_s), model.forecast(state.running, now_s))
    return View(
        now_s, state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts, limits=state.limits
    )


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    yield from started(SMALL)


@pytest.fixture(scope="module")
def large_bench() -> Iterator[Bench]:
    yield from started(LARGE)


def started(size: Size) -> Iterator[Bench]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    bench = Bench.start(size)
    try:
        yield bench
    finally:
        bench.lab.down()


BESIDE = {
    "brackets beside named nodes": lambda draft: draft.has(r"\[[^*]*[|]", "constraint") and draft.has(".", "nodelist"),
}
"""Demands of which Slurm starts some jobs and not others, by no rule that is known."""

UNSAID = BESIDE | {
    "numbers of nodes": lambda draft: draft.has(".", "nodes"),
    "CPUs by GPU of spread ones": lambda draft: (
        draft.has(".", "cpus-per-gpu") and draft.has(".", "gpus", "gpus-per-task")
    ),
    "memory by CPU for CPUs by GPU": lambda draft: draft.has(".", "cpus-per-gpu") and draft.has(".", "mem-per-cpu"),
    "GPUs by task": lambda draft: draft.has(".", "gpus-per-task"),
    "several named nodes": lambda draft: draft.has(",", "nodelist"),
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

Of a job in one partition Slurm's own reason says so; of one in several it is that of one of them. squeue has the most
nodes only where they may be resized, and MinCPUsNode alike for CPUs that a node must have, which no limit of a
partition binds, and for tasks on it. That Slurm shows whole nodes may be due to one partition, and so may be the CPUs
that it adds for memory (MaxMemPerCPU). Of a job with one CPU on one node, squeue does not tell memory by CPU from
memory by node, and the CPUs that come with its GPUs have more of the former only. From 24.11 on a job has fewer of the
nodes that it names where it needs fewer, and fewer tasks than it asks for where options about tasks or GPUs contradict
each other.
"""

ALONE = BESIDE | {
    "memory by CPU that nodes must have": lambda draft: draft.has(".", "mincpus") and draft.has(".", "mem-per-cpu")
}
"""The same in one partition, where Slurm gives the reason Resources on 22.05."""

NEWER = UNSAID | {
    "GPUs of so many tasks": lambda draft: draft.has(".", "gpus") and draft.has(".", "ntasks"),
    "CPUs by GPU of two types": lambda draft: draft.has(".", "cpus-per-gpu") and draft.has(",", "gres"),
    "CPUs by GPU of so many tasks": lambda draft: draft.has(".", "cpus-per-gpu") and draft.has(".", "ntasks"),
}
"""From 24.11 on Slurm gives that reason for more jobs, in one partition too, and not that no nodes meet them."""

UNTIMED = ("GPUs by several options", "CPUs or tasks of a node")
"""Demands of which Slurm takes one and starts the job by another, held first or on 22.05, so that eta has no time."""

RESERVED = ("ReqNodeNotAvail, May be reserved", "Nodes required for job are DOWN")
"""Slurm's words for nodes that are kept for another job: a reason to wait of which we know no more."""

READ_APART = "what is read where somebody needs it"


def tolerated(one: Judged, reading: int, newer: bool) -> str | None:
    """Return why it need not be said of a job that it never starts; None if it must."""
    if isinstance(one.draft, Limited):
        return None
    if any(one.after[reading + 1 :]):
        return READ_APART
    kinds = NEWER if newer else UNSAID if len(one.draft.partitions) > 1 else ALONE
    return next((words for words, has in kinds.items() if has(one.draft)), None)


def wrong(one: Judged, unsaid: Counter[str], newer: bool) -> Iterator[str]:
    """Yield what is wrong with what we said of a job; count in *unsaid* what we did not say and need not."""
    if isinstance(one.draft, Limited) and one.foretold is not None and one.started == bool(one.foretold):
        yield f"before it came we said {one.foretold or 'that it can start'}, and Slurm: {one.reason or 'it starts'}"
    if one.started:
        yield from (f"it starts, and we say: {why}" for why in dict.fromkeys((*one.before, *one.after)) if why)
        return
    for reading, why in enumerate(one.after):
        if why:
            continue
        columns, words = sorted(READINGS[reading]), tolerated(one, reading, newer)
        if words is None:
            yield f"it waits for ever ({one.reason}), and we do not say so with columns {columns}"
        elif one.doubted[reading] or one.planned or isinstance(one.draft, Limited):
            unsaid[words] += 1
        else:
            yield f"it waits for ever ({one.reason}), and we do not say that it may with columns {columns}"


def wrong_time(one: Judged, untimed: Counter[str], newer: bool) -> Iterator[str]:
    """Yield where eta had no time for a job that starts, or one for a job that never does."""
    at_once = one.eta.waits_s <= SOON_S
    if isinstance(one.draft, Limited) or at_once == one.started or one.eta.doubted:
        return
    odd = next((kind for kind in UNTIMED if UNSAID[kind](one.draft)), None) if one.started else None
    several = "several partitions" if len(one.draft.partitions) > 1 else None
    words = several or odd or tolerated(one, len(READINGS), newer)
    what = f"{one.eta.refused or one.eta.waits_s}, and Slurm: {one.reason or 'it starts'}"
    if words:
        untimed[words] += 1
    else:
        yield f"eta says {what}"


ALTERNATIVES = [
    Draft(("all",), (("gres", "gpu:4"), ("constraint", text)), held=False)
    for text in ("ib&fast", "ib|fast", "[ib|fast]", "(ib|fast)&ib")
]
"""Jobs that start on the first node of their cells."""


def compare(
    bench: Bench,
    seeds: st.SearchStrategy[int],
    batches: int,
    capsys: pytest.CaptureFixture[str],
    *,
    fixed: Sequence[Draft] = (),
    soak: bool = False,
) -> Counter[str]:
    """Draw *batches* of jobs beside *fixed* ones, and let Slurm judge; return how often each kind was drawn."""
    counts, ends, unsaid, untimed, hung = Counter[str](), Counter[str](), Counter[str](), Counter[str](), list[str]()

    def faults(seed: int) -> Iterator[str]:
        batch, limited = [*fixed, *batch_of(seed, bench.size.cells - len(fixed))], limited_of(seed, bench.size.groups)
        try:
            judged = bench.judge(batch, limited)
        except (LabError, SlurmError) as error:
            if not soak:
                raise
            hung.append(f"seed {seed}: {error}")
            bench.start_again()
            return
        for draft in (*batch, *limited):
            counts.update(draft.kinds())
        ends.update("starts" if one.started else one.reason.partition(",")[0] for one in judged)
        ends["refused in any case"] += len(batch) + len(limited) - len(judged)
        yield from (f"seed {seed}: {one}\n  Slurm refuses it, and we take it" for one in bench.untold)
        for one in judged:
            words = (*wrong(one, unsaid, newer), *wrong_time(one, untimed, newer))
            yield from (f"seed {seed}: {one.draft}\n  {found}" for found in words)
            if one.draft in ALTERNATIVES and (one.refused or not one.started):
                yield f"{one.draft}\n  it does not start: {one.refused or one.reason}"

    newer = slurm_release(None) >= (24, 11)
    told = {"drawn": counts, "ends": ends, "not said": unsaid, "times wrong": untimed}
    search(seeds, batches, faults, told, capsys, derandomize=not soak)
    waits = ends.total() - ends["starts"] - ends["refused in any case"]
    # Some drawn jobs keep a thread of slurmctld 22.05.8 in an endless loop (gres_select_filter_select_and_set).
    assert len(hung) <= batches / 10, hung
    assert not soak or unsaid.total() <= waits * len(READINGS) / 10, "of nine in ten jobs that wait for ever we say so"
    return counts


@pytest.mark.lab
def test_what_we_say_of_drawn_jobs_is_what_becomes_of_them_on_idle_nodes(bench, capsys):
    counts = compare(bench, st.just(SEED), 1, capsys, fixed=ALTERNATIVES)
    assert counts.keys() >= ALL_KINDS


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.draws
def test_what_we_say_of_many_drawn_jobs_is_what_becomes_of_them_on_idle_nodes(large_bench, capsys):
    counts = compare(large_bench, st.integers(0, 2**32), -(-5000 // sum(LARGE)), capsys, soak=True)
    assert counts.keys() == ALL_KINDS | could_run_limits.KINDS
