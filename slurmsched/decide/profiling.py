"""The profiling partition: select jobs to measure there, order them, and move the others on (Lucid section 3.2).

A job to be measured requests the profiling partition and its own one, and starts where GPUs are free first. So the job
still has its time limit and its own partition if slurmsched stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np

from ..cluster.actions import Action, MovePartition, Requeue
from ..cluster.columns import BoolArray, IntArray, Labels
from ..cluster.jobs import JobState, JobTable
from ..cluster.nodes import NodeTable
from ..cluster.plan import Standing
from ..cluster.reasons import reason_of
from ..cluster.state import View
from ..cluster.text.hostlist import expanded
from ..policies.contract import PROFILINGS
from .not_repeated import MOVE, not_repeated
from .ordering.ranking import waited_s
from .rules import ProfilingRules


def home_of(partitions: str, profiling: str) -> str:
    """Return the comma list *partitions* without the *profiling* one; empty if that is not in it, or alone in it."""
    names = partitions.split(",")
    return ",".join(name for name in names if name != profiling) if profiling in names else ""


def both(jobs: JobTable, rules: ProfilingRules) -> BoolArray:
    """Select pending jobs that request the profiling partition and another one."""
    return jobs.partition.map([bool(home_of(names, rules.partition)) for names in jobs.partition.names], np.bool_)


def rank_profiling_last(view: View, rules: ProfilingRules | None) -> View:
    """Return *view* with the lowest tier for the profiling partition, so that a job has the tier of its own one."""
    if rules is None:
        return view
    parts = view.partitions
    below = np.array([name == rules.partition for name in parts.name], dtype=np.bool_)
    tier = np.where(below, np.minimum(parts.tier.min(initial=0), 0), parts.tier)
    return view.changed(partitions=parts.changed(tier=tier))


class Home(IntEnum):
    """The reason why a job is no longer measured first; the first of several that apply."""

    STAYS = 0
    NOPROFILE = 1
    RAN = 2
    MEASURED = 3
    LARGE = 4
    UNFIT = 5
    WAITED = 6


def why_home(view: View, rules: ProfilingRules) -> IntArray:
    """Return per pending job the reason (a Home) to leave the profiling queue; STAYS for jobs outside it."""
    return PROFILINGS.find(rules.part).function(view, rules)


def new_jobs(view: View, rules: ProfilingRules) -> IntArray:
    """Jobs of kinds without a measurement are measured first; nodes move to the partition in which they are useful."""
    jobs, mine = view.pending, both(view.pending, rules)
    if not mine.any():
        return np.zeros(len(jobs), dtype=np.int64)
    unfit = jobs.reason.map([reason_of(text).one_partition for text in jobs.reason.names], np.bool_)
    late = waited_s(jobs, view.now_s) > rules.wait_s
    holds = [~mine, jobs.noprofile, jobs.restarts > 0, jobs.measured, jobs.gpus > rules.n_max, unfit, late]
    return np.asarray(np.select(holds, list(Home), Home.STAYS), dtype=np.int64)


def to_profile(view: View, rules: ProfilingRules) -> BoolArray:
    """Select pending jobs to be measured first."""
    new = both(view.pending, rules) & (why_home(view, rules) == Home.STAYS)
    return np.asarray(new, dtype=np.bool_)


def least_gpus_first(ranked: IntArray, new: BoolArray, gpus: IntArray, classes: IntArray) -> IntArray:
    """Return *ranked* with the *new* jobs of each class sorted among their own places, fewest GPUs first (Algorithm 1).

    A job has one priority in Slurm for all its partitions: so the profiling partition is served in this order, and all
    other jobs keep their places.
    """
    places = np.flatnonzero(new[ranked])
    rows = ranked[places]
    swapped = ranked.copy()
    swapped[places] = rows[np.lexsort((np.arange(len(rows)), gpus[rows], -classes[rows]))]
    return swapped


def limits_s(jobs: JobTable, rules: ProfilingRules) -> list[float]:
    """Return the measuring time of each of *jobs* in seconds: T_prof plus the warm-up that its owner declared."""
    return [rules.t_s + coldstart_s for coldstart_s in jobs.coldstart_s.tolist()]


def overtime(view: View, rules: ProfilingRules) -> IntArray:
    """Return the rows of running jobs in the profiling partition whose measuring time is over."""
    jobs = view.running
    here = jobs.partition.map([name == rules.partition for name in jobs.partition.names], np.bool_)
    rows = np.flatnonzero(here & (jobs.state == JobState.RUNNING))
    if not len(rows):
        return rows
    late: IntArray = rows[view.now_s >= jobs.started_s[rows] + np.array(limits_s(jobs.take(rows), rules))]
    return late


def at_home(view: View, rules: ProfilingRules) -> View:
    """Return *view* with the jobs that are moved on in their own partitions alone, as ``profiling_wishes`` has them."""
    jobs = view.pending
    rows = _leaving(view, rules)
    if not len(rows):
        return view
    homes = Labels.of(home_of(names, rules.partition) for names in jobs.partition.names)
    codes = jobs.partition.codes.copy()
    codes[rows] = homes.codes[codes[rows]] + len(jobs.partition.names)
    partition = Labels(codes, (*jobs.partition.names, *homes.names))
    return view.changed(pending=jobs.changed(partition=partition.renamed(partition.names)))


def profiling_nodes(nodes: NodeTable, rules: ProfilingRules) -> BoolArray:
    """Select the nodes of the profiling partition."""
    lists = nodes.partitions
    here: BoolArray = lists.map([rules.partition in names.split(",") for names in lists.names], np.bool_)
    return here


def waiting_gpus(view: View, rules: ProfilingRules, standings: IntArray) -> int:
    """Return the number of GPUs that rankable jobs to be measured wait for."""
    jobs = view.pending
    rows = to_profile(view, rules) & (standings == Standing.RANKED)
    return int((jobs.gpus * jobs.tasks)[rows].sum())


def profiling_wishes(view: View, rules: ProfilingRules, standings: IntArray) -> list[Action]:
    """Return moves of jobs that need no measuring, and requeues of jobs past T_prof that allow it.

    A requeued job requests both partitions again, and is then moved to its own one since it has run.
    """
    jobs = view.pending
    moves: list[Action] = [
        MovePartition(int(jobs.job_id[row]), home_of(jobs.partition[row], rules.partition), jobs.partition[row])
        for row in _leaving(view, rules).tolist()
    ]
    return [*moves, *_requeues(view, rules, waiting_gpus(view, rules, standings))]


def _leaving(view: View, rules: ProfilingRules) -> IntArray:
    """Return the rows of pending jobs that leave the profiling queue."""
    jobs = view.pending
    ours = ~(jobs.off | jobs.interactive | (jobs.het_job_id > 0) | jobs.shares | not_repeated(view, jobs, MOVE))
    return np.flatnonzero(ours & (why_home(view, rules) != Home.STAYS))


def _requeues(view: View, rules: ProfilingRules, wanted: int) -> Iterator[Action]:
    """Requeue as many jobs past T_prof as free the *wanted* GPUs, the longest-running first.

    Without waiting jobs a requeue would only cost the owner time. A job that was requeued once is not requeued again.
    Nor is one whose nodes have left the partition with it.
    """
    jobs, nodes = view.running, view.nodes
    here = profiling_nodes(nodes, rules)
    wanted -= int(np.maximum(nodes.gpus - nodes.gpus_used, 0)[here & nodes.usable].sum())
    rows, gone = overtime(view, rules), {*nodes.name.take(~here)}
    useful = jobs.node_list.map([gone.isdisjoint(expanded(names)) for names in jobs.node_list.names], np.bool_)
    willing = jobs.ckpt & jobs.requeueable & ~jobs.off & ~jobs.interactive & (jobs.restarts == 0) & (jobs.gpus > 0)
    rows = rows[(willing & useful)[rows]]
    for row in rows[np.lexsort((jobs.job_id[rows], jobs.started_s[rows]))].tolist():
        if wanted <= 0:
            return
        wanted -= int(jobs.gpus[row])
        yield Requeue(int(jobs.job_id[row]))
