"""``python -m tests.bench.lucid [PART]... [ROW]...``, of PARTS and ROWS: Lucid against what it has to beat.

The semi-synthetic Philly trace on 48 nodes of 8 GPUs, forecasts and models from what was submitted before the week;
``main`` and ``ablation`` without a name. Each row of Lucid takes minutes: the daemon's own decisions are made at each
event. ``preempting`` is sharing and preemption together, ``slurm`` the modelled slurmctld. With names of ROWS,
``ablation`` and ``weeks`` run these alone. A row that hangs on a trained model is followed by its spread over models
that are trained anew, unless the word ``once`` is given.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from slurmsched.cluster.columns import FloatArray, Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.db.records.gpu_usage import MOST
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import AdmissionRules, DeadlineRules, LeaseRules, ProfilingRules, Rules, SharingRules
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.policies.contract import Ordering, find_ordering
from slurmsched.policies.ordering.static import FAR_S
from slurmsched.policies.sharing_candidates import EAGER
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing, nodes_of, partition_of
from slurmsched.simulator.gpu_profiles import T_PROF_S, ended_runs, profiles_of, true_use
from slurmsched.simulator.pair_rules import GPU_MIB, MEMORY_SHARE
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.run import decided, simulate
from slurmsched.simulator.setup import EVERY_S, Setup
from slurmsched.simulator.traces import read
from slurmsched.simulator.volatile_store import VolatileStore
from slurmsched.simulator.workload.workload import Workload, as_submitted

from .lucid_models import DATA, measured, rows_of
from .lucid_runtime import outcomes
from .machine import machine

FIRST_S, WEEK_S = 2294959.0, 604800.0  # October begins, in the trace's own seconds
NODES, GPUS = 48, 8
RESTART_S = 62.0  # of a preempted job, Lucid section 4.8
THRESHOLDS = (  # GPU-seconds of attained service between Tiresias' queues
    (3600.0, 36000.0),
    (3600.0, 14400.0, 86400.0),
    (36000.0, 360000.0),
    (1200.0, 29000.0, 750000.0),
)
RETRAINED = 5  # models of resampled histories
ONCE = "once"
PARTS = ("main", "ablation", "levels", "weeks", "preempting", "slurm", "hooks")
SHIFT = 0.5  # share of the jobs whose configuration is exchanged for a lighter or heavier one
DEBUG_S = 60.0
NEAREST = 5  # measured pairs that stand for one that was not
LUCID = Setup.of("lucid", forecast="history", sharing="indolent", profile_nodes=1, profile_s=100.0, restart_s=RESTART_S)
SHARED = 12  #: nodes with slots, where Slurm starts the jobs
LIMITS = {"capacity": EAGER, "memory_mib": MEMORY_SHARE * GPU_MIB, "wait_s": 2 * EVERY_S}  #: as the ideal cluster's


@dataclass(frozen=True)
class Week:
    """A week of the trace, and what had been learnt before it."""

    jobs: Workload
    history: Workload
    told: Forecast


def main() -> None:
    """The parts that were named."""
    asked = [word for word in sys.argv[1:] if word != ONCE] or ["main", "ablation"]
    if unknown := set(asked) - set(PARTS) - set(ROWS):
        raise SystemExit(f"{', '.join(sorted(unknown))} is not known; there are: {', '.join((*PARTS, *ROWS))}")
    print(machine())
    for part, run in zip(PARTS, (against, ablation, levels, weeks, preempting, on_slurm, hooks), strict=True):
        if part in asked:
            run()


@cache
def trace() -> Workload:
    return read(DATA / "philly_semisynthetic.csv.gz").workload


@cache
def pairs() -> Sharing:
    """The pairs that were measured, by the names that the trace gives configurations."""
    keys = ("model", "dataset", "batchsize", "amp")
    names = tuple("|".join(row[key] for key in keys) for row in rows_of("lucid_single_data.csv"))
    at = {name: place for place, name in enumerate(names)}
    speeds = np.zeros((len(names), len(names)))
    with (DATA / "lucid_colocate_info.csv").open() as file:
        for row in csv.DictReader(file):
            one, other = (at["|".join(row[f"{key}{side}"] for key in keys)] for side in (1, 2))
            speeds[one, other] = min(1.0, float(row["speed1"]))
            speeds[other, one] = min(1.0, float(row["speed2"]))
    return Sharing(names, speeds)


@cache
def fleet() -> ClusterSpec:
    """48 nodes where jobs may share GPUs; pairs that were not measured run as the nearest ones."""
    return replace(ClusterSpec.of(NODES, GPUS), sharing=completed(pairs(), measured().use.gpu_util))


def completed(sharing: Sharing, gpu_util: FloatArray) -> Sharing:
    """The same table without gaps: a pair that was not measured runs at the mean speeds of the NEAREST measured ones.

    Near is who has the least sum of differences of the two *gpu_util* (0..1, one for each name); ties go to the first
    in the table. An assumption, which lets a simulation go on.
    """
    speeds = sharing.speeds.copy()
    known = (speeds > 0) & (speeds.T > 0)
    firsts, seconds = np.nonzero(known)
    for one, other in np.argwhere(~known).tolist():
        far = np.abs(gpu_util[firsts] - gpu_util[one]) + np.abs(gpu_util[seconds] - gpu_util[other])
        near = np.argsort(far, kind="stable")[:NEAREST]
        speeds[one, other] = sharing.speeds[firsts[near], seconds[near]].mean()
    return replace(sharing, speeds=speeds)


@cache
def week(number: int) -> Week:
    jobs, from_s = trace(), FIRST_S + (number - 1) * WEEK_S
    inside = (jobs.submit_s >= from_s) & (jobs.submit_s < from_s + WEEK_S)
    now, before = jobs.take(inside), jobs.take(jobs.submit_s < from_s)
    told = Estimator.fit(outcomes(before), until_s=from_s).forecast(as_submitted(now))
    return Week(now, before, told)


def head(text: str) -> None:
    print(f"\n{text}\n{'':34}{'JCT':>9}{'queueing':>10}{'P99.9':>9}{'debug':>8}{'took':>7}")


def row(name: str, run: Callable[[], Replay]) -> float:
    """One line: mean JCT, mean and P99.9 of queueing, mean queueing of debug jobs; seconds."""
    began = time.perf_counter()
    replay = run()
    took_s = time.perf_counter() - began
    jobs = replay.workload
    jct_s, queued_s = replay.end_s - jobs.submit_s, replay.start_s - jobs.submit_s
    debug_s = queued_s[jobs.runtime_s <= DEBUG_S].mean()
    figures = f"{jct_s.mean():9.0f}{queued_s.mean():10.0f}{np.percentile(queued_s, 99.9):9.0f}{debug_s:8.0f}"
    print(f"{name:34}{figures}{took_s:6.1f}s", flush=True)
    return float(jct_s.mean())


def trained_row(name: str, run: Callable[[Week], Replay], of: Week) -> float:
    """A row whose forecasts come from a trained model, and the spread of its mean JCT over models trained anew."""
    jct_s = row(name, partial(run, of))
    if ONCE not in sys.argv:
        again = [run(retrained(of, seed)) for seed in range(RETRAINED)]
        means = [float((replay.end_s - replay.workload.submit_s).mean()) for replay in again]
        spread = f"JCT {min(means):.0f} to {max(means):.0f}, median {np.median(means):.0f}"
        print(f"{'':4}{RETRAINED} models of resampled histories: {spread}", flush=True)
    return jct_s


def retrained(of: Week, seed: int) -> Week:
    """The week with forecasts of a model that learnt from as many runs of its history, drawn with replacement."""
    from_s, many = float(of.jobs.submit_s.min()), len(of.history)
    drawn = np.sort(np.random.default_rng(seed).integers(0, many, many))
    return replace(
        of, told=Estimator.fit(outcomes(of.history.take(drawn)), until_s=from_s).forecast(as_submitted(of.jobs))
    )


def tiresias(thresholds: tuple[float, ...]) -> Setup:
    steps = np.array(thresholds)

    def key(view):  # type: ignore[no-untyped-def]
        service_s = view.pending.ran_s * np.maximum(view.pending.gpus, 1)
        return np.searchsorted(steps, service_s, side="right") * FAR_S + view.pending.first_submit_s

    return Setup(Ordering("tiresias", key, "", "while_running", thresholds), "preemptive", restart_s=RESTART_S)


def lucid(of: Week, *, told_s: FloatArray | None = None, ckpt: bool = True, past: bool = True, **parts: Any) -> Replay:
    """Lucid on a week, by ``decide()``; *told_s* in place of its forecasts, and *parts* of its set-up changed.

    Unless *ckpt*, no job may begin anew after its time on the profiling nodes. With *past* the profiles of earlier runs
    are known.
    """
    told = of.told if told_s is None else replace(of.told, runtime_s=told_s, floor_s=np.zeros(len(told_s)))
    jobs = replace(of.jobs, ckpt=np.full(len(of.jobs), ckpt))
    return decided(jobs, fleet(), replace(LUCID, **parts), told, store=profiles_before(of) if past else None)


def preemptive(of: Week) -> float:
    """The least mean JCT of Tiresias over all threshold sets."""
    plain = ClusterSpec.of(NODES, GPUS)
    return min(
        row(f"tiresias {' '.join(f'{s:.0f}' for s in steps)}", lambda s=steps: simulate(of.jobs, plain, tiresias(s)))  # type: ignore[misc]
        for steps in THRESHOLDS
    )


def bound(of: Week) -> Replay:
    """Least GPU time left first, by the true runtimes, with preemption that costs nothing: what there is to gain."""
    return simulate(of.jobs, ClusterSpec.of(NODES, GPUS), Setup.of("srsf"))


def against() -> None:
    """Lucid and all others on the first week of October."""
    of, plain = week(1), ClusterSpec.of(NODES, GPUS)
    runtime_s = of.jobs.runtime_s.mean()
    head(f"week 1, {len(of.jobs):,} jobs, {NODES} x {GPUS} GPUs, executor direct (mean runtime {runtime_s:.0f} s)")
    fifo = row("fifo", lambda: simulate(of.jobs, plain, Setup.of("fifo")))
    row("sjf, exact", lambda: simulate(of.jobs, plain, Setup.of("sjf")))
    row("qssf, exact", lambda: simulate(of.jobs, plain, Setup.of("qssf")))
    learning = Setup.of("qssf", forecast="history")
    trained_row("qssf", lambda of: simulate(of.jobs, plain, learning, learnt=of.told), of)
    best = preemptive(of)
    row("srsf, exact, preemption for nothing", lambda: bound(of))
    ours = trained_row("lucid", lucid, of)
    print(f"lucid: {best / ours:.2f} times as fast as the best tiresias, {fifo / ours:.2f} times as fast as fifo")


def usual_s(of: Week) -> FloatArray:
    """The mean runtime of earlier jobs with as many GPUs, in place of forecasts."""
    usual = {int(gpus): float(of.history.runtime_s[of.history.gpus == gpus].mean()) for gpus in np.unique(of.jobs.gpus)}
    return np.array([usual[int(gpus)] for gpus in of.jobs.gpus])


ROWS: dict[str, Callable[[Week], Replay]] = {
    "lucid": lucid,
    "nobody-saves-work": partial(lucid, ckpt=False),
    "exact-forecasts": lambda of: lucid(of, told_s=of.jobs.runtime_s),
    "no-sharing": partial(lucid, sharing="none"),
    "equal-widths": partial(lucid, wide_hosts=False),
    "no-profiler": partial(lucid, profile_nodes=0),
    "neither": partial(lucid, wide_hosts=False, profile_nodes=0),
    "no-estimator": lambda of: lucid(of, told_s=usual_s(of)),
    "no-earlier-profiles": partial(lucid, past=False),
    "profiled-200-s": partial(lucid, profile_s=200.0),
    "two-profiling-nodes": partial(lucid, profile_nodes=2),
}
"""Lucid with parts left out or changed; without the profiler each job is profiled where it runs."""


UNTRAINED = ("exact-forecasts", "no-estimator")


def some_rows(of: Week) -> None:
    """The rows that were named, or all."""
    for name, run in ROWS.items():
        if name in sys.argv or not set(ROWS) & set(sys.argv):
            if name in UNTRAINED:
                row(name, partial(run, of))
            else:
                trained_row(name, run, of)


def ablation() -> None:
    """Parts of Lucid left out, as in figure 11."""
    head("week 1, parts of Lucid left out")
    some_rows(week(1))


def levels() -> None:
    """Lighter and heavier jobs, as in figure 12."""
    for name, towards in (("lighter", -1), ("heavier", 1)):
        of = shifted(week(1), towards)
        head(f"week 1 with {name} configurations, mean GPU utilisation {of.jobs.gpu_util.mean():.2f}")
        best = preemptive(of)
        print(f"lucid: {best / trained_row('lucid', lucid, of):.2f} times as fast as the best tiresias")


def shifted(of: Week, towards: int) -> Week:
    """The week in which half the users + names compute something a third of all configurations lighter or heavier."""
    data, names = measured(), pairs().names
    rank = np.argsort(data.use.gpu_util, kind="stable")
    place = np.empty(len(rank), dtype=np.int64)
    place[rank] = np.arange(len(rank))
    rng = np.random.default_rng(1)

    def exchanged(jobs: Workload, chosen: dict[tuple[str, str], bool]) -> Workload:
        kinds = list(zip(jobs.user, jobs.name, strict=True))
        for kind in kinds:
            if kind not in chosen:
                chosen[kind] = bool(rng.random() < SHIFT)
        moved = np.array([chosen[kind] for kind in kinds])
        now = jobs.work.map([names.index(name) for name in jobs.work.names], np.int64)
        to = rank[np.clip(place[now] + towards * len(rank) // 3, 0, len(rank) - 1)]
        work = np.where(moved, to, now)
        use = data.use
        return replace(
            jobs,
            work=Labels(work, names),
            gpu_util=use.gpu_util[work],
            memory_util=use.memory_util[work],
            gpu_memory_mib=use.memory_mib[work],
            amp=use.amp[work] > 0,
        )

    chosen: dict[tuple[str, str], bool] = {}
    return replace(of, history=exchanged(of.history, chosen), jobs=exchanged(of.jobs, chosen))


def weeks() -> None:
    """The next two weeks of October, on which constants were chosen."""
    for number in (2, 3):
        of = week(number)
        head(f"week {number}, {len(of.jobs):,} jobs (mean runtime {of.jobs.runtime_s.mean():.0f} s)")
        preemptive(of)
        row("srsf, exact, preemption for nothing", lambda of=of: bound(of))  # type: ignore[misc]
        some_rows(of)


def yielding(of: Week, *, told_s: FloatArray | None = None, sharing: str = "indolent") -> Replay:
    """Jobs that share as under Lucid, and yield to those with the least GPU time left; all save their work."""
    told = of.told if told_s is None else replace(of.told, runtime_s=told_s, floor_s=np.zeros(len(told_s)))
    jobs, forecast = replace(of.jobs, ckpt=np.full(len(of.jobs), True)), "history" if told_s is None else "exact"
    details = {"forecast": forecast, "sharing": sharing, "restart_s": RESTART_S, "beat_s": 300.0}
    setup = Setup.of("srsf", "preemptive lease_s=1200", **details)
    return decided(jobs, fleet(), setup, told, store=profiles_before(of))


def preempting() -> None:
    """Sharing and preemption together, on three weeks; the mean runtime bounds what any policy could gain."""
    for number in (1, 2, 3):
        of = week(number)
        runtime_s = float(of.jobs.runtime_s.mean())
        head(f"week {number}, {len(of.jobs):,} jobs, all save their work (mean runtime {runtime_s:.0f} s)")
        best = preemptive(of)
        ours = trained_row("sharing and preemption", yielding, of)
        row("exact forecasts", partial(yielding, of, told_s=of.jobs.runtime_s))
        row("preemption alone", partial(yielding, of, sharing="none"))
        print(f"{best / ours:.3f} times as fast as the best tiresias; without any wait {best / runtime_s:.3f} times")


def on_slurm() -> None:
    """What a modelled slurmctld makes of week 1: alone, under the order of Lucid, and where jobs share GPUs too."""
    of, plain = week(1), ClusterSpec.of(NODES, GPUS)
    head("week 1, a modelled slurmctld, no sharing")
    row("stock Slurm", lambda: simulate(of.jobs, plain, Setup.of("slurm")))
    ours = Setup.of("lucid", executor="slurm", forecast="history")
    trained_row("lucid's order", lambda of: simulate(of.jobs, plain, ours, learnt=of.told), of)
    for other_users in (True, False):
        head(f"the same, {SHARED} nodes where GPUs are shared, {'any users' if other_users else 'jobs of one user'}")
        for name, wide in (("wide hosts", True), ("only with as many GPUs", False)):
            rules = SharingRules(wide=wide, other_users=other_users, **LIMITS)
            trained_row(name, partial(on_slots, rules=rules), of)


def on_slots(of: Week, rules: SharingRules, shared: int = SHARED) -> Replay:
    """Lucid beside a modelled slurmctld whose last *shared* nodes have slots, as the daemon does it with *rules*."""
    where = [("gpu", f"n[1-{NODES - shared}]"), ("shared", f"n[{NODES - shared + 1}-{NODES}]")]
    gpu, slots = (partition_of(name, nodes) for name, nodes in where)
    nodes = nodes_of(NODES, GPUS, partitions=["gpu"] * (NODES - shared) + ["shared"] * shared)
    site = replace(fleet(), nodes=nodes, partitions=gpu.joined(slots), shared="shared")
    jobs = replace(of.jobs, partition=Labels.of(["gpu"] * len(of.jobs)))
    policy = Policy(find_ordering("lucid"), Rules(powers=frozenset({"order", "share"}), scope="queue", sharing=rules))
    return simulate(jobs, site, Setup.of("lucid", executor="slurm", forecast="history", site=policy), learnt=of.told)


def hooks() -> None:
    """Week 1 beside a modelled slurmctld with every hook on: what the decisions cost."""
    head("week 1, a modelled slurmctld, all hooks")
    row("all hooks", partial(with_all_hooks, week(1)))


def with_all_hooks(of: Week) -> Replay:
    """Promises, admission, leases, pairs, and measuring: a third of the jobs has deadlines, half of them ``ckpt``."""
    where = {"gpu": (1, 34), "shared": (35, 46), "profile": (47, 48)}
    tables = [partition_of(name, f"n[{first}-{last}]") for name, (first, last) in where.items()]
    names = [name for name, (first, last) in where.items() for _ in range(first, last + 1)]
    nodes = nodes_of(NODES, GPUS, partitions=names)
    site = replace(fleet(), nodes=nodes, partitions=tables[0].joined(tables[1]).joined(tables[2]), shared="shared")
    draw, count = np.random.default_rng(17), len(of.jobs)
    wanted = draw.random(count) < 1 / 3
    due_s = of.jobs.submit_s + of.jobs.runtime_s * draw.uniform(1.5, 6.0, count) + draw.uniform(600.0, 43_200.0, count)
    jobs = replace(
        of.jobs,
        partition=Labels.of(["profile,gpu"] * count),
        deadline_s=np.where(wanted, due_s, np.inf),
        ckpt=draw.random(count) < 0.5,
    )
    rules = Rules(
        powers=frozenset({"order", "hold", "requeue", "comment", "share", "partition", "profile", "nodes", "stop"}),
        scope="queue",
        deadlines=DeadlineRules(yields=True, user_share=1.0, slack_s=3_600.0),
        sharing=SharingRules(wide=True, other_users=True, **LIMITS),
        profiling=ProfilingRules("profile", home="gpu"),
        admission=AdmissionRules("load:1.2"),
        lease=LeaseRules("lease 20m", 1_200.0),
        stopping="opt",
    )
    policy = Policy(find_ordering("lucid"), rules)
    replay = simulate(jobs, site, Setup.of("lucid", executor="slurm", forecast="history", site=policy), learnt=of.told)
    print(replay.decisions)
    return replay


def profiles_before(of: Week) -> VolatileStore:
    """The profiles that nodes delivered before a week, if each job ran when it was submitted, on GPUs of its own."""
    left_s = of.jobs.submit_s.min() - of.history.submit_s
    known = (of.history.runtime_s <= left_s) | (left_s >= T_PROF_S)
    history = of.history.take(np.flatnonzero(known)[-MOST:])
    history = replace(
        history,
        job_id=-1 - np.arange(len(history)),  # no id of the week
        runtime_s=np.minimum(history.runtime_s, of.jobs.submit_s.min() - history.submit_s),
    )
    ran, store = replace(outcomes(history), job_id=history.job_id), VolatileStore.blank()
    runs = ended_runs(ran, {job: [at] for at, job in enumerate(history.job_id.tolist())})
    store.save("simulation", PendingWrites(outcomes=[ran]))
    store.add_profiles("simulation", profiles_of(runs, as_submitted(history), true_use(history)))
    return store


if __name__ == "__main__":
    main()
