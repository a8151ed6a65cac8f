"""``python -m tests.bench.slowdowns [--write docs/img]``: placement by what is declared and by what is measured.

Figure 11 of Blox, on 32 nodes of four GPUs: 4 jobs an hour of 1 to 8 GPUs, each of one of eight programs by chance.
The first five programs are declared to slow down when spread. Of the eight 5 to 8 truly do, to 60 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurmsched.cluster.columns import Labels
from slurmsched.simulator.case import Case
from slurmsched.simulator.report.metrics import summary
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.workload import Workload

from .composition import BEAT_S, DATA, FLEET
from .composition_figures import drawn

PROGRAMS = tuple(f"program-{letter}" for letter in "abcdefgh")
DECLARED = 5  #: of the programs, the first
SLOW = (1.0, 0.6)  #: speed on as few nodes as needed, and on more
JOBS, MEASURED, SEED = slice(0, 600), slice(100, 400), 1
POLICIES = {
    "all": {"placement": "consolidate"},
    "declared": {"placement": "tiresias-skew"},
    "measured": {"placement": "tiresias-plus"},
    "exact": {"placement": "tiresias-plus", "slowdowns": "exact"},
}
"""What a placement believes of programs, and the placement."""


@dataclass(frozen=True)
class SlowdownRow:
    """The mean JCT of the measured jobs where *sensitive* of the programs slow down."""

    sensitive: int
    belief: str
    jct_s: float
    spread_jobs: int  #: that were on more nodes than they need
    seconds: float  #: processor time


def jobs_of_programs() -> Workload:
    """Return the jobs, each with a program, and with what is declared of that."""
    case = Case(Source.of(str(DATA / "blox_4jph_multi.csv"), FLEET.total))
    jobs = case.trace().workload.take(np.arange(JOBS.start, JOBS.stop))
    program = np.random.default_rng(SEED).integers(0, len(PROGRAMS), len(jobs))
    return replace(jobs, name=Labels(program, PROGRAMS), sensitive=program < DECLARED)


def rows() -> Iterator[SlowdownRow]:
    """Yield a row for each number of sensitive programs and each belief."""
    jobs = jobs_of_programs()
    for sensitive in range(DECLARED, len(PROGRAMS) + 1):
        speeds = {name: SLOW if at < sensitive else (1.0,) for at, name in enumerate(PROGRAMS)}
        for belief, parts in POLICIES.items():
            began_s = time.process_time()
            setup = Setup.of("tiresias", beat_s=BEAT_S, **parts)
            replay = simulate(jobs, replace(FLEET, program_speeds=speeds), setup)
            found = summary(replace(replay, measured=MEASURED))
            yield SlowdownRow(sensitive, belief, found.jct_s.mean, found.spread_jobs, time.process_time() - began_s)


def beyond_exact(jct_s: Mapping[str, Mapping[int, float]]) -> dict[str, list[tuple[float, float]]]:
    """Return the minutes of JCT beyond those with exact knowledge, by the number of sensitive programs."""
    exact_s = jct_s["exact"]
    return {
        belief: [(at, (jct_s[belief][at] - exact_s[at]) / 60.0) for at in exact_s]
        for belief in ("declared", "measured")
    }


def main() -> None:
    """Print every row and, with --write, draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to write the SVG file")
    folder = parser.parse_args().write
    jct_s: dict[str, dict[int, float]] = {}
    print("mean JCT by the number of 8 programs that spreading slows down to 60 %, 5 of them declared")
    for row in rows():
        spread = f"{row.spread_jobs} of {MEASURED.stop - MEASURED.start} jobs spread"
        print(f"  {row.sensitive} {row.belief:<9} {row.jct_s:>10,.0f} s  {spread}  ({row.seconds:.1f} s)", flush=True)
        jct_s.setdefault(row.belief, {})[row.sensitive] = row.jct_s
    if folder is not None:
        title, across = "mean JCT beyond that with exact knowledge", "programs of 8 that slow down when spread"
        picture = drawn(title, across, "minutes", beyond_exact(jct_s))
        (folder / "composition-jct-by-sensitive.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
