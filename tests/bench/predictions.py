"""How long the predictions of a long queue take: ``python -m tests.bench.predictions``."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from slurmsched.cli.daemon.build import PREDICTION_WORKER
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobState, JobTable, job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.state import View
from slurmsched.daemon.predictions.prediction_process import PredictionWorker
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.foresee.snapshot import resumed
from slurmsched.foresee.whatif import PASSES, Option, compare, span_s
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cycle_driver import whole_queue
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf

NOW_S = 1_000_000.0
CONFIG = {"SelectTypeParameters": "CR_CORE_MEMORY", "PriorityType": "priority/multifactor"}
GPUS = 8
SIZES, SHARES = (1, 2, 4, 8, 16, 32), (0.5, 0.15, 0.13, 0.15, 0.05, 0.02)
LIMITS_S = (3600.0, 4 * 3600.0, 86400.0, 3 * 86400.0)


RUNS = 5
COMPARED = (1_236, 200)  #: pending jobs and nodes of what-if
SHAPES = ((10_000, 1000, 1), (10_000, 1000, 4), (10_000, 200, 1), (2_000, 100, 2))


def main() -> None:
    """Foretell each shape of cluster after compilation, with time and CPU time as medians."""
    _foretold(view(100, 20))
    print(f"predictions of all jobs, nodes of {GPUS} GPUs, slurm executor, median of {RUNS}")
    for pending, nodes, partitions in SHAPES:
        seen = view(pending, nodes, partitions)
        wall_s, cpu_s = np.median([_foretold(seen) for _ in range(RUNS)], axis=0)
        aim = "  target: 2 s" if (pending, nodes) == (10_000, 1000) else ""
        shape = f"{pending:>6,} pending, {nodes:>5,} nodes, {partitions} partitions"
        print(f"  {shape}: {wall_s:.2f} s, CPU {cpu_s:.2f} s{aim}")
    print(f"  the first of these asked of the process that the daemon has for it: {_through_the_process():.2f} s")
    for run in (_compared, _played_with_all_reservations):
        run(view(60, 10))
    draws, wall_s, cpu_s = _compared(view(*COMPARED))
    shape = f"what-if {COMPARED[0]:,} pending, {COMPARED[1]} nodes"
    before_s = _played_with_all_reservations(view(*COMPARED))
    print(f"  {shape}, before: stock Slurm once, all reservations: CPU {before_s:.2f} s")
    played = f"stock Slurm, sjf, its ideal, {draws} times each"
    print(f"  {shape}, now: {played}: {wall_s:.2f} s, CPU {cpu_s:.2f} s  target: CPU 30 s")


def _compared(seen: View) -> tuple[int, float, float]:
    """How often what-if plays stock Slurm, sjf and its ideal, and the seconds in all, by the clock and of the CPU."""
    ordering = find_ordering("sjf")
    acting = Policy(ordering, Rules(powers=frozenset({"order"})))
    options = [Option("as now"), Option("sjf", acting), Option("ideal", whole_queue(ordering), exact=True)]
    began_s, cpu_s = time.perf_counter(), time.process_time()
    draws = compare(seen, CONFIG, options, every_s=30.0).draws
    return draws, time.perf_counter() - began_s, time.process_time() - cpu_s


def _played_with_all_reservations(seen: View) -> float:
    """Seconds of the CPU for one play of stock Slurm that reserves for as many jobs as slurmctld."""
    conf = SlurmConf.of(CONFIG)
    rules = conf.rules._replace(bf_interval_s=max(conf.rules.bf_interval_s, span_s(seen) / PASSES))
    cpu_s = time.process_time()
    resumed(seen, CONFIG, replace(conf, rules=rules)).advance(np.inf)
    return time.process_time() - cpu_s


def _through_the_process() -> float:
    """Seconds that the largest look takes there and back, once the compiler is done."""
    player, seen = PredictionWorker(PREDICTION_WORKER), view(*SHAPES[0])
    nobody = np.full(len(seen.pending), -1, dtype=np.int64)
    took_s = []
    try:
        for _ in range(RUNS):
            began_s = time.perf_counter()
            player.predict(seen, nobody, np.zeros_like(nobody), {"SelectTypeParameters": "CR_CORE_MEMORY"})
            took_s.append(time.perf_counter() - began_s)
    finally:
        player.close()
    return float(np.median(took_s))


def _foretold(seen: View) -> tuple[float, float]:
    """Seconds that one look takes, by the clock and of the CPU."""
    nobody = np.full(len(seen.pending), -1, dtype=np.int64)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    predict_completion(
        seen, nobody, np.zeros(len(seen.pending), dtype=np.int64), {"SelectTypeParameters": "CR_CORE_MEMORY"}
    )
    return time.perf_counter() - began_s, time.process_time() - cpu_s


def view(pending: int, nodes: int, partitions: int = 1, seed: int = 0) -> View:
    """*pending* jobs before *nodes* full nodes; each partition has an equal part of both, and the last one has all."""
    random = np.random.default_rng(seed)
    running = _running(nodes, random)
    names = [f"gpu{number}" for number in range(partitions)]
    jobs = _jobs(pending, random, partition=[names[number] for number in random.integers(0, partitions, pending)])
    runtime_s = _runtimes_s(jobs.time_limit_s, random)
    ran_s = NOW_S - running.started_s
    left_s = ran_s + _runtimes_s(running.time_limit_s - ran_s, random)
    where = [f"{names[number * (partitions - 1) // nodes]},{names[-1]}" for number in range(nodes)]
    return View(
        NOW_S,
        jobs,
        running,
        _nodes(nodes, Labels.of(",".join(dict.fromkeys(text.split(","))) for text in where)),
        PartitionTable(
            Labels.of(names),
            np.ones(partitions, dtype=np.int64),
            np.ones(partitions, dtype=bool),
            np.full(partitions, np.inf),
            Labels.of(["n"] * partitions),
        ),
        QosTable(Labels.of(["normal"]), np.array([10])),
        Forecast(runtime_s, runtime_s / 3, np.minimum(3 * runtime_s, jobs.time_limit_s), _source(pending)),
        Forecast(left_s, left_s, left_s, _source(len(running))),
    )


def _source(count: int) -> Labels:
    return Labels.of(["synthetic"] * count)


def _runtimes_s(limit_s: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return limit_s * random.beta(0.6, 2.0, len(limit_s)) + 1.0


def _jobs(count: int, random: np.random.Generator, **columns: object) -> JobTable:
    gpus = random.choice(SIZES, count, p=SHARES)
    since_s = np.sort(NOW_S - random.exponential(20_000, count))
    known: dict[str, object] = {
        "job_id": np.arange(1, count + 1),
        "name": [f"train_{number % 500}" for number in range(count)],
        "user": [f"user{number}" for number in random.integers(0, 300, count).tolist()],
        "reason": ["Priority"] * count,
        "qos": ["normal"] * count,
        "gpus": gpus,
        "nodes": -(-gpus // GPUS),
        "cpus": 4 * gpus,
        "memory_mib": 32_000.0 * gpus,
        "time_limit_s": random.choice(LIMITS_S, count, p=(0.2, 0.3, 0.4, 0.1)),
        "priority": np.arange(count, 0, -1) + 1000,
        "eligible_s": since_s,
        "submitted_s": since_s,
        "first_submit_s": since_s,
    }
    return job_table(count, **(known | columns))


def _running(nodes: int, random: np.random.Generator) -> JobTable:
    """What fills the nodes, job by job."""
    gpus, where, node = [], [], 0
    while node < nodes:
        wanted = int(random.choice(SIZES, p=SHARES))
        if wanted >= GPUS:
            many = min(wanted // GPUS, nodes - node)
            gpus.append(many * GPUS)
            where.append(f"n[{node}-{node + many - 1}]" if many > 1 else f"n{node}")
            node += many
            continue
        gpus += [wanted] * (GPUS // wanted)
        where += [f"n{node}"] * (GPUS // wanted)
        node += 1
    count = len(gpus)
    held = np.array(gpus)
    limit_s = random.choice(LIMITS_S, count, p=(0.2, 0.3, 0.4, 0.1))
    started_s = NOW_S - limit_s * random.random(count) * 0.9
    return _jobs(
        count,
        random,
        job_id=np.arange(1_000_001, 1_000_001 + count),
        partition=["gpu0"] * count,
        state=np.full(count, JobState.RUNNING),
        reason=["None"] * count,
        gpus=held,
        nodes=np.maximum(1, held // GPUS),
        cpus=4 * held,
        memory_mib=32_000.0 * held,
        time_limit_s=limit_s,
        started_s=started_s,
        node_list=where,
    )


def _nodes(count: int, partitions: Labels) -> NodeTable:
    empty, zeros = Labels.of([""] * count), np.zeros(count, dtype=np.int64)
    return NodeTable(
        name=Labels.of(f"n{number}" for number in range(count)),
        partitions=partitions,
        state=Labels.of(["allocated"] * count),
        usable=np.ones(count, dtype=bool),
        cpus=zeros + 64,
        cpus_used=zeros + 32,
        memory_mib=np.full(count, 512_000.0),
        memory_used_mib=np.full(count, 256_000.0),
        gpus=zeros + GPUS,
        gpus_used=zeros + GPUS,
        gpu_type=empty,
        features=empty,
    )


if __name__ == "__main__":
    main()
