"""A simulated month of a site nobody has seen: generated users, a modelled queue, drawn measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.prediction_records import KeptState, PredictionRecords, kept_table
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.cluster.records.usage import UsageTable
from slurmsched.db.records.hours import Counted
from slurmsched.db.store import Store
from slurmsched.report import hour_names as names
from slurmsched.simulator import run
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic

DAY_S, HOUR_S = 86_400.0, 3_600.0
MONTH_S = 30 * DAY_S
NOW_S = 1_700_000_000.0
NODES, GPUS = 24, 8
ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED)


@dataclass(frozen=True)
class SiteMonth:
    """The records of a month that ends at NOW_S."""

    runs: OutcomeTable
    profiles: list[NodeProfile]
    predictions: PredictionRecords
    hours: dict[Counted, float]
    use: UsageTable

    def save(self, store: Store, cluster: str) -> None:
        store.add_outcomes(cluster, self.runs)
        store.add_profiles(cluster, self.profiles)
        store.save_predictions(cluster, self.predictions)
        store.add_hours(cluster, self.hours)
        store.add_use(cluster, self.use)


def site_month(jobs: int, seed: int, *, profiled: float = 0.8) -> SiteMonth:
    """Replay generated jobs of 6 accounts under a reserving queue, and draw what nodes and we say of them."""
    random = np.random.default_rng(seed)
    spec = SyntheticSpec(jobs, NODES * GPUS, 0.93, seed, arrivals="diurnal", median_s=1500.0, spread=1.4,
                         longest_s=4 * DAY_S, partitions=2)  # fmt: skip
    trace = synthetic(spec)
    # A month of jobs, whatever their number: the same load on a longer or shorter clock.
    stretch = MONTH_S / float(trace.submit_s[-1])
    fleet = ClusterSpec.of(NODES, GPUS)
    replay = run.simulate(trace, fleet, Setup.of("fifo", "easy"))

    def at(times_s):
        return np.floor(NOW_S - MONTH_S + np.asarray(times_s) * stretch)

    submit_s, start_s, end_s = (
        at(trace.submit_s),
        at(replay.start_s),
        np.maximum(at(replay.end_s), at(replay.start_s) + 1),
    )
    kept = end_s < NOW_S
    count = int(kept.sum())
    state = np.where(
        trace.time_limit_s < trace.runtime_s, JobState.TIMEOUT, random.choice(ENDS, jobs, p=(0.8, 0.1, 0.02, 0.08))
    )
    account = Labels.of(f"group{code % 6}" for code in trace.user.codes.tolist())
    runs = OutcomeTable(
        job_id=trace.job_id[kept], restart=np.zeros(count, dtype=np.int64), name=trace.name.take(kept),
        user=trace.user.take(kept), account=account.take(kept), qos=Labels.of(["normal"] * count),
        partition=trace.partition.take(kept), gpus=trace.gpus[kept],
        nodes=np.maximum(1, -(-trace.gpus[kept] // GPUS)), cpus=8 * trace.gpus[kept],
        time_limit_s=trace.time_limit_s[kept] * stretch, first_submit_s=submit_s[kept], eligible_s=submit_s[kept],
        started_s=start_s[kept], ended_s=end_s[kept], runtime_s=(end_s - start_s)[kept],
        state=state[kept].astype(np.int64),
        gpu_type=Labels.of(random.choice(("a100", "v100"), count).tolist()),
    )  # fmt: skip
    return SiteMonth(
        runs, _profiles(runs, random, profiled), _predictions(runs, random), _hours(random), _use(runs, random)
    )


def _profiles(runs: OutcomeTable, random: np.random.Generator, share: float) -> list[NodeProfile]:
    made = []
    busy = random.beta(2.2, 1.6, len(runs))
    for row in np.flatnonzero(random.random(len(runs)) < share).tolist():
        gpus, nodes, start = int(runs.gpus[row]), int(runs.nodes[row]), int(runs.started_s[row])
        runtime_s = float(runs.runtime_s[row])
        idle = random.random()
        for node in range(nodes):
            process = 0.0 if idle < 0.06 else float(random.uniform(0.85, 1.0))
            util = 0.0 if process == 0.0 else float(random.uniform(0.0, 0.045)) if idle < 0.13 else float(busy[row])
            made.append(
                NodeProfile(int(runs.job_id[row]), 0, f"n{node + row % 20}", start, start + int(runtime_s),
                            gpus // nodes, max(runtime_s - 2.0, 0.0), process, util, 0.1, util / 2,
                            float(random.uniform(2e3, 7e4)) * gpus / nodes, 300.0, 0.0)
            )  # fmt: skip
    return made


def _predictions(runs: OutcomeTable, random: np.random.Generator) -> PredictionRecords:
    """Predict each job as well as the stated intervals say; Slurm goes by limits, so that its estimates are late."""
    made_s = runs.eligible_s

    def told(came_s, spread, bias=0.0):
        ahead = np.log(np.maximum(came_s - made_s, 0) + 30.0)
        middle = ahead + bias - spread * random.standard_normal(len(runs))
        return [made_s + np.maximum(np.exp(middle + spread * z) - 30.0, 0) for z in (-1.2816, 0.0, 1.2816)]

    start, finish = told(runs.started_s, 0.5), told(runs.ended_s, 0.6)
    slurm_s = np.where(random.random(len(runs)) < 0.7, told(runs.started_s, 0.9, 0.8)[1], np.nan)
    return kept_table(
        len(runs), job_id=runs.job_id, first_submit_s=runs.first_submit_s, made_s=made_s, partition=runs.partition,
        gpus=runs.gpus, start_from_s=start[0], start_s=start[1], start_by_s=start[2], finish_from_s=finish[0],
        finish_s=finish[1], finish_by_s=finish[2], slurm_start_s=slurm_s, started_s=runs.started_s,
        ended_s=runs.ended_s, state=np.full(len(runs), int(KeptState.SETTLED)),
    )  # fmt: skip


def _use(runs: OutcomeTable, random: np.random.Generator) -> UsageTable:
    """Let accounting know half of the runs: their mean CPUs and most memory on a node."""
    some = runs.take(random.random(len(runs)) < 0.5)
    held = 32_000.0 * some.gpus / some.nodes
    return table_of(
        UsageTable, len(some), {}, {
            "job_id": some.job_id, "user": some.user, "name": some.name, "gpus": some.gpus, "nodes": some.nodes,
            "cpus": some.cpus / some.nodes * random.uniform(0.05, 0.9, len(some)), "held_memory_mib": held,
            "memory_mib": held * random.uniform(0.1, 1.0, len(some)), "runtime_s": some.runtime_s,
            "ended_s": some.ended_s,
            "state": some.state,
        },
    )  # fmt: skip


def _hours(random: np.random.Generator) -> dict[Counted, float]:
    sums: dict[Counted, float] = {}
    shifts_s = dict(zip((f"group{n}" for n in range(6)), (-2600, -1500, -700, 150, 900, 2100), strict=True))
    for hour in range(30 * 24):
        from_s = math.floor((NOW_S - MONTH_S) / HOUR_S + hour) * HOUR_S
        mode = "observe" if hour < 10 * 24 else "act"
        gpu_s = HOUR_S * NODES * GPUS
        free_s = gpu_s * random.uniform(0.02, 0.2)
        for what, value in {
            names.named(names.COUNTED_S, mode): HOUR_S, names.GPUS_S: gpu_s, names.FREE_S: free_s,
            names.WAITED_FOR_S: free_s * random.uniform(0.1, 0.7),
            names.named(names.CALLS, "squeue"): 240, names.named(names.CALLS, "scontrol"): 60 * (mode == "act"),
            names.named(names.MODE_CALLS, mode): 240 + 60 * (mode == "act"),
            names.named(names.RPCS, mode): round(random.uniform(2000, 2600)) + 60 * (mode == "act"),
            names.named(names.RPC_S, mode): random.uniform(2.0, 3.0), names.named(names.RPC_SPAN_S, mode): HOUR_S,
            names.named(names.EFFECT_SAMPLES, mode): 60, names.named(names.WRITES, "Rank"): 300 * (mode == "act"),
            names.named(names.WRITES, "Hold"): 12 * (mode == "act"),
            names.REFUSED: float(mode == "act" and hour % 9 == 0),
        }.items():  # fmt: skip
            sums[Counted(from_s, what)] = float(value)
        for account, shift_s in shifts_s.items():
            jobs = 60.0 * random.integers(1, 30)
            for what, value in ((names.EFFECT_JOBS, jobs), (names.EFFECT_S, jobs * random.normal(shift_s, 900)),
                                (names.EFFECT_SOONER, jobs * (0.7 if shift_s < 0 else 0.2)),
                                (names.EFFECT_LATER, jobs * (0.1 if shift_s < 0 else 0.6))):  # fmt: skip
                sums[Counted(from_s, names.named(what, mode), account)] = value
            change_s = shift_s / 3 * (1 + 0.4 * math.sin(hour / 5))
            for what, value in ((names.REPLAY_JOBS, 20.0), (names.REPLAY_LONGER_S, 20 * max(change_s, 0.0)),
                                (names.REPLAY_SHORTER_S, 20 * max(-change_s, 0.0))):  # fmt: skip
                sums[Counted(from_s, names.named(what, mode), account)] = value
            if shift_s > 0:
                sums[Counted(from_s, names.STRANDED_CPUS_S, account, f"u{shift_s % 7:03}")] = random.uniform(0, 4000)
    return sums
