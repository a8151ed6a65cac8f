"""How far a decision reaches: ``python -m tests.reach`` prints the modules that it runs through, and its returns.

It follows the calls of drawn cycles with every power on, of the same with the order alone, and of jobs that squeue
printed once, until their lines for scontrol. It counts the functions of slurmsched that these enter, their modules, and
the return statements in them.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

os.environ["NUMBA_DISABLE_JIT"] = "1"  # compiled code has no frames to follow
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
GOLDEN = ROOT / "tests" / "golden" / "22.05"


def main() -> None:
    every = entered(every_power())
    for module, functions in sorted(modules_of(every).items()):
        print(f"{functions:4} {module}")
    told = {"every power": every, "the order alone": entered(order_alone())}
    told["the order, from squeue to scontrol"] = entered(from_squeue_to_scontrol)
    for title, found in told.items():
        returns = sum(returns_in(code) for code in found)
        print(f"{title}: {len(modules_of(found))} modules, {len(found)} functions with {returns} returns")


def modules_of(found: set[CodeType]) -> Counter[str]:
    """Return how many of the functions *found* are in each module."""
    return Counter(Path(code.co_filename).relative_to(ROOT / "slurmsched").as_posix() for code in found)


def entered(work: Callable[[], object]) -> set[CodeType]:
    """Return the functions of slurmsched that *work* enters."""
    found: set[CodeType] = set()
    here = str(ROOT / "slurmsched") + os.sep

    def entering(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(here) and frame.f_code.co_name[0] != "<":
            found.add(frame.f_code)

    sys.setprofile(entering)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def every_power(cycles: int = 3) -> Callable[[], object]:
    """Return the decisions about so many drawn cycles with every power on."""
    import numpy as np
    from decide.processor_cycles import all_powers, lively_view

    from slurmsched.policies.contract import find_ordering
    from slurmsched.powers import decide

    drawn = [lively_view(np.random.default_rng(number)) for number in range(cycles)]
    ordering, rules = find_ordering("sjf"), all_powers("optimus")
    return lambda: [decide(view, ordering, rules) for view in drawn]


def order_alone() -> Callable[[], object]:
    """Return the decision about a long queue where the order is the only power."""
    from bench.synthetic import view

    from slurmsched.decide.rules import Rules
    from slurmsched.policies.contract import find_ordering
    from slurmsched.powers import decide

    seen, ordering, rules = view(2_048), find_ordering("qssf"), Rules(powers=frozenset({"order"}))
    return lambda: decide(seen, ordering, rules)


def from_squeue_to_scontrol() -> list[str]:
    """Return the lines for scontrol about the jobs that a release printed, where the order is the only power."""
    from slurm.headers import headed

    from slurmsched.cluster.columns import table_of
    from slurmsched.cluster.forecast import no_forecast
    from slurmsched.cluster.nodes import QosTable
    from slurmsched.cluster.state import View
    from slurmsched.decide.rules import Rules
    from slurmsched.policies.contract import find_ordering
    from slurmsched.powers import decide
    from slurmsched.slurm.read import sinfo, sprio, squeue
    from slurmsched.slurm.read.cluster_reading import state_of
    from slurmsched.slurm.read.records import cut
    from slurmsched.slurm.write.verbs import lines

    def read(of: str, fields: tuple[str, ...], key: str, marks: tuple[str, str]) -> object:
        text = (GOLDEN / f"{of}.txt").read_bytes().decode("utf-8", "surrogateescape")
        return cut(of, headed(fields, *marks, text).replace("~field~forged~record~", ""), fields, key, *marks)

    marks = ("~field~", "~record~")
    jobs = read("squeue", squeue.FIELDS, "JobID", marks)
    nodes = read("sinfo", sinfo.FIELDS, "NodeList", marks)
    factors = read("sprio", tuple(sprio.FIELDS), "JobID", ("|", ";"))
    state = state_of(jobs, nodes, factors, table_of(QosTable, 0, {}, {}))
    unknown = (no_forecast(len(table)) for table in (state.pending, state.running))
    view = View(0.0, state.pending, state.running, state.nodes, state.partitions, state.qos, *unknown)
    plan = decide(view, find_ordering("sjf"), Rules(powers=frozenset({"order"}), scope="queue"))
    return [line for action in plan.actions for line in lines(action)]


def returns_in(code: CodeType) -> int:
    """Return how many return statements a function has, those of functions inside it aside."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    node = next(
        (each for each in ast.walk(_tree(code.co_filename)) if isinstance(each, functions) and _starts(each, code)),
        None,
    )
    pending, count = list(node.body) if node is not None else [], 0
    while pending:
        each = pending.pop()
        if isinstance(each, (*functions, ast.Lambda, ast.ClassDef)):
            continue
        count += isinstance(each, ast.Return)
        pending += ast.iter_child_nodes(each)  # type: ignore[arg-type]  # statements and expressions alike
    return count


def _starts(node: ast.FunctionDef | ast.AsyncFunctionDef, code: CodeType) -> bool:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text())


if __name__ == "__main__":
    main()
