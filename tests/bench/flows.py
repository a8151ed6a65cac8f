"""Powers of the daemon on a lab and on the modelled Slurm: ``python -m tests.bench.flows [FLOW]... [once] [jobs]``.

Flows are profiling, deadlines, steering, rightsizing, resizing and migration. On both the daemon's own cycle runs once
a second with the same policy, the same jobs, their exact runtimes as forecasts, and the same history and profiles. The
model gets the arrivals of the lab's run, what a start and an end cost there, and when slurmctld's backfill first ran: a
pass comes every ten seconds from then on, and what it finds free decides much. The times of the lab are those of
slurmctld's log.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence

import numpy as np

from slurmsched.lab import LabSpec, programs

from .bursts import FLOWS, Flow
from .flow_lab import launch_s, on_lab
from .flow_model import modelled

RUNS = 2


def compare(flow: Flow, each_job: bool) -> float:
    """Run *flow* on both, print the figures of both, and return the difference of the mean JCT in per cent."""
    load = os.getloadavg()[0]
    real, config = on_lab(flow)
    cost_s = launch_s(flow, real)
    came_s = np.array([real.submitted_s[job] for job in sorted(real.submitted_s)])
    model = modelled(flow, came_s, cost_s, config, real.backfill_s)
    off = 100.0 * (model.jct_s / real.jct_s - 1.0)
    print(
        f"  {flow.name}: mean JCT {real.jct_s:.1f} s on the lab, {model.jct_s:.1f} s modelled, {off:+.1f} %;", end=" "
    )
    print(f"a start and an end cost {cost_s:.2f} s; load before {load:.1f}, after {os.getloadavg()[0]:.1f}")
    pairs = {name: (count, model.counts()[name]) for name, count in real.counts().items()}
    print("    " + ", ".join(f"{name} {on}/{off}" for name, (on, off) in pairs.items() if on or off), flush=True)
    for job, it in enumerate(flow.jobs, 1) if each_job else ():
        jct_s = "/".join(f"{course.ended_s[job] - course.submitted_s[job]:.1f}" for course in (real, model))
        on = "/".join(" ".join(map(str, course.last_on.get(job, "?"))).strip() for course in (real, model))
        print(f"    {job:4}: {jct_s} s, restarts {real.restarts[job]}/{model.restarts[job]}, on {on}, {it}")
    return off


def main(words: Sequence[str] = ()) -> None:
    """Print the figures of the flows named, or of all; ``once`` runs each once, ``jobs`` shows each job."""
    programs.check(LabSpec())
    runs = 1 if "once" in words else RUNS
    print("flows: the daemon's cycle on a lab and on the modelled Slurm, the same jobs; counts as lab/model")
    for name in [name for name in FLOWS if name in words] or FLOWS:
        off = [compare(FLOWS[name](), "jobs" in words) for _ in range(runs)]
        print(f"  {name}: off by {statistics.median(off):+.1f} % (median of {runs}; target: within 5 %)", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
