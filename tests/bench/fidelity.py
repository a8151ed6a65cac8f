"""How true the modelled slurmctld is: the demo's burst in a real lab and in the simulator, side by side."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

import numpy as np

from slurmsched.cluster.columns import FloatArray
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.demo.lab_burst import GPUS, NODES, OPERATOR, fresh_lab, occupy, outcomes_of, submit, watch
from slurmsched.demo.operator_program import Slurmsched
from slurmsched.demo.simulated import SimulatedBurst, simulated_history
from slurmsched.demo.workload import USERS, bursts
from slurmsched.lab import Lab

STOCK = "stock"
ORDERINGS = (STOCK, "sjf", "qssf")
RUNS = 2
CHAIN = 16
DAY_S = 86400.0

CAME = r"_slurm_rpc_submit_batch_job: JobId=(\d+) "
BEGAN = r"(?:sched: Allocate|_start_job: Started|backfill: Started) JobId=(\d+) "
ENDED = r"_job_complete: JobId=(\d+) done"
"""What slurmctld writes in its log, to the millisecond."""


def bench_fidelity(now_s: float, runs: int = RUNS, orderings: Sequence[str] = ORDERINGS) -> None:
    """Average JCT of the burst, real and simulated, for each ordering; LabError where there is no Slurm."""
    earlier, _ = bursts()
    history = simulated_history(earlier, math.floor(now_s - DAY_S))
    launch_s, release_s = overheads()
    print("fidelity: average JCT of the demo's burst, stock Slurm and slurmsched, in the lab and simulated")
    print(f"  on an idle lab a start and an end cost {launch_s:.3f} s, and its nodes are free {release_s:.3f} s later")
    for ordering in orderings:
        off = []
        for _ in range(runs):
            came_s, real = real_burst(history, ordering)
            mean_s, simulated_s = jct_s(real), jct_s(simulated(history, ordering, came_s, launch_s, release_s))
            off.append(100 * (simulated_s / mean_s - 1))
            print(
                f"    {ordering:<6} real {mean_s:6.2f} s  simulated {simulated_s:6.2f} s  {off[-1]:+5.1f} %", flush=True
            )
        print(
            f"  {ordering}: off by {statistics.median(off):+.1f} % (median of {runs}; target: within 5 %)", flush=True
        )
    print()


def overheads() -> tuple[float, float]:
    """What a start and an end add to a run, and what passes before its nodes are free, on a lab that does nothing else.

    From slurmctld's log of jobs that run one after the other on all nodes, milliseconds apart. The main loop looks once
    a second, so the shortest gap of many is the one that waited for it least.
    """
    naps_s = [0.3 + 0.137 * number for number in range(CHAIN)]
    with fresh_lab() as lab:
        whole = (f"--nodes={NODES}", f"--ntasks={NODES}", f"--gres=gpu:{GPUS}", "--time=1", "--output=/dev/null")
        jobs = [lab.submit(*whole, f"--wrap=exec sleep {nap_s:.3f}", user=OPERATOR) for nap_s in naps_s]
        watch(lab, len(jobs), lambda line: None)
        log = lab.layout.log("slurmctld").read_text()
    began, ended = times_in_log(log, BEGAN, jobs), times_in_log(log, ENDED, jobs)
    launch_s = statistics.median(
        end_s - begin_s - nap_s for begin_s, end_s, nap_s in zip(began, ended, naps_s, strict=True)
    )
    return launch_s, min(after_s - end_s for end_s, after_s in zip(ended[:-1], began[1:], strict=True))


def times_in_log(log: str, words: str, jobs: Sequence[int]) -> list[float]:
    """When slurmctld last said *words* of each job, in Unix seconds."""
    told = {
        int(found[2]): datetime.fromisoformat(found[1]).timestamp()
        for found in re.finditer(rf"^\[(\S+)\] .*?{words}", log, re.MULTILINE)
    }
    return [told[job] for job in jobs]


def real_burst(history: OutcomeTable, ordering: str) -> tuple[FloatArray, OutcomeTable]:
    """The burst on a lab: when its jobs came, and what became of them.

    The jobs that keep the GPUs busy before it come first. They are how it begins, so what counts is when they started.
    """
    _, measured = bursts()
    with fresh_lab() as lab:
        with nullcontext() if ordering == STOCK else _steered(lab, history, ordering):
            before = occupy(lab)
            jobs = submit(lab, measured)
            watch(lab, len(jobs), lambda line: None)
        everything = outcomes_of(lab, [*before, *jobs])
    in_order = everything.take(np.argsort(everything.job_id))
    came_s = np.where(np.isin(in_order.job_id, before), in_order.started_s, in_order.first_submit_s)
    return came_s - came_s[0], in_order.take(slice(len(before), None))


def _steered(lab: Lab, history: OutcomeTable, ordering: str) -> AbstractContextManager[None]:
    program = Slurmsched(lab, ordering)
    program.remember(history, users={name: lab.user(name) for name in USERS})
    return program.steering()


def simulated(
    history: OutcomeTable, ordering: str, came_s: FloatArray, launch_s: float, release_s: float
) -> OutcomeTable:
    """The burst on the modelled lab."""
    burst = SimulatedBurst(bursts()[1], came_s, launch_s, release_s)
    if ordering == STOCK:
        burst.cluster.advance(np.inf)
    else:
        burst.steer(history, ordering)
    return burst.outcomes()


def jct_s(outcomes: OutcomeTable) -> float:
    """Average JCT."""
    return float((outcomes.ended_s - outcomes.first_submit_s).mean())
