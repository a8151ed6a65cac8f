"""Replays of rigid jobs as the daemon orders them beside the modelled slurmctld, with what ``eta`` says of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Self

import numpy as np

from ...cluster.columns import FloatArray, Rows
from ...cluster.forecast import Forecast
from ...cluster.text.plural import count
from ...cycle import CycleReport
from ...daemon.predictions.play_forward import PlayForward
from ...errors import ConfigError
from ...foresee.predict_completion import predict_completion
from ...policies.contract import find_ordering
from ...policies.ordering.wfq import FIFO
from ...policies.ordering.wfq_line import line_of
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.cycle_driver import whole_queue
from ...simulator.run import simulate
from ...simulator.setup import Setup
from ...simulator.simulated_cluster import DEFAULT_CONFIG
from ...simulator.workload.workload import Workload
from ..elastic.applications import Applications, applications
from ..elastic.experiment import ElasticReplay, Policy

LEAST_S = 60.0
"""Errors of shorter JCTs are a share of this: Slurm's loops and our cycles take about as long."""


@dataclass(frozen=True, eq=False)
class RigidJobs(Applications):
    """Jobs that run on the GPUs that they ask for, as linear applications."""

    jobs: Workload
    forecast: Forecast  #: what was known of each at its submission

    @classmethod
    def of(cls, jobs: Workload, forecast: Forecast) -> RigidJobs:
        """Take the jobs with GPUs and a runtime, by their submission."""
        rows = np.flatnonzero((jobs.gpus > 0) & (jobs.runtime_s > 0))
        rows = rows[np.argsort(jobs.submit_s[rows], kind="stable")]
        jobs, forecast = jobs.take(rows), forecast.take(rows)
        apps = applications(jobs)
        return cls(**{each.name: getattr(apps, each.name) for each in fields(apps)}, jobs=jobs, forecast=forecast)

    def take(self, rows: Rows) -> Self:
        """Only *rows*."""
        apps = super().take(rows)
        return replace(apps, jobs=self.jobs.take(rows), forecast=self.forecast.take(rows))


@dataclass(frozen=True, eq=False)
class BesideSlurm:
    """The replay of a sample on a cluster; a function of sample, GPUs and policy like that of elastic applications."""

    fleet: ClusterSpec
    setup: Setup  #: of the executor slurm, whose ordering each policy takes the place of
    extremes: ClassVar[Mapping[str, Policy]] = {"FIFO": FIFO, "shortest first": "srsf"}
    """The bounds of all settings: the most predictable and the fastest of the orderings."""

    def __call__(self, sample: Applications, gpus: int, policy: Policy) -> ElasticReplay:
        """Replay *sample*; ConfigError where a job never runs."""
        assert isinstance(sample, RigidJobs)
        line = policy if isinstance(policy, str) else f"wfq {line_of(policy)}"
        setup = replace(self.setup, ordering=find_ordering(line), name=line)
        acting = setup.site or whole_queue(setup.ordering)
        looks = FirstLooks(PlayForward(lambda: acting, lambda: setup.slurm_config or DEFAULT_CONFIG, Here()))
        ran = simulate(sample.jobs, self.fleet, setup, learnt=sample.forecast, watch=looks.watch)
        jct_s = ran.end_s - sample.submit_s
        if waiting := int(np.isnan(jct_s).sum()):
            raise ConfigError(f"{count(waiting, 'job')} never ran under {line}")
        inside = contention(sample.submit_s, ran.end_s)
        return ElasticReplay(sample, gpus, jct_s, looks.predicted_s(sample), inside, LEAST_S)

    @property
    def digest(self) -> str:
        """A text that identifies the cluster and the policy beside the ordering."""
        nodes, setup = self.fleet.nodes, self.setup
        parts = (nodes.name, nodes.gpus.tolist(), self.fleet.partitions.name, sorted(setup.slurm_config.items()))
        text = repr((*parts, setup.forecast, setup.selection, setup.beat_s))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Here:
    """The play-forward in the process of the replay."""

    predict = staticmethod(predict_completion)

    def close(self) -> None:
        """Do nothing: no process was started."""


@dataclass
class FirstLooks:
    """The end that is predicted for each job in the first cycle that sees it."""

    forward: PlayForward
    finish_s: dict[int, float] = field(default_factory=dict)  #: Unix seconds by job id; NaN where none was predicted

    def watch(self, report: CycleReport) -> None:
        """Play the queue forward where a cycle has new jobs."""
        seen = [*report.view.pending.job_id.tolist(), *report.view.running.job_id.tolist()]
        new = [job_id for job_id in seen if job_id not in self.finish_s]
        if not new:
            return
        table = self.forward.predict(report.view, report.plan, report.mode)
        ends_s = dict(zip(table.job_id.tolist(), table.finish_s.tolist(), strict=True))
        self.finish_s.update((job_id, ends_s.get(job_id, np.nan)) for job_id in new)

    def predicted_s(self, sample: RigidJobs) -> FloatArray:
        """Return the predicted JCT of each job.

        A job that started and ended between two cycles, or that has no prediction, was to take its forecast.
        """
        finish_s = np.array([self.finish_s.get(job_id, np.nan) for job_id in sample.jobs.job_id.tolist()])
        jct_s = finish_s - sample.submit_s
        return np.where(jct_s > 0, jct_s, sample.forecast.runtime_s)


def contention(submit_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """Return the mean number of jobs inside during each one's stay, itself included, over arrivals and ends."""
    at_s = np.sort(np.concatenate([submit_s, end_s]))
    inside = np.searchsorted(np.sort(submit_s), at_s, side="right") - np.searchsorted(np.sort(end_s), at_s, "right")
    total = np.concatenate([[0], np.cumsum(inside)])
    first, last = np.searchsorted(at_s, submit_s, side="left"), np.searchsorted(at_s, end_s, side="left")
    return np.asarray((total[last] - total[first]) / np.maximum(last - first, 1))
