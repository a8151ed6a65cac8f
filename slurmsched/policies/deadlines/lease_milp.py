"""The mixed integer program of a lease problem as columns, and the conversion of its solution to grants.

Chronus' formulation (1)-(6), with x_{k,i} = 1 if job i holds slot k and s_{p,i} = 1 if it meets step p, corrected
where the printed one is not linear or becomes infeasible:

- a movable job: sum over k <= DL_p of x_{k,i} >= RL_i s_{p,i}, sum over p of s_{p,i} <= 1, and x_{k,i} at most the sum
  of the s_{p,i} with DL_p >= k, which the best plans satisfy anyway and which tightens the relaxation;
- a contiguous job has one binary variable per start, at most one of them 1, worth the step it meets from there:
  equivalent to x_k - x_{k-1} <= start_k and sum start = 1, with fewer variables and a tighter relaxation;
- GPUs in use are carried from slot to slot, u_k = u_{k-1} + begun_k - ended_k with 0 <= u_k <= capacity_k, for each
  size of blocks: a run of any length has two entries;
- reward is maximised among the plans that keep the most promises.

A job with more slots than its allowed columns starts, stops or resumes only at some of them: those of the initial plan,
its deadlines, and others evenly spread. Such a model may miss the best plan but never yields an impossible one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from .lease_problem import LeasePlan, LeaseProblem

COLUMNS = 6_000
"""Maximum number of columns of all jobs before their slots are thinned out."""

FEWEST = 6
"""Minimum number of columns allowed per job."""


@dataclass(frozen=True, eq=False)
class MilpModel:
    """The model: maximise worth . x under lower <= A x <= upper and 0 <= x <= most, with some x integer."""

    worth: FloatArray
    most: FloatArray
    whole: BoolArray
    row: IntArray  #: of each entry of A
    column: IntArray  #: of each entry of A
    entry: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class VariableColumns:
    """The meaning of a model's columns: a run of a job, or a step it meets; columns of GPUs in use follow them."""

    job: IntArray
    begin: IntArray  #: first slot of the run
    end: IntArray  #: slot after it; equal to *begin* for a step
    step: IntArray  #: the step that a column earns, -1 if it earns none
    levels: IntArray  #: block sizes that need their own rows
    complete: bool  #: no job's slots were thinned out

    def __len__(self) -> int:
        return len(self.job)


