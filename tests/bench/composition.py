"""``python -m tests.bench.composition [--json]``: mean JCTs of compositions beside those of another simulator.

The references are those of an independent simulator in rounds of 300 s, on 128 GPUs as one pool with free preemption.
It sees an end at the next round, 150 s later on average, which is added here. Seconds are processor time after
compilation. The rows behind them are goals: JCTs of a policy that chooses its composition, which may be at most so
long, and bandwidths between the GPUs of jobs that are placed by links, which may be no less.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_file import read_cluster
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source

DATA = Path(__file__).parents[3] / "shared" / "data" / "blox"
EXAMPLES = Path(__file__).parents[2] / "examples"
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
AUTO_S = (("blox_8jph", None, "3000:4000", 77613.6), ("blox_8jph_bursty", "0:3000", "1000:2000", 37600.0))
"""Jobs replayed and measured, and the best of nine fixed compositions, or what Blox's own rule reaches."""
LINKS_GBPS = {"p3": {2: 42.0}, "dgx1v": {2: 43.8, 0: 38.3}}
"""Least GB/s of jobs of so many GPUs of blox_4jph_multi, 0 for all on a part of a node, by the cluster file."""
JCT, LEAST_GBPS = "mean JCT in s", "GB/s"


@dataclass(frozen=True)
class BenchRow:
    """A figure of the measured jobs under one composition, beside its reference."""

    trace: str
    measured: str
    policy: str
    reference: float
    ours: float
    off_by: float  #: as a share of the reference
    seconds: float
    response_s: float
    figure: str = JCT


def rows() -> list[BenchRow]:
    """Make each run twice, the first time to compile what it needs."""
    for _ in range(2):
        found = [*runs(), *goals()]
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


def goals() -> Iterator[BenchRow]:
    """Yield the rows of goals, which have no reference that is to be equalled."""
    for name, span, measured, most_s in AUTO_S:
        case = Case(Source.of(str(DATA / f"{name}.csv"), FLEET.total), span=span, measure=measured)
        yield _row(case, f"{name} {span or ''}".strip(), "auto", 0.0, most_s)
    source = Source.of(str(DATA / "blox_4jph_multi.csv"), FLEET.total)
    for cluster, least in LINKS_GBPS.items():
        fleet = read_cluster(EXAMPLES / f"{cluster}.toml")
        began_s = time.process_time()
        ((_, run),) = sweep([Cell(Case(source), Setup.of("fifo", placement="links"))], fleet)
        took_s, links = time.process_time() - began_s, run.summary.links
        for gpus, least_gbps in least.items():
            ours_gbps = links.by_gpus[gpus] if gpus else links.mean_gbps
            policy, off_by = f"fifo, links, {gpus or '2 and more'} GPUs", ours_gbps / least_gbps - 1
            figures = least_gbps, ours_gbps, off_by, took_s, run.summary.response_s.mean
            yield BenchRow(f"blox_4jph_multi {cluster}", "all", policy, *figures, LEAST_GBPS)


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
    table = [row for row in found if row.figure == JCT and row.policy != "auto"]
    for row in found:
        unit = "s" if row.figure == JCT else row.figure
        print(
            f"  {row.trace:<23} {row.measured:<10} {row.policy:<30}"
            f" {row.reference:>9,.1f} {unit} {row.ours:>9,.1f} {unit}"
            f" {100 * row.off_by:+6.2f} %  response {row.response_s:>9,.1f} s  {row.seconds:.2f} s of processor time"
        )
    print(f"  rows with a reference: {sum(row.seconds for row in table):.2f} s of processor time (target <= 5)\n")


if __name__ == "__main__":
    main(sys.argv[1:])
