"""A process that imports plug-ins for its parent, which imports those alone whose import ends: ``python -m ... FD``.

A request is a group of entry points and the name of one, an answer the name.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import entry_points

from ..child_process import serve


def answer(request: tuple[str, str]) -> str:
    """Import the entry point; what it raises, it raises in the parent again."""
    group, name = request
    for entry in entry_points(group=group, name=name):
        with suppress(Exception):
            entry.load()
    return name


if __name__ == "__main__":
    os.dup2(2, 1)  # what a plug-in prints is no output of a command
    serve(answer)
