"""The bandwidth between the GPUs of jobs on one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.links import GpuLinks
from ..cluster_spec import ClusterSpec
from ..engine.segments import Segments
from ..gpu_numbers import choice_of, gpu_numbers
from ..replay import Replay


@dataclass(frozen=True)
class LinkBandwidth:
    """The bandwidth per pair of GPUs, in GB/s one way, of jobs with several GPUs on one node."""

    mean_gbps: float = float("nan")  #: over the jobs with fewer GPUs than their nodes have
    by_gpus: dict[int, float] = field(default_factory=dict)  #: over all jobs of so many GPUs

    @classmethod
    def of(cls, replay: Replay) -> LinkBandwidth:
        """Return means over jobs; of a job that ran several times the mean over the time of its runs."""
        if replay.segments is None or not replay.fleet.links:
            return cls()
        runs = _on_one_node(replay.segments, replay.fleet, replay.setup.placement)
        gpus = replay.workload.gpus
        by_gpus = {int(count): runs.mean_gbps(gpus[runs.row] == count) for count in np.unique(gpus[runs.row])}
        return cls(runs.mean_gbps(~runs.whole), by_gpus)


@dataclass(frozen=True)
class _Runs:
    """The runs of several GPUs on one node with known links."""

    row: IntArray
    gbps: FloatArray  #: mean over the pairs of its GPUs
    ran_s: FloatArray
    whole: BoolArray  #: on all GPUs of the node

    def mean_gbps(self, some: BoolArray) -> float:
        """Return the mean over the jobs of *some* runs; NaN without any."""
        ran_s = np.bincount(self.row[some], weights=self.ran_s[some])
        total = np.bincount(self.row[some], weights=(self.gbps * self.ran_s)[some])
        jobs = np.flatnonzero(ran_s)
        return float((total[jobs] / ran_s[jobs]).mean()) if len(jobs) else float("nan")


def _on_one_node(runs: Segments, fleet: ClusterSpec, placement: str) -> _Runs:
    numbers = gpu_numbers(runs, fleet.nodes.gpus.tolist(), choice_of(placement, fleet))
    node, gpus = runs.node[runs.first], runs.gpus[runs.first]
    pairs = zip(node.tolist(), [numbers[pair] for pair in runs.first.tolist()], strict=True)
    gbps = np.array([_gbps(fleet.links[at], mine) for at, mine in pairs], dtype=np.float64)
    alone = np.diff(np.append(runs.first, len(runs.node))) == 1
    some = np.flatnonzero(alone & ~np.isnan(gbps))
    ran_s, whole = runs.end_s - runs.start_s, gpus == fleet.nodes.gpus[node]
    return _Runs(runs.row[some], gbps[some], ran_s[some], whole[some])


def _gbps(links: GpuLinks | None, gpus: Sequence[int]) -> float:
    return float("nan") if links is None else links.mean_gbps(gpus)
