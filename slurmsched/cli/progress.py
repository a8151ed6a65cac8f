"""Progress bars, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(of: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error; yields its update (done, total), which does nothing without a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(of, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
