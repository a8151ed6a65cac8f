"""How many jobs come by the moment told, in virtual time: ``python -m tests.bench.coverage``.

A modelled slurmctld, steered by the daemon's cycle, with the daemon's own predictions made at each arrival. Forecasts
come from the runs that ended before. ``python -m tests.bench.coverage 3`` takes means of three seeds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.job_kind import bucket
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.prediction_records import NO_RECORDS, PredictionRecords
from slurmsched.cluster.records.predictions import PredictionTable
from slurmsched.cluster.state import View
from slurmsched.cycle import CycleReport
from slurmsched.daemon.predictions.prediction_service import PredictionService
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.models.completion.prediction_accuracy import accuracy
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import CycleDriver, whole_queue
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.trace_forecasts import as_outcomes
from slurmsched.simulator.traces import read
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.workload import Workload

PHILLY = Path("../shared/data/philly_semisynthetic.csv.gz")
JOBS, PAST = 400, 600
NODES, GPUS = 4, 8
LOADS, ORDERINGS = (0.8, 1.0, 1.4), ("fifo", "sjf", "qssf")
LONGEST_S = 86400.0
CONFIG = {"PriorityType": "priority/multifactor"}
EVERY_S = 60.0
BURST, GAP_S = 30, 20.0
EVERY = 20
"""Of so many jobs one is taken: the cluster is that much smaller, and hundreds in a row are of one user."""


class Ours:
    """The play-forward in this process, in the order that our plan says."""

    def predict(self, view: View, plan: Plan, mode: str) -> PredictionTable:
        """What becomes of the jobs of *view*."""
        return predict_completion(view, plan.jobs.rank, plan.jobs.standing, CONFIG)

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class Remembered:
    """The predictions of a replay, and what came of them."""

    rows: dict[tuple[int, int], PredictionRecords] = field(default_factory=dict)

    def load(self, since_s: float) -> PredictionRecords:
        """None were made before."""
        return NO_RECORDS

    def save(self, kept: PredictionRecords) -> None:
        """Put what is new or has changed in the place of what was known."""
        for row, key in enumerate(zip(kept.job_id.tolist(), kept.number.tolist(), strict=True)):
            self.rows[key] = kept.take(slice(row, row + 1))

    def all(self) -> PredictionRecords:
        """Everything, the oldest first."""
        kept = NO_RECORDS
        for one in self.rows.values():
            kept = kept.joined(one)
        return kept


def made(load: float, seed: int) -> tuple[Workload, Workload]:
    """What ended before, and synthetic jobs at that load."""
    spec = SyntheticSpec(
        jobs=PAST + JOBS, cluster_gpus=NODES * GPUS, load=load, seed=seed, spread=1.5, longest_s=LONGEST_S
    )
    return _cut(synthetic(spec), load)


def campaigns(load: float, seed: int) -> tuple[Workload, Workload]:
    """The same jobs in bursts of thirty or so of one user and kind, seconds apart, at random moments."""
    spec = SyntheticSpec(
        jobs=PAST + JOBS, cluster_gpus=NODES * GPUS, load=load, seed=seed, spread=1.5, longest_s=LONGEST_S
    )
    jobs, random = synthetic(spec), np.random.default_rng(seed)
    kinds = Labels.of(f"{user} {bucket(name)}" for user, name in zip(jobs.user, jobs.name, strict=True)).codes
    submit_s, left = np.empty(len(jobs)), np.argsort(kinds, kind="stable")
    while len(left):
        burst = left[: 1 + random.geometric(1 / BURST)]
        burst = burst[kinds[burst] == kinds[burst[0]]]
        submit_s[burst] = random.uniform(0, jobs.submit_s.max()) + np.cumsum(random.exponential(GAP_S, len(burst)))
        left = left[len(burst) :]
    order = np.argsort(submit_s, kind="stable")
    return _cut(jobs.changed(submit_s=np.round(submit_s)).take(order), load)


def philly(load: float, seed: int) -> tuple[Workload, Workload]:
    """What ended before, and one in EVERY jobs of Philly at that load; each seed is another cut."""
    jobs = read(PHILLY).workload
    jobs = jobs.take((jobs.gpus <= NODES * GPUS) & (jobs.runtime_s <= LONGEST_S))
    span = EVERY * (PAST + JOBS)
    jobs = jobs.take(slice(seed * span, (seed + 1) * span, EVERY))
    return _cut(jobs.changed(name=Labels.of(jobs.name)), load)


def _cut(jobs: Workload, load: float) -> tuple[Workload, Workload]:
    """The past, long over, and the jobs after it, moved so that they come at that load."""
    past, jobs = jobs.take(slice(0, PAST)), jobs.take(slice(PAST, None))
    span_s = float((jobs.runtime_s * jobs.gpus).sum()) / (load * NODES * GPUS)
    at_s = jobs.submit_s - jobs.submit_s[0]
    one = {"partition": jobs.partition.renamed(["gpu"] * len(jobs.partition.names))}
    jobs = jobs.changed(submit_s=np.round(1e9 + at_s * span_s / max(at_s[-1], 1.0)), **one)
    before = {"partition": past.partition.renamed(["gpu"] * len(past.partition.names))}
    return past.changed(submit_s=past.submit_s - past.submit_s[-1] + 1e9 - LONGEST_S, **before), jobs


def covered(past: Workload, jobs: Workload, ordering: str, predictions: PredictionService) -> None:
    """Let *predictions* follow a replay of *jobs*."""
    known: set[int] = set()

    def watch(report: CycleReport) -> None:
        predictions.observe(report)
        ids = set(report.view.pending.job_id.tolist())
        if ids - known:
            known.update(ids)
            predictions.once()

    cluster = SimulatedCluster(jobs, ClusterSpec.of(NODES, GPUS), SlurmConf.of(CONFIG), CONFIG)
    model = RuntimeModel.fit(as_outcomes(past))
    steering = CycleDriver(
        cluster, whole_queue(find_ordering(ordering)), model, every_s=EVERY_S, learns=True, watch=watch
    )
    steering.run()
    steering.cycle(cluster.now_s + EVERY_S)
    predictions.once()


def run(workload: tuple[Workload, Workload], ordering: str) -> tuple[float, ...]:
    """Of the first predictions of all jobs of a replay: how many, shares by finish_by, by start_by and before
    start_from, and of both moments the median widths and errors in minutes."""
    remembered = Remembered()
    covered(*workload, ordering, PredictionService(Ours(), remembered, ManualClock(), 0.0, (0.0, 1.0)))
    kept = remembered.all()
    row = accuracy(kept, float(np.nanmax(kept.ended_s)), (3650.0,))[0]
    first = kept.take(np.flatnonzero((kept.number == 0) & kept.started))
    early = float((first.started_s < first.start_from_s).mean())
    spans = (row.starts.width_s, row.finishes.width_s, row.starts.error_s, row.finishes.error_s)
    return (row.starts.jobs, row.finishes.by, row.starts.by, early, *(span_s / 60 for span_s in spans))


def main(seeds: int = 1) -> None:
    """Replay each source, load and ordering with *seeds* seeds or cuts; print their means."""
    print(f"jobs that came by the moment told, {JOBS} jobs on {NODES} nodes of {GPUS} GPUs, means of {seeds} seeds")
    print("source    load order  jobs done-by start-by too-early  width: start finish  off by: start finish (min)")
    for name, source in SOURCES.items():
        for load in LOADS:
            for ordering in ORDERINGS:
                rows = [run(source(load, seed), ordering) for seed in range(seeds)]
                jobs, done, start, early, *spans = np.mean(rows, axis=0).tolist()
                shares = f"{jobs:5.0f} {done:7.2f} {start:8.2f} {early:9.2f}"
                print(
                    f"{name:9} {load:4} {ordering:5} {shares} " + " ".join(f"{span:9.1f}" for span in spans), flush=True
                )


SOURCES = {"synthetic": made, "campaigns": campaigns, "philly": philly}

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
