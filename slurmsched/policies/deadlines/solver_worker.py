"""A process that solves lease problems for its parent: ``python -m slurmsched.policies.deadlines.solver_worker FD``.

A solver may hang, crash or take all memory; none of that belongs in the daemon. Reads the arguments of ``solve`` from
that socket and answers each with a plan; it ends with its parent.
"""

from __future__ import annotations

import os
import resource
import sys
from multiprocessing.connection import Connection

from .lease_plan import solve
from .milp_solver import highs

NICE = 10

MEMORY_B = 8 * 2**30
"""The largest address space of the process; one that needs more dies."""


def serve(parent: Connection) -> None:
    """Answer requests until the parent is gone."""
    while True:
        try:
            problem, limit_s, first = parent.recv()
        except EOFError:
            return
        plan = solve(problem, limit_s, highs, first=first)
        try:
            parent.send(plan)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_B, MEMORY_B))
    serve(Connection(int(sys.argv[1])))
