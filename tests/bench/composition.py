"""``python -m tests.bench.composition [--json]``: mean JCTs of compositions beside those of another simulator.

The references are those of an independent simulator in rounds of 300 s, on 128 GPUs as one pool with free preemption.
It sees an end at the next round, 150 s later on average, which is added here. Seconds are processor time after
compilation.
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

DATA = Path(__file__).parents[3] / "shared" / "data" / "blox"
FLEET = ClusterSpec.of(32, 4)
BEAT_S = 300.0
LATE_S = BEAT_S / 2  #: mean time until a simulator in rounds sees an end
CLOSE = 0.005

POLICIES = (("fifo", 0.0), ("srtf", 0.0), ("las", 0.0), ("las", 1.5), ("las", 1.2))
"""Orderings, with the bound on the load of admitted jobs; 0 for none."""

REFERENCE_S = {
    ("blox_8jph", "3000:4000"): (125214.6, 77613.6, 84784.2, 89212.5, 120112.5),
    ("blox_8jph_long", "3000:4000"): (125214.6, 116865.0, 269559.3, 136795.5, 130887.0),
    ("blox_8jph_spikes", "2500:3500"): (189926.0, 76973.3, 95682.2, 150514.7, 185698.4),
    ("blox_8jph_bursty", "2000:4000"): (69039.5, 41246.6, 48267.2, 44630.2, 55364.3),
}
STOPS_S = (64809.6, 35621.4)  #: fifo on blox_7jph, to the end of all work, and to convergence


@dataclass(frozen=True)
class BenchRow:
    """The mean JCT of the measured jobs under one composition, in seconds."""

    trace: str
    measured: str
    policy: str
    reference: float
    ours: float
    off_by: float  #: as a share of the reference
    seconds: float
    response_s: float


def rows() -> list[BenchRow]:
    """Make each run twice, the first time to compile what it needs."""
    for made in (runs, runs):
        found = list(made())
    return found


def runs() -> Iterator[BenchRow]:
    for (name, measured), references_s in REFERENCE_S.items():
        case = Case(Source.of(str(DATA / f"{name}.csv"), FLEET.total), measure=measured)
        for (ordering, load), reference_s in zip(POLICIES, references_s, strict=True):
            yield _row(case, name, ordering, load, reference_s)
    whole = Case(Source.of(str(DATA / "blox_7jph.csv"), FLEET.total), measure="3000:4000")
    stopped = Case(whole.source, measure=whole.measure, stops=str(DATA / "blox_7jph_converged.csv"))
    for case, reference_s in zip((whole, stopped), STOPS_S, strict=True):
        yield _row(case, "blox_7jph" + (" --stops" if case.stops else ""), "fifo", 0.0, reference_s)


def _row(case: Case, name: str, ordering: str, load: float, reference_s: float) -> BenchRow:
    parts: dict[str, str | float] = {"placement": "pool", "beat_s": BEAT_S}
    setup = Setup.of(ordering, **(parts | {"admission": load} if load else parts))
    case.trace()
    began_s = time.process_time()
    ((_, run),) = sweep([Cell(case, setup)], FLEET)
    took_s = time.process_time() - began_s
    ours_s = run.summary.jct_s.mean + LATE_S
    policy = f"{ordering}, load:{load:g}" if load else ordering
    off_by = ours_s / reference_s - 1
    return BenchRow(name, case.measure or "", policy, reference_s, ours_s, off_by, took_s, run.summary.response_s.mean)


def main(words: list[str]) -> None:
    """Print every row."""
    found = rows()
    if "--json" in words:
        print(json.dumps([asdict(row) for row in found]))
        return
    print("mean JCT of the measured jobs on 128 GPUs, beside an independent simulator's; target: within 0.5 %")
    for row in found:
        print(
            f"  {row.trace:<18} {row.measured:<10} {row.policy:<14} {row.reference:>9,.1f} s {row.ours:>9,.1f} s"
            f" {100 * row.off_by:+6.2f} %  response {row.response_s:>9,.1f} s  {row.seconds:.2f} s of processor time"
        )
    print(f"  all rows: {sum(row.seconds for row in found):.2f} s of processor time (target <= 5)\n")


if __name__ == "__main__":
    main(sys.argv[1:])
