"""A process that solves lease problems for its parent: ``python -m slurmsched.policies.deadlines.solver_worker FD``.

A solver may hang, crash or take all memory; none of that belongs in the daemon. A request is the arguments of
``solve``, an answer is the plan.
"""

from __future__ import annotations

import resource

from ...child_process import serve
from .lease_plan import solve
from .lease_problem import LeasePlan, LeaseProblem
from .milp_solver import highs

MEMORY_B = 8 * 2**30
"""The largest address space of the process; one that needs more dies."""


def answer(request: tuple[LeaseProblem, float, LeasePlan]) -> LeasePlan:
    """Return the best plan that is found in time."""
    problem, limit_s, first = request
    return solve(problem, limit_s, highs, first=first)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_B, MEMORY_B))
    serve(answer)
