"""Progress, where people watch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(of: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error that is told how many *of* these are done, and of how many; nothing where nobody is."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(of, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
