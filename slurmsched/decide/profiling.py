"""The profiling partition: which new jobs are measured there first, in which order, and who moves on (Lucid 3.2).

A job that is to be measured first asks for the profiling partition and for its own one, and starts where there is room
first. So its time limit, and the partition it came for, are still in the job when nobody looks after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum

import numpy as np

from ..cluster.actions import Action, MovePartition, Requeue
from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobState, JobTable
from ..cluster.plan import Standing
from ..cluster.state import View
from ..cluster.text.comment import read
from .ordering.ranking import waited_s
from .rules import ProfilingRules


def home_of(partitions: str, profiling: str) -> str:
    """The comma list *partitions* without the *profiling* one; empty where that is not in it, or alone in it."""
    names = partitions.split(",")
    return ",".join(name for name in names if name != profiling) if profiling in names else ""


def both(jobs: JobTable, rules: ProfilingRules) -> BoolArray:
    """Which pending jobs ask for the profiling partition and for the one they came for."""
    return jobs.partition.map([bool(home_of(names, rules.partition)) for names in jobs.partition.names], np.bool_)


def rank_profiling_last(view: View, rules: ProfilingRules | None) -> View:
    """*view* with the profiling partition below all others, so that a job counts with the tier of its own one."""
    if rules is None:
        return view
    parts = view.partitions
    below = np.array([name == rules.partition for name in parts.name], dtype=np.bool_)
    tier = np.where(below, np.minimum(parts.tier.min(initial=0), 0), parts.tier)
    return replace(view, partitions=replace(parts, tier=tier))


class Home(IntEnum):
    """Why a job is not measured first any more; where several hold, the first is told."""

    STAYS = 0
    NOPROFILE = 1
    RAN = 2
    MEASURED = 3
    LARGE = 4
    UNFIT = 5
    WAITED = 6


_UNFIT = ("PartitionTimeLimit", "PartitionNodeLimit", "PartitionDown", "PartitionInactive")


def why_home(view: View, rules: ProfilingRules) -> IntArray:
    """Why each pending job should leave the profiling partition's queue: a Home; STAYS for all that are not in it."""
    jobs, mine = view.pending, both(view.pending, rules)
    if not mine.any():
        return np.zeros(len(jobs), dtype=np.int64)
    silent = jobs.comment.map([read(text)[0].noprofile for text in jobs.comment.names], np.bool_)
    unfit = jobs.reason.map([reason in _UNFIT for reason in jobs.reason.names], np.bool_)
    late = waited_s(jobs, view.now_s) > rules.wait_s
    holds = [~mine, silent, jobs.restarts > 0, jobs.measured, jobs.gpus > rules.n_max, unfit, late]
    return np.asarray(np.select(holds, list(Home), Home.STAYS), dtype=np.int64)


def to_profile(view: View, rules: ProfilingRules) -> BoolArray:
    """Which pending jobs are to be measured first."""
    new = both(view.pending, rules) & (why_home(view, rules) == Home.STAYS)
    return np.asarray(new, dtype=np.bool_)


def least_gpus_first(ranked: IntArray, new: BoolArray, gpus: IntArray, classes: IntArray) -> IntArray:
    """*ranked* with the *new* jobs of each class in each other's places, the fewest GPUs first (Algorithm 1).

    A job has one place in Slurm for all its partitions: so the profiling partition is served in this order, and all
    other jobs keep their places.
    """
    places = np.flatnonzero(new[ranked])
    rows = ranked[places]
    swapped = ranked.copy()
    swapped[places] = rows[np.lexsort((np.arange(len(rows)), gpus[rows], -classes[rows]))]
    return swapped


def limits_s(jobs: JobTable, rules: ProfilingRules) -> list[float]:
    """How long each of *jobs* is measured: T_prof, and what its owner says it takes to warm up."""
    warming = [float(read(text)[0].coldstart_s or 0) for text in jobs.comment.names]
    return [rules.t_s + warming[code] for code in jobs.comment.codes.tolist()]


def overtime(view: View, rules: ProfilingRules) -> IntArray:
    """The rows of running jobs that have been in the profiling partition for longer than they are measured."""
    jobs = view.running
    here = jobs.partition.map([name == rules.partition for name in jobs.partition.names], np.bool_)
    rows = np.flatnonzero(here & (jobs.state == JobState.RUNNING))
    if not len(rows):
        return rows
    ran_s = view.now_s - jobs.started_s[rows]
    return rows[ran_s >= np.array(limits_s(jobs.take(rows), rules))]


def waiting_gpus(view: View, rules: ProfilingRules, standings: IntArray) -> int:
    """GPUs that new jobs wait for, of those that wait for nothing else."""
    jobs = view.pending
    rows = to_profile(view, rules) & (standings == Standing.RANKED)
    return int((jobs.gpus * jobs.tasks)[rows].sum())


def profiling_wishes(view: View, rules: ProfilingRules, standings: IntArray) -> list[Action]:
    """Who leaves the profiling partition: jobs that need not be measured, and at T_prof those that may be requeued.

    A requeued job asks for both partitions again, and is sent home as one that ran already.
    """
    jobs = view.pending
    ours = ~(jobs.off | jobs.interactive | (jobs.het_job_id > 0) | jobs.shares)
    rows = np.flatnonzero(ours & (why_home(view, rules) != Home.STAYS)).tolist()
    moves: list[Action] = [
        MovePartition(int(jobs.job_id[row]), home_of(jobs.partition[row], rules.partition)) for row in rows
    ]
    return [*moves, *_requeues(view, rules, waiting_gpus(view, rules, standings))]


def _requeues(view: View, rules: ProfilingRules, wanted: int) -> Iterator[Action]:
    """As many jobs past T_prof as free the *wanted* GPUs, those that ran longest first.

    While nobody waits for the place of a job, a requeue would only cost its owner time. One that was requeued before
    had its turn: it is left where it runs.
    """
    jobs, nodes = view.running, view.nodes
    here = nodes.partitions.map([rules.partition in names.split(",") for names in nodes.partitions.names], np.bool_)
    wanted -= int(np.maximum(nodes.gpus - nodes.gpus_used, 0)[here & nodes.usable].sum())
    rows = overtime(view, rules)
    willing = jobs.ckpt & jobs.requeueable & ~jobs.off & ~jobs.interactive & (jobs.restarts == 0) & (jobs.gpus > 0)
    rows = rows[willing[rows]]
    for row in rows[np.lexsort((jobs.job_id[rows], jobs.started_s[rows]))].tolist():
        if wanted <= 0:
            return
        wanted -= int(jobs.gpus[row])
        yield Requeue(int(jobs.job_id[row]))
