"""The schedulers that Chronus is compared with, on its traces (``python -m tests.bench.deadline_policies``)."""

from __future__ import annotations

import sys
import time

import numpy as np

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.report.deadlines import Deadlines
from slurmsched.simulator.report.metrics import summary
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload

from .chronus import MIXES, NODE, first_day, invented, thinned, whole

POLICIES = {
    "edf": ("edf rest=remaining", "preemptive"),
    "genie": ("genie", "preemptive"),
    "3sigma": ("srtf", "3sigma"),
    "yarn-cs": ("fifo", "yarn-cs share={share!r}"),
    "tiresias": ("tiresias", "preemptive"),
    "themis": ("themis", "preemptive"),
    "srtf": ("srtf", "preemptive"),
}
"""An ordering and a selection each; *share* is the share of the jobs that have a deadline."""


def main() -> None:
    """All tables, or those that are named."""
    tables = {"schedulers": schedulers, "densities": densities, "crowds": crowds, "fortnight": fortnight}
    for name in sys.argv[1:] or tables:
        tables[name]()


def schedulers() -> None:
    """The first day on 60 and on 120 nodes."""
    for nodes in (60, 120):
        print(f"day 1, {nodes} nodes x {NODE}: weighted miss rate, best-effort JCT in minutes")
        for mix in MIXES:
            for name in POLICIES:
                tell(f"{mix} {name}", first_day(mix), nodes, name)


def densities() -> None:
    """Jobs left out or said twice at random, as in figure 9 c-f."""
    print(f"density, day 1, 60 nodes x {NODE}")
    for mix in MIXES:
        for density in (0.8, 1.0, 1.2, 1.4, 1.6):
            jobs = thinned(first_day(mix), density)
            for name in POLICIES:
                tell(f"{mix} {density:.0%} {name}", jobs, 60, name)


def crowds() -> None:
    """Invented jobs that ask for more than there is."""
    print("invented jobs, 30 nodes")
    for load, seed in ((1.3, 1), (1.8, 2)):
        for name in ("edf", "srtf"):
            tell(f"invented {load:.0%} {name}", invented(load, seed), 30, name)


def fortnight() -> None:
    """The whole traces."""
    print(f"14 days, 120 nodes x {NODE}")
    for mix in MIXES:
        for name in ("edf", "srtf"):
            tell(f"{mix} {name}", whole(mix), 120, name)


def setup_of(jobs: Workload, name: str) -> Setup:
    """Return a policy on the beat of Chronus' leases of five minutes, with its cost of a stop, on one pool of GPUs."""
    ordering, selection = POLICIES[name]
    share = float(np.isfinite(jobs.deadline_s).mean())
    parts = {"placement": "pool", "beat_s": 300.0, "restart_s": 30.0, "restart_doubling_s": 30.0}
    return Setup.of(ordering, selection.format(share=share), **parts)


def tell(title: str, jobs: Workload, nodes: int, name: str) -> None:
    """Replay and print one row."""
    began_s = time.perf_counter()
    replay = simulate(jobs, ClusterSpec.of(nodes, NODE), setup_of(jobs, name))
    took_s, missed = time.perf_counter() - began_s, Deadlines.of(replay)
    best_effort_min = summary(replay).best_effort_jct_s / 60
    stops, decided_by = int(replay.stops.sum()), replay.decisions.decided_by
    figures = f"{missed.unearned:7.4f} {best_effort_min:8.1f}  {stops:6d} stops  {took_s:6.2f} s {decided_by}"
    print(f"  {title:<32}{figures}", flush=True)


if __name__ == "__main__":
    main()
