"""Trials: the times that a site's jobs would have taken with other settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ....cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ....cluster.forecast import Forecast
from ....cluster.gpu_usage import Use
from ....cluster.job_kind import kind_of
from ....models.sharing.sharing_model import GpuUse, SharingModel
from ...cluster_spec import ClusterSpec, PackingSetup, Sharing
from ...lucid.packing import LEAST
from ...lucid.profiler import ProfilingResult, profiled
from ...run import simulate
from ...setup import Setup
from ...workload.workload import Workload
from .knobs import Knobs

SAME_S = 60.0  #: accepted difference of clocks
UTIL_STEP, MEMORY_STEP_MIB = 0.05, 2048.0  #: jobs whose use differs by less count as alike


@dataclass(frozen=True, eq=False)
class TuningSite:
    """The jobs of a site, their forecasts at submission, and the cluster they ran on."""

    jobs: Workload
    forecast: Forecast
    fleet: ClusterSpec
    scores: SharingModel | None = None  #: with it and *gpu_mib*, sharing can be simulated
    gpu_mib: float = 0.0  #: GPU memory that two jobs may use together
    patience_s: float = 600.0  #: wait after which a job skips profiling (profile.wait_s)

    @property
    def profiling(self) -> bool:
        """True if a profiling partition can be simulated: on nodes of one size without partitions of their own."""
        return not len(self.fleet.partitions) and bool((self.fleet.nodes.gpus == self.fleet.size).all())

    @property
    def sharing(self) -> bool:
        """True if sharing can be simulated: the GPU use of some jobs and the memory of GPUs are known."""
        return self.scores is not None and self.gpu_mib > 0 and bool(self._measured_rows.any())

    @property
    def _measured_rows(self) -> BoolArray:
        """The jobs that were measured in full."""
        jobs = self.jobs
        has_profile: BoolArray = np.isfinite(jobs.gpu_util + jobs.memory_util + jobs.gpu_memory_mib)
        return has_profile

    def until(self, end_s: float, since_s: float = -np.inf) -> TuningSite:
        """Return the site with only the jobs submitted from *since_s* to *end_s*."""
        rows = np.flatnonzero((self.jobs.submit_s >= since_s) & (self.jobs.submit_s < end_s))
        return replace(self, jobs=self.jobs.take(rows), forecast=self.forecast.take(rows))

    @cached_property
    def kinds(self) -> tuple[Labels, GpuUse]:
        """The kind of use of each job, empty where it was not measured, and the GPU use of each kind."""
        jobs = self.jobs
        has_profile = self._measured_rows
        steps = (jobs.gpu_util / UTIL_STEP, jobs.memory_util / UTIL_STEP, jobs.gpu_memory_mib / MEMORY_STEP_MIB)
        table = np.array([np.ceil(np.where(has_profile, step, 0.0)) for step in steps]).T
        distinct, codes = np.unique(table[has_profile], axis=0, return_inverse=True)
        code = np.zeros(len(jobs), dtype=np.int64)
        code[has_profile] = codes.reshape(-1) + 1
        names = ("", *(f"use {number}" for number in range(len(distinct))))
        util, memory_util, memory = distinct.T * np.array([[UTIL_STEP], [UTIL_STEP], [MEMORY_STEP_MIB]])
        return Labels(code, names), GpuUse(util, memory_util, memory, np.zeros(len(util)))

    @cached_property
    def measured(self) -> BoolArray:
        """True for jobs after a measured run of the same user and such a name, if no job had waited."""
        jobs = self.jobs
        pairs, which = np.unique(
            np.stack([jobs.user.codes, jobs.name.codes], axis=1).reshape(-1, 2), axis=0, return_inverse=True
        )
        kinds = Labels.of(kind_of(jobs.user.names[user], jobs.name.names[name]) for user, name in pairs.tolist())
        kind = kinds.codes[which.reshape(-1)] if len(jobs) else np.zeros(0, np.int64)
        first_s = np.full(len(kinds.names), np.inf)
        has_profile = self._measured_rows
        np.minimum.at(first_s, kind[has_profile], (jobs.submit_s + jobs.runtime_s)[has_profile])
        earlier: BoolArray = first_s[kind] < jobs.submit_s
        return earlier


def completion_s(site: TuningSite, knobs: Knobs) -> FloatArray:
    """Compute the JCT of each job under *knobs*; ConfigError where the jobs do not fit.

    A job that does not end in the profiling partition begins anew in the queue proper. A job can share GPUs where one
    of its user and name was measured before it came. Two that share run at the speed of ``speed_beside``.
    """
    jobs, nodes = site.jobs, site.fleet.nodes
    if knobs.profile_nodes:
        first = profiled(
            jobs,
            int(nodes.gpus[-knobs.profile_nodes :].sum()),
            widest=knobs.profile_gpus,
            limit_s=knobs.profile_s,
            patience_s=site.patience_s,
        )
        fleet = replace(site.fleet, nodes=nodes.take(slice(0, len(nodes) - knobs.profile_nodes)))
    else:
        first = ProfilingResult(
            np.full(len(jobs), np.nan), np.zeros(len(jobs), np.bool_), np.zeros(len(jobs), np.bool_)
        )
        fleet = site.fleet
    come_s = np.where(np.isnan(first.left_s), jobs.submit_s, first.left_s)
    rows = np.flatnonzero(~first.done)
    rows = rows[np.argsort(come_s[rows], kind="stable")]
    left = replace(jobs.take(rows), submit_s=come_s[rows])
    end_s = come_s.copy()
    end_s[rows] = _ends(site, knobs, fleet, left, rows, first.ran)
    return end_s - jobs.submit_s


def speed_beside(sums: FloatArray) -> FloatArray:
    """Return the speed of each of two sharing jobs by the sum of their GPU utilisations: they take turns above 1."""
    return np.minimum(1.0, 1.0 / np.maximum(sums, 1e-9))


def with_use(jobs: Workload, measured: Iterable[tuple[int, Use]]) -> Workload:
    """Add *measured* use by job id: that of the run that began last since the submission of the job."""
    place = {job_id: row for row, job_id in enumerate(jobs.job_id.tolist())}
    columns = {name: getattr(jobs, name).copy() for name in ("gpu_util", "memory_util", "gpu_memory_mib")}
    latest_s = jobs.submit_s.copy()
    for job_id, use in measured:
        row = place.get(job_id, -1)
        # Clocks of nodes and of the controller may differ a little.
        if row >= 0 and use.start_s >= latest_s[row] - SAME_S:
            latest_s[row] = max(use.start_s, latest_s[row])
            for name, column in columns.items():
                column[row] = getattr(use, name)
    return replace(jobs, **columns)


def _ends(
    site: TuningSite, knobs: Knobs, fleet: ClusterSpec, left: Workload, rows: IntArray, ran: BoolArray
) -> FloatArray:
    """Return the ends of the jobs *left*, at *rows* of the site's; *ran* marks those with a known profile."""
    forecast = site.forecast.take(rows)
    setup = Setup.of(knobs.ordering, "backfill", forecast="history")
    packing = None
    if knobs.capacity and site.sharing and site.scores is not None:
        labels, use = site.kinds
        sums = use.gpu_util[:, None] + use.gpu_util[None, :]
        score = site.scores.score(use)
        fits = use.memory_mib[:, None] + use.memory_mib[None, :] <= site.gpu_mib
        fits &= score[:, None] + score[None, :] <= knobs.capacity
        speeds = np.where(fits, speed_beside(sums), 0.0)
        left = replace(left, work=labels.take(rows))
        fleet = replace(fleet, sharing=Sharing(labels.names[1:], speeds))
        known_s = np.where(ran[rows] | site.measured[rows], 0.0, np.inf)
        packing = PackingSetup(speeds, known_s, LEAST, True, forecast.runtime_s)
    return simulate(left, fleet, setup, learnt=forecast, packing=packing).end_s
