"""Admission: the jobs that wait outside; on Slurm they do so under holds that expire. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.actions import Action, Hold
from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.job_record import chose_hold
from ..cluster.jobs import JobTable
from ..cluster.plan import Standing
from ..cluster.state import View
from ..policies.admission import find_admission, in_line_since_s
from .interactive import passes_line
from .node_pools import NodePools
from .ordering.eligibility import standing
from .ordering.ranking import classes
from .rules import Rules

HEAD = 20
"""Number of jobs in line whose holds end together: those of each further group end a step later."""

STEP = 5
"""The time between ends of holds in terms of ``hold_s``, at which they are renewed: one cycle in ten writes them."""

HOLD_MOST_S = 1_800.0
"""The longest hold of a job outside, in seconds; jobs at the end of a long line cost few writes."""

_IN_LINE = (Standing.RANKED, Standing.OUTSIDE)
"""Standings of jobs that can wait outside, apart from what is no way in (``may_wait``)."""


@dataclass(frozen=True, eq=False)
class Scope:
    """The jobs in one line: those of a class of a pool of nodes, with what is inside already.

    Jobs of a higher partition tier or QOS come in before those of a lower one, and are bounded without them.
    Partitions that share nodes are one pool, so that a line for one set of nodes leaves no other set idle.
    """

    view: View  #: as the admission gets it: those in line are pending, all that is inside before them is running
    rows: IntArray  #: those in line, as rows of the whole view's pending jobs
    inside: BoolArray  #: those of *rows* that the admission lets in

    @property
    def gpus(self) -> int:
        """The GPUs of the pool."""
        return int(self.view.nodes.gpus.sum())


def waiting_outside(view: View, rules: Rules, standings: IntArray, starving: BoolArray) -> IntArray:
    """Return *standings* with OUTSIDE for the jobs that the policy's admission does not consider now."""
    if rules.admission is None:
        return standings
    admit, outside = find_admission(rules.admission.part), np.zeros(len(view.pending), dtype=np.bool_)
    if rules.executor.delays_jobs:
        for scope in scopes(view, rules, standings, starving):
            outside[scope.rows] = ~scope.inside
    else:
        outside = ~admit(view) & (standings == Standing.RANKED)
    return np.where(outside, int(Standing.OUTSIDE), standings)


def scopes(view: View, rules: Rules, standings: IntArray, starving: BoolArray) -> Iterator[Scope]:
    """Yield the lines of a cluster on which Slurm starts the jobs, those of higher classes first."""
    view = view.changed(pending=with_components(view.pending))
    jobs, above = view.pending, stands_above(view, rules, starving)
    admit = find_admission("accept-all" if rules.admission is None else rules.admission.part)
    pools = NodePools(view.nodes)
    pool, pool_running = pools.of(jobs.partition), pools.of(view.running.partition)
    level, level_running = (
        classes(table, view.partitions, view.qos, across_qos=rules.scope == "queue") for table in (jobs, view.running)
    )
    waits, later = may_wait(view, rules, standings), in_line_since_s(jobs) > view.now_s
    in_line = waits & ~above & (pool >= 0)
    counted = above & waits
    for number in np.unique(pool[in_line]).tolist():
        here, room = in_line & (pool == number), view.nodes.take(pools.of_nodes == number)
        before = counted & (pool == number)
        for least in np.unique(level[here])[::-1].tolist():
            rows, first = np.flatnonzero(here & (level == least)), np.flatnonzero(before & (level >= least))
            run = np.flatnonzero((pool_running == number) & (level_running >= least))
            running, forecast = view.running.take(run), view.forecast_running.take(run)
            if len(first):
                running, forecast = running.joined(jobs.take(first)), forecast.joined(view.forecast.take(first))
            seen = replace(view.take(rows), nodes=room, running=running, forecast_running=forecast)
            inside = np.asarray(admit(seen) & ~later[rows], dtype=np.bool_)
            before[rows[inside]] = True
            yield Scope(seen, rows, inside)


def with_components(jobs: JobTable) -> JobTable:
    """Return *jobs* where the leader of each heterogeneous job asks for the GPUs of all its components."""
    if not jobs.het_job_id.any():
        return jobs
    gpus, row = jobs.gpus.copy(), {job: at for at, job in enumerate(jobs.job_id.tolist())}
    for at in np.flatnonzero((jobs.het_job_id > 0) & (jobs.het_job_id != jobs.job_id)).tolist():
        if (leader := row.get(int(jobs.het_job_id[at]))) is not None:
            gpus[leader] += jobs.gpus[at]
    return jobs.changed(gpus=gpus)