def columns_of(problem: LeaseProblem, plan: LeasePlan, most: int = COLUMNS) -> VariableColumns:
    """Return the columns of *problem*, such that *plan* can be expressed in them."""
    jobs = np.flatnonzero(~problem.fixed & (problem.last >= problem.leases))
    allowed = max(FEWEST, most // max(1, len(jobs)))
    made: list[tuple[int, int, int, int]] = []
    complete = True
    for job in jobs.tolist():
        needs, last = int(problem.leases[job]), int(problem.last[job])
        steps = np.minimum(problem.slots[job][problem.values[job] > 0], last)
        held = plan.grants[job, :last]
        edges = np.flatnonzero(np.diff(held, prepend=False, append=False))
        if problem.contiguous[job]:
            starts = _some(last - needs + 1, allowed, np.concatenate([steps - needs, edges[::2]]))
            complete = complete and len(starts) == last - needs + 1
            met = problem.step_met_by(job, starts + needs)
            made += [(job, t, t + needs, step) for t, step in zip(starts.tolist(), met.tolist(), strict=True)]
        else:
            cuts = _some(last + 1, allowed + 1, np.concatenate([steps, edges, [0, last]]))
            complete = complete and len(cuts) == last + 1
            made += [(job, begin, end, -1) for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]
            reachable = (problem.values[job] > 0) & (problem.slots[job] >= needs)
            made += [(job, 0, 0, step) for step in np.flatnonzero(reachable).tolist()]
    used = problem.level[jobs].max(initial=0)
    binding = [level for level in range(1, used + 1) if np.any(problem.free[level] < problem.free[0])]
    table = np.array(made, np.int64).reshape(-1, 4)
    return VariableColumns(table[:, 0], table[:, 1], table[:, 2], table[:, 3], np.array([0, *binding]), complete)


def model_of(problem: LeaseProblem, columns: VariableColumns, must_keep: int | None) -> MilpModel:
    """Return the model that maximises reward with *must_keep* promises kept; if that is None, the promises kept."""
    entries = _Entries()
    for job in np.unique(columns.job):
        at = np.flatnonzero(columns.job == job)
        entries.row(at[columns.step[at] >= 0], 1.0, -np.inf, 1.0)
        if not problem.contiguous[job]:
            for step in at[columns.step[at] >= 0]:
                in_time = at[(columns.step[at] < 0) & (columns.end[at] <= problem.slots[job, columns.step[step]])]
                length = (columns.end - columns.begin)[in_time].astype(np.float64)
                needs = float(problem.leases[job])
                entries.row(np.append(in_time, step), np.append(length, -needs), 0.0, np.inf)
            for run in at[columns.step[at] < 0]:
                useful = at[(columns.step[at] >= 0) & (problem.slots[job, columns.step[at]] >= columns.end[run])]
                entries.row(np.append(useful, run), np.append(np.ones(len(useful)), -1.0), 0.0, np.inf)
    in_use = _carry(problem, columns, entries)
    promised = _promises_kept(problem, columns)
    if must_keep is not None:
        entries.row(np.flatnonzero(promised), 1.0, float(must_keep), np.inf)
    worth = promised.astype(np.float64)
    if must_keep is not None:
        worth = np.where(columns.step >= 0, problem.values[columns.job, columns.step], 0.0)
    count = len(columns)
    return MilpModel(
        np.concatenate([worth, np.zeros(len(in_use))]),
        np.concatenate([np.ones(count), in_use]),
        np.arange(count + len(in_use)) < count,
        np.concatenate(entries.rows),
        np.concatenate(entries.columns),
        np.concatenate(entries.values),
        np.array(entries.lower),
        np.array(entries.upper),
    )


def start_of(problem: LeaseProblem, columns: VariableColumns, plan: LeasePlan) -> FloatArray:
    """Return *plan* as values of the columns, the start of the search."""
    job, begin, end = columns.job, columns.begin, columns.end
    met = plan.step[job] == columns.step
    held = plan.grants.cumsum(axis=1, dtype=np.int64)
    within = held[job, np.maximum(end, 1) - 1] - np.where(begin > 0, held[job, begin - 1], 0)
    runs = (end > begin) & (within == end - begin) & (plan.step[job] >= 0)
    chosen = np.where(end > begin, runs, met & (columns.step >= 0))
    used = []
    for level in columns.levels:
        counted = ~problem.fixed & (problem.level >= level) & (plan.step >= 0)
        used.append(plan.grants[counted].T @ problem.gpus[counted])
    return np.concatenate([chosen, *used]).astype(np.float64)


def grants_of(problem: LeaseProblem, columns: VariableColumns, values: FloatArray) -> BoolArray:
    """Return the grants of a solution: no job holds more leases than it needs, or any if it meets no step."""
    grants = np.zeros((len(problem), problem.horizon), np.bool_)
    for job in np.flatnonzero(problem.fixed):
        grants[job, : problem.leases[job]] = True
    chosen = values[: len(columns)] > 0.5
    earns = np.zeros(len(problem), np.bool_)
    earns[columns.job[chosen & (columns.step >= 0)]] = True
    for column in np.flatnonzero(chosen & (columns.end > columns.begin) & earns[columns.job]):
        grants[columns.job[column], columns.begin[column] : columns.end[column]] = True
    held = grants.cumsum(axis=1)
    free = ~problem.fixed
    grants[free] &= held[free] <= problem.leases[free, None]
    grants[free] &= (held[free, -1] >= problem.leases[free])[:, None]
    return grants


class _Entries:
    """The rows of a model under construction."""

    def __init__(self) -> None:
        self.rows: list[IntArray] = []
        self.columns: list[IntArray] = []
        self.values: list[FloatArray] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def row(self, columns: IntArray, values: FloatArray | float, lower: float, upper: float) -> None:
        self.rows.append(np.full(len(columns), len(self.lower), np.int64))
        self.columns.append(columns)
        self.values.append(np.broadcast_to(np.asarray(values, np.float64), columns.shape))
        self.lower.append(lower)
        self.upper.append(upper)


def _carry(problem: LeaseProblem, columns: VariableColumns, entries: _Entries) -> FloatArray:
    """Add the rows that carry GPUs in use from slot to slot; return the upper bounds of use, level by level."""
    count, horizon = len(columns), problem.horizon
    gpus = problem.gpus[columns.job].astype(np.float64)
    runs = columns.end > columns.begin
    most = []
    for place, level in enumerate(columns.levels):
        counted = runs & (problem.level[columns.job] >= level)
        for slot in range(horizon):
            begun = np.flatnonzero(counted & (columns.begin == slot))
            ended = np.flatnonzero(counted & (columns.end == slot))
            now = count + place * horizon + slot
            before = [] if slot == 0 else [now - 1]
            entries.row(
                np.concatenate([[now], np.array(before, np.int64), begun, ended]),
                np.concatenate([[1.0], [-1.0] * len(before), -gpus[begun], gpus[ended]]),
                0.0,
                0.0,
            )
        most.append(problem.free[level].astype(np.float64))
    return np.concatenate(most)


def _promises_kept(problem: LeaseProblem, columns: VariableColumns) -> BoolArray:
    """Select columns that keep a promise."""
    promised = problem.promised[columns.job]
    return (promised >= 0) & (columns.step >= 0) & (columns.step <= promised)


def _some(count: int, allowed: int, wanted: IntArray) -> IntArray:
    """Return 0 .. count - 1 if *allowed* permits as many; else the *wanted* ones, and others evenly spread."""
    if count <= allowed:
        return np.arange(count)
    wanted = wanted[(wanted >= 0) & (wanted < count)]
    spread = np.linspace(0, count - 1, max(2, allowed - len(wanted))).astype(np.int64)
    return np.unique(np.concatenate([wanted, spread]))
