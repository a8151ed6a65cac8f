"""Gavel's linear programs (Narayanan et al., OSDI'20): the share of time of each job, or pair of jobs, on each type.

The variables are shares of time of a *combination*, one job or two that share GPUs, on the GPUs of a type. A job is in
combinations for at most all of its time, and no type lends more GPUs than it has. Each objective is the largest level
with throughput >= level x need for every job, for needs of its own, so that one model serves all of them:

- max-min fairness: the need is the throughput of an equal split of the types, times weight, over GPUs;
- makespan: the need is the steps left, and one over the level is the time;
- finish-time fairness: the need is steps left over the time in which a given ratio leaves them to be done, and the
  ratio is lowered until the level is 1.

Where jobs that the level does not bind shall be raised further (water-filling), those that bind are fixed, and the
level of the others is maximised again.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Table
from ...errors import MissingExtra

_EXACT = 1e-9  #: relative; smaller differences are rounding
_FEASIBLE = 1e-6  #: relative; the solver lets a fixed level be missed by some of this
_LEAST_DUAL = 1e-9  #: of a normalised row that binds


@dataclass(frozen=True, eq=False)
class Combinations(Table):
    """Jobs alone, and pairs of jobs on the same GPUs. A row each; speeds have a column per type of GPU."""

    job: IntArray
    other: IntArray  #: the second job of a pair, -1 for a job alone
    gpus: IntArray
    speed: FloatArray  #: iterations of *job* per second; 0 where the type is not for it
    other_speed: FloatArray  #: likewise of *other*


def alone(throughput: FloatArray, gpus: IntArray) -> Combinations:
    """Return each job alone, given its iterations per second on each type."""
    jobs = np.arange(len(gpus))
    return Combinations(jobs, np.full(len(gpus), -1), gpus, throughput, np.zeros_like(throughput))


def useful(combinations: Combinations, throughput: FloatArray) -> Combinations:
    """Return *combinations* less the pairs on types where taking turns would be as good for both jobs.

    No optimum is lost: the time of such a pair can be split so that each of the two, alone, is as fast as beside the
    other.
    """
    pair = combinations.other >= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.nan_to_num(combinations.speed / throughput[combinations.job])
        part += np.nan_to_num(combinations.other_speed / throughput[combinations.other])
    worth = ~pair[:, None] | (part > 1 + _EXACT)
    kept = worth.any(axis=1)
    return Combinations(
        combinations.job[kept],
        combinations.other[kept],
        combinations.gpus[kept],
        np.where(worth, combinations.speed, 0.0)[kept],
        np.where(worth, combinations.other_speed, 0.0)[kept],
    )


def equal_split(throughput: FloatArray, gpus_of_type: IntArray) -> FloatArray:
    """Return the iterations per second of each job that is on each type as long as there are GPUs of it."""
    # No product of matrices, whose last bits depend on the processor: on one type it is the throughput itself.
    split: FloatArray = (throughput * (gpus_of_type / max(1, gpus_of_type.sum()))).sum(axis=1)
    return split


def isolated(throughput: FloatArray, gpus: IntArray, gpus_of_type: IntArray) -> FloatArray:
    """Return the iterations per second of each job that has an equal part of the GPUs of each type to itself."""
    part = np.minimum(1.0, gpus_of_type.sum() / np.maximum(1, len(gpus) * gpus))
    lone: FloatArray = equal_split(throughput, gpus_of_type) * part
    return lone


def fairness_need(throughput: FloatArray, gpus: IntArray, weight: FloatArray, gpus_of_type: IntArray) -> FloatArray:
    """Return the needs of max-min fairness over throughputs, each relative to an equal split of the types."""
    return equal_split(throughput, gpus_of_type) * weight / gpus


class ShareProgram:
    """The program of one state, with the solver that holds it. A job without a throughput or a need is left out.

    MissingExtra without HiGHS.
    """

    def __init__(self, combinations: Combinations, jobs: int, gpus_of_type: IntArray) -> None:
        if find_spec("highspy") is None:
            raise MissingExtra("Gavel's policies need HiGHS (highspy)", "deadlines")
        import highspy

        self._combinations, self._types = combinations, len(gpus_of_type)
        second = combinations.other >= 0
        row, kind = np.nonzero((combinations.speed > 0) & (~second[:, None] | (combinations.other_speed > 0)))
        self._row, self._kind = row, kind
        pair = np.flatnonzero(second[row])
        self._column = column = np.concatenate([np.arange(len(row)), pair])
        self._job = np.concatenate([combinations.job[row], combinations.other[row[pair]]])
        self._speed = np.concatenate([combinations.speed[row, kind], combinations.other_speed[row[pair], kind[pair]]])
        self._jobs, self._level = jobs, len(row)
        self._scale: FloatArray = np.zeros(jobs)
        np.maximum.at(self._scale, self._job, self._speed)
        self._served = self._scale > 0
        scale = np.where(self._served, self._scale, 1.0)
        # Rows: time of each job, GPUs of each type, throughput of each job beyond its level, whose entry is its need.
        rows = np.concatenate([self._job, jobs + kind, jobs + self._types + self._job])
        columns = np.concatenate([column, np.arange(len(row)), column])
        gpus = combinations.gpus[row].astype(np.float64)
        entries = np.concatenate([np.ones(len(column)), gpus, self._speed / scale[self._job]])
        order = np.argsort(rows, kind="stable")
        count = 2 * jobs + self._types
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self._level + 1, count
        model.col_cost_ = np.append(np.zeros(self._level), 1.0)
        model.col_lower_ = np.zeros(self._level + 1)
        model.col_upper_ = np.append(np.ones(self._level), np.inf)
        model.row_lower_ = np.concatenate([np.full(jobs + self._types, -np.inf), np.zeros(jobs)])
        model.row_upper_ = np.concatenate([np.ones(jobs), gpus_of_type.astype(np.float64), np.full(jobs, np.inf)])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(rows[order], np.arange(count + 1)).astype(np.int32)
        model.a_matrix_.index_ = columns[order].astype(np.int32)
        model.a_matrix_.value_ = entries[order]
        model.sense_ = highspy.ObjSense.kMaximize
        bare: Any = highspy.Highs.__base__  # the class itself sets up callbacks, which prints a banner on stdout
        self._solver = bare()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._solver.passModel(model)
        self._optimal = highspy.HighsModelStatus.kOptimal
        self._need: FloatArray = np.zeros(jobs)
        self._least: FloatArray = np.zeros(jobs)
        self._binding: BoolArray = np.zeros(jobs, np.bool_)
        self._shares: FloatArray = np.zeros(self._level)

    @property
    def shares(self) -> FloatArray:
        """The share of time of each combination on each type, of the last solution."""
        shares = np.zeros((len(self._combinations), self._types))
        shares[self._row, self._kind] = self._shares
        return shares

    @property
    def throughput(self) -> FloatArray:
        """The iterations per second of each job under the last solution."""
        received: FloatArray = np.bincount(self._job, self._shares[self._column] * self._speed, self._jobs).astype(
            float
        )
        return received

    def level(self, need: FloatArray) -> float:
        """Return the largest level with throughput >= level x *need* for every job; infinite if none needs any."""
        return self._maximised(np.where(self._served, need, 0.0), np.zeros(self._jobs))

    def water_filled(self, need: FloatArray) -> FloatArray:
        """Return the level of each job in the lexicographic maximum: no level rises at the cost of a lower one.

        Infinite for jobs without a need.
        """
        need = np.where(self._served, need, 0.0)
        levels, least = np.full(self._jobs, np.inf), np.zeros(self._jobs)
        rising = need > 0
        while rising.any():
            level = self._maximised(np.where(rising, need, 0.0), least)
            bound = rising & self._binding
            bound = bound if bound.any() else rising
            levels[bound], least[bound] = level, level * need[bound] * (1 - _FEASIBLE)
            rising &= ~bound
        return levels

    def finish_time_ratio(self, left: FloatArray, since_s: FloatArray, isolated_s: FloatArray) -> float:
        """Return the least ratio to which the worst of (since + left / throughput) / isolated time can be lowered.

        Each solution has a worst ratio no larger than the one it was asked for, so that the ratios fall to the least.
        """
        isolated_s = np.maximum(isolated_s, _EXACT)
        some = self._served & (left > 0)
        if not some.any():
            return 0.0
        self.level(left / isolated_s)
        ratio = self._ratio(some, left, since_s, isolated_s)
        while True:
            time_s = np.where(some, np.maximum(ratio * isolated_s - since_s, _EXACT), 1.0)
            self.level(np.where(some, left / time_s, 0.0))
            lower = self._ratio(some, left, since_s, isolated_s)
            if lower >= ratio * (1 - _EXACT):
                return min(lower, ratio)
            ratio = lower

    def with_fewest_pairs(self) -> None:
        """Replace the last solution, of a level that may bind one job alone, by one with the least time in pairs.

        Else the others would share GPUs, and be slower, for no gain. The program must not be solved again.
        """
        second = self._combinations.other[self._row] >= 0
        if not self._shares[second].any():
            return
        level = float(self._solver.getObjectiveValue())
        self._solver.changeColBounds(self._level, level * (1 - _FEASIBLE), np.inf)
        self._solver.changeColCost(self._level, 0.0)
        for column in np.flatnonzero(second).tolist():
            self._solver.changeColCost(column, -float(self._combinations.gpus[self._row[column]]))
        self._solve()

    def _ratio(self, some: BoolArray, left: FloatArray, since_s: FloatArray, isolated_s: FloatArray) -> float:
        throughput = np.maximum(self.throughput[some], 1e-300)
        return float(((since_s[some] + left[some] / throughput) / isolated_s[some]).max())

    def _maximised(self, need: FloatArray, least: FloatArray) -> float:
        """Solve with *need* in place of the last one, and throughputs of at least *least*."""
        if not (need > 0).any():
            return np.inf
        scale = np.where(self._served, self._scale, 1.0)
        need, least = need / scale, least / scale
        unit = need.max()  # the level is about 1, whatever the unit of the needs
        first = self._jobs + self._types
        for job in np.flatnonzero(need / unit != self._need).tolist():
            self._solver.changeCoeff(first + job, self._level, -need[job] / unit)
        for job in np.flatnonzero(least != self._least).tolist():
            self._solver.changeRowBounds(first + job, least[job], np.inf)
        self._need, self._least = need / unit, least
        solution = self._solve()
        duals = np.array(solution.row_dual)[first:]
        self._binding = np.abs(duals) * self._need > _LEAST_DUAL
        return float(self._solver.getObjectiveValue()) / float(unit)

    def _solve(self) -> Any:
        """Return the optimum of the program as it is, and hold its shares."""
        self._solver.run()
        status = self._solver.getModelStatus()
        assert status == self._optimal, f"a program of Gavel that always has an optimum ends with {status}"
        solution = self._solver.getSolution()
        self._shares = np.maximum(np.array(solution.col_value)[: self._level], 0.0)
        return solution
