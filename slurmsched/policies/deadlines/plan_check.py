"""Plan checks: an independent test that a plan is feasible, for every planner."""

from __future__ import annotations

import numpy as np

from .lease_problem import LeasePlan, LeaseProblem


def violations(problem: LeaseProblem, plan: LeasePlan) -> list[str]:
    """Return the violations in *plan* as sentences; empty if it is feasible. It shares no code with the planners."""
    wrong = []
    for job in range(len(problem)):
        held = np.flatnonzero(plan.grants[job])
        needs, name = int(problem.leases[job]), f"job {job}"
        if problem.fixed[job]:
            if held.tolist() != list(range(min(needs, problem.horizon))):
                wrong.append(f"{name} runs and does not keep its GPUs")
        elif len(held) not in (0, needs):
            wrong.append(f"{name} holds {len(held)} leases and needs {needs}")
        elif problem.contiguous[job] and len(held) and held[-1] - held[0] + 1 != len(held):
            wrong.append(f"{name} cannot stop and does")
        step = int(plan.step[job])
        if step >= 0:
            end = needs if problem.fixed[job] else (int(held[-1]) + 1 if len(held) else None)
            if end is None or end > problem.slots[job, step] or problem.values[job, step] <= 0:
                wrong.append(f"{name} does not meet step {step}")
    return wrong + _overfull(problem, plan)


def _overfull(problem: LeaseProblem, plan: LeasePlan) -> list[str]:
    """Return slots that exceed the capacity. Only fixed jobs may hold GPUs that were lost since they started."""
    wrong = []
    for level, row in enumerate(problem.capacity):
        size = 2**level
        counted = problem.gpus % size == 0
        fixed = (plan.grants[problem.fixed & counted].T @ problem.gpus[problem.fixed & counted]).astype(np.int64)
        chosen = ~problem.fixed & counted
        used = plan.grants[chosen].T @ problem.gpus[chosen]
        for slot in np.flatnonzero((used > np.maximum(row - fixed, 0)) & (used > 0)):
            wrong.append(f"slot {slot}: {used[slot]} GPUs in blocks of {size} where {row[slot]} are")
    return wrong
