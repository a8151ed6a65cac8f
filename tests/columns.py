"""Each column of the table of jobs: who fills it in, and which modules read it.

``python -m tests.columns`` prints the table.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import slurmsched
from slurmsched.cluster.columns import declared
from slurmsched.cluster.jobs import JobTable

PACKAGE = Path(slurmsched.__file__).parent


def readers() -> dict[str, list[str]]:
    """Return the modules that read an attribute of the name of each column."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found[node.attr].add(file.relative_to(PACKAGE).as_posix())
    return {name: sorted(found[name]) for name in JobTable.__dataclass_fields__}


def table() -> str:
    """Return a line for each column."""
    columns = declared(JobTable)
    return "\n".join(f"{name}: {columns[name].by.value}; {', '.join(files)}" for name, files in readers().items())


if __name__ == "__main__":
    print(table())
