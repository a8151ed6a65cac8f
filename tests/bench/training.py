"""``python -m tests.bench.training [--json]``: mean JCTs of scalings beside those of the simulators of their authors.

Seconds are processor time after compilation.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurmsched.research.scaling.goodput import best_batch
from slurmsched.research.scaling.speed_model import fitted, objective
from slurmsched.research.training.applications import LIMITS, Application, read_applications
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.speeds.speed_files import SpeedFiles
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source

from .training_types import rows as type_rows

DATA = Path(__file__).parents[3] / "shared" / "data" / "blox"
SPEEDS = SpeedFiles(str(DATA))

REFERENCE_S = {
    "workload-1": {"tiresias": 2473.65, "optimus": 4087.0625, "pollux": 2088.8, "sia": 2088.8},
    "workload-2": {"tiresias": 5144.9625, "optimus": 6913.875, "pollux": 3322.9, "sia": 3322.9},
    "workload-6": {"tiresias": 3469.69375, "optimus": 5301.875, "pollux": 2446.1, "sia": 2446.1},
    "workload-6-half": {"tiresias": 1826.575, "optimus": 1957.9625, "pollux": 1287.8},
    "workload-6-realistic": {"tiresias": 7731.0875, "optimus": 6685.275},
    "small": {"tiresias": 4237.25, "optimus": 3573.7916666666665},
}
"""Mean JCTs; those of sia are Pollux', whose objective it has with another power."""

BEATS_S = {30.0: 2463.9, 120.0: 2510.9, 240.0: 2693.2, 480.0: 3127.0}
"""Mean JCTs of workload-6 under pollux, by the length of a round."""

SLOWED = {
    "pollux": {0.25: 2446.1, 0.5: 2446.1},
    "pollux avoidance=no": {0.0: 2442.0, 0.25: 2808.4, 0.5: 3457.0},
}
"""The same by what jobs that share a node lose: nothing where they avoid it."""

NODES = {"small": 4}
VECTORS = json.loads((DATA / LIMITS).read_text()) if DATA.is_dir() else {}


@dataclass(frozen=True)
class TrainingBenchRow:
    """The mean JCT of one workload under one scaling in seconds, or another figure beside its reference."""

    workload: str
    policy: str
    reference: float
    ours: float
    off_by: float  #: as a share of the reference
    seconds: float


def rows() -> list[TrainingBenchRow]:
    """Make some runs twice, the first time to compile what they need."""
    for line in ("tiresias", "optimus", "pollux", "sia"):
        row("small", line, 1.0)
    return list(runs())


def runs() -> Iterator[TrainingBenchRow]:
    for workload, references in REFERENCE_S.items():
        for line, reference_s in references.items():
            yield row(workload, line, reference_s)
    for beat_s, reference_s in BEATS_S.items():
        yield replace(row("workload-6", "pollux", reference_s, beat_s=beat_s), policy=f"pollux beat {beat_s:g}")
    for line, references in SLOWED.items():
        for part, reference_s in references.items():
            one = row("workload-6", line, reference_s, interference=part)
            yield replace(one, policy=f"{line} slowed {part:g}")
    yield from vectors()
    yield from (TrainingBenchRow(*one) for one in type_rows())


def vectors() -> Iterator[TrainingBenchRow]:
    """Compare all vectors of each kind; a row has the pair that differs most, of fits the one that is worst."""
    applications = read_applications(str(DATA))
    kinds = (("throughput", _step_times), ("statistics", _statistics), ("goodput", _goodputs), ("fit", _objectives))
    for kind, compare in kinds:
        began_s = time.process_time()
        pairs = [pair for one in VECTORS[kind] for pair in compare(applications[one["application"]], one)]
        took_s = time.process_time() - began_s
        signed = kind == "fit"
        reference, ours = max(pairs, key=lambda pair: _off(*pair) if signed else abs(_off(*pair)))
        yield TrainingBenchRow("pollux_vectors", kind, reference, ours, _off(reference, ours), took_s)


def _off(reference: float, ours: float) -> float:
    return ours / reference - 1 if reference else ours


def _step_times(application: Application, one: dict[str, Any]) -> Iterator[tuple[float, float]]:
    found = application.step_time(tuple(one["placement"]), one["local_bsz"])
    return zip((one["step_s"], one["sync_s"]), found, strict=True)


def _statistics(application: Application, one: dict[str, Any]) -> Iterator[tuple[float, float]]:
    columns = *application.statistics(one["batch_size"]), application.gain(one["batch_size"])
    for name, column in zip(("grad_sqr", "grad_var", "gain"), columns, strict=True):
        yield one[name], float(column[one["epoch"]])


def _goodputs(application: Application, one: dict[str, Any]) -> Iterator[tuple[float, float]]:
    limits = application.limits
    bounds = np.array([limits.initial, limits.most, limits.least_local, limits.most_local])
    statistics = one["grad_sqr"], one["grad_var"]
    found = best_batch(np.array(one["params"]), *statistics, bounds, one["nodes"], one["gpus"])
    return zip((one["goodput"], one["atomic_bsz"], one["accumulation_steps"]), found, strict=True)


def _objectives(application: Application, one: dict[str, Any]) -> Iterator[tuple[float, float]]:
    nodes, gpus, micro, compute_s, step_s = np.array(one["profile"]).T
    whole = [column.astype(np.int64) for column in (nodes, gpus, micro)]
    found = fitted(*whole, compute_s, step_s, np.zeros(0))
    points = np.stack([gpus, micro, np.log(compute_s), np.log(step_s)])
    yield tuple(objective(params, nodes > 1, points) for params in (np.array(one["params"]), found))


def row(workload: str, line: str, reference_s: float, **parts: float) -> TrainingBenchRow:
    fleet = ClusterSpec.of(NODES.get(workload, 16), 4)
    case = Case(Source.of(str(DATA / f"pollux_{workload}.csv"), fleet.total), speeds=SPEEDS)
    began_s = time.process_time()
    ((_, run),) = sweep([Cell(case, Setup.training(line, **SPEEDS.defaults | parts))], fleet)
    took_s = time.process_time() - began_s
    ours_s = run.summary.jct_s.mean
    return TrainingBenchRow(workload, line, reference_s, ours_s, ours_s / reference_s - 1, took_s)


def main() -> None:
    found = rows()
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return
    print(f"{'workload':24} {'policy':36} {'reference':>12} {'ours':>12} {'off by':>9} {'seconds':>8}")
    for one in found:
        figures = f"{one.reference:12.7g} {one.ours:12.7g} {100 * one.off_by:+8.3f} % {one.seconds:7.2f}"
        print(f"{one.workload:24} {one.policy:36} {figures}")


if __name__ == "__main__":
    main()