def may_wait(view: View, rules: Rules, standings: IntArray) -> BoolArray:
    """Select the pending jobs that stand in line, or count in it.

    ``slurmsched:off`` is no way past it: nothing of what such a job asks for is changed, and it waits like any other.
    Nor is a nice value: it hides neither a begin time nor a dependency. A heterogeneous job stands there as its leader,
    whose begin time holds all components (seen on 22.05). A job whose begin time comes before the next cycle waits from
    now on: Slurm would start it at that moment.
    """
    jobs, standings = view.pending, _own_standings(view, rules, standings)
    ahead_s = 0.0 if rules.admission is None else rules.admission.hold_s / 2
    begins = (standings == Standing.WAITS_FOR_BEGIN) & (jobs.eligible_s <= view.now_s + ahead_s)
    return np.asarray(np.isin(standings, _IN_LINE) | begins, dtype=np.bool_)


def _own_standings(view: View, rules: Rules, standings: IntArray) -> IntArray:
    """Return *standings* as they would be without ``off`` and nice values, and with leaders for heterogeneous jobs."""
    alone = np.isin(standings, (Standing.OWNER_SAID_OFF, Standing.HETEROGENEOUS, Standing.NICE_SET))
    if not alone.any():
        return standings
    jobs, nobody = view.pending, np.zeros(len(view.pending), dtype=np.int64)
    willing = jobs.changed(off=nobody.astype(np.bool_), het_job_id=nobody, nice=nobody)
    own = standing(willing, view.partitions, rules.only_partitions)
    own[(jobs.het_job_id > 0) & (jobs.het_job_id != jobs.job_id)] = Standing.HETEROGENEOUS
    return np.where(alone, own, standings)


def stands_above(view: View, rules: Rules, starving: BoolArray) -> BoolArray:
    """Select pending jobs that no admission keeps out.

    They are starving, promised, interactive within the allowance of their user, or without GPUs.
    """
    jobs, promises = view.pending, view.promises
    promised = np.isin(jobs.job_id, promises.job_id[promises.open])
    return np.asarray(starving | promised | passes_line(view, rules) | (jobs.gpus == 0))


def kept_by_users(view: View, rules: Rules, standings: IntArray, starving: BoolArray) -> IntArray:
    """Return the pending jobs that their users hold, or let depend on others, and that would stand in line otherwise.

    Slurm starts such a job at once if its GPUs are free when its user releases it, or when the other job ends, and a
    user can choose that moment. So these get begin times of ours too, and come into the line from there; Slurm shows
    the hold or the dependency meanwhile (seen on 22.05). One with a later begin time of its owner keeps that.
    """
    admission = rules.admission
    if admission is None or not rules.executor.delays_jobs:
        return np.zeros(0, dtype=np.int64)
    jobs = with_components(view.pending)
    view, standings = view.changed(pending=jobs), _own_standings(view, rules, standings)
    kept = chose_hold(jobs) | (standings == Standing.HELD_BY_USER) | (standings == Standing.WAITS_FOR_DEPENDENCY)
    held = kept & ~jobs.shares & (NodePools(view.nodes).of(jobs.partition) >= 0)
    own = np.isfinite(jobs.eligible_s) & (jobs.eligible_s > view.now_s + admission.hold_s) & ~jobs.held_by_us
    return np.flatnonzero(held & ~own & ~stands_above(view, rules, starving))


def hold_wishes(view: View, rules: Rules, outside: IntArray, kept: IntArray) -> list[Action]:
    """Return the holds of jobs *outside* and *kept* by their users that would end before the cycle after the next.

    A hold is the longer the farther back its job stands in line: a long line costs few writes, and without the daemon
    the jobs come free in their order. Holds end together, at multiples of a step, so that most cycles write none. A job
    that comes inside is released at once, however long its hold is.
    """
    if rules.admission is None or not rules.admission.hold_s or not rules.executor.delays_jobs:
        return []
    jobs, now_s, least_s = view.pending, view.now_s, rules.admission.hold_s
    rows = np.concatenate([in_order(jobs, outside), kept])
    left_s = np.where(jobs.held_by_us, np.nan_to_num(jobs.eligible_s - now_s), 0.0)[rows]
    until_s = _hold_ends_s(len(rows), now_s, least_s)
    due = left_s <= least_s
    return [Hold(job, end_s) for job, end_s in zip(jobs.job_id[rows[due]].tolist(), until_s[due].tolist(), strict=True)]


def _hold_ends_s(count: int, now_s: float, least_s: float) -> FloatArray:
    """Return when holds end for each of *count* places in line."""
    step_s = STEP * least_s
    group = np.arange(count) // HEAD
    ends_s = step_s * ((now_s + least_s) // step_s + 1 + group)
    # Those far back do not end together: their renewal would take all writes of a cycle.
    return np.asarray(np.minimum(ends_s, now_s + max(HOLD_MOST_S, 2 * least_s)))


def in_order(jobs: JobTable, rows: IntArray) -> IntArray:
    """Return *rows* by their place in line."""
    return rows[np.lexsort((jobs.job_id[rows], in_line_since_s(jobs)[rows]))]
