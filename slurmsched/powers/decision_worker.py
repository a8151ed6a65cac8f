"""A process that decides with parts of plug-ins for its parent: ``python -m slurmsched.powers.decision_worker FD``.

A plug-in may raise, hang, crash or take all memory; none of that belongs in the daemon. Answers READY, and each pair of
a view and a policy with an error and a plan, one of them empty; it ends with its parent.
"""

from __future__ import annotations

import os
import resource
import traceback
from dataclasses import fields, replace
from typing import Any

from ..child_process import serve
from ..cluster.columns import Table
from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide.policy import Policy
from ..policies.registry import import_directly
from .decision import timed

READY = "ready"
"""A request that is answered as soon as the process has started."""

MEMORY_B = 8 * 2**30
"""The largest address space of the process; one that needs more dies."""


def answer(request: Any) -> tuple[str, tuple[Plan, dict[str, float]] | None]:
    """Return an error, or the plan and the processor time by part of the decision."""
    if request == READY:
        return "", None
    view, stored = request
    try:
        policy = Policy.from_json(stored)
        return "", timed(read_only(view), policy)
    except Exception as error:  # code of strangers may raise anything
        traceback.print_exc()  # its text may contain anything, and goes to the log alone
        return f"it raised {type(error).__name__}", None


def read_only(view: View) -> View:
    """Return *view* with columns that cannot be written, which they no longer are after their way here."""
    columns = {column.name: getattr(view, column.name) for column in fields(view)}
    tables: dict[str, Any] = {name: replace(table) for name, table in columns.items() if isinstance(table, Table)}
    return replace(view, **tables)


if __name__ == "__main__":
    import_directly()
    os.dup2(2, 1)  # what a plug-in prints belongs into the log
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_B, MEMORY_B))
    serve(answer)
