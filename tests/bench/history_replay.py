"""What a month of a site costs in cycles beside slurmctld: ``python -m tests.bench.history_replay [JOBS NODES]``.

It is the row of ``simulate --from-db`` that takes the time: a cycle after each arrival and end.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload, workload

MONTH_S = 30 * 86_400.0
LOAD = 0.95


def month(count: int, gpus: int, seed: int = 0) -> Workload:
    """Return *count* jobs of 40 users over a month, which keep so many GPUs busy for nearly all of it."""
    random = np.random.default_rng(seed)
    wide = random.choice([1, 2, 4, 8], count, p=[0.5, 0.2, 0.2, 0.1])
    kind = random.integers(0, 200, count)
    runtime_s = random.lognormal(8.0, 1.3, 200)[kind] * random.lognormal(0.0, 0.4, count)
    runtime_s *= LOAD * gpus * MONTH_S / (runtime_s * wide).sum()
    return workload(
        count,
        job_id=np.arange(1, count + 1),
        user=[f"user{number}" for number in (kind % 40).tolist()],
        name=[f"job{number}" for number in kind.tolist()],
        gpus=wide,
        nodes=np.ones(count, dtype=np.int64),
        submit_s=np.sort(random.uniform(0.0, MONTH_S, count)),
        runtime_s=runtime_s,
        time_limit_s=np.ceil(runtime_s * random.uniform(1.1, 5.0, count) / 600.0) * 600.0,
    )


def main(count: int = 3_000, nodes: int = 12) -> None:
    """Replay it and print its processor time."""
    jobs, fleet = month(count, 8 * nodes), ClusterSpec.of(nodes, 8)
    setup = Setup.of("sjf", executor="slurm", selection="conservative")
    simulate(jobs.take(slice(0, 100)), fleet, setup)  # compiles
    began_s = time.process_time()
    replay = simulate(jobs, fleet, setup)
    took_s, cycles = time.process_time() - began_s, replay.decisions.cycles
    print(f"{count:,} jobs on {nodes} nodes: {took_s:.1f} s of processor time, {cycles:,} cycles, ", end="")
    print(f"{1e3 * took_s / max(cycles, 1):.2f} ms each; the ends add up to {np.nansum(replay.end_s):.6e} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
