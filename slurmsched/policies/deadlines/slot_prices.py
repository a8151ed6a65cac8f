"""Prices of GPUs by slot: they bound the value of any plan, and lead to plans near that bound.

Lagrangian relaxation of capacity. At given prices each job buys its most profitable run, regardless of others; the sum
of their gains and of all free GPUs at their price is an upper bound of any plan. Prices rise in overbooked slots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import compiled, inner
from .greedy_plan import greedy, perfect
from .lease_problem import LeasePlan, LeaseProblem, plan_of

ROUNDS = 120
"""Maximum number of price updates."""


class Market(NamedTuple):
    """A lease problem in the form for compiled loops, without fixed jobs."""

    jobs: IntArray
    gpus: IntArray
    leases: IntArray
    contiguous: BoolArray
    level: IntArray
    last: IntArray
    slots: IntArray
    values: FloatArray
    must: IntArray  #: the last acceptable step of a job that must be served, -1 for others
    free: IntArray


def market_of(problem: LeaseProblem, all_kept: bool) -> Market:
    """Return the market of *problem*; with *all_kept* only plans that keep every promise count."""
    return Market(
        np.flatnonzero(~problem.fixed & (problem.last >= problem.leases)),
        problem.gpus,
        problem.leases,
        problem.contiguous,
        problem.level,
        problem.last,
        problem.slots,
        problem.values,
        problem.promised if all_kept else np.full(len(problem), -1),
        problem.free,
    )


def planned(problem: LeaseProblem, gap: float) -> LeasePlan:
    """Return the greedy plan, or a better one by prices where it is not within *gap* of its bound."""
    best = greedy(problem, gap=gap)
    return best if perfect(problem, best, gap) else improved(problem, best, gap)


def improved(problem: LeaseProblem, best: LeasePlan, gap: float, rounds: int = ROUNDS) -> LeasePlan:
    """Return *best* or a better plan, with a bound on all plans that keep as many promises.

    It ends when the plan is within *gap* of the bound, or after *rounds* price updates.
    """
    all_kept = best.kept == int(np.count_nonzero(problem.promised >= 0))
    market, sure = market_of(problem, all_kept), fixed_value(problem)
    prices = np.zeros(problem.capacity.shape)
    bound, pace, idle = best.bound, 1.0, 0
    for turn in range(rounds):
        gains, used = np.zeros(len(problem)), np.zeros(problem.capacity.shape)
        total = sure + float((prices * problem.free).sum()) + buy(market, prices, gains, used)
        idle = 0 if total < bound - 1e-9 else idle + 1
        bound = min(bound, total)
        if turn % 3 == 0:
            best = max(best, _sold(problem, market, prices, gains), key=lambda plan: plan.rank)
        if best.value >= (1 - gap) * bound:
            break
        if idle >= 4:
            pace, idle = 0.6 * pace, 0
        excess = used - problem.free
        excess[(prices <= 0) & (excess < 0)] = 0
        length = float((excess * excess).sum())
        if length == 0:
            break
        prices = np.maximum(0.0, prices + pace * max(total - best.value, 0.01 * total) / length * excess)
    return plan_of(problem, best.grants, best.origin, bound)


def fixed_value(problem: LeaseProblem) -> float:
    """Return the value earned by fixed jobs."""
    met = problem.step_met(np.where(problem.fixed, problem.leases, 0))
    return float(problem.values[met >= 0, met[met >= 0]].sum())


def _sold(problem: LeaseProblem, market: Market, prices: FloatArray, gains: FloatArray) -> LeasePlan:
    """Return a feasible plan: jobs in turn, promised and most profitable ones first, each takes its best run left."""
    area = problem.gpus * problem.leases
    order = np.lexsort((-problem.values[:, 0] / area, -gains / area, problem.promised < 0))
    order = order[~problem.fixed[order] & (problem.last >= problem.leases)[order]]
    grants = np.zeros((len(problem), problem.horizon), np.bool_)
    for job in np.flatnonzero(problem.fixed):
        grants[job, : problem.leases[job]] = True
    sell(market._replace(must=problem.promised, free=problem.free.copy()), order, prices, grants)
    return plan_of(problem, grants, "greedy")


@compiled
def buy(market: Market, prices: FloatArray, gains: FloatArray, used: FloatArray) -> float:
    """Return the total gain if each job buys its best run on its own; fill *gains* per job and GPUs *used*."""
    total = 0.0
    chosen = np.zeros(prices.shape[1], np.bool_)
    open_to_all = np.ones(prices.shape[1], np.bool_)
    for job in market.jobs:
        gain = _best_run(market, job, market.must[job], prices, open_to_all, chosen)
        gains[job] = gain
        if gain <= 0 and market.must[job] < 0:
            continue
        total += gain
        for slot in range(market.last[job]):
            if chosen[slot]:
                for below in range(market.level[job] + 1):
                    used[below, slot] += market.gpus[job]
    return total


@compiled
def sell(market: Market, order: IntArray, prices: FloatArray, grants: BoolArray) -> None:
    """Grant each job of *order* the best run left, and subtract it from ``market.free``."""
    chosen = np.zeros(prices.shape[1], np.bool_)
    usable = np.zeros(prices.shape[1], np.bool_)
    for job in order:
        for slot in range(market.last[job]):
            usable[slot] = True
            for below in range(market.level[job] + 1):
                usable[slot] = usable[slot] and market.free[below, slot] >= market.gpus[job]
        gain = _best_run(market, job, market.must[job], prices, usable, chosen)
        if gain == -np.inf and market.must[job] >= 0:
            gain = _best_run(market, job, -1, prices, usable, chosen)
        if gain == -np.inf:
            continue
        for slot in range(market.last[job]):
            if chosen[slot]:
                grants[job, slot] = True
                for below in range(market.level[job] + 1):
                    market.free[below, slot] -= market.gpus[job]


@inner
def _best_run(market: Market, job: int, must: int, prices: FloatArray, usable: BoolArray, chosen: BoolArray) -> float:
    """Return the largest gain of *job* over the cost of its slots, marked in *chosen*; minus infinity if it cannot run.

    Steps after *must* do not count, unless *must* is -1.
    """
    last, needs = market.last[job], market.leases[job]
    cost = np.zeros(last)
    for below in range(market.level[job] + 1):
        cost += prices[below, :last] * market.gpus[job]
    chosen[:last] = False
    best, begin, until, limit = -np.inf, -1, 0, 0.0
    steps = market.slots.shape[1]
    if market.contiguous[job]:
        paid, streak, step = 0.0, 0, 0
        for slot in range(last):
            streak = streak + 1 if usable[slot] else 0
            paid += cost[slot] - (cost[slot - needs] if slot >= needs else 0.0)
            while step < steps and market.slots[job, step] < slot + 1:
                step += 1
            if step == steps or (must >= 0 and step > must):
                break
            if streak >= needs and market.values[job, step] - paid > best:
                best, begin = market.values[job, step] - paid, slot + 1 - needs
        if begin >= 0:
            chosen[begin : begin + needs] = True
        return best
    for step in range(steps):
        if market.values[job, step] <= 0 or (must >= 0 and step > must):
            break
        end = min(market.slots[job, step], last)
        paid, dearest = _cheapest(cost[:end], usable[:end], needs)
        if market.values[job, step] - paid > best:
            best, until, limit = market.values[job, step] - paid, end, dearest
    left = needs if until else 0
    for slot in range(until):
        if left and usable[slot] and cost[slot] < limit:
            chosen[slot] = True
            left -= 1
    for slot in range(until):
        if left and usable[slot] and not chosen[slot] and cost[slot] == limit:
            chosen[slot] = True
            left -= 1
    return best


@inner
def _cheapest(cost: FloatArray, usable: BoolArray, needs: int) -> tuple[float, float]:
    """Return the sum and the maximum of the *needs* cheapest usable slots, infinite if there are fewer."""
    costs = np.sort(cost[usable])
    if len(costs) < needs:
        return np.inf, np.inf
    return costs[:needs].sum(), costs[needs - 1]
