"""A trial of the policy: changes that a decision may still make, and the places of jobs that are held out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..cluster.actions import (
    Action,
    Avoid,
    Hold,
    MoveNodes,
    MovePartition,
    Rank,
    Requeue,
    SetAdminComment,
    Share,
    StartShared,
    Steer,
    Unmark,
    Unshare,
    job_of,
)
from ..cluster.columns import BoolArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.state import View
from ..policies.contract import find_ordering
from .draft import Lane
from .ordering.ranking import base_priority
from .policy import Policy
from .rules import Rules, TrialRules

KEPT_POWERS = frozenset({"deadlines", "order", "hold"})
"""The powers whose wishes all stand without the policy: there they keep promises, and give the rest back."""

_BEGIN_NOTHING = (Rank, Hold, Avoid, SetAdminComment, StartShared, Unmark, Unshare)
"""Actions that begin no change, beside those that give a job back; all others do, unless they go on with one."""


def without_policy(policy: Policy, trial: TrialRules) -> Policy:
    """Return *policy* for a block without it: Slurm's own order, and the promises and changes that are there already.

    What was promised is kept, by points and delays too; new requests wait for their answer.
    """
    rules = replace(
        policy.rules,
        admission=None,
        deadlines=None if policy.rules.deadlines is None else replace(policy.rules.deadlines, answers=False),
        trial=replace(trial, off=True),
    )
    return replace(policy, ordering=find_ordering("fifo"), rules=rules)


def still_wanted(
    power: str, wishes: Mapping[Lane, Sequence[Action]], view: View, rules: Rules
) -> Mapping[Lane, Sequence[Action]]:
    """Return the *wishes* of a power that a trial leaves: in a block without the policy those that begin no change.

    Held-out jobs get none that begins one in any block, but for promises and the line of load control.
    """
    trial = rules.trial
    if trial is None or power in KEPT_POWERS or not (trial.off or trial.holdout):
        return wishes
    out = None if trial.off else _held_out_ids(view, trial)
    return {lane: [one for one in each if not _begins(one, view, out)] for lane, each in wishes.items()}


def _held_out_ids(view: View, trial: TrialRules) -> frozenset[int]:
    both = (view.pending, view.running)
    return frozenset(job for jobs in both for job in jobs.job_id[held_out(jobs, trial)].tolist())


def _begins(action: Action, view: View, jobs: frozenset[int] | None) -> bool:
    """Return True for the begin of a change, of one of *jobs*, None for all."""
    if jobs is not None and job_of(action) not in jobs:
        return False
    return not (isinstance(action, _BEGIN_NOTHING) or action.gives_back or _goes_on(action, view))


def _goes_on(action: Action, view: View) -> bool:
    """Return True for a step of a change of ours that has begun."""
    job = job_of(action)
    row, at = view.pending.row_of(job), view.running.row_of(job)
    if isinstance(action, Share):
        return row is not None and bool(view.pending.shares[row])
    if isinstance(action, Steer):
        return row is not None and bool(view.pending.steered[row])
    if isinstance(action, MovePartition):
        return row is not None and bool(view.pending.own_partition[row])
    if isinstance(action, Requeue):  # it was asked to stop, and its time to save is over
        return at is not None and bool(view.running.stop_requested_s[at] >= view.running.started_s[at])
    return isinstance(action, MoveNodes) and not any(loan.given != loan.own for loan in action.loans)


def held_out(jobs: JobTable, trial: TrialRules) -> BoolArray:
    """Select the jobs that a trial holds out: the same ones each time, arrays as a whole."""
    with np.errstate(over="ignore"):
        mixed = np.where(jobs.array_job_id > 0, jobs.array_job_id, jobs.job_id).astype(np.uint64)
        mixed += np.uint64(trial.seed) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) / 2.0**53 < trial.holdout, dtype=np.bool_)


def with_holdout(ranked: IntArray, jobs: JobTable, trial: TrialRules, classes: IntArray, first: BoolArray) -> IntArray:
    """Return *ranked* pending rows with held-out jobs where Slurm's own order of their class has them.

    Those that come *first*, starving ones and promised ones that are due, keep their places.
    """
    out = held_out(jobs, trial) & ~first
    if not out[ranked].any():
        return ranked
    placed = ranked.copy()
    for value in np.unique(classes[ranked]).tolist():
        places = np.flatnonzero((classes[ranked] == value) & ~first[ranked])
        rows = ranked[places]
        own = rows[np.lexsort((jobs.job_id[rows], jobs.came_s[rows], -base_priority(jobs)[rows]))]
        placed[places[out[own]]] = own[out[own]]
        placed[places[~out[own]]] = rows[~out[rows]]
    return placed
