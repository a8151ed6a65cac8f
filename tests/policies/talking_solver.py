"""A solver process that prints, as solvers do."""

from slurmsched.child_process import serve
from slurmsched.policies.deadlines.solver_worker import answer

if __name__ == "__main__":
    print("Running a solver", flush=True)
    serve(answer)
