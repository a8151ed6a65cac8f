"""How far a decision reaches: ``python -m tests.reach`` prints the modules that decide() runs through, and its returns.

It follows the calls of drawn cycles with every power on, and counts the functions of slurmsched that they enter, their
modules, and the return statements in these.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

os.environ["NUMBA_DISABLE_JIT"] = "1"  # compiled code has no frames to follow
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    entered = entered_by_decide()
    modules = Counter(Path(code.co_filename).relative_to(ROOT / "slurmsched").as_posix() for code in entered)
    returns = sum(returns_in(code) for code in entered)
    for module, functions in sorted(modules.items()):
        print(f"{functions:4} {module}")
    print(f"{len(modules)} modules, {len(entered)} functions with {returns} returns")


def entered_by_decide(cycles: int = 3) -> set[CodeType]:
    """Return the functions of slurmsched that decide() enters in so many drawn cycles."""
    import numpy as np
    from decide.processor_cycles import all_powers, lively_view

    from slurmsched.policies.contract import find_ordering
    from slurmsched.powers import decide

    found: set[CodeType] = set()
    here = str(ROOT / "slurmsched") + os.sep

    def entering(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(here) and frame.f_code.co_name[0] != "<":
            found.add(frame.f_code)

    drawn = [lively_view(np.random.default_rng(number)) for number in range(cycles)]
    ordering, rules = find_ordering("sjf"), all_powers("optimus")
    sys.setprofile(entering)
    try:
        for view in drawn:
            decide(view, ordering, rules)
    finally:
        sys.setprofile(None)
    return found


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
