"""Small traces and clusters for the tests of the simulator, and a strategy that makes odd ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slurmsched.cluster.columns import FloatArray, Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.simulator import run
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import Workload, workload

simulate = partial(run.simulate, check=True)
"""A replay that checks the simulator's own state."""

decided = partial(run.decided, check=True)
"""A replay by the daemon's own decisions that checks the state of the cluster."""

modelled_slurm = partial(SimulatedCluster, checked=True)
"""A modelled Slurm that checks its state after each step."""


def trace(*jobs: tuple[float, float, int], **columns: Any) -> Workload:
    """Jobs as (submit, runtime, GPUs), sorted by submit; *columns* of Workload, in that order, say more of them."""
    rows = sorted(jobs, key=lambda job: job[0])
    known = {
        "job_id": np.arange(1, len(rows) + 1),
        "submit_s": [submit for submit, _, _ in rows],
        "runtime_s": [runtime for _, runtime, _ in rows],
        "gpus": [gpus for _, _, gpus in rows],
    }
    return workload(len(rows), **(known | columns))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Workload, ClusterSpec]:
    """Any few jobs on any few nodes, with time limits, deadlines and jobs that should not be spread."""
    fleet = ClusterSpec.of(draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 4, 8])))
    gpus = st.integers(1, min(fleet.total, 9))
    # whole seconds: many events fall on one instant, which is where loops differ
    jobs = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), gpus), min_size=1, max_size=30))
    count = len(jobs)

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    runtimes_s = np.array([runtime for _, runtime, _ in sorted(jobs, key=lambda job: job[0])], dtype=float)
    return trace(
        *jobs,
        time_limit_s=runtimes_s + each(st.integers(0, 8)),
        deadline_s=each(st.one_of(st.just(np.inf), st.integers(0, 60).map(float))),
        sensitive=each(st.booleans()),
    ), fleet


def setups(name: str, placement: str) -> st.SearchStrategy[Setup]:
    """Every way to put *name* together: selections, admission, beats, restarts."""
    return st.builds(
        lambda selection, **details: Setup.of(name, selection, placement=placement, **details),
        st.sampled_from(["strict", "backfill", "easy", "conservative", "preemptive"]),
        admission=st.sampled_from([np.inf, np.inf, 0.3, 1.0, 1.5, 3.0]),
        beat_s=st.sampled_from([0.0, 0.0, 4.0, 7.0]),
        restart_s=st.sampled_from([0.0, 2.0]),
        restart_doubling_s=st.sampled_from([0.0, 1.0]),
        depth=st.sampled_from([1, 3, 1000]),
    )


def misjudged(runtime_s: FloatArray, error: float, seed: int) -> Forecast:
    """Forecasts with a relative Gaussian *error*; the upper decile covers the truth of nine jobs in ten."""
    noise = 1.0 + error * np.random.default_rng(seed).standard_normal(len(runtime_s))
    median_s = runtime_s * np.maximum(noise, 0.05)
    high_s = median_s / max(0.1, 1.0 - 1.2816 * error)
    return Forecast(median_s, median_s, high_s, Labels.of(["a guess"] * len(runtime_s)))
