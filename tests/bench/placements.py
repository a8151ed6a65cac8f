"""``python -m tests.bench.placements``: mean JCT by placement, of drawn jobs of which half slow down when spread."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import numpy as np

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.metrics import summary
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.workload import Workload

PLACEMENTS = ("consolidate", "tiresias-skew", "first-free", "quasi-consolidate")
POLICIES = (("fifo", "backfill"), ("srtf", "backfill"), ("srtf", "preemptive"))
LOADS = (0.8, 1.0, 1.2)
SEEDS = range(4)
NODES, NODE = 8, 8
SPEEDS = (1.0, 0.8, 0.6, 0.5)  #: on 0, 1, 2 and more nodes beyond those needed
SIZES = ((1, 0.3), (2, 0.2), (4, 0.2), (8, 0.2), (16, 0.1))


def drawn(load: float, seed: int) -> Workload:
    """Return 600 jobs, of which half slow down when spread."""
    spec = SyntheticSpec(jobs=600, cluster_gpus=NODES * NODE, load=load, seed=seed, gpu_mix=SIZES)
    jobs = synthetic(spec)
    return replace(jobs, sensitive=np.random.default_rng(seed).random(len(jobs)) < 0.5)


def mean_jct_s(ordering: str, selection: str, placement: str, load: float) -> float:
    """Return the mean JCT over all workloads of a load."""
    fleet = replace(ClusterSpec.of(NODES, NODE), speeds=SPEEDS)
    setup = Setup.of(ordering, selection, placement=placement)
    return mean(summary(simulate(drawn(load, seed), fleet, setup)).jct_s.mean for seed in SEEDS)


def main() -> None:
    """Print a row for each policy and load."""
    print("mean JCT in seconds |", " | ".join(PLACEMENTS))
    for ordering, selection in POLICIES:
        for load in LOADS:
            jcts = (mean_jct_s(ordering, selection, placement, load) for placement in PLACEMENTS)
            print(
                f"| `{ordering}`, `{selection}`, {load:.0%} |",
                " | ".join(f"{jct:,.0f}" for jct in jcts),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
