"""A simulated day under a part of a policy, with every rule checked at every decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...cycle import CycleReport
from ...decide.plan_differences import differences
from ...decide.policy import Policy
from ...decide.rules import AdmissionRules, Composition
from ...errors import ConfigError
from ...policies.contract import Ordering, Scaling, find_ordering
from ...policies.registry import Part
from ...powers import decide
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.cycle_driver import CycleDriver, IdealDriver, composed, whole_queue
from ...simulator.fixed_forecast import FixedForecast
from ...simulator.ideal_cluster import IdealCluster
from ...simulator.machine.direct import rules_of
from ...simulator.run import forecast_of
from ...simulator.setup import Setup
from ...simulator.simulated_cluster import SimulatedCluster
from ...simulator.slurmctld.slurmconf import SlurmConf
from ...simulator.workload.synthetic import DAY_S, SyntheticSpec, synthetic
from ...simulator.workload.workload import Workload
from ..training.rounds import train
from .training_jobs import FormulaJobs

FLEET = ClusterSpec.of(4, 8)
JOBS = 150
BEAT_S = 300.0
"""The interval of decisions where running jobs yield, and of the daemon's cycles."""

RESTART_S = 30.0
"""The time that jobs that train lose when their GPUs change."""

REPLAYED_EVERY = 10
"""One decision in so many is decided again."""


class BrokenRule(Exception):
    """A rule that a part breaks; the text says which."""


def day(seed: int = 7) -> Workload:
    """Return the jobs of a busy day, with time limits."""
    spec = SyntheticSpec(jobs=JOBS, cluster_gpus=FLEET.total, load=1.0, seed=seed, longest_s=DAY_S / 4)
    jobs = synthetic(replace(spec, gpu_mix=tuple((gpus, weight) for gpus, weight in spec.gpu_mix if gpus <= 8)))
    submit_s = np.floor(jobs.submit_s * (DAY_S / max(float(jobs.submit_s.max()), 1.0)))
    return replace(jobs, submit_s=submit_s, time_limit_s=2.0 * jobs.runtime_s)


def run_day(hook: str, part: Part[Any]) -> str:
    """Let *part* decide for a day; return what happened in words. BrokenRule or AssertionError for a broken rule."""
    watch = DayWatch()
    if isinstance(part, Scaling):
        return _training(part)
    if isinstance(part, Ordering):
        _on_slurm(part, watch)
        _ideal(composed(part, Composition("preemptive")), watch)
    else:
        parts = {"selection": "backfill", "placement": "consolidate"} | {hook: part.line}
        admission = AdmissionRules(parts.pop("admission")) if hook == "admission" else None
        _ideal(composed(find_ordering("fifo"), Composition(**parts), admission=admission), watch)
    return f"{JOBS} jobs ended, {watch.decisions} decisions"


class DayWatch:
    """A watch on the decisions of a day."""

    def __init__(self) -> None:
        self.decisions = 0

    def __call__(self, report: CycleReport, policy: Policy) -> None:
        """Raise BrokenRule for a refused action, or for a decision that is another one when it is decided again."""
        self.decisions += 1
        if refusals := report.plan.refusals:
            raise BrokenRule(f"{refusals[0].action} breaks the rule {refusals[0].rule}: {refusals[0].detail}")
        if self.decisions % REPLAYED_EVERY == 0:
            replayed(report, policy)


def replayed(report: CycleReport, policy: Policy) -> None:
    """Decide again from the stored policy; BrokenRule where the plan differs."""
    stored = Policy.from_json(policy.over(report.window).to_json())
    again = decide(report.view, stored.ordering, stored.rules)
    for difference in differences(report.plan, again, report.view.pending):
        raise BrokenRule(f"the same decision, decided again, differs: {difference}")


def _training(part: Scaling) -> str:
    """Run the day with jobs that train."""
    jobs, nodes = day(), FLEET.nodes
    setup = Setup.training(part.line, beat_s=BEAT_S, restart_s=RESTART_S)
    try:
        replay = train(jobs, FLEET, setup, FormulaJobs(jobs, np.zeros(len(nodes), np.int64)), check=True)
    except ConfigError as error:
        raise BrokenRule(str(error)) from error
    _ended(jobs, replay.end_s)
    return f"{JOBS} jobs ended, {int(replay.stops.sum())} restarts"


def _ended(jobs: Workload, ended_s: Any) -> None:
    waiting = np.flatnonzero(~np.isfinite(ended_s))
    if len(waiting):
        raise BrokenRule(f"{len(waiting)} of {len(jobs)} jobs never end, such as job {jobs.job_id[waiting[0]]}")


def _forecast(jobs: Workload) -> FixedForecast:
    return FixedForecast(jobs.job_id, forecast_of(jobs, Setup(find_ordering("fifo"), "backfill"), None))


def _on_slurm(ordering: Ordering, watch: DayWatch) -> None:
    """Run the day beside a modelled slurmctld."""
    jobs, policy = day(), whole_queue(ordering)
    cluster = SimulatedCluster(jobs, FLEET, SlurmConf.easy(), checked=True)
    CycleDriver(cluster, policy, _forecast(jobs), every_s=BEAT_S, watch=lambda report: watch(report, policy)).run()
    _ended(jobs, cluster.model.stage.life.ended_s)


def _ideal(policy: Policy, watch: DayWatch) -> None:
    """Run the day on a cluster that carries plans out as they are."""
    jobs, preempts = day(), "preempt" in policy.rules.powers
    conf = SlurmConf(rules_of("preemptive" if preempts else "strict", BEAT_S, 1000))
    cluster = IdealCluster(jobs, FLEET, conf, checked=True, steps=policy.ordering.steps if preempts else ())
    IdealDriver(cluster, policy, _forecast(jobs), watch=lambda report: watch(report, policy)).run()
    _ended(jobs, cluster.model.stage.life.ended_s)
