"""``python -m tests.bench.preemption``: what preemption costs, by the compiled core and through decide().

On nodes of 8 GPUs: all of Philly by both compiled loops, then the first 5,000 jobs, and 2,000 drawn at load 1.2, also
through the daemon's cycle and decide() at each event. Rows of one trace must not differ.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay, restart_costs
from slurmsched.simulator.run import decided, simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.workload import Workload

PHILLY = Path("../shared/data/philly.csv")
NODES, GPUS, FEW, FIRST, DRAWN, DRAWN_NODES = 108, 8, 16, 5_000, 2_000, 16
POLICIES, COSTS_S = ("srtf", "las", "tiresias"), (0.0, 300.0)

Run = Callable[[Workload, ClusterSpec, Setup], Replay]


def bench_preemption() -> bool:
    """Print a row for each policy, cost and way to replay; return whether all ways gave the same."""
    core: dict[str, Run] = {"core": simulate}
    drawn = synthetic(SyntheticSpec(jobs=DRAWN, cluster_gpus=DRAWN_NODES * GPUS, load=1.2, seed=1))
    traces: list[tuple[str, Workload, int, dict[str, Run]]] = [
        (f"{DRAWN:,} drawn, load 1.2", drawn, DRAWN_NODES, core | {"decide()": decided})
    ]
    if PHILLY.exists():
        philly = Source.of(str(PHILLY), NODES * GPUS).load().workload
        small = philly.take(np.flatnonzero(philly.gpus <= FEW * GPUS)[:FIRST])
        traces.append((f"first {FIRST:,} of Philly", small, FEW, core | {"decide()": decided}))
        traces.append(("all of Philly", philly, NODES, core))
    same = [bench(*trace) for trace in traces]
    return all(same)


def bench(title: str, jobs: Workload, nodes: int, runs: dict[str, Run]) -> bool:
    """Print the rows of a trace; return whether all ways to replay gave the same starts, stops and ends."""
    print(f"{title}: {len(jobs):,} jobs on {nodes} nodes of {GPUS}", flush=True)
    same = True
    for policy in POLICIES:
        for cost_s in COSTS_S:
            setup, replays = Setup.of(policy, restart_s=cost_s, placement="consolidate"), list[Replay]()
            for name, run in runs.items():
                began_s = time.process_time()
                replays.append(run(jobs, ClusterSpec.of(nodes, GPUS), setup))
                show(f"{policy}, a restart costs {cost_s:.0f} s, {name}", replays[-1], time.process_time() - began_s)
            differ = [name for name, replay in zip(runs, replays, strict=True) if not alike(replay, replays[0])]
            if differ:
                print(f"    DIFFERENT: {' and '.join(differ)}")
            same &= not differ
    return same


def show(title: str, replay: Replay, took_s: float) -> None:
    """Print one row."""
    jobs = replay.workload
    lost_h = float((replay.stops * jobs.gpus * restart_costs(jobs, replay.setup)).sum() / 3600)
    mean_s = float((replay.end_s - jobs.submit_s).mean())
    print(
        f"  {title}: mean JCT {mean_s:,.0f} s, {replay.stops.sum():,} stops, {lost_h:,.0f} GPU-hours lost"
        f" ({took_s:.1f} s of processor time)",
        flush=True,
    )


def alike(replay: Replay, other: Replay) -> bool:
    """Return whether two replays have the same starts, stops and ends."""
    starts = np.array_equal(replay.start_s, other.start_s)
    return starts and np.array_equal(replay.stops, other.stops) and np.allclose(replay.end_s, other.end_s)


if __name__ == "__main__":
    sys.exit(0 if bench_preemption() else 1)
