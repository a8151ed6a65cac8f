"""A burst on a lab under settings from both ends of a front: ``python -m tests.bench.front_burst``.

The daemon's own cycle orders the same jobs on a lab and on the modelled Slurm, under first come, first served and under
classes that let small jobs pass, and predicts the end of each job when it comes. A front says what one setting gains
over the other and what that costs; this shows that a real Slurm moves along it by as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slurmsched.decide.rules import Rules
from slurmsched.lab import LabSpec, programs
from slurmsched.policies.ordering.wfq import FIFO, Wfq
from slurmsched.policies.ordering.wfq_line import line_of

from .bursts import Flow, Job
from .flow_lab import launch_s, on_lab
from .flow_model import modelled

JOBS, APART_S = 32, 1.5
SETTINGS = {"surest": FIFO, "fastest": Wfq((30.0, 120.0, math.inf), (0.7, 0.25, 0.05), 0.0, overtake=10.0)}


def burst(name: str) -> Flow:
    """Jobs of many sizes that come faster than they can run, under one of SETTINGS."""
    draw = np.random.default_rng(53)
    jobs = []
    for number in range(JOBS):
        gpus, work_s = int(draw.choice([1, 1, 2, 4])), float(np.clip(8.0 * np.exp(draw.standard_normal()), 3.0, 60.0))
        jobs.append(Job(APART_S * number, gpus, work_s, "front"))
    rules = Rules(powers=frozenset({"order"}), scope="queue")
    return Flow(name, tuple(jobs), {"gpu": ("n1,n2", 1)}, rules, ordering=f"wfq {line_of(SETTINGS[name])}")


@dataclass(frozen=True)
class Place:
    """Where a setting is on a front."""

    jct_s: float
    error: float


def places(name: str) -> tuple[Place, Place]:
    """Where a setting is on a lab, and where the model says that it is."""
    flow = burst(name)
    real, config = on_lab(flow, predicts=True)
    came_s = np.array([real.submitted_s[job] for job in sorted(real.submitted_s)])
    model = modelled(flow, came_s, launch_s(flow, real), config, real.backfill_s, predicts=True)
    return Place(real.jct_s, real.error), Place(model.jct_s, model.error)


@dataclass(frozen=True)
class Step:
    """A change from one setting to another."""

    real: float
    model: float


def moves() -> tuple[Step, Step]:
    """The mean JCT of the fastest setting over that of the surest, and the points by which its mean error is larger."""
    sure, fast = (places(name) for name in SETTINGS)
    for name, (real, model) in zip(SETTINGS, (sure, fast), strict=True):
        print(
            f"  {name}: mean JCT {real.jct_s:.1f} s on the lab, {model.jct_s:.1f} s modelled;"
            f" mean error {100 * real.error:.1f} % and {100 * model.error:.1f} %",
            flush=True,
        )
    pairs = list(zip(fast, sure, strict=True))
    jct = Step(*(one.jct_s / other.jct_s for one, other in pairs))
    return jct, Step(*(100.0 * (one.error - other.error) for one, other in pairs))


def main() -> None:
    """Print both settings and what lies between them."""
    programs.check(LabSpec())
    print(f"front: {JOBS} jobs on a lab and on the modelled Slurm under two settings of wfq")
    for name, step in zip(("mean JCT, as a share", "mean error, in points"), moves(), strict=True):
        print(f"  from the surest to the fastest, {name}: {step.real:.3g} on the lab, {step.model:.3g} modelled")
    print()


if __name__ == "__main__":
    main()
