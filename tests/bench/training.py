"""``python -m tests.bench.training [--json]``: mean JCTs of scalings beside those of the simulators of their authors.

Seconds are processor time after compilation.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.training.speed_files import SpeedFiles

DATA = Path(__file__).parents[3] / "shared" / "data" / "blox"
SPEEDS = SpeedFiles(str(DATA))

REFERENCE_S = {
    "workload-1": {"tiresias": 2473.65, "optimus": 4087.0625},
    "workload-2": {"tiresias": 5144.9625, "optimus": 6913.875},
    "workload-6": {"tiresias": 3469.69375, "optimus": 5301.875},
    "workload-6-half": {"tiresias": 1826.575, "optimus": 1957.9625},
    "workload-6-realistic": {"tiresias": 7731.0875, "optimus": 6685.275},
    "small": {"tiresias": 4237.25, "optimus": 3573.7916666666665},
}
NODES = {"small": 4}


@dataclass(frozen=True)
class TrainingBenchRow:
    """The mean JCT of one workload under one scaling, in seconds."""

    workload: str
    policy: str
    reference: float
    ours: float
    off_by: float  #: as a share of the reference
    seconds: float


def rows() -> list[TrainingBenchRow]:
    """Make the first run twice, the first time to compile what it needs."""
    next(runs())
    return list(runs())


def runs() -> Iterator[TrainingBenchRow]:
    for workload, references in REFERENCE_S.items():
        for line, reference_s in references.items():
            yield row(workload, line, reference_s)


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
    print(f"{'workload':24} {'policy':16} {'reference':>10} {'ours':>10} {'off by':>9} {'seconds':>8}")
    for one in found:
        figures = f"{one.reference:10.1f} {one.ours:10.1f} {100 * one.off_by:+8.3f} % {one.seconds:7.2f}"
        print(f"{one.workload:24} {one.policy:16} {figures}")


if __name__ == "__main__":
    main()
