"""Lease problems to test with, and the best plan found by trying all."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from slurmsched.policies.deadlines.lease_problem import LeasePlan, LeaseProblem, plan_of


def problem(*jobs, gpus=4, horizon=None, capacity=None) -> LeaseProblem:
    """Each job is (gpus, leases, [(slots, value), ...]) and then any of "contiguous", "fixed", "promised"."""
    steps = max((len(job[2]) for job in jobs), default=1)
    slots, values = np.zeros((len(jobs), steps), np.int64), np.zeros((len(jobs), steps))
    for row, job in enumerate(jobs):
        for column, (deadline, value) in enumerate(job[2]):
            slots[row, column], values[row, column] = deadline, value

    def said(word):
        return np.array([word in job[3:] for job in jobs], np.bool_)

    if capacity is None:
        capacity = np.full((1, horizon or int(slots.max(initial=1))), gpus)
    return LeaseProblem(
        np.array([job[0] for job in jobs], np.int64),
        np.array([job[1] for job in jobs], np.int64),
        said("contiguous") | said("fixed"),
        said("fixed"),
        np.where(said("promised"), 0, -1),
        slots,
        values,
        np.asarray(capacity, np.int64),
    )


def best_of_all(problem: LeaseProblem) -> LeasePlan:
    """The best plan of all that could happen, found by trying every choice of slots for every job."""
    best = None
    for choice in product(*(_runs(problem, job) for job in range(len(problem)))):
        grants = np.zeros((len(problem), problem.horizon), np.bool_)
        for job, held in enumerate(choice):
            grants[job, list(held)] = True
        chosen = ~problem.fixed
        if all(
            (grants[chosen & (problem.level >= level)].T @ problem.gpus[chosen & (problem.level >= level)] <= row).all()
            for level, row in enumerate(problem.free)
        ):
            plan = plan_of(problem, grants, "all")
            best = plan if best is None else max(best, plan, key=lambda one: one.rank)
    return best


def _runs(problem: LeaseProblem, job: int):
    needs = int(problem.leases[job])
    if problem.fixed[job]:
        return [tuple(range(min(needs, problem.horizon)))]
    runs = list(combinations(range(int(problem.last[job])), needs))
    if problem.contiguous[job]:
        runs = [run for run in runs if run[-1] - run[0] == needs - 1]
    return [(), *runs]


@st.composite
def problems(draw, most=3, horizon=5):
    """Small problems of every kind: movable, contiguous and fixed jobs, promises, steps, and block sizes."""
    jobs = []
    for _ in range(draw(st.integers(1, most))):
        first = draw(st.integers(1, horizon))
        steps = [(first, draw(st.integers(2, 10)))]
        if draw(st.booleans()):
            steps.append((min(horizon, first + draw(st.integers(0, 2))), draw(st.integers(1, int(steps[0][1])))))
        words = draw(st.sampled_from([(), ("contiguous",), ("fixed",), ("promised",), ("contiguous", "promised")]))
        jobs.append((draw(st.integers(1, 4)), draw(st.integers(1, 3)), steps, *words))
    total = np.array(draw(st.lists(st.integers(0, 6), min_size=horizon, max_size=horizon)))
    rows = [total]
    if draw(st.booleans()):
        rows += [total // 2 * 2, total // 4 * 4]
    return problem(*jobs, capacity=np.array(rows))
