"""3Sigma in rounds: the lease program for jobs that run to their end once started (section 4.3)."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray, IntArray
from ...policies.deadlines.lease_plan import solve
from ...policies.deadlines.lease_problem import LeaseProblem
from ...policies.deadlines.milp_solver import Guarded
from .chronus import lease_problem
from .rounds import RoundOrder
from .world import LeaseState

GAP = 0.05
"""A plan this close to the best is taken: there is another one in five minutes."""

LIMIT_S = 2.0
"""Seconds that planning may take in a round."""


class ThreeSigma:
    """Jobs with deadlines start when the plan worth most says so, and are never stopped; best effort fills in.

    Jobs that cannot meet a deadline any more are best effort.
    """

    def __init__(self, solver: Guarded | None = None) -> None:
        self._solver = solver

    def turn(self, world: LeaseState, new: IntArray) -> RoundOrder:
        """See ``RoundPolicy``."""
        rows, left_s = world.rows, world.left_s
        first = world.slo[rows] & world.running[rows] & (world.lease_end_s[rows] > world.now_s)
        reachable = (world.due_s[rows] - world.now_s >= left_s[:, None]).any(axis=1)
        planned = np.flatnonzero(first | (world.slo[rows] & reachable))
        if len(planned):
            problem = self._problem(world, rows[planned], first[planned])
            now = solve(problem, LIMIT_S, self._solver, GAP).grants[:, 0]
            first[planned[now]] = True
        world.lease_end_s[rows[first]] = np.inf
        return RoundOrder(rows[np.lexsort((rows, left_s, ~(world.running[rows] & first), ~first))])

    def _problem(self, world: LeaseState, rows: IntArray, started: BoolArray) -> LeaseProblem:
        movable = lease_problem(world, rows, np.full(len(rows), -1))
        contiguous = np.ones(len(rows), np.bool_)
        return LeaseProblem(
            movable.gpus,
            movable.leases,
            contiguous,
            started,
            movable.promised,
            movable.slots,
            movable.values,
            movable.capacity,
        )
