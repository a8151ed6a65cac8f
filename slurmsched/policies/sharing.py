"""Indolent packing: which waiting job joins which running one on its GPUs (Lucid section 3.3). Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table

OFF, APATHETIC, INDOLENT = 0, 1, 2
"""Modes: the largest sum of share scores on a GPU (the paper's G_SS); with OFF nobody shares."""

IDLE_BELOW = 0.75
"""A cluster with a smaller share of its GPUs in use is called idle."""


@dataclass(frozen=True, eq=False)
class Sharers(Table):
    """Jobs that might share GPUs. NaN is "not known"."""

    job_id: IntArray
    user: Labels
    kind: Labels  #: what kind of job it is, such as USER/NAME-PATTERN; a pair of kinds that failed is barred
    gpus: IntArray
    nodes: IntArray
    score: IntArray  #: 0 tiny, 1 medium, 2 jumbo
    memory_mib: FloatArray  #: the most it takes of each GPU; NaN where it was never measured
    speed: FloatArray  #: 0..1, the least it is believed to keep beside another job; NaN counts as the limit
    left_s: FloatArray  #: forecast seconds until it ends when it has its GPUs alone
    measured: BoolArray  #: it, or an earlier run of its kind, was profiled
    unstable: BoolArray  #: its utilisation did not keep its level
    barred: BoolArray  #: by its owner (``nopack``, ``off``), interactive, or asking for whole nodes


@dataclass(frozen=True)
class Packing:
    """How far an admin lets jobs share."""

    capacity: int = INDOLENT  #: a mode
    memory_mib: float = 0.0  #: what two jobs may take of a GPU together: below the GPU's memory
    other_users: bool = False  #: jobs of different users too; they have no MPS then and take turns
    slowest: float = 0.85  #: 0..1, the speed at least assumed of a job beside another whose speed is not known
    failed: frozenset[frozenset[str]] = (
        frozenset()
    )  #: pairs of kinds; a kind that failed beside its like, or is here alone, shares with none


@dataclass(frozen=True)
class Pair:
    """A waiting job and the running one it joins, and by how much that shortens the sum of their completion times."""

    guest: int
    host: int
    gain_s: float


def pairs(
    waiting: Sharers, wait_s: FloatArray, running: Sharers, free: BoolArray, packing: Packing
) -> tuple[Pair, ...]:
    """The pairs to make, in the order of *waiting* (soonest first): each job takes the best host left for it.

    *wait_s* is how long each waiting job would wait for GPUs of its own; *free* says which running jobs are alone on
    their GPUs, with CPUs and memory for a second job on their node. Each job is in one pair at most, and a job that
    would gain nothing is in none.
    """
    ok = allowed(waiting, running, packing) & free
    gain_s = np.where(ok, gains_s(waiting, wait_s, running, packing), -np.inf)
    made: list[Pair] = []
    for row, job_id in enumerate(waiting.job_id.tolist()):
        if not len(running) or not (best := float(gain_s[row].max())) > 0.0:
            continue
        # the lightest pair among equals, then the oldest job, so that the answer never depends on the order of rows
        equals = np.flatnonzero(gain_s[row] == best)
        host = int(equals[np.lexsort((running.job_id[equals], running.score[equals]))[0]])
        made.append(Pair(job_id, int(running.job_id[host]), best))
        gain_s[:, host] = -np.inf
    return tuple(made)


def allowed(waiting: Sharers, running: Sharers, packing: Packing) -> BoolArray:
    """Which of *waiting* (rows) may join which of *running* (columns), by every rule but time."""
    fits = np.zeros((len(waiting), len(running)), dtype=np.bool_)
    if packing.capacity == OFF:
        return fits
    first, second = _packable(waiting), _packable(running)
    fits = first[:, None] & second[None, :]
    fits &= waiting.job_id[:, None] != running.job_id[None, :]
    fits &= waiting.gpus[:, None] == running.gpus[None, :]
    fits &= waiting.score[:, None] + running.score[None, :] <= packing.capacity
    fits &= waiting.memory_mib[:, None] + running.memory_mib[None, :] <= packing.memory_mib  # false for NaN
    if not packing.other_users:
        fits &= _same(waiting.user, running.user)
    return fits & ~_failed(waiting.kind, running.kind, packing.failed)


def gains_s(waiting: Sharers, wait_s: FloatArray, running: Sharers, packing: Packing) -> FloatArray:
    """Seconds by which each pair shortens the sum of both completion times; negative where sharing harms.

    Apart, the guest waits and then runs alone. Together, both run at the speed they keep until the shorter one ends,
    and the other goes on alone: this is what keeps a long job from being slowed by a short one for nothing, and a short
    one from a long one where its own GPUs are about to be free. -infinity where a forecast is missing.
    """
    guest_s, host_s = waiting.left_s[:, None], running.left_s[None, :]
    guest_speed = _speed(waiting, packing)[:, None]
    host_speed = _speed(running, packing)[None, :]
    with np.errstate(invalid="ignore"):
        together_s = np.minimum(guest_s / guest_speed, host_s / host_speed)
        guest_late_s, host_late_s = together_s * (1.0 - guest_speed), together_s * (1.0 - host_speed)
        gain_s = wait_s[:, None] - guest_late_s - host_late_s
    return np.where(np.isfinite(gain_s), gain_s, -np.inf)


def capacity(packing: int, busy_share: float, arriving: float, usual: float) -> int:
    """The mode for now (the paper's dynamic strategy): no sharing where it is not needed.

    *busy_share* is the share of the GPUs in use, 0..1; *arriving* the jobs forecast for the next hour and *usual* those
    of a usual one. With free GPUs and no more jobs coming than usual nobody shares; with free GPUs and more coming only
    the lightest do; otherwise the admin's own mode *packing* holds.
    """
    if busy_share >= IDLE_BELOW:
        return packing
    return min(packing, APATHETIC) if arriving > usual else OFF


def why_not(waiting: Sharers, row: int, running: Sharers, column: int, packing: Packing) -> str:
    """The first rule that stands against a pair, in words; empty where none does."""
    memory_mib = float(waiting.memory_mib[row] + running.memory_mib[column])
    score = int(waiting.score[row] + running.score[column])
    both = ((waiting, row), (running, column))
    rules = (
        (packing.capacity != OFF, "nobody shares now"),
        (waiting.job_id[row] != running.job_id[column], "it is the same job"),
        (not any(jobs.barred[at] for jobs, at in both), "one of the two does not share"),
        (all(jobs.gpus[at] > 0 and jobs.nodes[at] == 1 for jobs, at in both), "only jobs with GPUs of one node share"),
        (all(jobs.measured[at] for jobs, at in both), "one of the two was never measured"),
        (not any(jobs.unstable[at] for jobs, at in both), "the use of one of the two is unstable"),
        (np.isfinite(memory_mib), "the GPU memory of one of the two was never measured"),
        (waiting.gpus[row] == running.gpus[column], "they have different numbers of GPUs"),
        (score <= packing.capacity, f"their share scores add up to {score}, more than {packing.capacity}"),
        (
            memory_mib <= packing.memory_mib,
            f"they need {memory_mib:.0f} MiB of each GPU, more than {packing.memory_mib:.0f}",
        ),
        (packing.other_users or waiting.user[row] == running.user[column], "they belong to different users"),
        (not _has_failed(waiting.kind[row], running.kind[column], packing.failed), "jobs like these failed together"),
    )
    return next((words for holds, words in rules if not holds), "")


def _packable(jobs: Sharers) -> BoolArray:
    known = jobs.measured & ~jobs.unstable & np.isfinite(jobs.memory_mib)
    packable: BoolArray = known & ~jobs.barred & (jobs.gpus > 0) & (jobs.nodes == 1)
    return packable


def _speed(jobs: Sharers, packing: Packing) -> FloatArray:
    return np.clip(np.where(np.isnan(jobs.speed), packing.slowest, jobs.speed), 0.01, 1.0)


def _same(one: Labels, other: Labels) -> BoolArray:
    number = {name: at for at, name in enumerate(dict.fromkeys((*one.names, *other.names)))}
    left = np.array([number[name] for name in one.names], dtype=np.int64)[one.codes]
    right = np.array([number[name] for name in other.names], dtype=np.int64)[other.codes]
    equal: BoolArray = left[:, None] == right[None, :]
    return equal


def _failed(one: Labels, other: Labels, failed: Collection[frozenset[str]]) -> BoolArray:
    if not failed:
        return np.zeros((len(one), len(other)), dtype=np.bool_)
    table = np.array(
        [[_has_failed(left, right, failed) for right in other.names] for left in one.names], dtype=np.bool_
    )
    return table.reshape(len(one.names), len(other.names))[one.codes][:, other.codes]


def _has_failed(one: str, other: str, failed: Collection[frozenset[str]]) -> bool:
    return any(kinds in failed for kinds in (frozenset({one}), frozenset({other}), frozenset({one, other})))
