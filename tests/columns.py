"""Each column of the tables that Slurm shows: who fills it in, and which modules read it.

``python -m tests.columns`` prints the table.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import slurmsched
from slurmsched.cluster.columns import Table, declared
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.limits import LimitTable
from slurmsched.cluster.nodes import AccountTable, NodeTable, PartitionTable, QosTable
from slurmsched.cluster.reservations import ReservationTable

PACKAGE = Path(slurmsched.__file__).parent
TABLES = (JobTable, NodeTable, PartitionTable, QosTable, AccountTable, LimitTable, ReservationTable)


def readers(kind: type[Table]) -> dict[str, list[str]]:
    """Return the modules that read an attribute of the name of each column of a table."""
    found = readers_of_attributes()
    return {name: sorted(found.get(name, ())) for name in kind.__dataclass_fields__}


@cache
def readers_of_attributes() -> dict[str, set[str]]:
    """Return the modules that read an attribute, by its name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found[node.attr].add(file.relative_to(PACKAGE).as_posix())
    return dict(found)


def table() -> str:
    """Return a line for each column."""
    return "\n".join(
        f"{kind.__name__}.{name}: {declared(kind)[name].by.value}; {', '.join(files)}"
        for kind in TABLES
        for name, files in readers(kind).items()
    )


if __name__ == "__main__":
    print(table())
