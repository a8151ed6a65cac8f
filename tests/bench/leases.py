"""``python -m tests.bench.leases [week] [ckpt] [--jobs N] [--write docs/img]``: leases for the order, modelled.

``week`` is the first week of October of the semi-synthetic Philly trace on 48 nodes of 8 GPUs, all jobs with ckpt:
stock Slurm, and each ordering with leases beside slurmctld and where plans happen as they are, at the same beat.
``ckpt`` is the same with ckpt for some of the jobs, or of the first N; with --write it is drawn. A run takes minutes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slurmsched.decide.rules import LeaseRules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import whole_queue
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload

from .composition_figures import drawn
from .lucid import FIRST_S, GPUS, NODES, RESTART_S, WEEK_S, trace

ORDERINGS = ("tiresias", "srsf", "las")
LEASE = "lease 20m"
LEASE_S = 1200.0
BEAT_S = 60.0
UNLIMITED = 10**6  #: stops of a job within a day
SHARES = (0.0, 0.1, 0.5, 1.0)
CLOSE = 1.15  #: the most that slurmctld may cost
HOUR_S = 3600.0


@dataclass(frozen=True)
class LeaseRow:
    """The figures of one run."""

    jct_s: float
    wait_s: float
    stops: int
    took_s: float

    def __str__(self) -> str:
        return f"{self.jct_s:9,.0f}{self.wait_s:9,.0f}{self.stops:9,}{self.took_s:8.0f}"


def week() -> Workload:
    """The jobs of the week."""
    jobs = trace()
    return jobs.take((jobs.submit_s >= FIRST_S) & (jobs.submit_s < FIRST_S + WEEK_S))


def with_ckpt(jobs: Workload, share: float) -> Workload:
    """The same jobs, *share* of them with ckpt, drawn as ``--ckpt`` draws them."""
    return replace(jobs, ckpt=np.random.default_rng(0).random(len(jobs)) < share)


def beside_slurm(name: str) -> Setup:
    """An ordering with leases beside the modelled slurmctld."""
    lease = LeaseRules(LEASE, LEASE_S, asks_a_day=UNLIMITED, restart_s=RESTART_S)
    policy = whole_queue(find_ordering(name), None, lease)
    return replace(Setup.of(name, executor="slurm", beat_s=BEAT_S, restart_s=RESTART_S), site=policy)


def ideal(name: str) -> Setup:
    """The same where plans happen as they are."""
    return Setup.of(name, preemption=LEASE, beat_s=BEAT_S, restart_s=RESTART_S)


def row(title: str, jobs: Workload, setup: Setup) -> LeaseRow:
    """Run it and print the figures: mean JCT, mean time to the first start, stops, and the time that it took."""
    began = time.perf_counter()
    replay = simulate(jobs, ClusterSpec.of(NODES, GPUS), setup)
    jct_s, wait_s = (float((at - jobs.submit_s).mean()) for at in (replay.end_s, replay.start_s))
    made = LeaseRow(jct_s, wait_s, int(replay.stops.sum()), time.perf_counter() - began)
    print(f"  {title:<30}{made}", flush=True)
    return made


def head(title: str) -> None:
    """Print the title of a table and its columns."""
    print(f"{title}\n  {'':<30}{'JCT':>9}{'waited':>9}{'stops':>9}{'took':>8}")


def bench_week() -> None:
    """Print how near the orderings come to their ideal beside slurmctld."""
    jobs = with_ckpt(week(), 1.0)
    head(f"week 1, {len(jobs):,} jobs with ckpt, cycles of {BEAT_S:.0f} s, {LEASE}, a restart costs {RESTART_S:.0f} s")
    row("stock Slurm", jobs, Setup.of("slurm"))
    for name in ORDERINGS:
        for beat_s in (BEAT_S, LEASE_S):
            setup = Setup.of(name, "preemptive", beat_s=beat_s, restart_s=RESTART_S)
            row(f"{name}, no lease, each {beat_s:.0f} s", jobs, setup)
        best, live = row(f"{name}, ideal", jobs, ideal(name)), row(f"{name}, slurmctld", jobs, beside_slurm(name))
        print(f"  {name}: {live.jct_s / best.jct_s:.3f} of its ideal (target <= {CLOSE})")


def bench_ckpt(first: int | None, folder: Path | None) -> None:
    """Print what leases do where only some of the *first* jobs have ckpt, and draw it into *folder*."""
    jobs, curves = week().take(slice(first)), {}
    head(f"week 1, {len(jobs):,} jobs, some of them with ckpt")
    row("stock Slurm", jobs, Setup.of("slurm"))
    for name in ORDERINGS:
        live = [row(f"{name}, {share:.0%} with ckpt", with_ckpt(jobs, share), beside_slurm(name)) for share in SHARES]
        curves[name] = [(10 * share, made.jct_s / HOUR_S) for share, made in zip(SHARES, live, strict=True)]
        for share in SHARES[1:]:
            row(f"{name}, {share:.0%} with ckpt, ideal", with_ckpt(jobs, share), ideal(name))
    if folder is not None:
        title = "mean JCT (hours) by the share of jobs with ckpt"
        picture = drawn(title, "tenths of the jobs with ckpt", "mean JCT (hours)", curves)
        (folder / "leases-jct-by-ckpt.svg").write_text(picture, encoding="utf-8")


def main() -> None:
    """Run the parts that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="week, ckpt; both by default")
    parser.add_argument("--jobs", type=int, metavar="N", help="only the first N jobs of the week, in the part ckpt")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to write the SVG file")
    options = parser.parse_args()
    parts = {"week": bench_week, "ckpt": lambda: bench_ckpt(options.jobs, options.write)}
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    for part in options.parts or parts:
        parts[part]()


if __name__ == "__main__":
    main()
