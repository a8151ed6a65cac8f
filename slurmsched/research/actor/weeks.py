"""Weeks to train and to judge on: of a trace, with the mix of jobs of MLFS's section 4.1, or of a site as it was."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...cluster.columns import IntArray, Labels
from ...cluster.nodes import NodeTable
from ...errors import TooLittleHistory
from ...simulator.cluster_spec import ClusterSpec, nodes_of
from ...simulator.trace_forecasts import learnt
from ...simulator.workload.workload import Workload, workload

WEEK_S = 7 * 86400.0
LIMIT_S = 86400.0  #: runtimes of a trace are cut there, and it is the time limit of every job
LOAD = 1.2
SIZES = 6  #: jobs of a trace have 1, 2, 4, ... 32 GPUs, each as often
FLEET = ClusterSpec.of(20, 4)
UNSEEN, CHOOSING = 4, 3  #: the last weeks are for the judgement, those before them for the choice among weights
FEWEST = 100  #: jobs in a week that counts
MOVED_S = 1800.0  #: a site's jobs arrive up to so much earlier or later in each draw


@dataclass(frozen=True)
class Weeks:
    """The rows of the weeks of *jobs*, by their purpose."""

    jobs: Workload
    fleet: ClusterSpec
    train: list[IntArray]
    choose: list[IntArray]
    unseen: list[IntArray]
    site: bool = False  #: jobs are a site's, and stay as they were

    @classmethod
    def of_trace(cls, jobs: Workload) -> Weeks:
        """Split a trace; TooLittleHistory for fewer weeks than one to train on and those for the other purposes."""
        weeks = _of_enough_jobs(jobs)
        needed = UNSEEN + CHOOSING + 1
        if len(weeks) < needed:
            raise TooLittleHistory(f"{len(weeks)} weeks of {FEWEST} jobs and more: at least {needed} are needed")
        return cls(jobs, FLEET, weeks[: -UNSEEN - CHOOSING], weeks[-UNSEEN - CHOOSING : -UNSEEN], weeks[-UNSEEN:])

    @classmethod
    def of_site(cls, jobs: Workload, nodes: NodeTable) -> Weeks:
        """Split the history of a site, whose *nodes* count by their GPUs alone; TooLittleHistory below UNSEEN weeks."""
        fleet = _fleet_of(nodes)
        jobs = _alone(jobs.take(np.flatnonzero((jobs.gpus > 0) & (jobs.gpus <= fleet.total))))
        weeks = _of_enough_jobs(jobs)
        if len(weeks) < UNSEEN:
            raise TooLittleHistory(f"{len(weeks)} weeks of {FEWEST} jobs and more: at least {UNSEEN} are needed")
        jobs = replace(jobs, estimate_s=learnt(jobs).in_whole_seconds().runtime_s)
        return cls(jobs, fleet, weeks[: -UNSEEN - CHOOSING], weeks[-UNSEEN - CHOOSING : -UNSEEN], weeks[-UNSEEN:], True)

    @property
    def last(self) -> Weeks:
        """The last week alone, unseen."""
        return replace(self, train=[], choose=[], unseen=self.unseen[-1:])

    def draw(self, rows: IntArray, seed: int) -> Workload:
        """Draw a workload from the *rows* of a week."""
        return _moved(self.jobs, rows, seed) if self.site else drawn_week(self.jobs, rows, seed)


def _fleet_of(nodes: NodeTable) -> ClusterSpec:
    """Return one pool of idle nodes with the GPUs of *nodes*."""
    alike = nodes_of(len(nodes), 1)
    return replace(ClusterSpec.of(1, 1), nodes=replace(alike, name=nodes.name, gpus=np.maximum(nodes.gpus, 0)))


def _of_enough_jobs(jobs: Workload) -> list[IntArray]:
    if not len(jobs):
        raise TooLittleHistory("there are no jobs")
    number = ((jobs.submit_s - jobs.submit_s[0]) // WEEK_S).astype(np.int64)
    return [rows for week in range(int(number[-1]) + 1) if len(rows := np.flatnonzero(number == week)) >= FEWEST]


def drawn_week(jobs: Workload, rows: IntArray, seed: int, load: float = LOAD) -> Workload:
    """Draw a workload from *rows* of a week, thinned to *load* times what FLEET can do in it.

    A week that has less stays whole. Half of the estimates of runtimes have a mean error of 11 %, the others one of
    30 %.
    """
    random = np.random.default_rng(seed)
    gpus = 2 ** random.integers(0, SIZES, len(rows))
    runtime_s = np.clip(jobs.runtime_s[rows], 1.0, LIMIT_S)
    shuffled = random.permutation(len(rows))
    work = np.cumsum((runtime_s * gpus)[shuffled])
    picked = np.sort(shuffled[: 1 + int(np.searchsorted(work, load * FLEET.total * WEEK_S))])
    submit_s, runtime_s, gpus = (jobs.submit_s[rows] - jobs.submit_s[rows[0]])[picked], runtime_s[picked], gpus[picked]
    count = len(picked)
    error = np.where(random.random(count) < 0.5, 0.11, 0.30) * np.sqrt(np.pi / 2)
    return workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=submit_s,
        runtime_s=runtime_s,
        gpus=gpus,
        time_limit_s=np.full(count, LIMIT_S),
        estimate_s=np.minimum(runtime_s * np.exp(random.normal(0, 1, count) * error), LIMIT_S),
        deadline_s=submit_s + np.maximum(1.1 * runtime_s, random.uniform(0.5, 24, count) * 3600),
        urgency=random.integers(1, 11, count).astype(np.float64),
        best_effort=np.zeros(count, dtype=np.bool_),
    )


def _moved(jobs: Workload, rows: IntArray, seed: int) -> Workload:
    """Return the jobs of a site's week, each up to MOVED_S earlier or later, from time 0 on."""
    random = np.random.default_rng(seed)
    week = jobs.take(rows)
    submit_s = week.submit_s - week.submit_s[0] + random.uniform(0, 2 * MOVED_S, len(rows))
    order = np.argsort(submit_s, kind="stable")
    moved_s = submit_s - week.submit_s
    week = replace(week, submit_s=submit_s, deadline_s=week.deadline_s + moved_s)
    return replace(week.take(order), job_id=np.arange(1, len(rows) + 1))


def _alone(jobs: Workload) -> Workload:
    """Return *jobs* that need GPUs alone, with a limit and an urgency."""
    count = len(jobs)
    none, nowhere = np.zeros(count, dtype=np.int64), Labels(np.zeros(count, dtype=np.int64), ("",))
    limit_s = np.where(np.isfinite(jobs.time_limit_s), np.maximum(jobs.time_limit_s, jobs.runtime_s), np.inf)
    return workload(
        count,
        job_id=jobs.job_id,
        submit_s=jobs.submit_s,
        runtime_s=np.maximum(jobs.runtime_s, 1.0),
        gpus=jobs.gpus,
        nodes=none,
        partition=nowhere,
        time_limit_s=limit_s,
        estimate_s=jobs.estimate_s,
        deadline_s=jobs.deadline_s,
        urgency=jobs.urgency,
        user=jobs.user,
        name=jobs.name,
        best_effort=~np.isfinite(jobs.deadline_s),
    )
