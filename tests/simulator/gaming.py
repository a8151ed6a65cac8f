"""A user who games forecasts: jobs added to a trace, and what they gain by it against honesty.

The cheater has one job a day that runs three hours. Each strategy decides under which names, limits and accounts these
are submitted and what is submitted beside them; only the waits of the three-hour jobs count.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurmsched.cluster.columns import FloatArray, IntArray, Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import Workload, workload

NEVER = 1e9  #: runtime over forecast that no run reaches: no forecast is ever raised

JOBS = 30
DAY_S, HOUR_S = 86400.0, 3600.0
LENGTH_S = 3 * HOUR_S
BAIT_S = 12.0
BAITS = 5
LIMIT_S = 24 * HOUR_S
AHEAD_S = HOUR_S  #: baits are submitted so long before the job
PIECES = 6
ORDERINGS = ("sjf", "qssf", "lucid")
BAIT, OTHERS = -1, -2
GAIN = 1.3  #: what no strategy may shorten the cheater's mean wait by more than
LOSS = 1.05  #: nor the others' mean time from submission to end grow


@dataclass(frozen=True)
class Task:
    """One submission of the cheater."""

    submit_s: float
    job: int = BAIT  #: the number of the three-hour job it is, or is a piece of
    name: str = "train"
    runtime_s: float = LENGTH_S
    limit_s: float = LIMIT_S
    user: str = "cheater"
    chained: bool = False  #: submitted when the piece before has ended


Strategy = Callable[[int, float], list[Task]]
"""What is submitted for a job of that number and moment."""


def fresh(number: int) -> str:
    """A name that no other number has, and that differs in letters."""
    return "".join(random.Random(number).choices("ghijklmnopqrstuvwxyz", k=9))


def baits(at_s: float, name: str, count: int = BAITS, **details: object) -> list[Task]:
    """Short runs under *name* that have ended when the job is submitted."""
    return [replace(Task(at_s - AHEAD_S + 60.0 * n, BAIT, name, BAIT_S), **details) for n in range(count)]  # type: ignore[arg-type]


def honest(number: int, at_s: float) -> list[Task]:
    return [Task(at_s, number)]


def rotated_names(number: int, at_s: float) -> list[Task]:
    return [Task(at_s, number, fresh(number))]


def bait_under_one_name(number: int, at_s: float) -> list[Task]:
    return [*baits(at_s, "train"), Task(at_s, number)]


def bait_under_fresh_names(number: int, at_s: float) -> list[Task]:
    return [*baits(at_s, fresh(number)), Task(at_s, number, fresh(number))]


def short_and_long_limits(number: int, at_s: float) -> list[Task]:
    """Baits with a short limit and with that of the job, whose limit is another every day."""
    limit_s = LENGTH_S + 60.0 * (number + 1)
    name = fresh(number)
    short, long = baits(at_s, name, limit_s=120.0), baits(at_s + 300.0, name, limit_s=limit_s)
    return [*short, *long, Task(at_s, number, name, limit_s=limit_s)]


def split_jobs(number: int, at_s: float) -> list[Task]:
    piece_s = LENGTH_S / PIECES
    return [Task(at_s + n * piece_s, number, f"part_{n}", piece_s, 2 * piece_s, chained=n > 0) for n in range(PIECES)]


def arrays(number: int, at_s: float) -> list[Task]:
    """A hundred short tasks of an array under the name of the job."""
    return [
        *(replace(task, submit_s=at_s - AHEAD_S) for task in baits(at_s, "sweep", 100)),
        Task(at_s, number, "sweep"),
    ]


def alternating(number: int, at_s: float) -> list[Task]:
    """Honest one day, with bait on the next."""
    return bait_under_fresh_names(number, at_s) if number % 2 else honest(number, at_s)


def colluding_pair(number: int, at_s: float) -> list[Task]:
    """Two users take turns; the other one submits the baits, and some under the name of the next job too."""
    users = ("cheater", "partner")
    one, other = users[number % 2], users[1 - number % 2]
    name = fresh(number // 2)
    return [
        *baits(at_s, name, user=other),
        *baits(at_s + 300.0, name, 3, user=one),
        Task(at_s, number, name, user=one),
    ]


STRATEGIES: Mapping[str, Strategy] = {
    "rotated names": rotated_names,
    "bait under one name": bait_under_one_name,
    "bait under fresh names": bait_under_fresh_names,
    "short and long limits": short_and_long_limits,
    "split jobs": split_jobs,
    "arrays": arrays,
    "alternating": alternating,
    "colluding pair": colluding_pair,
}


@dataclass(frozen=True, eq=False)
class Gamed:
    """A trace with the jobs of a cheater in it, by submission."""

    jobs: Workload
    job: IntArray  #: of each row the number of the cheater's job, BAIT for his baits, OTHERS for the rest
    chained: np.ndarray


def moments(jobs: Workload, seed: int = 0) -> FloatArray:
    """When the cheater's jobs are submitted: with a job of each thirtieth of the others', busy times more often."""
    place = np.random.default_rng(seed).uniform(0.1, 1.0, JOBS)
    rows = ((np.arange(JOBS) + place) * (len(jobs) / JOBS)).astype(np.int64)
    return np.maximum(jobs.submit_s[rows], float(jobs.submit_s.min()) + 2 * HOUR_S)


def gamed(jobs: Workload, strategy: Strategy, gpus: int = 1, seed: int = 0) -> Gamed:
    """*jobs* with those of a cheater who follows *strategy*, each on *gpus* GPUs."""
    tasks = [task for number, at_s in enumerate(moments(jobs, seed).tolist()) for task in strategy(number, at_s)]
    limited = bool(np.isfinite(jobs.time_limit_s).any())
    theirs = workload(
        len(tasks),
        job_id=int(jobs.job_id.max()) + 1 + np.arange(len(tasks)),
        submit_s=np.array([task.submit_s for task in tasks]),
        runtime_s=np.array([task.runtime_s for task in tasks]),
        gpus=np.full(len(tasks), gpus),
        nodes=np.ones(len(tasks), dtype=np.int64),
        time_limit_s=np.array([task.limit_s if limited else np.inf for task in tasks]),
        user=Labels.of([task.user for task in tasks]),
        name=Labels.of([task.name for task in tasks]),
        partition=Labels(np.full(len(tasks), jobs.partition.codes[0]), jobs.partition.names),
        work=Labels(np.full(len(tasks), jobs.work.codes[0]), jobs.work.names),
    )
    both = jobs.joined(theirs)
    job = np.concatenate([np.full(len(jobs), OTHERS), [task.job for task in tasks]])
    chained = np.concatenate([np.zeros(len(jobs), np.bool_), [task.chained for task in tasks]])
    order = np.argsort(both.submit_s, kind="stable")
    return Gamed(both.take(order), job[order], chained[order])


@dataclass(frozen=True)
class Waits:
    """Mean wait of the cheater's jobs, and of all others', in hours."""

    cheater_h: float
    others_h: float


def waits(of: Gamed, told: Forecast, fleet: ClusterSpec, ordering: str) -> Waits:
    """Replay the trace in an *ordering* by forecasts; a chain of pieces is replayed once for each of them."""
    setup = Setup.of(ordering, forecast="history")
    submit_s, chained = of.jobs.submit_s, np.flatnonzero(of.chained)
    for _ in range(PIECES if of.chained.any() else 1):
        order = np.argsort(submit_s, kind="stable")
        jobs = replace(of.jobs, submit_s=submit_s).take(order)
        replay = simulate(jobs, fleet, setup, learnt=told.take(order))
        end_s, start_s = np.empty(len(order)), np.empty(len(order))
        end_s[order], start_s[order] = replay.end_s, replay.start_s
        submit_s = submit_s.copy()
        submit_s[chained] = end_s[_previous(of, chained)]
    theirs = of.job >= 0
    asked_s, done_s = np.full(JOBS, np.inf), np.zeros(JOBS)
    np.minimum.at(asked_s, of.job[theirs], of.jobs.submit_s[theirs])
    np.maximum.at(done_s, of.job[theirs], end_s[theirs])
    others = of.job == OTHERS
    waited_s = (done_s - asked_s - LENGTH_S).mean()
    return Waits(float(waited_s) / HOUR_S, float((start_s - of.jobs.submit_s)[others].mean()) / HOUR_S)


def _previous(of: Gamed, rows: IntArray) -> IntArray:
    """The row of the piece before each."""
    pieces: dict[int, list[int]] = {}
    for row in np.flatnonzero(of.job >= 0).tolist():
        pieces.setdefault(int(of.job[row]), []).append(row)
    return np.array([_before(pieces[int(of.job[row])], row) for row in rows.tolist()], dtype=np.int64)


def _before(rows: Sequence[int], row: int) -> int:
    return rows[rows.index(row) - 1]
