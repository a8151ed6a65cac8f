"""Trials: the times that a site's jobs would have taken with other settings, by the daemon's own decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, Labels
from ...cluster.forecast import Forecast
from ...cluster.gpu_usage import Use
from ...cluster.text.plural import count
from ...config import Settings
from ...decide.policy import Policy
from ...errors import ConfigError
from ...simulator.cluster_spec import ClusterSpec, Sharing
from ...simulator.profiling_nodes import MAIN, divided, routed
from ...simulator.run import simulate
from ...simulator.setup import Setup
from ...simulator.workload.workload import Workload
from .knobs import Knobs

SAME_S = 60.0  #: accepted difference of clocks
UTIL_STEP, MEMORY_STEP_MIB = 0.05, 2048.0  #: jobs whose use differs by less count as alike


@dataclass(frozen=True, eq=False)
class TuningSite:
    """The jobs of a site, their forecasts at submission, the cluster they ran on, and its settings."""

    jobs: Workload
    forecast: Forecast
    fleet: ClusterSpec
    settings: Settings
    policy_of: Callable[[Settings], Policy]  #: what the daemon makes of settings
    share_nodes: int = 0  #: nodes of the sharing partition, on a cluster without partitions of its own

    @property
    def plain(self) -> bool:
        """True if the nodes are of one size and in no partitions, so that partitions can be made of them."""
        return not len(self.fleet.partitions) and bool((self.fleet.nodes.gpus == self.fleet.size).all())

    @property
    def sharing(self) -> bool:
        """True if jobs can share: there are nodes for it, measured jobs, and a bound on the memory of two jobs."""
        nodes = self.fleet.shared == self.settings.share.partition or (self.plain and self.share_nodes > 0)
        return nodes and self.settings.share.memory_mib > 0 and bool(self._measured_rows.any())

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
    def kinds(self) -> tuple[Labels, FloatArray]:
        """The kind of use of each job, empty where it was not measured, and the GPU utilisation of each kind."""
        jobs = self.jobs
        has_profile = self._measured_rows
        steps = (jobs.gpu_util / UTIL_STEP, jobs.memory_util / UTIL_STEP, jobs.gpu_memory_mib / MEMORY_STEP_MIB)
        table = np.array([np.ceil(np.where(has_profile, step, 0.0)) for step in steps]).T
        distinct, codes = np.unique(table[has_profile], axis=0, return_inverse=True)
        code = np.zeros(len(jobs), dtype=np.int64)
        code[has_profile] = codes.reshape(-1) + 1
        names = ("", *(f"use {number}" for number in range(len(distinct))))
        return Labels(code, names), np.asarray(distinct[:, 0] * UTIL_STEP)


def completion_s(site: TuningSite, knobs: Knobs) -> FloatArray:
    """Compute the JCT of each job under the site's settings with *knobs*; ConfigError where a job never runs.

    The daemon's cycle runs beside a modelled slurmctld. Two jobs that share run at the speed of ``speed_beside``.
    """
    settings = knobs.applied(site.settings)
    jobs, fleet = _with_pairs(site, *_partitioned(site, knobs))
    writes = {"writes_per_s": settings.slurm.writes_per_s, "writes_burst": settings.slurm.writes_burst}
    setup = Setup.of_site(site.policy_of(settings), settings.daemon.every_s, "trial", forecast="history", **writes)
    jct_s = simulate(jobs, fleet, setup, learnt=site.forecast).end_s - jobs.submit_s
    if waiting := int(np.isnan(jct_s).sum()):
        raise ConfigError(f"{count(waiting, 'job')} never ran under {knobs.by_setting}")
    return jct_s


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


def _partitioned(site: TuningSite, knobs: Knobs) -> tuple[Workload, ClusterSpec]:
    """Return jobs and cluster with partitions for profiling and sharing, on nodes that have none of their own.

    The last nodes are for profiling, those before them for sharing. Jobs that may be measured first request both
    partitions, as ``job_submit.lua`` has them do.
    """
    jobs, fleet, settings = site.jobs, site.fleet, site.settings
    if site.plain:  # nothing is known of the nodes but their GPUs
        anything = Labels(np.zeros(len(jobs), dtype=np.int64), ("",))
        jobs = replace(jobs, gpu_type=anything, features=anything)
    sharing = site.share_nodes if site.plain else 0
    if not (knobs.profile_nodes or sharing):
        return jobs, fleet
    main, profile, shared = settings.profile.home or MAIN, settings.profile.partition, settings.share.partition
    others = len(fleet.nodes) - knobs.profile_nodes - sharing
    none_yet = replace(fleet, partitions=ClusterSpec.of(0, 0).partitions)
    fleet = divided(none_yet, {main: others, shared: sharing, profile: knobs.profile_nodes}, profile)
    jobs = routed(jobs, fleet, main, profile, knobs.profile_gpus)
    return jobs, replace(fleet, shared=shared if sharing else "")


def _with_pairs(site: TuningSite, jobs: Workload, fleet: ClusterSpec) -> tuple[Workload, ClusterSpec]:
    """Return jobs and cluster with the speeds of pairs, where jobs can share and the cluster has none of its own."""
    if not site.sharing or fleet.sharing is not None:
        return jobs, fleet
    labels, util = site.kinds
    speeds = speed_beside(util[:, None] + util[None, :])
    return replace(jobs, work=labels), replace(fleet, sharing=Sharing(labels.names[1:], speeds))
